"""Compares every trial of a backtest with the simulation, at every bar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path

from attrs import frozen
from msgspec import convert

from harnesses.trading.account_model import TradingOutput, bars_of
from harnesses.trading.market.bars import SliceRun
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from tests import ROOT
from tests.backtests.simulation import read_closes, read_splits, simulate

DATA = ROOT / "examples" / "data"
_Step = tuple[SliceRun | None, TradingOutput]
STAKE, CASH, FEE_RATE = Decimal("0.9"), Decimal(100_000), Decimal("0.001")


@frozen
class Compared:
    """A trial beside its simulation."""

    name: str
    bars: int
    equity: Decimal
    first_difference: str
    """The first day whose equity is another one, and both; empty if there is none."""


def run_file(symbol: str, days: int) -> str:
    """Return a run file for one share, with what the simulation simulates."""
    return f"""
[[harness]]
name = "{symbol.lower()}"
[harness.trading]
feed = {{ files = {{ {symbol} = "{DATA / symbol.lower()}.csv" }}, splits = "{DATA / "splits.csv"}", limit = {days} }}
strategy = {{ name = "cross", stake = "{STAKE}" }}
broker = {{ paper = true, cash = {CASH}, fees = {{ rate = "{FEE_RATE}" }} }}
limits = {{ max_jump = "0.9" }}  # the half that AAPL lost on 2000-09-29 is a price, not a mistake
"""


def compare(store: Path, symbol: str, days: int) -> Iterator[Compared]:
    """Yield each trial of the share in a store beside its simulation."""
    closes, splits = read_closes(DATA / f"{symbol.lower()}.csv", days), read_splits(DATA / "splits.csv", symbol)
    with closing(SqliteReader(store)) as reader:
        for harness in reader.harnesses():
            share, fast, slow = harness.name.split(".")
            if share != symbol.lower():
                continue
            windows = {"fast": int(fast.removeprefix("fast-")), "slow": int(slow.removeprefix("slow-"))}
            wanted = list(simulate(closes, splits, **windows, stake=STAKE, cash=CASH, fee_rate=FEE_RATE))
            steps = (convert([step.input, step.output], _Step) for step in reader.steps(harness.name, limit=days + 2))
            bars = (output for market, said in steps if market is not None for _, output in bars_of(market, said))
            found = [(f"{output.time:%Y-%m-%d}", output.equity) for output in bars]
            differences = (f"{one} and not {other}" for one, other in zip(found, wanted, strict=True) if one != other)
            yield Compared(harness.name, len(found), found[-1][1], next(differences, ""))
