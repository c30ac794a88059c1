"""The budgets of the SQLite store: the tables of `orchestrator.store.file.schema`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable
from typing import Any

from harnesses.budgets.budget import budget_of, spend_of
from harnesses.budgets.pools import Account
from orchestrator.codec import decode, encode_private
from orchestrator.store.rules.budget_rules import Open

_COLUMNS = "o.id, o.harness, o.epoch, o.attempt, o.step, o.pools, o.amounts"


class SqliteBudgetRows:
    """Accounts and reservations in one SQLite file.

    Args:
        db: the open connection of the writer.
        run: whose harnesses are alive without asking.
        is_alive: whether another run is.
    """

    def __init__(self, db: sqlite3.Connection, run: str, is_alive: Callable[[str], bool]) -> None:
        self._db = db
        self._run = run
        self._is_alive = is_alive

    def account(self, pool: str) -> Account:
        row = self._db.execute("SELECT limits, spent, reserved FROM pools WHERE pool = ?", (pool,)).fetchone()
        return Account() if row is None else _account(*row)

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
        pools, amounts = encode_private(reservation.pools), encode_private(reservation.amounts.plain())
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
        return [_open(*row) for row in rows]


def accounts(db: sqlite3.Connection, pools: Collection[str] | None) -> dict[str, Account]:
    """Return where pools stand, all or some, by name."""
    some = "" if pools is None else f"WHERE pool IN ({', '.join('?' * len(pools))})"
    rows = db.execute(f"SELECT pool, limits, spent, reserved FROM pools {some} ORDER BY pool", tuple(pools or ())).fetchall()
    return {pool: _account(*columns) for pool, *columns in rows}


def _account(limits: str, spent: str, reserved: str) -> Account:
    return Account(budget_of(decode(limits)), spend_of(decode(spent)), spend_of(decode(reserved)))


def _open(id: int, harness: int, epoch: int, attempt: int, step: int, pools: Any, amounts: Any) -> Open:
    return Open(id, harness, epoch, attempt, step, tuple(decode(pools)), spend_of(decode(amounts)))
