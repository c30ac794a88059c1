"""A store on a PostgreSQL server on this machine, against a SQLite file, in turn."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import trio

from orchestrator import Orchestrator
from orchestrator.store import PostgresStore, SqliteStore, Store
from tests.benchmarks.work import Stepping, scripts
from tests.postgres_server import PostgresServer

_ROUNDS = 3
_ALONE = 500
"""Steps of a harness that steps alone."""


def postgres(folder: Path, harnesses: int = 1_000, steps: int = 50) -> dict[str, Any]:
    """Return durable steps a second, from the first start to the last end; both wait for the disk (`fsync`)."""
    rates: dict[str, list[float]] = {}
    server = PostgresServer(fsync=True)
    try:
        for number in range(_ROUNDS):
            for count, each in ((harnesses, steps), (1, _ALONE)):
                stores = {
                    "sqlite": SqliteStore(folder / f"{number}-{count}.db"),
                    "postgres": PostgresStore(server.url, schema=server.new_schema()),
                }
                for name, store in stores.items():
                    with closing(store):
                        rates.setdefault(f"{name}_{count}", []).append(_rate(store, count, each))
    finally:
        server.close()
    return {"harnesses": harnesses, "steps_each": steps, "steps_s": {name: round(median(of)) for name, of in rates.items()}}


def _rate(store: Store, harnesses: int, steps: int) -> float:
    made = [Stepping(steps, number, script) for number, script in enumerate(scripts(harnesses, steps))]

    async def main() -> None:
        async with Orchestrator(store, control=False) as orchestrator:
            for number, harness in enumerate(made):
                orchestrator.start(harness, name=f"h{number}")

    begin = time.perf_counter()
    trio.run(main)
    return harnesses * steps / (time.perf_counter() - begin)
