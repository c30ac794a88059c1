"""One run in several processes on one store, against the same in one: steps a second, from the first step to the last."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
import trio

from orchestrator import Orchestrator, run_workers
from orchestrator.store.sqlite.sqlite_file import open_reader
from tests.benchmarks.work import Stepping, turn

Figures = dict[str, Any]
_START = "tests.benchmarks.sharing:start"
_ROUNDS = 3
_SPAN = "SELECT count(*), min(time_us), max(time_us) FROM records WHERE kind = 'step'"


def workers(folder: Path, harnesses: int = 1_000, steps: int = 100, most: int = 2) -> Figures:
    """Return durable steps a second with one worker and with `most`, in turn; the start of the processes is not in them."""
    rates: dict[int, list[float]] = {1: [], most: []}
    for turn_number in range(_ROUNDS):
        for count in rates:
            store = folder / f"{turn_number}-{count}.db"
            trio.run(run_harnesses, store, [f"h{number}-{steps}" for number in range(harnesses)], count)
            rates[count].append(rate_of(store))
    known = {count: median(found) for count, found in rates.items()}
    return {
        "harnesses": harnesses,
        "steps_each": steps,
        "steps_s": {str(count): round(rate) for count, rate in known.items()},
        "ratio": round(known[most] / known[1], 2),
        "ratios": [round(two / one, 2) for one, two in zip(rates[1], rates[most], strict=True)],
    }


async def run_harnesses(store: str | Path, names: Sequence[str], count: int) -> None:
    """Run harnesses in so many processes, until all have ended."""
    await run_workers(_START, names, store=store, workers=count, control=False)


def start(orchestrator: Orchestrator, names: Sequence[str]) -> None:
    """Start a share: harness `hN-S` makes S steps. What they work on is made before the first one starts."""
    made: list[tuple[str, Stepping]] = []
    for name in names:
        number, steps = map(int, name.removeprefix("h").split("-"))
        script = [turn(number, count) for count in range(1, steps + 1)]
        made.append((name, Stepping(steps, number, script)))
    for name, harness in made:
        orchestrator.start(harness, name=name)


def rate_of(store: Path) -> float:
    """Return the steps a second in a file, from the first to the last."""
    with closing(open_reader(store)) as db:
        ((count, first, last),) = db.execute(_SPAN)
    return float(count / (last - first) * 1e6)


def rate_on_server(url: str) -> float:
    """Return the same for the store in a database."""
    with psycopg.connect(url, options="-csearch_path=orchestrator") as db:
        ((count, first, last),) = db.execute(_SPAN).fetchall()
    return float(count / (last - first) * 1e6)
