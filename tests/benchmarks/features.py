"""Two hundred features, an agent and a validator that do nothing: what the harness itself takes.

python -m tests.benchmarks.features
"""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import trio

from harnesses import Agent
from harnesses.features import Feature, FeatureHarness, RunPolicy, TurnResult, accept_all
from orchestrator import Orchestrator

FEATURES = 200


def features(folder: Path) -> dict[str, Any]:
    """Return milliseconds a feature: with a file, and in memory, where hand-off files alone are written; medians of five.

    Each feature is one try (an effect for the agent, and a step), and about two looks whether features that pass still do.
    """
    stored, bare, shown, commit, processor = [], [], [], [], []
    for number in range(5):
        path = folder / f"{number}.db"
        began = time.process_time()
        stored.append(_took(path))
        processor.append(time.process_time() - began)
        bare.append(_took(None))
        shown.append(_took(None, folder / f"{number}-handoff"))
        commit.append(_commit_s(folder / f"{number}-commits.db"))
    steps, effects = _recorded(path)
    return {
        "features": FEATURES,
        "ms_a_feature": _ms(stored),
        "processor_ms_a_feature": _ms(processor),
        "ms_a_feature_in_memory": _ms(bare),
        "ms_a_feature_in_memory_with_handoff": _ms(shown),
        "steps": steps,
        "commits_a_feature": round((steps + 2 * effects) / FEATURES, 1),
        "ms_a_bare_commit": round(1000 * statistics.median(commit), 3),
    }


def make(handoff: Path | None = None) -> FeatureHarness:
    """Return the harness that is measured."""

    async def nothing(run: Any) -> TurnResult:
        return TurnResult()

    given = [Feature(f"feature-{number}", f"Bring about number {number}.", steps="it is there") for number in range(FEATURES)]
    policy = RunPolicy(mode="unlimited_batch")  # type: ignore[arg-type]
    return FeatureHarness(Agent(nothing), accept_all(), objective="Measure.", features=given, policy=policy, handoff=handoff)


def run(path: Path | None, handoff: Path | None = None) -> FeatureHarness:
    """Run it to its end, in a file or in memory."""
    harness = make(handoff)
    trio.run(harness.run if path is None else _run, *(() if path is None else (harness, path)))
    assert harness.is_complete()
    return harness


async def _run(harness: FeatureHarness, path: Path) -> None:
    async with Orchestrator(path) as orchestrator:
        orchestrator.start(harness, name="features")


def _took(path: Path | None, handoff: Path | None = None) -> float:
    began = time.perf_counter()
    run(path, handoff)
    return time.perf_counter() - began


def _recorded(path: Path) -> tuple[int, int]:
    db = sqlite3.connect(path)
    steps = db.execute("SELECT count(*) FROM steps").fetchone()[0]
    effects = db.execute("SELECT count(*) FROM effects").fetchone()[0]
    db.close()
    return steps, effects


def _commit_s(path: Path, commits: int = 200) -> float:
    """Return the seconds that one row and its `fsync` take, with nothing around them."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE rows (body TEXT)")
    began = time.perf_counter()
    for _ in range(commits):
        db.execute("INSERT INTO rows VALUES (?)", ("x" * 500,))
    took = time.perf_counter() - began
    db.close()
    return took / commits


def _ms(seconds: list[float]) -> float:
    return round(1000 * statistics.median(seconds) / FEATURES, 2)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps({"measure": "features", "cores": os.cpu_count(), **features(Path(folder))}))
