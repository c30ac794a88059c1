"""What is new in a SQLite store since a record, for readers that keep what they know of its harnesses.

Invariant: whatever is known of a harness from its row and its last step is the same as before unless it is in `News`, or
`is_whole` says that all of them may have changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

from orchestrator.store.file.run_lock import is_alive
from orchestrator.store.integrity.proof_findings import REPAIRED

_MOST = 50_000
"""Records that are looked through; where there are more, everything may have changed."""
_NEW = "SELECT kind, harness, step, time_us FROM records NOT INDEXED WHERE seq > ? ORDER BY seq"
_NAMES = "SELECT id, name FROM harnesses WHERE id > ? ORDER BY id"
_MARKS = "SELECT (SELECT coalesce(max(seq), 0) FROM records), (SELECT ownership FROM meta), (SELECT max(id) FROM harnesses)"
_OWNERS = "SELECT DISTINCT owner FROM harnesses WHERE owner IS NOT NULL"


@frozen
class News:
    """What is new since another `News`; the one that begins is `News()`."""

    last_seq: int = 0
    ownership: tuple[int, ...] = ()
    """Differs from an earlier one if a harness has been made, or has changed owner."""
    owners: tuple[str, ...] = ()
    """The runs that own harnesses, or did while `ownership` was the same."""
    alive: frozenset[str] = frozenset()
    """Those that are alive."""
    steps: Mapping[str, tuple[int, int]] = field(factory=dict[str, tuple[int, int]])
    """Number and time, in microseconds, of the newest step of each harness that has a new one."""
    others: Mapping[str, set[str]] = field(factory=dict[str, set[str]])
    """The harnesses that have other new records, by their kinds; an empty name stands for none."""
    names: dict[int, str] = field(factory=dict[int, str])
    """Of all harnesses, by their numbers: none is ever removed."""
    is_whole: bool = False
    """Whether so much is new, or records were removed, that everything has to be read."""


def read_news(db: sqlite3.Connection, path: Path, known: News) -> News:
    """Return what is new since an earlier answer; within a read transaction."""
    last_seq, *ownership = db.execute(_MARKS).fetchone()
    ownership = tuple(ownership)
    owners = known.owners if ownership == known.ownership else tuple(owner for (owner,) in db.execute(_OWNERS))
    alive = frozenset(owner for owner in owners if is_alive(path, owner))
    new = dict(db.execute(_NAMES, (next(reversed(known.names), 0),)))
    names = known.names | new if new else known.names
    if not known.last_seq <= last_seq <= known.last_seq + _MOST:
        return News(last_seq, ownership, owners, alive, names=names, is_whole=True)
    steps: dict[str, tuple[int, int]] = {}
    others: dict[str, set[str]] = {}
    for kind, harness, step, time_us in db.execute(_NEW, (known.last_seq,)):
        if kind == "step":
            steps[names[harness]] = step, time_us
        else:
            others.setdefault(kind, set()).add(names.get(harness, ""))
    is_whole = not others.keys().isdisjoint(("pruned", REPAIRED))
    return News(last_seq, ownership, owners, alive, steps, others, names, is_whole)
