"""Budgets, approvals, children and mailboxes in a SQLite store: rows of the tables in `orchestrator.store.file.schema`.

Writes happen within the transaction of a commit.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from attrs import frozen

from harnesses.attachments import CHILD
from harnesses.budgets.pools import Account
from orchestrator.codec import encode_private
from orchestrator.lifecycle import Status
from orchestrator.records import ChildRecord, name_in
from orchestrator.store.encryption import FieldCipher, reveal_body
from orchestrator.store.file.schema import CHILDREN, CHILDREN_OF
from orchestrator.store.rules.approval_rules import Filed
from orchestrator.store.rules.budget_rules import Open, account_of, open_of
from orchestrator.store.store_operations import (
    ConsumedRow,
    Post,
    unknown_recipient,
)

_COLUMNS = "o.id, o.harness, o.epoch, o.attempt, o.step, o.pools, o.amounts"


@frozen(eq=False)
class SqliteBudgetRows:
    """Accounts and reservations in one SQLite file.

    Args:
        db: the open connection of the writer.
        run: the run whose harnesses are known to be alive.
        is_alive: returns whether another run is alive.
    """

    _db: sqlite3.Connection
    _run: str
    _is_alive: Callable[[str], bool]

    def account(self, pool: str) -> Account:
        row = self._db.execute("SELECT limits, spent, reserved FROM pools WHERE pool = ?", (pool,)).fetchone()
        return Account() if row is None else account_of(*row)

    def has(self, pool: str) -> bool:
        return self._db.execute("SELECT 1 FROM pools WHERE pool = ?", (pool,)).fetchone() is not None

    def keep(self, pool: str, account: Account, time_us: int) -> None:
        texts = [encode_private(part.plain()) for part in (account.budget, account.spent, account.reserved)]
        self._db.execute("INSERT OR REPLACE INTO pools VALUES (?, ?, ?, ?, ?)", (pool, *texts, time_us))

    def find(self, id: int) -> Open | None:
        return next(iter(self._select("WHERE o.id = ?", id)), None)

    def of(self, harness: int) -> Iterable[Open]:
        return self._select("WHERE o.harness = ? ORDER BY o.id", harness)

    def add(self, reservation: Open) -> None:
        pools, amounts = encode_private(reservation.pools), encode_private(reservation.plain())
        place = (reservation.harness, reservation.epoch, reservation.attempt, reservation.step)
        self._db.execute(
            "INSERT INTO open_reservations VALUES (?, ?, ?, ?, ?, ?, ?)", (reservation.id, *place, pools, amounts)
        )

    def drop(self, id: int) -> None:
        self._db.execute("DELETE FROM open_reservations WHERE id = ?", (id,))

    def abandoned(self) -> Iterable[Open]:
        owners = self._db.execute(
            "SELECT DISTINCT h.owner FROM open_reservations o JOIN harnesses h ON h.id = o.harness WHERE h.owner <> ?",
            (self._run,),
        ).fetchall()
        dead = [owner for (owner,) in owners if not self._is_alive(owner)]
        marks = ", ".join("?" * len(dead))
        return self._select(
            f"JOIN harnesses h ON h.id = o.harness WHERE h.owner IS NULL OR h.epoch <> o.epoch OR h.owner IN ({marks})", *dead
        )

    def _select(self, rest: str, *values: object) -> list[Open]:
        rows = self._db.execute(f"SELECT {_COLUMNS} FROM open_reservations o {rest}", values).fetchall()
        return [open_of(*row) for row in rows]


def accounts(db: sqlite3.Connection, pools: Collection[str] | None) -> dict[str, Account]:
    """Return the accounts of pools, all or some, by name."""
    some = "" if pools is None else f"WHERE pool IN ({', '.join('?' * len(pools))})"
    rows = db.execute(f"SELECT pool, limits, spent, reserved FROM pools {some} ORDER BY pool", tuple(pools or ())).fetchall()
    return {pool: account_of(*columns) for pool, *columns in rows}


# Not by `approval_index`, since deleting an answer there must not undo it. SQLite itself maintains the index
# `approval_records` used here, but uses it only for a condition written as in its definition.
OF_REQUEST = """
SELECT r.kind, r.harness, coalesce(h.name, ''), r.step, r.body FROM records r LEFT JOIN harnesses h ON h.id = r.harness
WHERE r.seq >= (SELECT min(seq) FROM approval_index WHERE id = :id)
  AND r.kind <> 'step' AND r.kind IN ('approval_requested', 'approval_answered', 'approval_used')
  AND instr(r.body, :id) AND r.body ->> '$.id' = :id
