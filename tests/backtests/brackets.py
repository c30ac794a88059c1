"""A strategy that is always in the market behind a bracket, beside a simulation in exact decimals that shares no code with it.

At each bar: the split of the day; of what is held, the stop, then the target; the stop follows the high; at the close, what is
not held is bought with a new bracket.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from decimal import ROUND_FLOOR, Decimal, localcontext
from pathlib import Path
from typing import Any

import trio
from attrs import frozen

from harnesses import Agent
from harnesses.trading import Fees, Limits, Market, Order, PaperBroker, ReplayFeed, Side, Strategy, TradingHarness
from tests.backtests.comparison import CASH, DATA, FEE_RATE, STAKE
from tests.backtests.simulation import read_splits

_GRAIN = Decimal("1E-18")
Day = tuple[str, Decimal]


@frozen
class Bracket:
    """Prices of the exit as parts of the close at which is bought."""

    take: Decimal
    stop: Decimal
    trail: Decimal | None = None


BRACKETS = (
    Bracket(Decimal("1.05"), Decimal("0.95")),
    Bracket(Decimal("1.2"), Decimal("0.9")),
    Bracket(Decimal("1.3"), Decimal("0.93"), Decimal("0.07")),
)


def backtest(symbol: str, days: int, bracket: Bracket) -> list[Day]:
    """Return each day with the equity at its close, as a harness comes to it."""

    async def decide(run: Any) -> list[Order]:
        market: Market = run.input
        quote = market.quotes[symbol]
        if quote.units:
            return []
        exit: dict[str, Any] = {"take_profit": quote.close * bracket.take, "stop_loss": quote.close * bracket.stop}
        trail = None if bracket.trail is None else quote.close * bracket.trail
        return [Order(symbol, Side.BUY, quote.bought_for(market.cash * STAKE), trail=trail, **exit)]

    feed = ReplayFeed.read({symbol: DATA / f"{symbol.lower()}.csv"}, splits=DATA / "splits.csv", limit=days)
    broker = PaperBroker(CASH, fees=Fees(FEE_RATE))
    harness = TradingHarness(feed, broker, Strategy(Agent(decide)), limits=Limits(max_jump=Decimal("0.9")), period_s=0)
    trio.run(harness.run)
    return [(f"{step.output.time:%Y-%m-%d}", step.output.equity) for step in harness.step_history if step.input is not None]


def simulate(symbol: str, days: int, bracket: Bracket) -> Iterator[Day]:
    """Yield each day with the equity at its close."""
    with (DATA / f"{symbol.lower()}.csv").open(newline="") as file:
        rows = [row for row, _ in zip(csv.DictReader(file), range(days), strict=False)]
    splits = read_splits(Path(DATA / "splits.csv"), symbol)
    cash, units = CASH, Decimal(0)
    take = stop = trail = Decimal(0)
    with localcontext(prec=80):
        for row in rows:
            first, high, low, close = (Decimal(row[name]) for name in ("open", "high", "low", "close"))
            if (split := splits.get(row["date"])) is not None:
                units, trail = units * split, trail / split
                take = (take / split).quantize(_GRAIN, ROUND_FLOOR)
                stop = (stop / split).quantize(_GRAIN, ROUND_FLOOR)
            sold = min(stop, first) if low <= stop else max(take, first) if high >= take else None
            if units and sold is not None:
                cash, units = cash + units * sold * (1 - FEE_RATE), Decimal(0)
            if units and bracket.trail is not None:
                stop = max(stop, high - trail)
            if not units:
                units = cash * STAKE // close
                cash -= units * close * (1 + FEE_RATE)
                take, stop, trail = close * bracket.take, close * bracket.stop, close * (bracket.trail or 0)
            yield row["date"], cash + units * close


def first_difference(found: list[Day], wanted: list[Day]) -> str:
    """Return the first day whose equity is another one, and both; empty if there is none."""
    return next((f"{one} and not {other}" for one, other in zip(found, wanted, strict=True) if one != other), "")
