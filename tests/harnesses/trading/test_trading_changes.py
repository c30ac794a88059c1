"""A strategy cancels and replaces its open orders; whatever breaks in between, none is placed twice and nothing is lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from harnesses import Agent
from harnesses.trading import (
    Bar,
    Cancel,
    Market,
    MarketSlice,
    Order,
    OrderKind,
    PaperBroker,
    Quote,
    Replace,
    ReplayFeed,
    Side,
    Source,
    Strategy,
    TradingHarness,
)
from harnesses.trading.report.report_figures import account_of
from orchestrator import Orchestrator, Restart

FIRST = datetime(2024, 1, 1, tzinfo=UTC)


def feed(*closes: int, volume: int = 1000) -> ReplayFeed:
    bars = {FIRST + timedelta(day): Bar(*[Decimal(close)] * 4, Decimal(volume)) for day, close in enumerate(closes)}
    return ReplayFeed({"A": bars})


def limit(side: Side, units: int, price: int) -> Order:
    return Order("A", side, Decimal(units), OrderKind.LIMIT, limit_price=Decimal(price))


def stop(units: int, price: int) -> Order:
    return Order("A", Side.SELL, Decimal(units), OrderKind.STOP, stop_price=Decimal(price))


def plan(*days: Any) -> Strategy:
    """Return a strategy that wants on each day what a function of the market says."""

    async def run(run: Any) -> list[Any]:
        day = (run.input.time - FIRST).days
        return days[day](run.input) if day < len(days) else []

    return Strategy(Agent(run))


def first_id(market: Market) -> str:
    return market.orders[0].placed.client_id


async def test_what_open_orders_sell_is_not_sellable_and_what_they_buy_is_not_free_though_there_are_both(autojump_clock):
    seen: list[Any] = []
    strategy = plan(
        lambda _: [Order("A", Side.BUY, Decimal(10))],
        lambda _: [stop(6, 50), limit(Side.BUY, 6, 90)],
        lambda market: seen.append((market.quotes["A"].sellable, market.free_cash, market.quotes["A"].expected)) or [],
    )
    await TradingHarness(feed(100, 100, 100), strategy=strategy, period_s=1).run()

    assert seen == [(4, 10_000 - 1000 - 600, 10)]


async def test_a_cancelled_order_frees_its_cash_for_an_order_of_the_same_step(autojump_clock):
    strategy = plan(
        lambda _: [limit(Side.BUY, 90, 100)],
        lambda market: [Order("A", Side.BUY, Decimal(80)), Cancel(first_id(market), "too low")],
        lambda _: [Cancel("nobody")],
    )
    harness = TradingHarness(feed(110, 110, 110), strategy=strategy, period_s=1)
    await harness.run()

    second, third = (step.output for step in harness.step_history[2:])
    assert [(one.source, one.reason, one.refused) for one in second.cancelled] == [(Source.STRATEGY, "too low", "")]
    assert [fill.fill.units for fill in second.fills] == [80]
    assert [one.refused for one in third.cancelled] == ["unknown client id 'nobody': expected that of one of market.orders"]
    assert account_of(harness.step_history).figures.refused == 1
    assert harness.state.open == {}


def to(price: int) -> Any:
    return lambda client_id: Replace(client_id, limit(Side.BUY, 10, price))


@pytest.mark.parametrize(
    ("wishes", "open_at"), [((to(95), to(96)), [95]), ((Cancel, to(95)), []), ((to(95), Cancel, to(96)), [95])]
)
async def test_the_first_wish_for_an_order_counts_and_others_are_refused(autojump_clock, wishes, open_at):
    strategy = plan(
        lambda _: [limit(Side.BUY, 10, 90)], lambda market: [one for wish in wishes for one in [wish(first_id(market))] * 2]
    )
    harness = TradingHarness(feed(110, 110, 110), strategy=strategy, period_s=1)
    await harness.run()

    assert [one.placed.order.limit_price for one in harness.state.open.values()] == open_at
    again = "an earlier wish of this step is for the same order"
    cancelled = [one for step in harness.step_history for one in step.output.cancelled]
    assert [(one.symbol, one.refused) for one in cancelled] == [("A", ""), *[("A", again)] * (2 * len(wishes) - 1)]


@pytest.mark.parametrize("volume", [1000, 20])
async def test_a_replaced_stop_follows_the_price_and_sells_once(autojump_clock, volume):
    def follow(market: Market) -> list[Any]:
        price = market.quotes["A"].close - 5
        return [Replace(first_id(market), stop(10, int(price)))] if market.orders else []

    strategy = plan(lambda _: [Order("A", Side.BUY, Decimal(10))], lambda _: [stop(10, 90)], follow, follow, follow)
    broker = PaperBroker(Decimal(1200), max_share=Decimal("0.5"))
    harness = TradingHarness(feed(100, 100, 110, 120, 121, 112, 112, volume=volume), broker, strategy, period_s=1)
    await harness.run()

    sales = [one.fill for step in harness.step_history for one in step.output.fills if one.fill.side is Side.SELL]
    assert [(fill.units, fill.price) for fill in sales] == [(10, 112)]
    assert harness.state.book is not None
    assert (harness.state.book.units("A"), harness.state.open) == (0, {})


async def test_a_replacement_is_less_by_what_the_old_order_has_filled_since_it_was_seen(autojump_clock):
    class Filling(PaperBroker):
        """Fills 4 units between the look of the strategy and the cancellation."""

        async def cancel(self, client_id: str, symbol: str) -> Any:
            await self.observe(MarketSlice(FIRST + timedelta(1.5), bars))
            return await super().cancel(client_id, symbol)

    bars = {"A": Bar(*[Decimal(90)] * 4, Decimal(8))}
    strategy = plan(lambda _: [limit(Side.BUY, 10, 90)], lambda market: [Replace(first_id(market), limit(Side.BUY, 12, 110))])
    harness = TradingHarness(feed(110, 110), Filling(max_share=Decimal("0.5")), strategy, period_s=1)
    await harness.run()

    last = harness.step_history[-1].output
    assert [one.order.units for one in last.placed] == [8]
    assert next(fill.fill.units for fill in last.fills) == 4


class Breaking(PaperBroker):
    """A venue whose connection breaks once, before or after a call."""

    def __init__(self, breaks_at: int, *, after: bool) -> None:
        super().__init__(Decimal(5_000))
        self.calls, self.breaks_at, self.after = 0, breaks_at, after
        self.ids = set[str]()

    async def _call(self, call: Any) -> Any:
        self.calls += 1
        is_broken = self.calls == self.breaks_at
        if is_broken and not self.after:
            call.close()
            raise ConnectionError("broken before")
        result = await call
        if is_broken:
            raise ConnectionError("broken after")
        return result

    async def submit(self, placed: Any) -> Any:
        self.ids.add(placed.client_id)
        return await self._call(super().submit(placed))

    async def cancel(self, client_id: str, symbol: str) -> Any:
        return await self._call(super().cancel(client_id, symbol))


def busy() -> Strategy:
    """Return a strategy that places, replaces and cancels at every slice."""

    def decide(market: Market) -> list[Any]:
        quote: Quote = market.quotes["A"]
        price = int(quote.close)
        changes: list[Any] = [
            Replace(one.placed.client_id, stop(int(one.left), price - 3)) if index else Cancel(one.placed.client_id)
            for index, one in enumerate(market.orders)
        ]
        sales = [stop(1, price - 2), stop(1, price - 1)] if quote.sellable >= 2 and len(market.orders) < 2 else []
        return [*changes, *sales, Order("A", Side.BUY, Decimal(2)), limit(Side.BUY, 1, price - 4)]

    return plan(*[decide] * 20)


@pytest.mark.parametrize("after", [False, True])
async def test_a_connection_that_breaks_at_any_call_places_nothing_twice_and_loses_nothing(autojump_clock, after):
    closes = (100, 103, 99, 104, 101, 98, 105)

    async def run(breaks_at: int) -> tuple[Breaking, TradingHarness]:
        broker = Breaking(breaks_at, after=after)
        harness = TradingHarness(feed(*closes), broker, busy(), period_s=1)
        async with Orchestrator() as orchestrator:
            await orchestrator.start(harness, name="t", restart=Restart.TRANSIENT).wait()
        return broker, harness

    broker, whole = await run(0)
    assert broker.calls > 20
    for breaks_at in range(1, broker.calls + 1, 3):
        other, harness = await run(breaks_at)

        assert other.accepted == broker.accepted
        assert len(other.ids) == len(broker.ids)
        assert harness.state.book == whole.state.book
        assert [step.output.equity for step in harness.step_history] == [step.output.equity for step in whole.step_history]


@pytest.mark.parametrize(("stop_price", "units"), [(90, 100), (99, 1000), (100, 0), (101, 0), (97, 333)])
def test_units_are_sized_by_what_is_risked(stop_price, units):
    assert Quote(Decimal(100)).risked_for(Decimal(1000), Decimal(stop_price)) == units
