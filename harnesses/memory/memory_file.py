"""The SQLite file of a memory: opened, validated, and written in whole transactions.

Invariant: any problem with the file raises a `MemoryUnusable` that names it and the remedy. Other files are never touched, and
nothing in the file is executed: one with triggers or views is refused.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path

from harnesses.files.private_files import conceal_file, conceal_key
from harnesses.memory.episode_rows import key_path
from harnesses.memory.memory_model import MemoryUnusable

APPLICATION_ID = 0x48726D6D
"""SQLite application id of a memory."""
VERSION = 1

TABLES = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
    "CREATE TABLE episodes (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, run_id TEXT NOT NULL, task_id TEXT NOT NULL, "
    "created_us INTEGER NOT NULL, trusted INTEGER NOT NULL, retracted INTEGER NOT NULL DEFAULT 0, body TEXT NOT NULL, "
    "content TEXT NOT NULL, key_id TEXT NOT NULL, signature TEXT NOT NULL) STRICT",
    "CREATE INDEX episodes_of_tasks ON episodes (run_id, task_id)",
    "CREATE VIRTUAL TABLE episode_words USING fts5 (words, tokenize = \"unicode61 remove_diacritics 0 tokenchars '-_.'\")",
    "CREATE VIRTUAL TABLE episode_terms USING fts5vocab (episode_words, row)",
    "CREATE TABLE facts (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, retracted INTEGER NOT NULL DEFAULT 0, "
    "body TEXT NOT NULL, key_id TEXT NOT NULL, signature TEXT NOT NULL) STRICT",
    "CREATE TABLE derivations (source TEXT NOT NULL, fact TEXT NOT NULL, PRIMARY KEY (source, fact)) STRICT, WITHOUT ROWID",
    "CREATE TABLE retractions (id TEXT PRIMARY KEY, reason TEXT NOT NULL, by TEXT NOT NULL, at_us INTEGER NOT NULL, "
    "because_of TEXT NOT NULL, key_id TEXT NOT NULL, signature TEXT NOT NULL) STRICT",
    "CREATE TABLE uses (id TEXT PRIMARY KEY, count INTEGER NOT NULL, last_us INTEGER NOT NULL) STRICT",
    "CREATE TABLE retrievals (id INTEGER PRIMARY KEY, at_us INTEGER NOT NULL, harness TEXT NOT NULL, run_id TEXT NOT NULL, "
    "task_id TEXT NOT NULL, agents TEXT NOT NULL, stages TEXT NOT NULL, results INTEGER NOT NULL) STRICT",
    "CREATE TABLE retrieved (episode TEXT NOT NULL, retrieval INTEGER NOT NULL, PRIMARY KEY (episode, retrieval)) "
    "STRICT, WITHOUT ROWID",
    "CREATE TABLE vectors (number INTEGER PRIMARY KEY, embedder TEXT NOT NULL, vector BLOB NOT NULL) STRICT",
    "CREATE TABLE compactions (number INTEGER PRIMARY KEY, at_us INTEGER NOT NULL, kept INTEGER NOT NULL, "
    "dropped INTEGER NOT NULL) STRICT",
)
NAMES = tuple(table.split(" ", 4)[3 if " VIRTUAL " in table else 2] for table in TABLES)


_BUSY_S = 5.0


class MemoryFile:
    """An open memory file. Thread-safe; threads take turns."""

    def __init__(self, path: Path, project: str) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        with self._explain_errors():
            _create(path)
            db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
            try:
                _prepare(db, path, project)
            except BaseException:
                db.close()
                raise
            self._db = db
            self._concealed = conceal_file(path), conceal_key(key_path(path))

    def close(self) -> None:
        """Close the file. Idempotent."""
        with self._lock:
            if self._db is not None:
                db, self._db = self._db, None
                db.close()
                for one in self._concealed:
                    one.reveal()

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """Yield the database for reading, as a consistent snapshot."""
        return self._transaction("BEGIN")

    def writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """Yield the database for writing, in one transaction."""
        return self._transaction("BEGIN IMMEDIATE")

    @contextmanager
    def _transaction(self, begin: str) -> Generator[sqlite3.Connection]:
        with self._lock, self._explain_errors():
            if self._db is None:
                raise MemoryUnusable(f"memory {self.path} is closed: expected an open one; make another EpisodicMemory")
            with _transaction(self._db, begin):
                yield self._db

    @contextmanager
    def _explain_errors(self) -> Generator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise unusable(self.path, error) from error


@contextmanager
def _transaction(db: sqlite3.Connection, begin: str) -> Generator[None]:
    db.execute(begin)
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise


def unusable(path: Path, error: Exception) -> MemoryUnusable:
    """Return the error for a file that cannot be used."""
    return MemoryUnusable(
        f"memory {path} cannot be used: {error}; restore it from a copy, or move it away to begin anew, or check its folder"
    )


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Open an existing file read-only."""
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=_BUSY_S, isolation_level=None)


def check_schema(db: sqlite3.Connection, path: Path) -> None:
    """Check that a file is a memory and contains nothing else.

    Raises:
        MemoryUnusable: it is not a memory, or was changed.
    """
    db.execute("PRAGMA trusted_schema = OFF")
    found: dict[str, tuple[str, str]] = {
        name: (kind, sql) for kind, name, sql in db.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master")
    }
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID or version != VERSION:
        raise MemoryUnusable(f"{path} is not a memory of version {VERSION}; choose another file")
    strange = sorted(name for name, (kind, _) in found.items() if kind in ("trigger", "view"))
    changed = sorted(name for name, sql in zip(NAMES, TABLES, strict=True) if found.get(name, ("", ""))[1] != sql)
    if strange or changed:
        raise MemoryUnusable(
            f"memory {path} was changed from outside: {', '.join(strange + changed)[:200]}; restore it from a copy"
        )


def _create(path: Path) -> None:
    """Create the file, accessible by its owner only: what agents have learned may be confidential."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _prepare(db: sqlite3.Connection, path: Path, project: str) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    # Losing the last episode in a power cut is acceptable, since no run depends on it.
    db.execute("PRAGMA synchronous = NORMAL")
    with _transaction(db, "BEGIN IMMEDIATE"):
        if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            for table in TABLES:
                db.execute(table)
            db.execute("INSERT INTO meta VALUES ('project', ?)", (project,))
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {VERSION}")
    check_schema(db, path)
    with closing(db.execute("SELECT value FROM meta WHERE name = 'project'")) as rows:
        found = rows.fetchone()
    if found is None or found[0] != project:
        was = found[0] if found else "nothing"
        raise MemoryUnusable(
            f"memory {path}: expected that of project {project!r}, got that of {was!r:.100}; choose another file"
        )
