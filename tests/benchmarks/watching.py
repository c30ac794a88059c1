"""What it costs to watch the steps of a harness for progress, by the shape of its state."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from attrs import evolve, frozen

from harnesses.data.delta import Baseline
from harnesses.governance import Guardrails, NoProgress, Watch
from harnesses.step import StateDelta, Step

Figures = dict[str, Any]
STEPS = 2000


@frozen
class State:
    count: int = 0
    note: str = "as it was"
    log: tuple[str, ...] = ()
    table: Any = None


def watching(folder: Path) -> Figures:
    """Microseconds a step for a guard against no progress: of a small state, a list that grows, and a table that changes."""
    table = {f"key {number}": "x" * 20 for number in range(1000)}
    ways: dict[str, tuple[State, Callable[[State, int], State]]] = {
        "small": (State(), lambda state, n: evolve(state, count=n)),
        "unchanged": (State(), lambda state, n: state),
        "list_of_10000_grows": (State(log=("line",) * 10_000), lambda state, n: evolve(state, log=(*state.log, f"line {n}"))),
        "one_of_1000_in_a_table": (State(table=table), lambda state, n: evolve(state, table={**state.table, "key 5": str(n)})),
    }
    return {f"{name}_us": _cost(*way) for name, way in ways.items()}


def _cost(state: State, change: Callable[[State, int], State]) -> float:
    """Return the median cost of a look, and of what is kept with the step."""
    watch, baseline, took = Watch(Guardrails(no_progress=NoProgress(5, "tell"))), Baseline(state), []
    for number in range(1, STEPS + 1):
        state = change(state, number)
        delta = baseline.advance(state)
        step = Step(number, datetime.now(UTC), "in", "out", StateDelta())
        began = time.perf_counter()
        watch.look(step, delta, lambda: baseline.state)
        watch.kept()
        took.append(time.perf_counter() - began)
    return round(median(took) * 1e6, 1)
