"""The state of a harness at any step: the last snapshot before it and the deltas since, each page read as one row."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from attrs import frozen

from orchestrator.errors import UsageError
from orchestrator.store.encryption import FieldCipher
from orchestrator.store.file.schema import LAST_SNAPSHOT
from orchestrator.store.rules.effect_rules import pruned, underivable
from orchestrator.store.rules.state_rules import derive

_LAST_IN_TAIL = """
SELECT step, state FROM records
WHERE seq > (SELECT indexed_seq FROM meta) AND harness = :harness AND step <= :step
AND kind = 'step' AND state IS NOT NULL
ORDER BY seq DESC LIMIT 1
"""
_MOST = (1 << 63) - 1
_PAGE = 1024
_PAGE_FIRST = 64
_PAGE_BYTES = 32_000_000
"""Limit on the bytes of bodies joined at once, except for a single one, so that a page fits into memory."""
_READ = "SELECT count(*), max(step), group_concat(body) FROM ({}) "
_BODIES = _READ.format("""
    SELECT i.step AS step, r.body AS body FROM step_index i JOIN records r ON r.seq = i.seq
    WHERE i.harness = :harness AND i.step > :after AND i.step <= :step ORDER BY i.step LIMIT :page
""")
_BODIES_IN_TAIL = _READ.format("""
    SELECT step, body FROM records WHERE seq > (SELECT indexed_seq FROM meta)
    AND harness = :harness AND step > :after AND step <= :step AND kind = 'step' ORDER BY seq LIMIT :page
""")
"""One row for many steps, since SQLite releases the interpreter for each row. `kind` comes last: it lies behind the body."""


@frozen
class Found:
    """What was found of one state."""

    state: str
    """JSON of the state, if no step is missing."""
    saved: int
    """Step of the snapshot it is derived from; 0 for the initial state."""
    steps: int
    """How many of the steps after the snapshot were found."""


def check_found(name: str, step: int, found: Found, oldest: int | None) -> None:
    """Raise if a state does not exist.

    Args:
        oldest: the oldest existing step; None if there is none.

    Raises:
        UsageError: there is no such step, or it was pruned.
    """
    if oldest is not None and 0 < step < oldest:
        raise pruned(name, step, oldest)
    if step != found.saved + found.steps and oldest is not None and oldest > 1 and not found.saved:
        raise underivable(name, step)
    if step != found.saved + found.steps:
        raise UsageError(f"harness {name!r} has no step {step}: expected a number from 0 to its last step")


def find_state(db: sqlite3.Connection, harness: int, step: int, cipher: FieldCipher) -> Found:
    """Return the state after a step; if steps are missing, that of the snapshot.

    Raises:
        StoreCorrupt: the records are not valid.
        StoreUnusable: it is encrypted, and the key is missing or wrong.
    """
    # A number that SQLite cannot hold is not a step either.
    step = max(-1, min(step, _MOST))
    where = {"harness": harness, "step": step}
    saved, state = db.execute(_LAST_IN_TAIL, where).fetchone() or db.execute(LAST_SNAPSHOT, where).fetchone()
    state = cipher.reveal("state", state)
    steps = 0

    def texts() -> Iterator[str]:
        nonlocal steps
        for count, last, text in _pages(db, harness, saved, step):
            steps += count
            if last == saved + steps:  # none is missing so far
                yield text

    derived = derive(state, texts(), cipher)
    return Found(derived if steps == step - saved else state, saved, steps)


def _pages(db: sqlite3.Connection, harness: int, after: int, step: int) -> Iterator[tuple[int, int, str]]:
    """Yield the number of steps, the last one and their bodies, page by page."""
    for query in (_BODIES, _BODIES_IN_TAIL):
        page, asked, count = _PAGE_FIRST, 0, 0
        while after < step and count == asked:
            where = {"harness": harness, "after": after, "step": step, "page": page}
            found = _join_page(db, query, where, single=page == 1)
            if found is None:
                page //= 2
                continue
            asked, (count, last, text) = page, found
            if count:
                after = last
                yield count, last, text
                page = max(1, min(_PAGE, 4 * page, _PAGE_BYTES * count // (2 * len(text) + 1)))


def _join_page(db: sqlite3.Connection, query: str, where: dict[str, int], *, single: bool) -> tuple[int, int, str] | None:
    """Return a page, or None if it is too large. SQLite itself stops at a limit; checking first would read it all twice."""
    if single:
        return db.execute(query, where).fetchone()  # type: ignore[no-any-return]
    limit = db.getlimit(sqlite3.SQLITE_LIMIT_LENGTH)
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(limit, _PAGE_BYTES))
    try:
        return db.execute(query, where).fetchone()  # type: ignore[no-any-return]
    except sqlite3.DataError:
        return None
    finally:
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limit)
