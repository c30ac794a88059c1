"""The guards of the trading harness hold for what it did not buy itself, and for what the venue is slow to tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import trio

from harnesses import Agent
from harnesses.errors import Latched
from harnesses.runtime import LocalRuntime
from harnesses.trading import (
    Bar,
    Fill,
    Limits,
    Market,
    Order,
    OrderKind,
    PaperBroker,
    ReplayFeed,
    Side,
    Source,
    Strategy,
    TradingHarness,
    portfolio_strategy,
)
from tests.harnesses.trading.test_trading_harness import Killed, Mortal, revived

FIRST = datetime(2000, 3, 1, tzinfo=UTC)


def feed(closes: Sequence[object], splits: dict[int, int] | None = None, **more: object) -> ReplayFeed:
    return ReplayFeed({"A": bars(closes, splits)}, **more)


def bars(closes: Sequence[object], splits: dict[int, int] | None = None) -> dict[datetime, Bar]:
    return {
        FIRST + timedelta(day): Bar(*[Decimal(str(close))] * 4, 10_000, Decimal((splits or {}).get(day, 1)))
        for day, close in enumerate(closes)
    }


def order(side: Side, units: object, **more: object) -> Order:
    return Order("A", side, Decimal(str(units)), **more)


def plan(**days: Sequence[Order]) -> Strategy:
    """Return a strategy that wants these orders on these days: `d0`, `d1` …"""
    return asking(lambda market: days.get(f"d{(market.time - FIRST).days}", []))


def asking(decide: Callable[[Market], Sequence[Order]]) -> Strategy:
    async def run(run) -> Sequence[Order]:
        await trio.lowlevel.checkpoint()
        return decide(run.input)

    return Strategy(Agent(run))


async def ran(*args: object, **more: object) -> TradingHarness:
    harness = TradingHarness(*args, **more)
    await harness.run()
    return harness


def outputs(harness: TradingHarness) -> list:
    return [step.output for step in harness.step_history][1:]


def fills(harness: TradingHarness) -> list[tuple]:
    return [
        ((output.time - FIRST).days, one.fill.side, one.fill.units, one.wanted_by)
        for output in outputs(harness)
        for one in output.fills
    ]


async def holding(units: int) -> PaperBroker:
    """Return a venue where somebody has bought at 100 before."""
    broker = PaperBroker()
    await ran(feed([100]), broker, plan(d0=[order(Side.BUY, units)]))
    return broker


# stop-losses and sales that wait

STOP = Limits(stop_loss=Decimal("0.1"))


async def test_a_sale_that_waits_does_not_keep_the_stop_loss_from_selling_all(autojump_clock):
    waiting = order(Side.SELL, 5, kind=OrderKind.LIMIT, limit_price=Decimal(500))

    harness = await ran(feed([100, 100, 80]), None, plan(d0=[order(Side.BUY, 5)], d1=[waiting]), limits=STOP)

    assert fills(harness) == [(0, Side.BUY, 5, Source.STRATEGY), (2, Side.SELL, 5, Source.RISK)]
    assert [(one.source, one.reason) for one in outputs(harness)[2].cancelled] == [
        (Source.RISK, "stop-loss: lost more than 0.1 of the cost")
    ]


async def test_a_sale_at_the_market_that_is_on_its_way_is_left_to_the_venue(autojump_clock):
    broker = PaperBroker(fill_at="next_open", max_share=Decimal("0.0002"))

    harness = await ran(feed([100, 100, 80, 80, 80]), broker, plan(d0=[order(Side.BUY, 2)]), limits=STOP)

    assert [len(output.cancelled) for output in outputs(harness)] == [0] * 5
    assert fills(harness)[-1] == (3, Side.SELL, 2, Source.RISK)


# what was not bought by the harness


async def test_the_stop_loss_holds_for_what_was_held_at_the_start(autojump_clock):
    harness = await ran(feed([100, 89]), await holding(5), plan(), limits=STOP)

    assert fills(harness) == [(1, Side.SELL, 5, Source.RISK)]


async def test_the_limit_on_drawdown_holds_for_what_was_held_at_the_start(autojump_clock):
    harness = await ran(feed([100, 70]), await holding(100), plan(), limits=Limits(max_drawdown=Decimal("0.2")))

    assert fills(harness) == [(1, Side.SELL, 100, Source.RISK)]


async def test_a_price_that_comes_late_hides_no_loss_of_another_symbol(autojump_clock):
    broker = PaperBroker()
    everything = asking(lambda market: [Order(symbol, Side.BUY, Decimal(50)) for symbol in market.quotes])
    await ran(ReplayFeed({"A": bars([100]), "B": bars([100])}), broker, everything)
    late = {time: bar for time, bar in bars([100, 100]).items() if time > FIRST}

    harness = await ran(
        ReplayFeed({"A": bars([100, 70]), "B": late}), broker, plan(), limits=Limits(max_drawdown=Decimal("0.1"))
    )

    assert [output.risk for output in outputs(harness)] == ["active", "halted"]
    assert harness.state.risk.high_water == 10_000


async def test_the_limit_on_a_days_loss_holds_on_the_first_day_too(autojump_clock):
    hours = {FIRST + timedelta(hours=hour): Bar(*[Decimal(close)] * 4, 1) for hour, close in enumerate((100, 90))}

    harness = await ran(ReplayFeed({"A": hours}), await holding(100), plan(), limits=Limits(max_daily_loss=Decimal("0.05")))

    assert [output.risk for output in outputs(harness)] == ["active", "reducing"]


# what is told late


class Late(PaperBroker):
    """Tells fills only from a moment on Trio's clock."""

    def __init__(self, since_s: float, **more: object) -> None:
        super().__init__(**more)
        self.since_s = since_s

    async def fills(self, symbols, after) -> Sequence[Fill]:
        found = await super().fills(symbols, after)
        return found if trio.current_time() >= self.since_s else []


