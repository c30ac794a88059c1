"""A strategy that is long or short behind the trend, on margin, beside a simulation that shares no code with it.

At each bar: the cost of what is owed since the bar before; the split of the day; a margin call at the worst price of the bar;
at the close, one order that turns the position over if the trend has turned, sized down to the buying power. Exact decimals.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from pathlib import Path
from typing import Any

import trio
from attrs import field, frozen

from harnesses import Agent
from harnesses.trading import (
    Fees,
    Limits,
    Margin,
    Market,
    Order,
    PaperBroker,
    ReplayFeed,
    Side,
    Strategy,
    TradingHarness,
    bars_of,
)
from tests.backtests.brackets import Day
from tests.backtests.comparison import CASH, DATA, FEE_RATE
from tests.backtests.simulation import read_splits

_GRAIN = Decimal("1E-18")


@frozen
class Trend:
    """A long or short position behind the closes of the last days."""

    days: int
    """The trend is up at the highest close of so many days, and down at the lowest."""
    stake: Decimal
    """Worth of a new position, as a multiple of the equity."""
    leverage: Decimal
    maintenance: Decimal
    borrow_rate: Decimal = Decimal("0.05")
    interest_rate: Decimal = Decimal("0.0825")
    contrary: bool = field(default=False)
    """Whether the position is against the trend."""


TRENDS = (
    Trend(10, Decimal("0.9"), Decimal(1), Decimal("0.25")),
    Trend(20, Decimal("1.9"), Decimal(2), Decimal("0.3")),
    Trend(5, Decimal(3), Decimal(2), Decimal("0.45")),
    Trend(8, Decimal("4.5"), Decimal(5), Decimal("0.15"), contrary=True),
)


def backtest(symbol: str, days: int, trend: Trend, *, bars_per_step: int = 256) -> tuple[list[Day], int]:
    """Return each day with the equity at its close, as a harness comes to it, and the number of margin calls."""

    async def decide(run: Any) -> list[Order]:
        market: Market = run.input
        quote = market.quotes[symbol]
        way = _way([candle.close for candle in quote.candles], trend)
        if not way or quote.units * way > 0:
            return []
        units = quote.bought_for(market.equity * trend.stake) + abs(quote.units)
        return [Order(symbol, Side.BUY if way > 0 else Side.SELL, units)] if units else []

    feed = ReplayFeed.read({symbol: DATA / f"{symbol.lower()}.csv"}, splits=DATA / "splits.csv", limit=days)
    margin = Margin(trend.borrow_rate, trend.leverage, trend.maintenance, trend.interest_rate)
    broker = PaperBroker(CASH, fees=Fees(FEE_RATE), margin=margin)
    strategy = Strategy(Agent(decide), bars=trend.days, shorts=True)
    limits = Limits(max_jump=Decimal("0.9"))
    harness = TradingHarness(feed, broker, strategy, limits=limits, period_s=0, bars_per_step=bars_per_step)
    trio.run(harness.run)
    bars = [said for step in harness.step_history[1:] for _, said in bars_of(step.input, step.output)]
    calls = sum(bool(one.fill.reason) for said in bars for one in said.fills)
    return [(f"{said.time:%Y-%m-%d}", said.equity) for said in bars], calls


def simulate(symbol: str, days: int, trend: Trend) -> Iterator[Day]:
    """Yield each day with the equity at its close."""
    with (DATA / f"{symbol.lower()}.csv").open(newline="") as file:
        rows = [row for row, _ in zip(csv.DictReader(file), range(days), strict=False)]
    splits = read_splits(Path(DATA / "splits.csv"), symbol)
    cash, units = CASH, Decimal(0)
    seen: list[Decimal] = []
    before = rows[0]["date"]
    with localcontext(prec=80):
        for row in rows:
            first, high, low, close = (Decimal(row[name]) for name in ("open", "high", "low", "close"))
            gone = (date.fromisoformat(row["date"]) - date.fromisoformat(before)).days
            before = row["date"]
            if seen:
                short = max(-units, Decimal(0)) * seen[-1]
                yearly = short * trend.borrow_rate + max(short - cash, Decimal(0)) * trend.interest_rate
                cash -= (yearly * gone / 365).quantize(_GRAIN, ROUND_CEILING)
            if (split := splits.get(row["date"])) is not None:
                units, seen = units * split, [price / split for price in seen]
            if (called := _called(cash, units, first, low if units > 0 else high, trend.maintenance)) is not None:
                cash += units * called - (abs(units) * called * FEE_RATE).quantize(_GRAIN, ROUND_CEILING)
                units = Decimal(0)
            seen = [*seen, close][-trend.days :]
            way = _way(seen, trend)
            if way and units * way <= 0:
                equity, held = cash + units * close, abs(units)
                wanted = max(equity, Decimal(0)) * trend.stake // close + held
                # (wanted - 2 * held) * close + leverage * fee  <=  leverage * equity - held * close
                power = trend.leverage * equity + held * close
                possible = power // (close * (1 + trend.leverage * FEE_RATE))
                traded = way * min(wanted, max(possible, held))
                cash -= traded * close + abs(traded) * close * FEE_RATE
                units += traded
            yield row["date"], cash + units * close


def _called(cash: Decimal, units: Decimal, first: Decimal, worst: Decimal, maintenance: Decimal) -> Decimal | None:
    """Return the price at which a margin call closes a position; None without one."""
    if not units or (units > 0 and cash >= 0):
        return None
    if units < 0:
        limit = cash / (-units * (1 + maintenance))
        return max(first, limit).quantize(_GRAIN, ROUND_CEILING) if worst > limit else None
    limit = -cash / (units * (1 - maintenance))
    return min(first, limit).quantize(_GRAIN, ROUND_FLOOR) if worst < limit else None


def _way(closes: list[Decimal], trend: Trend) -> int:
    """Return 1 for a long position, -1 for a short one, 0 to leave the position as it is."""
    if len(closes) < trend.days:
        return 0
    way = (closes[-1] == max(closes)) - (closes[-1] == min(closes))
    return -way if trend.contrary else way
