"""Forking: the checks that every store shares, and how SQLite makes a fork.

Invariant: the origin is only read; a copy differs from the original only in the number of its record and in its run. Messages
are not copied, so no copied step has consumed any.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence

from attrs import frozen

from orchestrator.codec import decode, encode
from orchestrator.errors import StoreCorrupt, UsageError
from orchestrator.events import Forked
from orchestrator.store.encryption import FieldCipher, hidden_row
from orchestrator.store.rules.effect_rules import pruned, underivable
from orchestrator.store.rules.state_rules import add_version, versions_of, versions_until
from orchestrator.store.store_protocol import Fork, StepRow, VersionRow

MOST_BESIDE = 100_000
"""Limit on the steps of a fork within a store that a program is running on: copying them delays it for about 0.6 s."""
_PAGE = 1000
_PORTION = 10_000
_COPY = """
INSERT INTO records (harness, epoch, attempt, step, time_us, body, kind, state)
    SELECT :fork, 1, r.attempt, r.step, r.time_us,
           CASE WHEN instr(r.body, '"consumed"') THEN json_remove(r.body, '$.consumed') ELSE r.body END, 'step', r.state
    FROM step_index i JOIN records r ON r.seq = i.seq
    WHERE i.harness = :origin AND i.step >= :first AND i.step <= :last ORDER BY i.step
"""
_INDEX = (
    "INSERT INTO step_index (harness, step, seq) SELECT :fork, step, :shift + step FROM step_index "
    "WHERE harness = :origin AND step <= :step ORDER BY step",
    "INSERT INTO snapshots (harness, step, seq) SELECT :fork, step, :shift + step FROM snapshots "
    "WHERE harness = :origin AND step <= :step ORDER BY step",
    "UPDATE meta SET indexed_seq = :shift + :step",
)
"""The records are numbered consecutively, so the position of each copy is computed and not searched for."""
_INSERT = (
    "INSERT INTO records (harness, epoch, attempt, step, time_us, body, kind, state) VALUES (?, 1, ?, ?, ?, ?, 'step', ?)"
)
_INSERT_BESIDE = "INSERT INTO records (harness, epoch, attempt, step, time_us, body, kind) VALUES (?, 1, ?, ?, ?, ?, ?)"
_MAKE = """
INSERT INTO harnesses (name, class, initial_state, owner, epoch, status, attempt, event, time_us)
    VALUES (?, ?, ?, NULL, 1, 'new', ?, ?, ?)
