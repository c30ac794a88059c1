"""Write the store of a ready-made harness whose program is killed half-way, with the code of some commit: see README.md.

From the root of a checkout: `python make.py trading|features FOLDER COMMIT`, where COMMIT is the number of the commit to the
store after which the program dies.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import trio
import trio.testing

sys.path.insert(0, os.getcwd())

from harnesses.trading import PaperBroker, TradingHarness, rsi_strategy
from orchestrator import Orchestrator, SqliteStore
from orchestrator.testing import FaultyStore, kill_this_process
from tests.harnesses.features.worked import Judge, Worker, harness
from tests.harnesses.trading.test_trading_harness import feed


async def main(kind: str, folder: Path, commit: int) -> None:
    made = {
        "trading": lambda: TradingHarness(feed(), PaperBroker(), rsi_strategy()),
        "features": lambda: harness(Worker(seconds=0), Judge(seconds=0)),
    }
    store = FaultyStore(SqliteStore(folder / "run.db"), kill_this_process, at=commit, after=True)
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        orchestrator.start(made[kind](), name=kind)


Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
trio.run(main, sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), clock=trio.testing.MockClock(autojump_threshold=0))
