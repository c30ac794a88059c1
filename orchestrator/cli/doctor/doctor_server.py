"""A store on PostgreSQL: whether its server answers, of what version it is, whether it keeps what it says, and its leases."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from orchestrator.cli.doctor.doctor_model import Check, few, warn, well
from orchestrator.store.file.server_copy import Server
from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_connection import LimitedDatabase, limited
from orchestrator.store.postgres.postgres_schema import VERSION
from orchestrator.store.postgres.postgres_setup import check_version, find_version, prepare
from orchestrator.text.terminal_text import one_line
from orchestrator.text.value_lines import json_line

_WAIT_S = 5.0
_SLOW_S = 0.1
_SETTINGS = {
    "fsync": "the server loses acknowledged steps with the power",
    "full_page_writes": "a page may be torn by a crash",
}
_LEASES = """
SELECT h.owner, count(*), min(h.name), extract(epoch FROM l.until - clock_timestamp())::float
FROM harnesses h LEFT JOIN leases l ON l.run = h.owner WHERE h.owner IS NOT NULL GROUP BY h.owner, l.until ORDER BY min(h.id)
"""


@contextmanager
def _connected(server: Server) -> Generator[LimitedDatabase]:
    with limited(Address(server.url, server.schema, 2 * _WAIT_S), _WAIT_S) as db:
        yield db


def opens(server: Server) -> Iterator[Check]:
    """Report whether the server answers, and how soon; and whether there is a store of this release."""
    began = time.monotonic()
    with _connected(server) as db:
        connected_s = time.monotonic() - began
        (release,) = db.row("SHOW server_version")
        began = time.monotonic()
        db.row("SELECT 1")
        trip_s = time.monotonic() - began
        said = f"{server.location} answers: PostgreSQL {release.split()[0]}, {connected_s * 1000:.0f} ms to connect"
        if trip_s > _SLOW_S:
            fix = "run the programs nearer to the server: each commit takes as long"
            yield warn("server", f"{said}, {trip_s * 1000:.0f} ms a round trip", fix)
        else:
            yield well("server", f"{said}, {trip_s * 1000:.1f} ms a round trip")
        check_version(db, Address(server.url, server.schema, _WAIT_S))
        yield well("store", f"schema {server.schema!r} has version {VERSION}")


def settings(server: Server) -> Iterator[Check]:
    """Report settings of the server with which acknowledged steps can be lost."""
    with _connected(server) as db:
        off = [name for name in _SETTINGS if db.row(f"SHOW {name}")[0] != "on"]
    found = [warn("durability", f"{name} is off: {_SETTINGS[name]}", f"{name} = on in postgresql.conf") for name in off]
    yield from few(found, well("durability", "the server waits for its disk"))


def leases(server: Server) -> Iterator[Check]:
    """Report which runs own harnesses, and those whose lease has lapsed."""
    with _connected(server) as db:
        rows = db.rows(_LEASES)
    found: list[Check] = []
    for owner, count, name, left_s in rows:
        whose = one_line(name) if count == 1 else f"{one_line(name)} and {count - 1} more"
        if left_s is not None and left_s > 0:
            found.append(well("leases", f"run {owner} owns {whose}; its lease lasts {left_s:.1f} s without a renewal"))
        else:
            when = "over a day ago" if left_s is None else f"{-left_s:.0f} s ago"
            found.append(
                warn("leases", f"run {owner} is gone: its lease on {whose} lapsed {when}", "start them on any machine")
            )
    yield from few(found, well("leases", "no program runs a harness of this store"))


def repair_server(server: Server, *, as_json: bool) -> Iterator[str]:
    """Upgrade the schema of a store, and yield what was done.

    Raises:
        StoreUnusable: the server does not answer, has no store there, or one of a newer release.
    """
    address = Address(server.url, server.schema, 2 * _WAIT_S)
    with _connected(server) as db:
        before = find_version(db, address)
        if before:
            prepare(db, address)
        check_version(db, address)
    if as_json:
        yield json_line({"store": server.address, "schema_before": before, "repaired": before != VERSION})
    elif before == VERSION:
        yield f"{server.location} is untouched: there is nothing to repair"
    else:
        yield f"{server.location} upgraded from schema version {before} to {VERSION}"
