"""The table of nodes: which programs run the harnesses of a fleet, and what each of them can take.

A node is a run that has put itself into the table. It is alive while the lease of its run is: it has no heartbeat besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from attrs import frozen

from harnesses.timing.clock import now_us
from orchestrator.store.postgres.postgres_connection import Database
from orchestrator.store.postgres.postgres_order_table import OPEN_STARTS
from orchestrator.store.postgres.postgres_reader import PostgresReader

_FORGET = "DELETE FROM nodes n WHERE n.fleet = %s AND n.time_us < %s AND NOT is_alive(n.run)"
_KEPT_US = 86_400_000_000
"""How long a node that was lost stays in the table."""
_JOIN = """
INSERT INTO nodes (fleet, name, run, labels, cpus, digest, time_us) VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (fleet, name) DO UPDATE SET run = excluded.run, labels = excluded.labels, cpus = excluded.cpus,
digest = excluded.digest, draining = false, unplaced = '{}', time_us = excluded.time_us
WHERE nodes.run = excluded.run OR NOT is_alive(nodes.run) RETURNING true
"""
_NAMED = """
SELECT n.run, extract(epoch FROM l.until)::float8, extract(epoch FROM l.until - clock_timestamp())::float8
FROM nodes n JOIN leases l ON l.run = n.run WHERE n.fleet = %s AND n.name = %s
"""
_TELL = "UPDATE nodes SET draining = %s, unplaced = %s WHERE fleet = %s AND name = %s AND run = %s"
_LEAVE = "DELETE FROM nodes WHERE fleet = %s AND name = %s AND run = %s"
_NODES = """
SELECT n.fleet, n.name, n.run, n.labels, n.cpus, n.digest, n.draining, n.unplaced, n.time_us,
       coalesce(extract(epoch FROM l.until - clock_timestamp()), 0)::float8
FROM nodes n LEFT JOIN leases l ON l.run = n.run WHERE %s::text IS NULL OR n.fleet = %s ORDER BY n.fleet, n.name
"""
_HARNESSES = f"""
SELECT coalesce(json_agg(json_build_array(name, CASE WHEN is_alive(owner) THEN owner END, status,
       status = 'stopped' AND (as_json(event) ->> 'program_ended')::boolean IS TRUE, name IN ({OPEN_STARTS}))
       ORDER BY id), '[]')::text FROM harnesses
"""


class HarnessPlace(msgspec.Struct, frozen=True, array_like=True):
    """Where a harness is."""

    name: str
    run: str | None
    """The living run that owns it."""
    status: str
    is_program_ended: bool
    """Whether it is stopped because its program ended."""
    is_ordered: bool = False
    """Whether somebody has ordered it to start, and no living run is there to do it."""


@frozen(kw_only=True)
class NodeRow:
    """A node as the others see it."""

    fleet: str
    name: str
    run: str
    labels: frozenset[str]
    cpus: float
    digest: str
    """Of the file or function that its harnesses are from."""
    draining: bool = False
    unplaced: dict[str, str]
    """Why harnesses that it knows are not run by any node, by their names."""
    time_us: int
    """When it joined, microseconds since 1970 by its own clock."""
    left_s: float
    """Seconds until its lease ends if it is not renewed, by the server's clock; 0 or less if it has ended."""

    @property
    def is_alive(self) -> bool:
        return self.left_s > 0


_places = msgspec.json.Decoder(list[HarnessPlace]).decode


def _node_of(row: Any) -> NodeRow:
    fleet, name, run, labels, cpus, digest, draining, unplaced, time_us, left_s = row
    return NodeRow(
        fleet=fleet,
        name=name,
        run=run,
        labels=frozenset(msgspec.json.decode(labels)),
        cpus=cpus,
        digest=digest,
        draining=draining,
        unplaced=msgspec.json.decode(unplaced),
        time_us=time_us,
        left_s=left_s,
    )


def read_nodes(db: Database, fleet: str | None = None) -> list[NodeRow]:
    """Return the nodes of one fleet, or of all, those of the last day that were lost too."""
    return [_node_of(row) for row in db.rows(_NODES, (fleet, fleet))]


def read_places(db: Database) -> list[HarnessPlace]:
    """Return where each harness of the store is."""
    return _places(db.row(_HARNESSES)[0])


@frozen(eq=False)
class NodeTable:
    """The nodes of a store, and where its harnesses are. Each method is one question to the server, and blocks.

    Raises:
        StoreUnusable: the server cannot be reached, and is not waited for any longer.
    """

    _store: PostgresReader

    def nodes(self, fleet: str | None = None) -> list[NodeRow]:
        """Return the nodes of one fleet, or of all, those of the last day that were lost too."""
        return self._store.read(lambda db: read_nodes(db, fleet))

    def places(self) -> list[HarnessPlace]:
        """Return where each harness of the store is."""
        return self._store.read(read_places)

    def look(self, fleet: str) -> tuple[list[NodeRow], list[HarnessPlace]]:
        """Return the nodes of a fleet and where the harnesses are, as of one moment."""

        def work(db: Database) -> tuple[list[NodeRow], list[HarnessPlace]]:
            return read_nodes(db, fleet), read_places(db)

        return self._store.read(work, whole=True)

    def join(self, fleet: str, name: str, run: str, labels: Sequence[str], cpus: float, digest: str) -> bool:
        """Put a run into the table; return whether it has the name: False if a living run has it."""
        now = now_us()

        def work(db: Database) -> bool:
            db.execute(_FORGET, (fleet, now - _KEPT_US))
            shown = msgspec.json.encode(sorted(labels)).decode()
            return db.row(_JOIN, (fleet, name, run, shown, cpus, digest, now)) is not None

        return self._store.read(work)

    def holder(self, fleet: str, name: str) -> tuple[str, float, float] | None:
        """Return the run that has a name, until when by the server's clock, seconds since 1970, and for how many seconds."""
        row = self._store.read(lambda db: db.row(_NAMED, (fleet, name)))
        return None if row is None else (row[0], row[1], row[2])

    def tell(self, fleet: str, name: str, run: str, *, draining: bool, unplaced: dict[str, str]) -> None:
        """Tell the others what a node is doing."""
        shown = msgspec.json.encode(unplaced).decode()
        self._store.read(lambda db: db.execute(_TELL, (draining, shown, fleet, name, run)))

    def leave(self, fleet: str, name: str, run: str) -> None:
        """Take a run out of the table."""
        self._store.read(lambda db: db.execute(_LEAVE, (fleet, name, run)))
