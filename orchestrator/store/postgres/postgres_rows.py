"""Budgets, approvals, children and mailboxes in a store on PostgreSQL. Writes happen within the transaction of a commit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from attrs import frozen

from harnesses.attachments import CHILD
from harnesses.budgets.pools import Account
from orchestrator.codec import encode_private
from orchestrator.errors import UnknownHarness
from orchestrator.lifecycle import Status
from orchestrator.records import ChildRecord, name_in
from orchestrator.store.encryption import reveal_body
from orchestrator.store.postgres.postgres_connection import Database
from orchestrator.store.rules.approval_rules import Filed
from orchestrator.store.rules.budget_rules import Open, account_of, open_of
from orchestrator.store.store_operations import ConsumedRow, Post, unknown_recipient

_OPEN = "SELECT o.id, o.harness, o.epoch, o.attempt, o.step, o.pools, o.amounts FROM open_reservations o"
_KEEP = """
INSERT INTO pools VALUES (%s, %s, %s, %s, %s) ON CONFLICT (pool) DO UPDATE SET
limits = excluded.limits, spent = excluded.spent, reserved = excluded.reserved, time_us = excluded.time_us
"""
_ABANDONED = f"""
{_OPEN} JOIN harnesses h ON h.id = o.harness
WHERE h.owner IS NULL OR h.epoch <> o.epoch OR (h.owner <> %s AND NOT is_alive(h.owner))
"""


@frozen(eq=False)
class PostgresBudgetRows:
    """Accounts and reservations.

    Args:
        run: the run whose harnesses are known to be alive.
    """

    _db: Database
    _run: str

    def account(self, pool: str) -> Account:
        row = self._db.row("SELECT limits, spent, reserved FROM pools WHERE pool = %s", (pool,))
        return Account() if row is None else account_of(*row)

    def has(self, pool: str) -> bool:
        return self._db.row("SELECT 1 FROM pools WHERE pool = %s", (pool,)) is not None

    def keep(self, pool: str, account: Account, time_us: int) -> None:
        texts = [encode_private(part.plain()) for part in (account.budget, account.spent, account.reserved)]
        self._db.execute(_KEEP, (pool, *texts, time_us))

    def find(self, id: int) -> Open | None:
        return next(iter(self._select(f"{_OPEN} WHERE o.id = %s", id)), None)

    def of(self, harness: int) -> Iterable[Open]:
        return self._select(f"{_OPEN} WHERE o.harness = %s ORDER BY o.id", harness)

    def add(self, reservation: Open) -> None:
        pools, amounts = encode_private(reservation.pools), encode_private(reservation.plain())
        place = (reservation.harness, reservation.epoch, reservation.attempt, reservation.step)
        self._db.execute(
            "INSERT INTO open_reservations VALUES (%s, %s, %s, %s, %s, %s, %s)", (reservation.id, *place, pools, amounts)
        )

    def drop(self, id: int) -> None:
        self._db.execute("DELETE FROM open_reservations WHERE id = %s", (id,))

    def abandoned(self) -> Iterable[Open]:
        return self._select(_ABANDONED, self._run)

    def _select(self, query: str, value: object) -> list[Open]:
        return [open_of(*row) for row in self._db.rows(query, (value,))]


def read_accounts(db: Database, pools: Collection[str] | None) -> dict[str, Account]:
    """Return the accounts of pools, all or some, by name."""
    some = "" if pools is None else "WHERE pool = ANY(%s)"
    values = () if pools is None else (list(pools),)
    rows = db.rows(f'SELECT pool, limits, spent, reserved FROM pools {some} ORDER BY pool COLLATE "C"', values)
    return {pool: account_of(*columns) for pool, *columns in rows}


_FILED = """
SELECT i.id, r.seq, r.time_us, r.kind, r.harness, coalesce(h.name, ''), r.step, r.body
FROM approval_index i JOIN records r ON r.seq = i.seq LEFT JOIN harnesses h ON h.id = r.harness
"""


@frozen(eq=False)
class PostgresApprovalRows:
    """The records of approvals.

    Args:
        told: the harnesses that something was written for; see `PostgresOperations`.
    """

    _db: Database
    _told: set[int]

    def newest(self, harness: int, digest: str) -> str | None:
        row = self._db.row(
            "SELECT id FROM approval_index WHERE harness = %s AND digest = %s ORDER BY seq DESC LIMIT 1", (harness, digest)
        )
        return None if row is None else str(row[0])

    def of(self, id: str) -> Sequence[Filed]:
        rows = self._db.rows(f"{_FILED} WHERE i.id = %s ORDER BY i.seq", (id,))
        return [_to_filed(self._db, *row[3:]) for row in rows]

    def file(self, seq: int, id: str, harness: int, digest: str) -> None:
        self._db.execute("INSERT INTO approval_index VALUES (%s, %s, %s, %s)", (seq, id, harness, digest))
        self._told.add(harness)


def all_filed(db: Database) -> Iterator[tuple[str, int, int, Filed]]:
    """Yield id, `seq`, time and content of every approval record, oldest first."""
    for id, seq, time_us, *rest in db.rows(f"{_FILED} ORDER BY i.seq"):
        yield id, seq, time_us, _to_filed(db, *rest)


def _to_filed(db: Database, kind: str, harness: int, name: str, step: int, body: str) -> Filed:
    return Filed(kind, harness, name, step, reveal_body(db.cipher, kind, body))


def read_children(db: Database, harness: int | None = None) -> tuple[ChildRecord, ...]:
    """Return the children of one harness, or of all, oldest first."""
    of = "" if harness is None else "AND r.harness = %s"
    rows = db.rows(
        "SELECT h.name, r.step, r.seq, r.body FROM records r JOIN harnesses h ON h.id = r.harness "
        f"WHERE r.kind = 'child' AND {EVENT} {of} ORDER BY r.seq",
        () if harness is None else (harness,),
    )
    names = [name_in(row[3]) for row in rows]
    asked = "SELECT name, status, class FROM harnesses WHERE name = ANY(%s)"
    known = {name: rest for name, *rest in db.rows(asked, (names,))} if rows else {}
    found: list[ChildRecord] = []
    for name, (parent, step, seq, body) in zip(names, rows, strict=True):
        status, of_class = known.get(name, (None, ""))
        shown = reveal_body(db.cipher, CHILD, body)
        found.append(ChildRecord(parent, step, seq, name, shown, None if status is None else Status(status), of_class))
    return tuple(found)


EVENT = "r.kind NOT IN ('step', 'intent', 'outcome', 'output', 'message')"
"""Condition for the records in the index `events_of`, of a query that calls them `r`."""

WAITING = """
SELECT count(*) FROM (
    SELECT 1 FROM mailbox WHERE harness = %s AND consumed_step IS NULL AND kind <> 'reply'
    AND (deadline_us IS NULL OR deadline_us > %s) LIMIT %s
) taken
"""
"""Messages that take a place in a mailbox at a moment, up to a limit; a request past its deadline takes none."""
_NEWEST_WAITING = "SELECT coalesce(max(seq), 0) FROM mailbox WHERE harness = %s AND consumed_step IS NULL AND kind <> 'reply'"
_IS_WAITING = (
    "SELECT 1 FROM mailbox WHERE seq = %s AND harness = %s AND consumed_step IS NULL AND kind <> 'reply' "
    "AND (deadline_us IS NULL OR deadline_us > %s)"
)
_INSERT = """
INSERT INTO mailbox (seq, harness, sender, body, id, kind, type, deadline_us) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
"""


def find_recipient(db: Database, name: str, location: str) -> tuple[int, int | None]:
    """Return the number of a harness, and the limit of its mailbox.

    Raises:
        UnknownHarness: there is no such harness; the error names the existing ones.
    """
    row: tuple[int, int | None] | None = db.row("SELECT id, mailbox_limit FROM harnesses WHERE name = %s", (_safe(name),))
    if row is None:
        known = [other for (other,) in db.rows("SELECT name FROM harnesses ORDER BY id LIMIT 11")]
        raise unknown_recipient(name, known, location)
    return row


def find_harness(db: Database, name: str, location: str) -> tuple[int, str | None, bool]:
    """Return the number of a harness, its owner, and whether that is alive.

    Raises:
        UnknownHarness: there is no such harness.
    """
    row: Any = db.row("SELECT id, owner, is_alive(owner) FROM harnesses WHERE name = %s", (_safe(name),))
    if row is None:
        raise UnknownHarness(f"no harness {name!r} in {location}: start it first, or check the name")
    number, owner, alive = row
    return number, owner, bool(alive)


def _safe(text: str) -> str:
    """Return a text that PostgreSQL can hold: one with a NUL, which it refuses, is not that of anything stored."""
    return text.replace("\0", "\ufffd")


@frozen(eq=False)
class PostgresMailRows:
    """The mailboxes of a store, on the connection of its writer.

    Args:
        told: the harnesses that something was written for; see `PostgresOperations`.
    """

    _db: Database
    _location: str
    _told: set[int]

    def recipient(self, name: str) -> tuple[int, int | None]:
        return find_recipient(self._db, name, self._location)

    def same(self, harness: int, id: str) -> int | None:
        row = self._db.row("SELECT seq FROM mailbox WHERE harness = %s AND id = %s", (harness, _safe(id)))
        return None if row is None else int(row[0])

    def waiting(self, harness: int, most: int, now_us: int) -> int:
        return int(self._db.row(WAITING, (harness, now_us, max(most, 0)))[0])

    def is_waiting(self, used: ConsumedRow, now_us: int) -> bool:
        return self._db.row(_IS_WAITING, (used.message, used.harness, now_us)) is not None

    def newest_waiting(self, harness: int) -> int:
        return int(self._db.row(_NEWEST_WAITING, (harness,))[0])

    def add(self, seq: int, harness: int, post: Post) -> None:
        extra = _safe(post.id) or None, post.kind, _safe(post.type) or None, post.deadline_us or None
        self._db.execute(_INSERT, (seq, harness, _safe(post.sender), post.body, *extra))
        self._told.add(harness)

    def consume(self, rows: Sequence[ConsumedRow]) -> None:
        for row in rows:
            self._db.execute(
                "UPDATE mailbox SET consumed_step = %s WHERE seq = %s AND harness = %s", (row.step, row.message, row.harness)
            )
