"""Bars a second of a backtest: in memory, on disk, and of the same strategy in other systems.

The other systems are installed into an environment of their own, in the user's cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import trio

from orchestrator import Orchestrator
from tests import ROOT
from tests.benchmarks.peers.peer_environment import environment
from tests.benchmarks.trading_peers.harness_peer import harness

PACKAGES = ("backtesting==0.6.5", "nautilus_trader==1.221.0")
SYSTEMS = ("harness_peer", "backtesting_peer", "nautilus_peer")
EVERY = (0, 10)
"""Bars between two orders; 0 for no orders."""
WHY = {
    "backtesting_peer": "its strategy is first called at the second bar, and it counts money in floats, so its equity differs "
    "by less than a cent",
    "nautilus_peer": "money in fixed point, to the cent",
}
_PATIENCE_S = 900


def trading(folder: Path, bars: int = 5_005, rounds: int = 2) -> dict[str, Any]:
    """Return bars a second of processor time, and final equity, for each system with and without orders."""
    others = environment("trading-peers", PACKAGES)
    figures: dict[str, Any] = {"bars": bars, "why": WHY}
    for every in EVERY:
        # In turns, so that each system has its share of what else the machine does.
        turns = [{name: _run(name, others, bars, every) for name in SYSTEMS} for _ in range(rounds)]
        for name in SYSTEMS:
            best = min((turn[name] for turn in turns), key=lambda one: one["processor_s"])
            rate = round(bars / best["processor_s"])
            figures[f"{name}_every_{every}"] = {"per_s": rate, "equity": best["equity"], "fills": best["fills"]}
    return {**figures, "group_per_s": round(max(_stored(folder / f"{turn}.db", bars) for turn in range(rounds)))}


def _run(name: str, others: str, bars: int, every: int) -> dict[str, Any]:
    python = sys.executable if name == "harness_peer" else others
    command = [python, "-m", f"tests.benchmarks.trading_peers.{name}", str(bars), str(every)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=_PATIENCE_S)
    if done.returncode:
        raise SystemExit(f"{name} failed: {done.stderr[-2_000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _stored(path: Path, bars: int) -> float:
    """Return bars a second of processor time with an order in ten, on disk with `durability="group"`."""
    made = harness(bars, 10)

    async def run() -> None:
        async with Orchestrator(path) as orchestrator:
            orchestrator.start(made, name="backtest", durability="group")

    began = time.process_time()
    trio.run(run)
    return bars / (time.process_time() - began)
