"""Two moving averages on one share, simulated in exact decimals without a line of this project: what a backtest must come to.

At each close: the split of the day, the averages, the decision, the fill at the same close with its fee, the equity.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from decimal import Decimal, localcontext
from pathlib import Path


def read_closes(path: Path, limit: int) -> list[tuple[str, Decimal]]:
    """Return the first days of a file, each with its close."""
    with path.open(newline="") as file:
        rows = [(row["date"], Decimal(row["close"])) for row in csv.DictReader(file)]
    return rows[:limit]


def read_splits(path: Path, symbol: str) -> dict[str, Decimal]:
    """Return the units that one became, by day."""
    with path.open(newline="") as file:
        return {row["date"]: Decimal(row["units"]) for row in csv.DictReader(file) if row["symbol"] == symbol}


def simulate(
    closes: list[tuple[str, Decimal]],
    splits: dict[str, Decimal],
    *,
    fast: int,
    slow: int,
    stake: Decimal,
    cash: Decimal,
    fee_rate: Decimal,
) -> Iterator[tuple[str, Decimal]]:
    """Yield each day with the equity at its close."""
    seen: list[Decimal] = []
    averages: dict[int, Decimal] = {}
    units = Decimal(0)
    with localcontext(prec=60):
        for day, close in closes:
            if (split := splits.get(day)) is not None:
                units *= split
                seen = [price / split for price in seen]
                averages = {window: average / split for window, average in averages.items()}
            seen.append(close)
            for window in (fast, slow):
                if len(seen) == window:
                    averages[window] = sum(seen, Decimal(0)) / window
                elif len(seen) > window:
                    averages[window] += (close - averages[window]) * 2 / (window + 1)
            if len(averages) == 2 and averages[fast] < averages[slow] and units:
                cash, units = cash + units * close * (1 - fee_rate), Decimal(0)
            elif len(averages) == 2 and averages[fast] > averages[slow] and not units:
                units = min(cash * stake, cash) // close
                cash -= units * close * (1 + fee_rate)
            yield day, cash + units * close
