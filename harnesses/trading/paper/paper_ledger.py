"""Stores the books of a simulated venue: in memory, or in a small SQLite file of its own.

Invariant: `write` is atomic, and durable when it returns (WAL, `synchronous=FULL`). After a failed write the contents of the
disk are unknown, so the ledger refuses all calls until it is opened again.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from bisect import bisect_right
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import msgspec

from harnesses.processes.fork_safety import close_unshared, keep_from_forks
from harnesses.trading.market.broker import BrokerUnavailable
from harnesses.trading.market.orders import Fill, OrderReport
from harnesses.trading.paper.paper_books import Books, Matched

_APPLICATION_ID, _VERSION = 0x50617072, 1
"""`PRAGMA application_id` of the files ("Papr"), and `user_version`."""
_TABLES = (
    "CREATE TABLE books (id INTEGER PRIMARY KEY CHECK (id = 1), body TEXT NOT NULL)",
    "CREATE TABLE orders (client_id TEXT PRIMARY KEY, symbol TEXT NOT NULL, body TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE fills (symbol TEXT NOT NULL, number INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (symbol, number))"
    " WITHOUT ROWID",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_VERSION}",
)


class MemoryLedger:
    """A ledger that ends with the program."""

    def __init__(self, first: Books) -> None:
        self._books = first
        self._reports: dict[str, OrderReport] = {}
        self._fills: dict[str, list[Fill]] = {}

    def books(self) -> Books:
        """Return the last written books."""
        return self._books

    def report(self, client_id: str) -> OrderReport | None:
        """Return the last report of an order; None if there has been no such order."""
        return self._reports.get(client_id)

    def fills(self, symbol: str, after: int) -> Sequence[Fill]:
        """Return the fills of a symbol with a number above `after`, in order."""
        fills = self._fills.get(symbol)
        if not fills or _number(fills[-1]) <= after:
            return ()
        return fills[bisect_right(fills, after, key=_number) :]

    def write(self, matched: Matched) -> None:
        """Store the books and the new reports and fills."""
        self._books = matched.books
        for report in matched.reports:
            self._reports[report.client_id] = report
        for fill in matched.fills:
            self._fills.setdefault(fill.symbol, []).append(fill)

    def close(self) -> None:
        pass


class FileLedger:
    """A ledger in a file, created if missing. Next to it are SQLite's `-wal` and `-shm` files, and `<file>.lock`.

    Args:
        first: the initial books of a new file.

    Raises:
        BrokerUnavailable: another process, or another broker in this one, has it open; or it is not a ledger.
    """

    def __init__(self, path: Path, first: Books) -> None:
        self._path, self._books = path, first
        self._broken = ""
        self._pid = os.getpid()
        self._lock = _locked(path)
        try:
            with self._translated("cannot be opened"):
                self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            try:
                with self._translated("cannot be opened"):
                    self._prepare()
            except BaseException:
                self._db.close()
                raise
        except BaseException:
            close_unshared(self._lock)
            raise

    def books(self) -> Books:
        self._check()
        return self._books

    def report(self, client_id: str) -> OrderReport | None:
        found = self._one("SELECT body FROM orders WHERE client_id = ?", client_id)
        return None if found is None else msgspec.json.decode(found, type=OrderReport)

    def fills(self, symbol: str, after: int) -> Sequence[Fill]:
        with self._translated("cannot be read"):
            query = "SELECT body FROM fills WHERE symbol = ? AND number > ? ORDER BY number"
            return [msgspec.json.decode(body, type=Fill) for (body,) in self._db.execute(query, (symbol, after))]

    def write(self, matched: Matched) -> None:
        with self._translated("cannot be written"):
            self._broken = "had a write interrupted"
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.execute("INSERT OR REPLACE INTO books VALUES (1, ?)", (_text(matched.books),))
                reports = [(report.client_id, report.symbol, _text(report)) for report in matched.reports]
                self._db.executemany("INSERT OR REPLACE INTO orders VALUES (?, ?, ?)", reports)
                fills = [(fill.symbol, _number(fill), _text(fill)) for fill in matched.fills]
                self._db.executemany("INSERT INTO fills VALUES (?, ?, ?)", fills)
                self._db.execute("COMMIT")
                self._books, self._broken = matched.books, ""
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise

    def close(self) -> None:
        if self._lock >= 0 and os.getpid() == self._pid:
            self._db.close()
            close_unshared(self._lock)
            self._lock, self._broken = -1, "was closed"

    def _one(self, query: str, *values: str) -> str | None:
        with self._translated("cannot be read"):
            found = self._db.execute(query, values).fetchone()
            return None if found is None else str(found[0])

    def _prepare(self) -> None:
        """Check the format of the file, or create it."""
        questions = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        application, version, tables = (self._db.execute(question).fetchone()[0] for question in questions)
        if tables and (application, version) != (_APPLICATION_ID, _VERSION):
            raise BrokerUnavailable(f"{self._path} is a database of another kind: expected a paper venue's; give another path")
        mode = self._db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise BrokerUnavailable(f"{self._path} cannot use a write-ahead log (mode {mode!r}): put it on a local disk")
        self._db.execute("PRAGMA synchronous = FULL")
        if not tables:
            self._db.execute("BEGIN IMMEDIATE")
            for statement in _TABLES:
                self._db.execute(statement)
            self._db.execute("INSERT INTO books VALUES (1, ?)", (_text(self._books),))
            self._db.execute("COMMIT")
        self._books = msgspec.json.decode(self._db.execute("SELECT body FROM books").fetchone()[0], type=Books)

    @contextmanager
    def _translated(self, what: str) -> Generator[None]:
        """Convert SQLite's errors to `BrokerUnavailable`."""
        self._check()
        try:
            yield
        except sqlite3.Error as error:
            raise BrokerUnavailable(f"the paper venue's file {self._path} {what}: {error}") from error

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise BrokerUnavailable(
                f"the paper venue's file {self._path} is open in process {self._pid}, of which this process is a fork"
            )
        if self._broken:
            raise BrokerUnavailable(f"the paper venue's file {self._path} {self._broken}; open it again")


Ledger: TypeAlias = MemoryLedger | FileLedger
"""Stores a simulated venue's books, reports and fills."""


def _locked(path: Path) -> int:
    """Return the descriptor of the lock file, locked. The operating system releases the lock when the process ends."""
    beside = path.with_name(f"{path.name}.lock")
    try:
        descriptor = os.open(beside, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BrokerUnavailable(f"the paper venue's file {path} cannot be created: {error}; check its folder") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 20).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise BrokerUnavailable(
            f"the paper venue's file {path} is in use by process {holder}: expected no other broker on it; end that one, "
            "or give another path"
        ) from None
    keep_from_forks(descriptor)
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def _text(value: Books | OrderReport | Fill) -> str:
    return msgspec.json.encode(value).decode()


def _number(fill: Fill) -> int:
    return int(fill.fill_id)