ORDER BY r.seq
"""
# CROSS JOIN keeps SQLite's planner from reading every record and looking for it in the index.
ALL_FILED = """
SELECT i.id, r.seq, r.time_us, r.kind, r.harness, coalesce(h.name, ''), r.step, r.body
FROM approval_index i CROSS JOIN records r ON r.seq = i.seq LEFT JOIN harnesses h ON h.id = r.harness ORDER BY i.seq
"""


_GONE = """
SELECT 1 FROM approval_index i LEFT JOIN records r ON r.seq = i.seq WHERE i.id = ? AND r.seq IS NULL LIMIT 1
"""


@frozen(eq=False)
class SqliteApprovalRows:
    """The records of approvals in one SQLite file."""

    _db: sqlite3.Connection
    _cipher: FieldCipher

    def newest(self, harness: int, digest: str) -> str | None:
        row = self._db.execute(
            "SELECT id FROM approval_index WHERE harness = ? AND digest = ? ORDER BY seq DESC LIMIT 1", (harness, digest)
        ).fetchone()
        return None if row is None else str(row[0])

    def of(self, id: str) -> Sequence[Filed]:
        found = [_to_filed(self._cipher, *row) for row in self._db.execute(OF_REQUEST, {"id": id})]
        gone = self._db.execute(_GONE, (id,)).fetchone()
        if gone is not None and found:
            # A record that is gone may have been a denial, so the request has no valid standing.
            found.append(found[0]._replace(kind="approval_answered", body=""))
        return found

    def file(self, seq: int, id: str, harness: int, digest: str) -> None:
        self._db.execute("INSERT INTO approval_index VALUES (?, ?, ?, ?)", (seq, id, harness, digest))


def all_filed(db: sqlite3.Connection, cipher: FieldCipher) -> Iterator[tuple[str, int, int, Filed]]:
    """Yield id, `seq`, time and content of every approval record, oldest first."""
    for id, seq, time_us, *rest in db.execute(ALL_FILED):
        yield id, seq, time_us, _to_filed(cipher, *rest)


def _to_filed(cipher: FieldCipher, kind: str, harness: int, name: str, step: int, body: str) -> Filed:
    return Filed(kind, harness, name, step, reveal_body(cipher, kind, body))


def read_children(db: sqlite3.Connection, cipher: FieldCipher, harness: int | None = None) -> tuple[ChildRecord, ...]:
    """Return the children of one harness, or of all, oldest first.

    Args:
        harness: its number in the store; None for all.
    """
    rows = db.execute(CHILDREN) if harness is None else db.execute(CHILDREN_OF, (harness,))
    return tuple(
        ChildRecord(
            harness=parent,
            step_number=step,
            seq=seq,
            name=name_in(body) if name is None else name,
            body=reveal_body(cipher, CHILD, body),
            status=None if status is None else Status(status),
            harness_class=harness_class or "",
        )
        for parent, step, seq, body, name, status, harness_class in rows
    )


_NEWEST_WAITING = "SELECT coalesce(max(seq), 0) FROM mailbox WHERE harness = ? AND consumed_step IS NULL AND kind <> 'reply'"
WAITING = """
SELECT count(*) FROM (
    SELECT 1 FROM mailbox WHERE harness = ? AND consumed_step IS NULL AND kind <> 'reply'
    AND (deadline_us IS NULL OR deadline_us > ?) LIMIT ?
)
"""
"""Messages that take a place in a mailbox at a moment, up to a limit; a request past its deadline takes none."""
_SAME_ID = "SELECT seq FROM mailbox WHERE harness = ? AND id = ?"
_IS_WAITING = (
    "SELECT 1 FROM mailbox WHERE seq = ? AND harness = ? AND consumed_step IS NULL AND kind <> 'reply' "
    "AND (deadline_us IS NULL OR deadline_us > ?)"
)
_INSERT = """
INSERT INTO mailbox (seq, harness, sender, body, id, kind, type, deadline_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""


def find_recipient(db: sqlite3.Connection, name: str, location: str) -> tuple[int, int | None]:
    """Return the number of a harness, and the limit of its mailbox.

    Raises:
        UnknownHarness: there is no such harness; the error names the existing ones.
    """
    row = db.execute("SELECT id, mailbox_limit FROM harnesses WHERE name = ?", (name,)).fetchone()
    if row is None:
        known = [other for (other,) in db.execute("SELECT name FROM harnesses ORDER BY id LIMIT 11")]
        raise unknown_recipient(name, known, location)
    return row  # type: ignore[no-any-return]


@frozen(eq=False)
class SqliteMailRows:
    """The mailboxes of a store, on the connection of its writer."""

    _db: sqlite3.Connection
    _location: str

    def recipient(self, name: str) -> tuple[int, int | None]:
        return find_recipient(self._db, name, self._location)

    def same(self, harness: int, id: str) -> int | None:
        row = self._db.execute(_SAME_ID, (harness, id)).fetchone()
        return None if row is None else int(row[0])

    def waiting(self, harness: int, most: int, now_us: int) -> int:
        return int(self._db.execute(WAITING, (harness, now_us, max(most, 0))).fetchone()[0])

    def is_waiting(self, used: ConsumedRow, now_us: int) -> bool:
        return self._db.execute(_IS_WAITING, (used.message, used.harness, now_us)).fetchone() is not None

    def newest_waiting(self, harness: int) -> int:
        return int(self._db.execute(_NEWEST_WAITING, (harness,)).fetchone()[0])

    def add(self, seq: int, harness: int, post: Post) -> None:
        extra = post.id or None, post.kind, post.type or None, post.deadline_us or None
        self._db.execute(_INSERT, (seq, harness, post.sender, post.body, *extra))

    def consume(self, rows: Sequence[ConsumedRow]) -> None:
        used = [(row.step, row.message, row.harness) for row in rows]
        self._db.executemany("UPDATE mailbox SET consumed_step = ? WHERE seq = ? AND harness = ?", used)
