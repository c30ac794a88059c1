"""Opening a store's file, and translating SQLite's errors. A file that cannot be used is left unchanged."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from orchestrator.errors import StoreBusy, StoreCorrupt, StoreError, StoreUnusable
from orchestrator.store.file.open_files import Writing, connect_reader
from orchestrator.store.file.schema import APPLICATION_ID, MIGRATIONS, OLDEST_READABLE, VERSION, statements
from orchestrator.store.file.schema_shape import Connection, harden
from orchestrator.store.integrity.seals import seal_anew
from orchestrator.text.command_hints import command

_SMALLEST = 512
"""Minimum size of a database in bytes: SQLite treats a smaller file as a new one."""


def open_writer(path: Path, busy_s: float) -> Connection:
    """Open the file for writing, creating or migrating it as needed.

    Raises:
        StoreUnusable: it is not a store of this program, is newer than this program, cannot be written, or is still being read
            by an analysis in this process.
    """
    _look(path)
    try:
        db = Writing.to(path, busy_s)
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY:
            raise _translate(str(path), error) from error
        raise StoreUnusable(f"{path} cannot be opened: {error}; check that its folder can be written to") from error
    try:
        with translated(str(path)):
            harden(db)
            _check(db, path)
            _hold_schema(db, path)
            mode = _switch_to_wal(db, time.monotonic() + busy_s)
            if mode != "wal":
                raise StoreUnusable(f"{path} cannot use a write-ahead log (journal mode {mode!r}): put it on a local disk")
            db.execute("PRAGMA synchronous = FULL")
            _migrate(db, path)
            # SQLite silently opens a file that it may not write, and would report that only at the first commit.
            db.execute("BEGIN IMMEDIATE")
            db.hold_schema(path)
            db.execute("UPDATE meta SET ownership = ownership")
            db.execute("ROLLBACK")
            db.execute("PRAGMA busy_timeout = 0")
    except BaseException:
        db.close()
        raise
    return db


def open_reader(path: Path, *, older: bool = False) -> Connection:
    """Open an existing file for reading only.

    Args:
        older: whether to accept a schema version before `OLDEST_READABLE`; its views must not be used.

    Raises:
        StoreUnusable: it does not exist, is not a store of this program, or is newer than this program.
    """
    if not path.exists():
        raise StoreUnusable(f"{path} is not there: expected a store; check --store, or run something first")
    _look(path)
    db = connect_reader(path, Connection, check_same_thread=False)
    try:
        with translated(str(path)):
            harden(db)
            _check(db, path)
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                raise StoreUnusable(
                    f"{path} is empty: expected a store; it is just being created, or nothing has run on it yet"
                )
            if version < OLDEST_READABLE and not older:
                raise StoreUnusable(
                    f"{path} has schema version {version}: expected {VERSION}; "
                    f"`{command(path, 'doctor', '--repair')}` brings it up to date"
                )
            _hold_schema(db, path)
            # SQLite 3.40 treats `->>` in a view as unsafe; from here on every view is known to be ours.
            db.execute("PRAGMA trusted_schema = ON")
    except BaseException:
        db.close()
        raise
    return db


def is_database(path: Path) -> bool:
    """Return whether an existing file is a SQLite database, ours or not. Only SQLite itself opens it.

    Raises:
        StoreUnusable: it cannot be read.
    """
    _look(path)
    if path.stat().st_size < _SMALLEST:
        return False
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as db:
            db.execute("PRAGMA schema_version").fetchone()
    except sqlite3.DatabaseError as error:
        return getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_NOTADB
    return True


@contextmanager
def translated(location: str) -> Generator[None]:
    """Convert SQLite's errors into ours, with a remedy."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(location, error) from error


_LOCKED = (StoreBusy, "is locked: another process has been writing for too long; end it, or try again")
_DAMAGED = (StoreCorrupt, "is damaged: {text}; restore it from a copy, or start a new store")
_ERRORS: Mapping[int, tuple[type[StoreError], str]] = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_READONLY: (StoreUnusable, "cannot be written: {text}; make the file and its folder writable"),
    sqlite3.SQLITE_CANTOPEN: (StoreUnusable, "cannot be opened: {text}; check the permissions of the file and its folder"),
    sqlite3.SQLITE_FULL: (
        StoreError,
        "cannot grow: {text}; free some space, then `orchestrator run FILE`; nothing recorded is lost",
    ),
}
_FAILED = "failed: {text}; earlier records are safe, check the disk, then `orchestrator run FILE`"


def _translate(location: str, error: sqlite3.Error) -> StoreError:
    kind, said = _ERRORS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, (StoreError, _FAILED))
    return kind(f"{location} {said.format(text=error)}")


def _look(path: Path) -> None:
    """Check the place of the file. The file is opened only by SQLite: closing any descriptor of a file releases all the locks
    that this process holds on it, including SQLite's ("How To Corrupt An SQLite Database File", 2.2).
    """
    if path.is_dir():
        raise StoreUnusable(f"{path} is a folder: expected a file")
    if not path.parent.is_dir():
        raise StoreUnusable(f"{path} cannot be created: its folder {path.parent} does not exist; create it first")
    if path.exists() and not os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
        raise StoreUnusable(f"{path} cannot be read: Permission denied; check its permissions")


def _check(db: sqlite3.Connection, path: Path) -> None:
    application, version, tables = _identity(db, path)
    if tables and application != APPLICATION_ID:
        raise StoreUnusable(f"{path} is a database of another program: expected a store made by this one")
    if version > VERSION:
        raise StoreUnusable(
            f"{path} has schema version {version}: expected at most {VERSION}; it was written by a newer release, install that"
        )


def _hold_schema(db: Connection, path: Path) -> None:
    db.execute("BEGIN")
    db.hold_schema(path)
    db.execute("COMMIT")


def _identity(db: sqlite3.Connection, path: Path) -> tuple[int, int, int]:
    """Return the application id, the schema version and the number of tables and views, all of the same moment."""
    try:
        db.execute("BEGIN")
        questions = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        application, version, tables = (db.execute(question).fetchone()[0] for question in questions)
        db.execute("COMMIT")
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_NOTADB:
            raise
        raise StoreUnusable(
            f"{path} is not a database: expected a store made by this program; it was left unchanged"
        ) from error
    return application, version, tables


def _switch_to_wal(db: sqlite3.Connection, until: float) -> str:
    """Ask for WAL and return the journal mode. SQLite itself does not wait for another process that asks at the same time."""
    while True:
        try:
            return str(db.execute("PRAGMA journal_mode = WAL").fetchone()[0])
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _migrate(db: Connection, path: Path) -> None:
    """Upgrade the schema in one transaction; a second process that tries at the same time finds it done."""
    if db.execute("PRAGMA user_version").fetchone()[0] == VERSION:
        return
    with db.writing():
        version = db.execute("PRAGMA user_version").fetchone()[0]
        for script in MIGRATIONS[version:]:
            for statement in statements(script):
                db.execute(statement)
        seal_anew(db, path, version)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {VERSION}")