async def test_a_fill_that_is_told_after_the_end_of_its_order_is_still_known_to_be_the_strategys(autojump_clock):
    harness = await ran(feed([100] * 4), Late(20), plan(d0=[order(Side.BUY, 5)]), period_s=10.0)

    assert fills(harness) == [(2, Side.BUY, 5, Source.STRATEGY)]
    assert harness.state.open == {}


async def test_what_is_filled_and_not_told_yet_counts_as_pending(autojump_clock):
    seen: list[tuple[Decimal, Decimal]] = []

    def decide(market: Market) -> Sequence[Order]:
        quote = market.quotes["A"]
        seen.append((quote.units, quote.pending))
        return [] if quote.expected else [order(Side.BUY, 5)]

    harness = await ran(feed([100] * 4), Late(20), asking(decide), period_s=10.0)

    assert seen == [(0, 0), (0, 5), (5, 0), (5, 0)]
    assert harness.state.book.units("A") == 5


async def test_a_fill_of_before_a_split_that_is_told_with_it_is_split_too(autojump_clock):
    broker = Late(10)

    harness = await ran(feed([100, 50], {1: 2}), broker, plan(d0=[order(Side.BUY, 5)]), period_s=10.0)

    assert (await broker.account(["A"])).positions == {"A": harness.state.book.units("A")} == {"A": 10}


# deaths


class Slow(Mortal):
    """Tells a fill two seconds after it could have, and may die."""

    def __init__(self, at: int, after: bool) -> None:
        super().__init__(at, after)
        self.known: dict[str, float] = {}

    async def fills(self, symbols, after) -> Sequence[Fill]:
        now = trio.current_time()
        found = await super().fills(symbols, after)
        return [fill for fill in found if self.known.setdefault(fill.fill_id, now) <= now - 2]


def eventful(broker: PaperBroker) -> TradingHarness:
    """Return a harness with a sale that waits, and a stop-loss that wants it out of the way."""
    waiting = order(Side.SELL, 2, kind=OrderKind.LIMIT, limit_price=Decimal(500))
    wanted = plan(d0=[order(Side.BUY, 5)], d2=[waiting], d3=[order(Side.BUY, 1)], d6=[order(Side.BUY, 3)])
    limits = Limits(stop_loss=Decimal("0.1"), max_position=Decimal("0.9"))
    return TradingHarness(feed([100, 101, 102, 103, 80, 81, 82, 83]), broker, wanted, limits=limits)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 36))
async def test_wherever_it_dies_with_fills_untold_it_trades_and_attributes_as_if_it_had_not(autojump_clock, at, after):
    undisturbed = eventful(Slow(0, False))
    await undisturbed.run(LocalRuntime("t"))
    harness, runtime = eventful(Slow(at, after)), LocalRuntime("t")

    with pytest.raises(Killed):
        await harness.run(runtime)
    await harness.run(revived(runtime))

    assert [one[3] for one in fills(undisturbed)] == ["strategy", "strategy", "risk", "strategy"]
    assert [one[1:] for one in fills(harness)] == [one[1:] for one in fills(undisturbed)]
    assert [len(output.cancelled) for output in outputs(harness)] == [0, 0, 0, 0, 1, 0, 0, 0]
    assert harness.state.book == undisturbed.state.book


# when a strategy was asked last


class Latchable(LocalRuntime):
    on = False

    def check_latch(self) -> None:
        if self.on:
            raise Latched("the latch is on")


def rebalancing() -> Strategy:
    return portfolio_strategy(["A"], every_days=30, band=Decimal(0))


def bought_on(harness: TradingHarness) -> list[int]:
    return [day for day, side, *_ in fills(harness) if side is Side.BUY]


async def test_a_rebalancing_that_the_latch_keeps_back_is_made_up_for_when_it_is_lifted(autojump_clock):
    runtime = Latchable("t")

    class Lifting(ReplayFeed):
        async def next_slice(self, after):
            market = await super().next_slice(after)
            runtime.on = market is not None and market.time < FIRST + timedelta(3)
            return market

    harness = TradingHarness(Lifting({"A": bars([100] * 6)}), strategy=rebalancing())
    await harness.run(runtime)

    assert bought_on(harness) == [3]


async def test_a_rebalancing_that_falls_under_stale_data_is_made_up_for_with_the_next_fresh_slice(autojump_clock):
    class Slow(ReplayFeed):
        def now(self) -> datetime:
            return max(super().now(), FIRST + timedelta(2))

    slow = Slow({"A": bars([100] * 6)})
    harness = await ran(slow, None, rebalancing(), limits=Limits(max_age_s=3600.0))

    assert bought_on(harness) == [2]


async def test_a_rebalancing_that_falls_under_a_halt_is_made_up_for_after_the_reset(autojump_clock):
    runtime = LocalRuntime("t")
    await runtime.send("t", {"do": "flatten"})

    class Resetting(ReplayFeed):
        async def next_slice(self, after):
            if after == FIRST + timedelta(1):
                runtime.mail.deliver([{"do": "reset"}])
            return await super().next_slice(after)

    harness = TradingHarness(Resetting({"A": bars([100] * 6)}), strategy=rebalancing())
    await harness.run(runtime)

    assert bought_on(harness) == [2]


async def test_a_period_is_not_rebalanced_twice(autojump_clock):
    harness = await ran(feed([100, 120, 90, 110, 100, 80]), None, rebalancing())

    assert bought_on(harness) == [0]
