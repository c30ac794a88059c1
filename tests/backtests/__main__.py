"""75 backtests of three shares beside independent simulations, over 1,000 days: `python -m tests.backtests [DAYS]`."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from orchestrator.cli import main
from tests.backtests.brackets import BRACKETS, backtest, first_difference, simulate
from tests.backtests.comparison import compare, run_file
from tests.backtests.margin import TRENDS
from tests.backtests.margin import backtest as backtest_on_margin
from tests.backtests.margin import simulate as simulate_on_margin

GRID = ("--grid", "fast=3,5,8,13,21,34", "--grid", "slow=55,89,144")


def run(days: int) -> int:
    """Print a line for each trial, and return how many differ."""
    wrong = 0
    with TemporaryDirectory(prefix="orchestrator-") as folder:
        store = Path(folder) / "run.db"
        for symbol in ("AAPL", "IBM", "MSFT"):
            file = Path(folder) / f"{symbol}.toml"
            file.write_text(run_file(symbol, days), encoding="utf-8")
            if main(["backtest", str(file), *GRID, "--by", "gain", "--store", str(store)]):
                return 1
            for one in compare(store, symbol, days):
                wrong += bool(one.first_difference)
                print(
                    f"{one.name:<24}{one.bars:>6} bars  {one.equity:>22f}  {one.first_difference or 'the same at every bar'}"
                )
            for number, bracket in enumerate(BRACKETS, 1):
                found = backtest(symbol, days, bracket)
                difference = first_difference(found, list(simulate(symbol, days, bracket)))
                wrong += bool(difference)
                name = f"{symbol.lower()}.bracket-{number}"
                print(f"{name:<24}{len(found):>6} bars  {found[-1][1]:>22f}  {difference or 'the same at every bar'}")
            for number, trend in enumerate(TRENDS, 1):
                found, calls = backtest_on_margin(symbol, days, trend)
                difference = first_difference(found, list(simulate_on_margin(symbol, days, trend)))
                wrong += bool(difference)
                name = f"{symbol.lower()}.margin-{number}"
                same = f"the same at every bar, {calls} margin calls"
                print(f"{name:<24}{len(found):>6} bars  {found[-1][1]:>22f}  {difference or same}")
    return wrong


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
