"""A store on a PostgreSQL server on this machine, against a SQLite file and against DBOS on the same server, in turn.

Processor time is of everything that takes part: the programs, their workers and the server. On a machine that others use,
ratios within one round and processor time say more than steps a second.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import trio
from attrs import define, field

from orchestrator import Orchestrator
from orchestrator.store import PostgresStore, SqliteStore, Store
from orchestrator.store.postgres.postgres_schema import NOTED
from tests import ROOT
from tests.benchmarks.peers.peer_environment import environment
from tests.benchmarks.sharing import rate_of, rate_on_server, run_harnesses
from tests.benchmarks.work import Stepping, scripts
from tests.postgres_server import PostgresServer

_ROUNDS = 2
_SIZES = {1: 500, 100: 100, 1_000: 20, 10_000: 3}
"""Steps of each harness, by number of harnesses."""
_DBOS_SIZES = {1: 50, 100: 2, 1_000: 1}
"""The same for DBOS, which makes fewer a second."""
_DBOS = ("dbos==3.4.0", "psycopg-binary>=3.2.1")
_PATIENCE_S = 300
_LOOKS = 5
_TICKS = os.sysconf("SC_CLK_TCK")


def postgres(folder: Path) -> dict[str, Any]:
    """Return durable steps a second, from the first step to the last; all wait for the disk (`fsync`)."""
    found, server = _Found(), PostgresServer(fsync=True)
    python = environment("dbos", _DBOS)
    try:
        for turn in range(_ROUNDS):
            for count, steps in _SIZES.items():
                for workers in (1, 2) if count > 1 else (1,):
                    names = [f"h{number}-{steps}" for number in range(count)]
                    file, url = folder / f"{turn}-{count}-{workers}.db", server.new_database()
                    with found.measuring(server, f"sqlite_{workers}", count, steps) as tell:
                        trio.run(run_harnesses, file, names, workers)
                        tell(rate_of(file))
                    with found.measuring(server, f"postgres_{workers}", count, steps) as tell:
                        trio.run(run_harnesses, url, names, workers)
                        tell(rate_on_server(url))
            for count, steps in _DBOS_SIZES.items():
                with found.measuring(server, "dbos", count, steps) as tell:
                    tell(_dbos_rate(python, folder, server.new_database(), count, steps))
    finally:
        server.close()
    return {"sizes": _SIZES, "dbos_sizes": _DBOS_SIZES, **found.told()}


def seals(harnesses: int = 1_000, steps: int = 50) -> Callable[[Path], dict[str, Any]]:
    """Return a measure of what seals cost on PostgreSQL, from the opening of the store until it is closed and sealed.

    `unsealed` is without the program that seals, `unnoted` also without the triggers that note changed rows.
    """

    def measure(folder: Path) -> dict[str, Any]:
        found, server = _Found(), PostgresServer(fsync=True)
        try:
            for _ in range(_ROUNDS):
                for name in ("sealed", "unsealed", "unnoted"):
                    url = server.new_database()
                    with found.measuring(server, name, harnesses, steps) as tell:
                        begin = time.perf_counter()
                        with closing(PostgresStore(url)) as store:
                            _leave_out(store, url, name)
                            steps_in_all = _step(store, harnesses, steps)
                        tell(steps_in_all / (time.perf_counter() - begin))
        finally:
            server.close()
        return {"harnesses": harnesses, "steps_each": steps, **found.told()}

    return measure


def status(folder: Path, harnesses: int = 1_000, steps: int = 20) -> dict[str, Any]:
    """Return what `orchestrator status` takes in seconds: of a file, and of a server of which the local copy is up to date."""
    server, took = PostgresServer(), dict[str, list[tuple[float, float]]]()
    try:
        places = {"sqlite": str(folder / "run.db"), "postgres": server.new_database()}
        for store in (SqliteStore(places["sqlite"]), PostgresStore(places["postgres"])):
            with closing(store):
                _step(store, harnesses, steps)
        for turn in range(_LOOKS + 1):  # the first makes the copy
            for name, place in places.items():
                begin, used = time.perf_counter(), _children_s()
                command = [sys.executable, "-m", "orchestrator", "status", "--store", place]
                env = {**os.environ, "XDG_CACHE_HOME": str(folder)}
                subprocess.run(command, env=env, cwd=ROOT, check=True, capture_output=True, timeout=_PATIENCE_S)
                if turn:
                    took.setdefault(name, []).append((time.perf_counter() - begin, _children_s() - used))
    finally:
        server.close()
    medians = {name: [round(statistics.median(one), 2) for one in zip(*of, strict=True)] for name, of in took.items()}
    return {"harnesses": harnesses, "load": round(os.getloadavg()[0], 1), "wall_and_processor_s": medians}


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _leave_out(store: PostgresStore, url: str, name: str) -> None:
    if name != "sealed":
        store.sealing.seal = lambda: None
    if name == "unnoted":
        with psycopg.connect(url, autocommit=True, options="-csearch_path=orchestrator") as db:
            for table in NOTED:
                db.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER".encode())


def _step(store: Store, harnesses: int, steps: int) -> int:
    """Run harnesses in this process; return how many steps they have made."""
    made = [Stepping(steps, number, script) for number, script in enumerate(scripts(harnesses, steps))]

    async def main() -> None:
        async with Orchestrator(store, control=False) as orchestrator:
            for number, harness in enumerate(made):
                orchestrator.start(harness, name=f"h{number}")

    trio.run(main)
    return harnesses * steps


def _dbos_rate(python: str, folder: Path, url: str, harnesses: int, steps: int) -> float:
    """Run the same work with DBOS; its rate is over the work alone, without opening and closing."""
    work = folder / "work.json"
    work.write_text(json.dumps(scripts(harnesses, steps)))
    program = ROOT / "tests" / "benchmarks" / "step_peers" / "dbos_steps.py"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "DBOS__LOG_LEVEL": "ERROR", "DBOS_URL": url}
    command = [python, str(program), str(work)]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=_PATIENCE_S)
    if done.returncode:
        raise SystemExit(f"dbos failed: {done.stderr[-2_000:]}")
    return harnesses * steps / float(json.loads(done.stdout.splitlines()[-1])["wall_s"])


@define
class _Found:
    """Figures of several rounds, by what was measured and the number of harnesses."""

    rates: dict[str, list[float]] = field(factory=dict[str, list[float]])
    used_us: dict[str, list[float]] = field(factory=dict[str, list[float]])
    """Processor time of a step, the start of programs included."""

    def measuring(self, server: PostgresServer, name: str, harnesses: int, steps: int) -> _Measuring:
        return _Measuring(self, server, f"{name}_{harnesses}", harnesses * steps)

    def told(self) -> dict[str, Any]:
        return {
            "load": round(os.getloadavg()[0], 1),
            "steps_s": {name: [round(one) for one in rates] for name, rates in self.rates.items()},
            "processor_us": {name: round(statistics.median(used)) for name, used in self.used_us.items()},
        }


@define
class _Measuring:
    """One measurement, as a context that gives what to tell the rate to."""

    _found: _Found
    _server: PostgresServer
    _key: str
    _steps: int
    _begin: float = 0.0

    def __enter__(self) -> Callable[[float], None]:
        self._begin = _used_s(self._server)
        return self._found.rates.setdefault(self._key, []).append

    def __exit__(self, *_: object) -> None:
        used = (_used_s(self._server) - self._begin) / self._steps * 1e6
        self._found.used_us.setdefault(self._key, []).append(used)


def _used_s(server: PostgresServer) -> float:
    """Return the processor time of this program, of those that it has started, and of the server with its own."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(server.pid)], capture_output=True, text=True, check=False)
    ticks = 0
    for process in (server.pid, *map(int, listed.stdout.split())):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended, and is among those that the server has waited for
        ticks += sum(map(int, fields[11:15]))
    return own.ru_utime + own.ru_stime + _children_s() + ticks / _TICKS
