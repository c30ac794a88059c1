"""No two lives of a trading harness give an order the same id, whatever they begin with; two backtests always do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import trio

from harnesses import Agent
from harnesses.trading import Bar, Order, OrderKind, PaperBroker, ReplayFeed, Side, Strategy, TradingHarness

FIRST = datetime(2000, 3, 1, tzinfo=UTC)


def feed(days: int = 3, live: bool = False) -> ReplayFeed:
    replayed = ReplayFeed({"A": {FIRST + timedelta(day): Bar(*[Decimal(100)] * 4, 1) for day in range(days)}})
    replayed.is_live = live
    return replayed


async def buy(run) -> Sequence[Order]:
    await trio.lowlevel.checkpoint()
    return [Order("A", Side.BUY, Decimal(1))]


async def wait_to_buy(run) -> Sequence[Order]:
    await trio.lowlevel.checkpoint()
    return [Order("A", Side.BUY, Decimal(1), OrderKind.LIMIT, Decimal(50))]


async def lived(broker: PaperBroker, act=buy, **more: object) -> list[str]:
    """Return the ids of the orders of a harness that begins with nothing on record."""
    harness = TradingHarness(more.pop("feed", None) or feed(), broker, Strategy(Agent(act)), **more)
    await harness.run()
    return ids(harness)


def ids(harness: TradingHarness) -> list[str]:
    return [placed.client_id for step in harness.step_history for placed in step.output.placed]


async def test_a_second_life_at_the_same_venue_places_orders_of_its_own(autojump_clock, tmp_path: Path):
    broker = PaperBroker(path=tmp_path / "venue.db")
    first = await lived(broker)
    broker.close()

    broker = PaperBroker(path=tmp_path / "venue.db")
    second = await lived(broker)

    assert set(first).isdisjoint(second)
    assert (await broker.account(["A"])).positions == {"A": 6}


async def test_a_life_that_has_left_no_fill_and_no_open_order_is_told_from_the_next(autojump_clock):
    broker = PaperBroker()
    first = await lived(broker, wait_to_buy)
    for id in first:
        await broker.cancel(id, "A")

    second = await lived(broker, wait_to_buy)

    assert set(first).isdisjoint(second)
    assert {report.client_id for report in await broker.open_orders(["A"])} == set(second)


async def test_a_harness_that_is_given_the_state_of_another_places_orders_of_its_own(autojump_clock):
    broker = PaperBroker()
    first = TradingHarness(feed(3), broker, Strategy(Agent(buy)))
    await first.run()

    second = await lived(broker, feed=feed(9), initial_state=first.state)

    assert set(ids(first)).isdisjoint(second)
    assert (await broker.account(["A"])).positions == {"A": 9}


async def test_two_live_accounts_that_look_the_same_have_orders_of_their_own(autojump_clock):
    first, second = [await lived(PaperBroker(), feed=feed(live=True)) for _ in range(2)]

    assert set(first).isdisjoint(second)


async def test_two_backtests_have_the_same_ids(autojump_clock):
    first, second = [await lived(PaperBroker()) for _ in range(2)]

    assert first == second
    assert len(set(first)) == 3


async def test_the_salt_is_on_record_before_the_first_order(autojump_clock):
    harness = TradingHarness(feed(), strategy=Strategy(Agent(buy)))

    await harness.run()

    opening, *_ = harness.step_history
    assert (opening.output.placed, len(harness.state.salt)) == ((), 8)
    assert "salt" in repr(opening.state_delta)
