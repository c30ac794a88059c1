"""A strategy sees what is over and nothing else: the future changes no decision, a restart nothing that it sees."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import msgspec
import pandas as pd
import pytest

from harnesses import Agent, HarnessMisuse
from harnesses.trading import (
    Atr,
    Bar,
    Candle,
    Donchian,
    Ema,
    Fees,
    FrameView,
    Limits,
    Market,
    Order,
    OrderKind,
    PaperBroker,
    ReplayFeed,
    Side,
    Sma,
    Strategy,
    Timeframe,
    TradingHarness,
    TradingState,
    cross_strategy,
    portfolio_strategy,
    rsi_strategy,
)
from harnesses.trading.timeframes import Series, after_candle, views
from orchestrator import Orchestrator
from orchestrator.store.in_memory.memory_store import MemoryStore

FIRST = datetime(2024, 2, 27, 20, 0, tzinfo=UTC)
QUARTER = timedelta(minutes=15)
FRAMES = {
    "hour": Timeframe(timedelta(hours=1), bars=3, base=QUARTER),
    "late hour": Timeframe(timedelta(hours=1), bars=3),
    "day": Timeframe(timedelta(days=1), bars=2, base=QUARTER),
    "forex day": Timeframe(timedelta(days=1), bars=2, offset=timedelta(hours=22)),
    "week": Timeframe(timedelta(weeks=1), bars=2),
}


def walk(seed: int, count: int, *, gaps: float = 0.1) -> dict[datetime, Bar]:
    """Return bars of 15 minutes, of which a part is missing."""
    random, close, bars = Random(seed), 100.0, dict[datetime, Bar]()
    for number in range(count):
        open_, close = close, close * (1 + random.gauss(0, 0.01))
        high, low = max(open_, close) * 1.002, min(open_, close) * 0.998
        prices = [Decimal(str(round(price, 2))) for price in (open_, high, low, close)]
        if random.random() >= gaps:
            bars[FIRST + number * QUARTER] = Bar(*prices, Decimal(random.randint(0, 1000)))
    return bars


def test_a_bar_of_a_longer_timeframe_is_what_pandas_resamples_and_is_seen_only_when_it_is_over():
    bars = walk(1, 1500)
    frame = pd.DataFrame(
        {name: [getattr(bar, name) for bar in bars.values()] for name in ("open", "high", "low", "close", "volume")},
        index=pd.DatetimeIndex(list(bars)),
    )
    how = {"open": "first", "high": "max", "low": "min", "close": "last", "volume": "sum"}
    expected = {}
    for name, one in FRAMES.items():
        whole = frame.resample(one.period, origin=pd.Timestamp("1970-01-05", tz="UTC"), offset=one.offset).agg(how).dropna()
        expected[name] = [Candle(row.Index.to_pydatetime(), *map(Decimal, row[1:])) for row in whole.itertuples()]
    series = Series()

    for time, bar in bars.items():
        series = after_candle(series, time, bar, 5, FRAMES)

        now = {name: time + (one.base or timedelta(0)) for name, one in FRAMES.items()}
        over = {name: [one for one in expected[name] if one.time + FRAMES[name].period <= now[name]] for name in FRAMES}
        assert {name: view.candles for name, view in views(series, FRAMES).items()} == {
            name: tuple(found[-FRAMES[name].bars :]) for name, found in over.items()
        }
        assert series.candles[-1] == Candle(time, bar.open, bar.high, bar.low, bar.close, bar.volume)
        assert len(series.candles) <= 5


def seeing(seen: list[Market]) -> Strategy:
    """Return a strategy that uses all there is to see, and notes it."""

    async def run(run: Any) -> list[Order]:
        market: Market = run.input
        seen.append(market)
        orders = []
        for symbol, quote in market.quotes.items():
            hour = quote.timeframes["hour"]
            trend, channel = hour.indicators["trend"], quote.indicators["channel.upper"]
            waiting = [one for one in market.orders if one.placed.order.symbol == symbol]
            if trend is None or channel is None or waiting:
                continue
            lowest = min(candle.low for candle in quote.candles)
            if hour.candles[-1].close > trend and not quote.units:
                limit = (quote.bar.low + quote.close) / 2
                units = quote.bought_for(market.equity / 4)
                orders.append(Order(symbol, Side.BUY, units, OrderKind.LIMIT, limit_price=limit))
            elif quote.sellable and quote.close > market.positions[symbol].cost / quote.units * Decimal("1.01"):
                orders.append(Order(symbol, Side.SELL, quote.sellable))
            elif quote.sellable:
                orders.append(Order(symbol, Side.SELL, quote.sellable, OrderKind.STOP, stop_price=lowest))
        return orders

    hour = Timeframe(timedelta(hours=1), bars=2, base=QUARTER, indicators={"trend": Ema(3), "range": Atr(3)})
    return Strategy(Agent(run), {"channel": Donchian(5)}, bars=8, timeframes={"hour": hour, "day": FRAMES["day"]})


def harness(bars: dict[str, dict[datetime, Bar]], strategy: Strategy, fill_at: Any = "close") -> TradingHarness:
    broker = PaperBroker(Decimal(10_000), fees=Fees(rate=Decimal("0.001")), fill_at=fill_at, max_share=Decimal("0.5"))
    return TradingHarness(ReplayFeed(bars), broker, strategy, limits=Limits(stop_loss=Decimal("0.1")), period_s=900)


MAKERS: dict[str, Callable[[], Strategy]] = {
    "seeing": lambda: seeing([]),
    "rsi": lambda: rsi_strategy(period=3),
    "cross": lambda: cross_strategy(3, 8),
    "portfolio": lambda: portfolio_strategy(["A", "B"], band=Decimal("0.01")),
}


@pytest.mark.parametrize(
    ("name", "fill_at"),
    [("seeing", "close"), ("seeing", "next_open"), ("rsi", "close"), ("cross", "next_open"), ("portfolio", "close")],
)
async def test_another_future_changes_no_decision_before_it(autojump_clock, name, fill_at):
    count = 110
    bars = {"A": walk(1, count), "B": walk(2, count)}
    whole = harness(bars, MAKERS[name](), fill_at)
    await whole.run()
    assert sum(len(step.output.placed) for step in whole.step_history) > 5

    for number, cut in enumerate((40, 83)):
        until = FIRST + cut * QUARTER
        others = {"A": walk(7 + number, count, gaps=0.5), "B": {}}
        changed = {
            symbol: {time: bar for time, bar in one.items() if time <= until}
            | {time: bar for time, bar in others[symbol].items() if time > until}
            for symbol, one in bars.items()
        }
        other = harness(changed, MAKERS[name](), fill_at)
        await other.run()

        past = [step.output for step in whole.step_history if step.input is None or step.input.time <= until]
        assert [step.output for step in other.step_history][: len(past)] == past


def shown(market: Market) -> tuple[object, ...]:
    """Return what a market shows, without the ids of orders."""
    orders = [(one.placed.order, one.left) for one in market.orders]
    return market.quotes, market.cash, market.equity, market.previous, orders, dict(market.positions)


async def test_a_harness_that_is_stopped_and_started_again_shows_the_same_and_decides_the_same(autojump_clock):
    bars = {"A": walk(3, 120), "B": walk(4, 120)}
    split = list(bars["A"])[60]
    for time, bar in list(bars["A"].items())[60:]:
        prices = [price / 2 for price in (bar.open, bar.high, bar.low, bar.close)]
        bars["A"][time] = Bar(*prices, bar.volume * 2, Decimal(2) if time == split else Decimal(1))
    seen, parts, store = list[Market](), list[Market](), MemoryStore()
    whole = harness(bars, seeing(seen))
    await whole.run()

    broker = harness(bars, seeing([]))._desk.broker
    for stop_after in (30, 60, 61, None):
        one = TradingHarness(ReplayFeed(bars), broker, seeing(parts), limits=Limits(stop_loss=Decimal("0.1")), period_s=900)
        async with Orchestrator(store) as orchestrator:
            handle = orchestrator.start(one, name="t")
            async for step in handle.steps():
                if step.step_number == stop_after:
                    handle.stop()
            await handle.wait()

    assert {one.time: shown(one) for one in parts} == {one.time: shown(one) for one in seen}
    assert one.state.book == whole.state.book
    assert (one.state.series, one.state.equity) == (whole.state.series, whole.state.equity)


async def test_a_step_records_the_new_bar_and_not_those_before_it(autojump_clock):
    async def none(run: Any) -> list[Order]:
        return []

    bars, sizes = {"A": walk(5, 300), "B": walk(6, 300)}, dict[str, float]()
    frames = {"hour": Timeframe(timedelta(hours=1), bars=50, indicators={"mean": Sma(3)}), "day": FRAMES["day"]}
    for name, shows in {"bar": {}, "bars": {"bars": 200}, "frames": {"timeframes": frames}}.items():
        store = MemoryStore()
        for stop_after in (260, None):
            one = TradingHarness(ReplayFeed(bars), strategy=Strategy(Agent(none), **shows), period_s=0, bars_per_step=1)
            async with Orchestrator(store) as orchestrator:
                handle = orchestrator.start(one, name="t")
                async for step in handle.steps():
                    if step.step_number == stop_after:
                        handle.stop()
                await handle.wait()
        steps = [len(record.body) for record in store.records() if record.kind == "step"][220:]
        assert len(steps) > 60
        sizes[name] = max(steps)

    assert sizes["bars"] - sizes["bar"] < 500, sizes
    assert sizes["frames"] - sizes["bar"] < 1200, sizes


def test_a_state_of_a_version_without_earlier_bars_opens():
    data = msgspec.to_builtins(TradingState(salt="s"))
    del data["series"]

    assert msgspec.convert(data, TradingState) == TradingState(salt="s")


async def test_a_strategy_sees_the_whole_bar_its_orders_and_its_positions(autojump_clock):
    seen: list[Market] = []

    async def run(run: Any) -> list[Order]:
        seen.append(run.input)
        if len(seen) > 1:
            return []
        return [Order("A", Side.BUY, Decimal(2)), Order("A", Side.BUY, Decimal(1), OrderKind.LIMIT, limit_price=Decimal(50))]

    bars = {FIRST: Bar(*map(Decimal, (90, 110, 80, 100)), Decimal(7)), FIRST + QUARTER: Bar(*[Decimal(100)] * 4, Decimal(1))}
    await TradingHarness(ReplayFeed({"A": bars}), strategy=Strategy(Agent(run)), period_s=1).run()

    first, second = seen
    assert (first.quotes["A"].bar, first.quotes["A"].candles, first.orders, first.positions) == (bars[FIRST], (), (), {})
    assert [(one.placed.order.limit_price, one.left) for one in second.orders] == [(Decimal(50), Decimal(1))]
    assert {symbol: (one.units, one.cost) for symbol, one in second.positions.items()} == {"A": (2, 200)}
    assert second.as_task()["quotes"] == {
        "A": {"close": Decimal(100), "units": 2, "indicators": {}, "pending": 1, "lot": 1}
    }  # What an agent of a model was told before there was more to see.


def test_a_new_timeframe_begins_with_the_next_bar_and_one_that_is_gone_is_dropped():
    frames = {"hour": Timeframe(timedelta(hours=1), indicators={"mean": Sma(1)}, base=QUARTER)}
    series = after_candle(Series(), FIRST, Bar(*[Decimal(5)] * 4, Decimal(1)), 1, {"day": FRAMES["day"]})

    for number in range(1, 8):
        series = after_candle(series, FIRST + number * QUARTER, Bar(*[Decimal(5 + number)] * 4, Decimal(1)), 0, frames)

    last = Candle(FIRST + timedelta(hours=1), Decimal(9), Decimal(12), Decimal(9), Decimal(12), Decimal(4))
    assert views(series, frames)["hour"] == FrameView((last,), {"mean": 12.0})
    assert list(series.frames) == ["hour"]
    assert series.candles == ()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Timeframe(timedelta(0)), "period: expected more than nothing"),
        (lambda: Timeframe(timedelta(hours=1), bars=0), "bars: expected 1 or more"),
        (lambda: Timeframe(timedelta(hours=1), base=timedelta(hours=2)), "base: expected the length of the feed's bars"),
        (lambda: Strategy(rsi_strategy().agent, bars=-1), "bars: expected 0 or more"),
    ],
)
def test_settings_that_show_nothing_are_refused(make, why):
    with pytest.raises(HarnessMisuse, match=why):
        make()
