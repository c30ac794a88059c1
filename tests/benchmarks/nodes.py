"""How long the harnesses of a killed node stand still: from `kill -9` until each of them has made a step on another node."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import trio

from orchestrator import Member, Orchestrator, run_node
from orchestrator.handle import Handle
from orchestrator.store.conformance import do
from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_nodes import NodeTable
from orchestrator.store.postgres.postgres_reader import PostgresReader
from orchestrator.store.postgres.postgres_store import PostgresStore
from orchestrator.store.store_protocol import Claim
from tests import ROOT
from tests.orchestrator.nodes.fleet_harnesses import Slow
from tests.postgres_server import PostgresServer

_LEASE_S = 4.0
_ROUNDS = 3
_PATIENCE_S = 120.0


def nodes(folder: Path, harnesses: int = 1_000) -> dict[str, Any]:
    """Return seconds from the kill of one of two nodes until all harnesses have stepped on, and those of a set of claims."""
    del folder
    takeovers, claims = list[float](), list[float]()
    server = PostgresServer(fsync=True)
    try:
        for _ in range(_ROUNDS):
            claims.append(_claim(server, harnesses))
            takeovers.append(_take_over(server.new_database(), harnesses))
    finally:
        server.close()
    return {
        "harnesses": harnesses,
        "lease_s": _LEASE_S,
        "take_over_s": round(median(takeovers), 2),
        "take_overs_s": [round(one, 2) for one in takeovers],
        "claim_s": round(median(claims), 3),
    }


def _claim(server: PostgresServer, harnesses: int) -> float:
    """Return the seconds in which one run takes the harnesses of another over."""
    schema = server.new_schema()
    claims = [Claim(f"h{number}", "0") for number in range(harnesses)]
    with closing(PostgresStore(server.url, schema=schema)) as first:
        first.commit([], claims)
    with closing(PostgresStore(server.url, schema=schema)) as other:
        do(other, Claim("warm", "0"))
        begin = time.perf_counter()
        other.commit([], claims)
        return time.perf_counter() - begin


def _take_over(url: str, harnesses: int) -> float:
    command = [sys.executable, "-m", "tests.benchmarks.nodes", url, str(harnesses)]
    with closing(PostgresStore(url)):
        pass  # makes the tables
    reader = PostgresReader(Address(url, "orchestrator", _LEASE_S))
    table = NodeTable(reader)
    started = {name: subprocess.Popen([*command, name], cwd=ROOT) for name in "ab"}
    try:
        _wait(lambda: _owned(table) == {"a": harnesses // 2, "b": harnesses - harnesses // 2})
        _wait(lambda: all(one.current_step > 1 for one in reader.harnesses()))
        mine = {place.name for place in table.places() if place.run == _runs(table)["a"]}
        last = max(record.seq for record in reader.records(after=reader.last_seq() - 1))
        started["a"].kill()
        begin = time.monotonic()
        _wait(lambda: _has_stepped(reader, last, mine, _runs(table).get("b", "")))
        return time.monotonic() - begin
    finally:
        for process in started.values():
            process.kill()
            process.wait()
        reader.close_readers()


def _runs(table: NodeTable) -> dict[str, str]:
    return {node.name: node.run for node in table.nodes() if node.is_alive}


def _owned(table: NodeTable) -> dict[str, int]:
    runs = [place.run for place in table.places()]
    return {name: runs.count(run) for name, run in _runs(table).items()}


def _has_stepped(reader: PostgresReader, after: int, names: set[str], run: str) -> bool:
    seen: set[str] = set()
    while found := reader.records(after=after, limit=20_000):
        seen |= {record.harness for record in found if record.kind == "step" and record.run == run}
        after = found[-1].seq
    return names <= seen


def _wait(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_PATIENCE_S:g} s")
        time.sleep(0.02)


def _start(name: str, orchestrator: Orchestrator) -> Handle:
    return orchestrator.start(Slow(0), name=name)


def main() -> None:
    """Run a node."""
    url, harnesses, name = sys.argv[1:]
    members = [Member(f"h{number}", partial(_start, f"h{number}")) for number in range(int(harnesses))]
    trio.run(lambda: run_node(members, store=url, fleet="bench", name=name, cpus=1, lease_s=_LEASE_S))


if __name__ == "__main__":
    main()
