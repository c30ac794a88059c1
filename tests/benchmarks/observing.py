"""What it costs to be watched: processor time of a run with and without, and the text for thousands of harnesses."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from statistics import median
from typing import Any

import trio

from harnesses import BaseHarness
from orchestrator import Orchestrator
from orchestrator.recording.histogram import SECONDS, Histogram
from orchestrator.telemetry.metric_export import text_of
from orchestrator.telemetry.metric_figures import HarnessFigures, Snapshot, families
from orchestrator.telemetry.record_counts import Counts, Tally

_HARNESSES, _STEPS, _ROUNDS = 1000, 20, 5
_WAYS: dict[str, dict[str, Any]] = {"bare": {}, "control": {"control": True}, "metrics": {"metrics": 0}}


class _Stepping(BaseHarness[int, int, int]):
    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        for number in range(_STEPS):
            self.update_state(lambda count: count + 1)
            yield number, self.state


def observing(folder: Path) -> dict[str, object]:
    """Measure runs that do nothing but step, in turn: microseconds of processor time for each step."""
    times: dict[str, list[float]] = {way: [] for way in _WAYS}
    for number in range(_ROUNDS):
        for way, options in _WAYS.items():
            took = _processor_s(lambda: trio.run(_run, folder / f"{way}-{number}.db", options))  # noqa: B023
            times[way].append(took / (_HARNESSES * _STEPS) * 1e6)
    buckets, counts = Histogram(SECONDS), Counts()
    names = [f"harness-{number}" for number in range(10_000)]
    counts.harnesses = {name: Tally(5, 1, 1, 10**15, {"work": 10, "agent": 5, "commit": 3}) for name in names}
    told = Snapshot(store="run.db", counts=counts, harnesses=[HarnessFigures(name, "running", 5) for name in names])
    return {
        "us_for_each_step": {way: round(median(each), 1) for way, each in times.items()},
        "us_for_each_count": round(_processor_s(lambda: _count(buckets)) * 10, 2),
        "s_for_the_text_of_10000": round(_processor_s(lambda: text_of(families(told))), 2),
    }


def _count(buckets: Histogram) -> None:
    for _ in range(100_000):
        buckets.observe(0.0004)


def _processor_s(function: Callable[[], object]) -> float:
    begin = time.process_time()
    function()
    return time.process_time() - begin


async def _run(path: Path, options: dict[str, Any]) -> None:
    async with Orchestrator(path, handle_signals=False, **options) as orchestrator:
        for number in range(_HARNESSES):
            orchestrator.start(_Stepping(0), name=f"h{number}")
