"""Stores the books of a shared account, who placed which order, and the fills of each member, in a small SQLite file.

Several processes may use the file at the same time. Invariants: an order is claimed before it is sent, durably (WAL,
`synchronous=FULL`), so that its fills are attributed whatever happens to the program; a fill is booked once, in the same
transaction that remembers it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from harnesses.trading.market.broker import BrokerUnavailable
from harnesses.trading.market.orders import Fill
from harnesses.trading.sharing.shared_books import SharedBooks

_APPLICATION_ID, _VERSION = 0x41636374, 1
"""`PRAGMA application_id` of the files ("Acct"), and `user_version`."""
_TABLES = (
    "CREATE TABLE books (id INTEGER PRIMARY KEY CHECK (id = 1), body TEXT NOT NULL)",
    "CREATE TABLE orders (client_id TEXT PRIMARY KEY, member TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE fills (number INTEGER PRIMARY KEY, symbol TEXT NOT NULL, fill_id TEXT NOT NULL, member TEXT NOT NULL,"
    " body TEXT NOT NULL, UNIQUE (symbol, fill_id))",
    "CREATE INDEX fills_of ON fills (member, symbol, number)",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_VERSION}",
)
_WAIT_S = 10.0
"""Maximum seconds to wait for another process that writes."""


class AccountLedger:
    """The ledger of one account; opened at its first use.

    Args:
        path: created if missing; None keeps it in memory, until the program ends.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._pid = 0
        self._db: sqlite3.Connection | None = None

    def books(self) -> SharedBooks | None:
        """Return the books; None before the first member has joined."""
        with self._opened() as db:
            return _read(db)

    def change(self, change: Callable[[SharedBooks | None], SharedBooks | None]) -> SharedBooks | None:
        """Replace the books by those that a function returns, in one transaction; return them."""
        with self._writing() as db:
            before = _read(db)
            after = change(before)
            if after is not None and after is not before:
                _write(db, after)
            return after

    def claim(self, client_id: str, member: str) -> str:
        """Note whose an order is, unless that is known; return whose it is."""
        if (known := self.owner(client_id)) is not None:
            return known
        with self._writing() as db:
            db.execute("INSERT OR IGNORE INTO orders VALUES (?, ?)", (client_id, member))
        return self.owner(client_id) or member

    def owner(self, client_id: str) -> str | None:
        """Return whose an order is; None if it is of no member."""
        with self._opened() as db:
            found = db.execute("SELECT member FROM orders WHERE client_id = ?", (client_id,)).fetchone()
            return None if found is None else str(found[0])

    def take(self, fills: Sequence[Fill]) -> None:
        """Book the fills that are new, each to the member that has claimed its order."""
        with self._writing() as db:
            before = after = _read(db)
            for fill in fills:
                found = db.execute("SELECT member FROM orders WHERE client_id = ?", (fill.client_id,)).fetchone()
                member = "" if found is None else str(found[0])
                row = (fill.symbol, fill.fill_id, member, msgspec.json.encode(fill).decode())
                is_new = db.execute("INSERT OR IGNORE INTO fills (symbol, fill_id, member, body) VALUES (?, ?, ?, ?)", row)
                if is_new.rowcount and after is not None:
                    after = after.after_fill(fill, member)
            if after is not None and after is not before:
                _write(db, after)

    def fills(self, member: str, after: Mapping[str, str | None]) -> Sequence[Fill]:
        """Return the fills of a member's orders, oldest first: by symbol, those after the one with an id, or all."""
        query = "SELECT number, body FROM fills WHERE member = ? AND symbol = ? AND number > "
        query += "coalesce((SELECT number FROM fills WHERE symbol = ? AND fill_id = ?), 0)"
        with self._opened() as db:
            found = [row for symbol, id in after.items() for row in db.execute(query, (member, symbol, symbol, id))]
        return [msgspec.json.decode(body, type=Fill) for _, body in sorted(found)]

    @contextmanager
    def _writing(self) -> Generator[sqlite3.Connection]:
        """Give a connection within a transaction that is committed at the end, or rolled back after an error."""
        with self._opened() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def _opened(self) -> Generator[sqlite3.Connection]:
        """Give the connection, and convert SQLite's errors to `BrokerUnavailable`."""
        if self._db is not None and os.getpid() != self._pid:
            raise BrokerUnavailable(f"the account's file {self.path} is open in process {self._pid}, of which this is a fork")
        try:
            if self._db is None:
                self._db, self._pid = self._open(), os.getpid()
            yield self._db
        except sqlite3.Error as error:
            raise BrokerUnavailable(
                f"the account's file {self.path} cannot be used: {error}; check it and its folder"
            ) from error

    def _open(self) -> sqlite3.Connection:
        where = ":memory:" if self.path is None else self.path
        db = sqlite3.connect(where, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("BEGIN IMMEDIATE")
            questions = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
            application, version, tables = (db.execute(question).fetchone()[0] for question in questions)
            if not tables:
                for statement in _TABLES:
                    db.execute(statement)
            elif (application, version) != (_APPLICATION_ID, _VERSION):
                raise BrokerUnavailable(f"{self.path} is a file of another kind: expected an account's; give another path")
            db.execute("COMMIT")
        except BaseException:
            db.close()
            raise
        return db


def _read(db: sqlite3.Connection) -> SharedBooks | None:
    found = db.execute("SELECT body FROM books").fetchone()
    return None if found is None else msgspec.json.decode(found[0], type=SharedBooks)


def _write(db: sqlite3.Connection, books: SharedBooks) -> None:
    db.execute("INSERT OR REPLACE INTO books VALUES (1, ?)", (msgspec.json.encode(books).decode(),))
