"""Twelve years of daily bars for three symbols, replayed on Trio's virtual clock: how fast, and whether always the same.

Each run has a process of its own, on one core, and another seed for the hashes of strings: what goes by the order of a set
would differ.

python -m tests.benchmarks.trading
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import trio
from trio.testing import MockClock

from harnesses.trading import ReplayFeed, TradingHarness, TradingState, rsi_strategy
from orchestrator import Orchestrator
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from tests import ROOT

DATA = ROOT / "examples" / "data"
SYMBOLS = ("AAPL", "IBM", "MSFT")


class Noting(TradingHarness):
    """Makes a digest of the state after each step."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.digest = blake2b(digest_size=16)

    def update_state(self, change: Callable[[TradingState], TradingState], *, summary: str | None = None) -> None:
        super().update_state(change, summary=summary)
        self.digest.update(msgspec.json.encode(self.state))


def backtest(folder: Path | None = None, *, briefly: bool = False) -> dict[str, Any]:
    """Return what the run takes, and whether all inputs, outputs and states of two of them are the same to the last bit.

    Args:
        briefly: take the time of a run that makes digests and not of one more that makes none.
    """
    one, other = (_in_a_process(seed, briefly) for seed in ("1", "2"))
    return {
        "seconds": min(one["seconds"], other["seconds"]),
        "processor_seconds": min(one["processor_seconds"], other["processor_seconds"]),
        "slices": one["slices"],
        "orders": one["orders"],
        "slices_per_s": round(one["slices"] / min(one["seconds"], other["seconds"])),
        "identical": one["digest"] == other["digest"],
    }


def backtest_stored(folder: Path) -> dict[str, Any]:
    """Return what the run takes in an orchestrator on a disk with each durability, and whether both stores hold the same."""
    figures: dict[str, Any] = {}
    digests: set[str] = set()
    for durability in ("step", "group"):
        began, processor_began = time.perf_counter(), time.process_time()
        path = folder / f"{durability}.db"
        trio.run(_store, path, durability, clock=MockClock(autojump_threshold=0))
        figures[f"{durability}_s"] = round(time.perf_counter() - began, 2)
        figures[f"{durability}_processor_s"] = round(time.process_time() - processor_began, 2)
        digests.add(_digest_of(path))
    return {**figures, "identical": len(digests) == 1}


async def _store(path: Path, durability: Any) -> None:
    async with Orchestrator(path) as orchestrator:
        orchestrator.start(_harness(TradingHarness), name="backtest", durability=durability)


def _digest_of(path: Path) -> str:
    """Return a digest of the input, the output and the delta of every stored step."""
    digest = blake2b(digest_size=16)
    with closing(SqliteReader(path)) as reader:
        for step in reader.steps("backtest", limit=1_000_000):
            digest.update(msgspec.json.encode([step.step_number, step.input, step.output, step.state_delta]))
        digest.update(reader.state_at("backtest", step.step_number).encode())
    return digest.hexdigest()


def _in_a_process(seed: str, briefly: bool) -> dict[str, Any]:
    code = f"from tests.benchmarks.trading import run; run(briefly={briefly})"
    surroundings = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=surroundings)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def run(*, briefly: bool) -> None:
    """Run it once for its time, reading of the files included, and once for the digest; print the figures as JSON."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    began, processor_began = time.perf_counter(), time.process_time()
    plain = _ran(Noting if briefly else TradingHarness)
    figures = {
        "seconds": round(time.perf_counter() - began, 2),
        "processor_seconds": round(time.process_time() - processor_began, 2),
        "slices": sum(step.input is not None for step in plain.step_history),
        "orders": sum(len(step.output.placed) for step in plain.step_history),
    }
    noted = plain if briefly else _ran(Noting)
    for step in noted.step_history:
        noted.digest.update(msgspec.json.encode([step.input, step.output, step.state_delta]))
    print(json.dumps({**figures, "digest": noted.digest.hexdigest()}))


def _harness(kind: type[Any]) -> Any:
    feed = ReplayFeed.read({symbol: DATA / f"{symbol.lower()}.csv" for symbol in SYMBOLS}, splits=DATA / "splits.csv")
    return kind(feed, strategy=rsi_strategy(Decimal("0.02")), period_s=86_400.0)


def _ran(kind: type[Any]) -> Any:
    harness = _harness(kind)
    trio.run(harness.run, clock=MockClock(autojump_threshold=0))
    return harness


if __name__ == "__main__":
    print(json.dumps(backtest()))
