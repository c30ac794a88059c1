"""The trading harness: one step a day at a steady pace, within its limits, and resumable from its state alone."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal

import msgspec
import pytest
import trio

from harnesses import Agent, Ending, HarnessMisuse
from harnesses.trading import Action, BadMarketData, Bar, MarketDay, Order, ReplayFeed, TradingHarness, TradingState, rsi_agent

FIRST = date(2000, 3, 1)
CLOSES = [100 + (day * 37) % 23 - (day // 9) for day in range(60)]


def feed(closes=CLOSES, *, endless=False) -> ReplayFeed:
    bars = {FIRST + timedelta(day): Bar(*[Decimal(close)] * 4, 100) for day, close in enumerate(closes)}
    return ReplayFeed({"A": bars}, endless=endless)


def always(action: Action, amount: int) -> Agent:
    async def run(run):
        return {symbol: Order(action, Decimal(amount)) for symbol in run.input.signals}

    return Agent(run)


def said(harness: TradingHarness) -> list[tuple]:
    return [(step.input, step.output, step.state_delta) for step in harness.step_history]


async def test_there_is_one_step_for_each_day_and_the_end_of_the_feed_completes(autojump_clock):
    harness = TradingHarness(feed())

    ending = await harness.run()

    assert (ending, harness.current_step) == (Ending.COMPLETED, 60)
    assert [step.input.day for step in harness.step_history] == [FIRST + timedelta(day) for day in range(60)]


async def test_the_feed_is_polled_once_a_period(autojump_clock):
    harness = TradingHarness(feed(), period_s=5.0)

    await harness.run()

    assert trio.current_time() == pytest.approx(59 * 5.0)


async def test_an_endless_feed_never_completes(autojump_clock):
    harness = TradingHarness(feed(endless=True), period_s=5.0)

    with trio.move_on_after(10_000) as scope:
        await harness.run()

    assert scope.cancelled_caught
    assert (harness.current_step, harness.is_complete()) == (60, False)


async def test_a_step_holds_the_market_and_what_was_decided_and_done(autojump_clock):
    harness = TradingHarness(feed(), always(Action.BUY, 2))

    await harness.run()

    step = harness.step_history[0]
    trade = step.output.trades["A"]
    assert step.input.bars["A"].close == 100
    assert (trade.action, trade.amount, trade.price, trade.rsi) == (Action.BUY, 2, 100, None)
    assert {*step.state_delta.modified} == {"cash", "holdings", "last_day"}
    assert step.state_delta.summary == "2000-03-01: BUY 2 A at 100"


async def test_the_default_agent_trades_by_the_index(autojump_clock):
    harness = TradingHarness(feed([100 - day for day in range(20)] + [80 + 3 * day for day in range(20)]))

    await harness.run()

    actions = [step.output.trades["A"].action for step in harness.step_history]
    assert actions[:14] == [Action.HOLD] * 14
    assert actions[14] is Action.BUY
    assert Action.SELL in actions[20:]
    assert harness.state.holdings["A"].units == 0


@pytest.mark.parametrize("steps", [0, 1, 13, 14, 15, 40, 59])
async def test_a_harness_made_from_the_state_of_another_goes_on_identically(autojump_clock, steps):
    whole = TradingHarness(feed(), rsi_agent(Decimal("0.5")))
    await whole.run()
    first = TradingHarness(feed(CLOSES[:steps]), rsi_agent(Decimal("0.5")))
    await first.run()

    stored = msgspec.json.decode(msgspec.json.encode(first.state), type=TradingState)
    second = TradingHarness(feed(), rsi_agent(Decimal("0.5")), initial_state=stored)
    await second.run()

    assert said(first) + said(second) == said(whole)
    assert second.state == whole.state


async def test_the_state_does_not_grow(autojump_clock):
    harness = TradingHarness(feed([*CLOSES] * 20))

    await harness.run()

    assert harness.current_step == 1200
    assert len(msgspec.json.encode(harness.state)) < 400


async def test_the_limit_on_drawdown_holds_against_an_agent_that_buys_for_ever(autojump_clock):
    harness = TradingHarness(
        feed([100, 100, 90, 79, 79, 120]), always(Action.BUY, 100), constraints={"max_drawdown": Decimal("0.2")}
    )

    await harness.run()

    assert [step.output.halted for step in harness.step_history] == [False, False, False, True, True, True]
    assert [step.output.trades["A"].reason for step in harness.step_history][3:] == ["halted: drawdown", "halted", "halted"]
    assert harness.state.cash == harness.state.equity == 7900


async def test_a_halted_harness_is_still_halted_after_a_restart(autojump_clock):
    limit = {"max_drawdown": Decimal("0.2")}
    first = TradingHarness(feed([100, 70]), always(Action.BUY, 100), constraints=limit)
    await first.run()

    second = TradingHarness(feed([100, 70, 200]), always(Action.BUY, 100), constraints=limit, initial_state=first.state)
    await second.run()

    assert second.step_history[-1].output.trades["A"].reason == "halted"
    assert second.state.cash == 7000


async def test_the_agent_gets_the_constraints_and_the_market(autojump_clock):
    seen = []

    async def run(run):
        seen.append((run.constraints, run.input.day, run.input.cash, run.step_number))
        return {}

    await TradingHarness(feed([100]), Agent(run), cash=Decimal(5), constraints={"max_drawdown": "0.2"}).run()

    assert seen == [({"max_drawdown": "0.2"}, FIRST, Decimal(5), 1)]


@pytest.mark.parametrize("name", ["max_drawdown", "max_jump"])
@pytest.mark.parametrize("value", [0, -0.1, "1.1", "much", None, float("nan")])
def test_a_limit_that_is_no_part_is_refused(name, value):
    with pytest.raises(HarnessMisuse, match=f"constraint '{name}': expected a part above 0 and at most 1"):
        TradingHarness(feed(), constraints={name: value})


def test_a_debt_to_begin_with_is_refused():
    with pytest.raises(HarnessMisuse, match="cash: expected 0 or more, was -1"):
        TradingHarness(feed(), cash=Decimal(-1))


async def test_a_feed_that_goes_backwards_fails_the_harness(autojump_clock):
    class Backwards(ReplayFeed):
        async def next_day(self, after: date | None) -> MarketDay | None:
            return await super().next_day(None)

    bar = Bar(*[Decimal(1)] * 4, 1)
    harness = TradingHarness(Backwards({"A": {FIRST: bar, FIRST + timedelta(1): bar}}))

    with pytest.raises(BadMarketData, match="day 2000-03-01 of the feed: expected one after 2000-03-01"):
        await harness.run()

    assert harness.current_step == 1


async def test_an_agent_that_fails_leaves_the_state_as_it_was(autojump_clock):
    async def run(run):
        raise ValueError("no answer")

    harness = TradingHarness(feed(), Agent(run))
    before = harness.state

    with pytest.raises(ValueError, match="no answer"):
        await harness.run()

    assert harness.state == before
