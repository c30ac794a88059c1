"""Which windows should two moving averages have? Tried on thirteen years of three shares, and then without hindsight.

    grid            every combination over the whole recording: the best of them is the best of the past
    walk-forward    the same combinations, chosen on three parts of the recording and tried on the next, four times

Each writes a page that needs no network: tables, a map of the grid, and the chosen accounts with a mark for each trade. Kill
the program at any moment and start it again: what is finished is not run again. `backtest_grid.toml` is what is run; it takes
some minutes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from orchestrator.cli import main as orchestrator

FILE = Path(__file__).with_suffix(".toml")


def run(options: argparse.Namespace) -> int:
    """Run both, and return the exit code of the first that did not end well."""
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    words = ["backtest", str(options.file), "--store", str(folder / "backtest.db")]
    words += ["--grid", f"fast={options.fast}", "--grid", f"slow={options.slow}"]
    return orchestrator([*words, "--html", str(folder / "grid.html")]) or orchestrator(
        [*words, "--walk-forward", options.folds, "--html", str(folder / "walk-forward.html")]
    )


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--file", type=Path, default=FILE, metavar="FILE", help="what is run")
    parser.add_argument("--folder", type=Path, default=Path("backtest-grid"), metavar="DIR", help="where everything goes")
    parser.add_argument("--fast", default="10,20,30,40", metavar="N,…", help="windows of the fast average")
    parser.add_argument("--slow", default="50,100,150,200", metavar="N,…", help="windows of the slow average")
    parser.add_argument("--folds", default="4", metavar="N", help="choices of the walk-forward, each with its test")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(run(parse()))