"""
_LAST = """
SELECT r.attempt, r.seq, coalesce(c.run, '') FROM step_index i JOIN records r ON r.seq = i.seq
LEFT JOIN claims c ON c.harness = r.harness AND c.epoch = r.epoch WHERE i.harness = ? AND i.step = ?
"""


@frozen
class Origin:
    """What is known of the harness that is forked."""

    harness_class: str
    initial_state: str
    attempt: int = 0
    """Attempt of the last copied step; `seq` and `run` are those of its record."""
    seq: int = 0
    run: str = ""
    versions: Sequence[VersionRow] = ()
    """Versions of the copied states."""


def check_fork(fork: Fork, *, taken: bool, head: int, oldest: int = 1, saved: int = 0) -> None:
    """Raise if a fork is not possible.

    Args:
        taken: whether there is a harness of the new name.
        head: the last step of the origin.
        oldest: its oldest existing step; earlier ones were pruned.
        saved: the last step with a snapshot up to the fork's step; 0 if there is none.

    Raises:
        UsageError: the name is taken, there is no such step, or its state can no longer be derived.
    """
    if taken:
        raise UsageError(f"harness {fork.name!r} exists already: expected a new name for a fork; choose another")
    if not 0 <= fork.step <= head:
        raise UsageError(
            f"harness {fork.origin!r} has no step {fork.step} to fork from: expected a number from 0 to {head}, its last step"
        )
    if 0 < fork.step < oldest:
        raise pruned(fork.origin, fork.step, oldest)
    if fork.step and oldest > 1 and not saved:
        raise underivable(fork.origin, fork.step)


def check_room(fork: Fork, pid: int | None, location: str) -> None:
    """Raise if a fork would keep a program from writing for too long.

    Args:
        pid: a living program that owns harnesses in this store, perhaps this one.

    Raises:
        UsageError: it would.
    """
    if fork.step > MOST_BESIDE:
        raise UsageError(
            f"harness {fork.origin!r} cannot be forked at step {fork.step} within {location} beside process {pid or '?'}: "
            f"expected at most {MOST_BESIDE} steps, since copying blocks that process for seconds; fork into another store, "
            "or end it"
        )


def forked(fork: Fork, origin: Origin) -> Forked:
    """Return the event that describes the fork."""
    store = fork.past.location if fork.past is not None else ""
    elsewhere = f" in {store}" if store else ""
    more = f" and {fork.rounds} model call{'s' * (fork.rounds != 1)} of the next" if fork.rounds else ""
    other = f" with {fork.model}" if fork.model else ""
    return Forked(
        origin=fork.origin,
        origin_step=fork.step,
        origin_seq=origin.seq,
        origin_run=origin.run,
        origin_store=store,
        cause=f"forked from {fork.origin!r}{elsewhere} at step {fork.step}{more}{other}; start it to continue from there",
        model=fork.model,
        rounds=fork.rounds,
    )


def copy_step(row: StepRow) -> StepRow:
    """Return the copy of a step."""
    if '"consumed"' not in row.body:
        return row
    body = decode(row.body)
    return row._replace(body=encode({name: value for name, value in body.items() if name != "consumed"}))


def rows_of(fork: Fork, read: Callable[[int, int], Sequence[StepRow]], oldest: int = 1) -> Iterator[StepRow]:
    """Yield the copies of the steps.

    Args:
        oldest: the first step that there is; earlier ones were pruned.

    Raises:
        StoreCorrupt: one of them is missing.
    """
    after = oldest - 1
    while after < fork.step:
        page = read(after, min(_PAGE, fork.step - after))
        if not page or page[0].step != after + 1:
            raise StoreCorrupt(f"harness {fork.origin!r} cannot be forked: its step {after + 1} is missing")
        yield from map(copy_step, page)
        after = page[-1].step


def make_fork(db: sqlite3.Connection, fork: Fork, run: str, origin: Origin, source: int | None, cipher: FieldCipher) -> int:
    """Write a fork; return the `seq` of its event. The index must be up to date.

    Args:
        source: number of the origin, if it is in this store.
        cipher: encrypts data from another store; `origin` has its state as it is stored.
    """
    event = encode(forked(fork, origin))
    made = (fork.name, origin.harness_class, origin.initial_state, origin.attempt, event, fork.time_us)
    number = db.execute(_MAKE, made).lastrowid
    assert number is not None
    db.execute("INSERT INTO claims (harness, epoch, run) VALUES (?, 1, ?)", (number, run))
    for row in origin.versions:
        add_version(db, number, row)
    if source is not None and fork.step:
        _copy(db, fork, number, source)
    elif fork.past is not None:
        rows = (hidden_row(cipher, row) for row in rows_of(fork, fork.past.rows))
        db.executemany(_INSERT, ((number, row.attempt, row.step, row.time_us, row.body, row.state) for row in rows))
    cursor = db.execute(
        "INSERT INTO records (harness, epoch, attempt, step, time_us, body, kind) VALUES (?, 1, ?, ?, ?, ?, ?)",
        (number, origin.attempt, fork.step, fork.time_us, event, Forked.kind),
    )
    assert cursor.lastrowid is not None
    db.executemany(_INSERT_BESIDE, ((number, *row[2:]) for row in fork.beside))
    return cursor.lastrowid


def _copy(db: sqlite3.Connection, fork: Fork, number: int, source: int) -> None:
    (before,) = db.execute("SELECT coalesce(max(seq), 0) FROM records").fetchone()
    (oldest,) = db.execute("SELECT min(step) FROM step_index WHERE harness = ?", (source,)).fetchone()
    where = {"fork": number, "origin": source, "step": fork.step, "shift": before + 1 - oldest}
    expected = fork.step + 1 - oldest
    # In portions: when SQLite reads from and writes to the same table, it holds what it reads in memory.
    portions = [(first, min(first + _PORTION - 1, fork.step)) for first in range(oldest, fork.step + 1, _PORTION)]
    copies = sum(db.execute(_COPY, {**where, "first": first, "last": last}).rowcount for first, last in portions)
    if copies != expected:
        raise StoreCorrupt(f"harness {fork.origin!r} cannot be forked: expected {expected} steps, found {copies}")
    for statement in _INDEX:
        db.execute(statement, where)


def origin_in(db: sqlite3.Connection, harness: int, step: int) -> Origin:
    """Return what is known of an origin in this store, at one of its steps."""
    cls, initial = db.execute("SELECT class, initial_state FROM harnesses WHERE id = ?", (harness,)).fetchone()
    versions = versions_until(versions_of(db, harness), step)
    attempt, seq, run = db.execute(_LAST, (harness, step)).fetchone() or (0, 0, "")
    return Origin(cls, initial, attempt, seq, run, versions)
