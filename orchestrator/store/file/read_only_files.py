"""Reading a store where nothing can be written: on a read-only mount, in a read-only folder, by a user without rights to it.

SQLite reads a write-ahead log by a file of shared memory that it makes beside the store. Where it cannot make one, a log that
is there is read into memory, and a store without a log as it is. Nobody holds a lock then: who writes meanwhile, by another
way to the file, may be seen in parts.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

ConnectionT = TypeVar("ConnectionT", bound=sqlite3.Connection)

_LOOK = "SELECT count(*) FROM sqlite_master"


def connect_reader(path: Path, factory: type[ConnectionT], *, check_same_thread: bool = True) -> ConnectionT:
    """Return a connection that reads, whatever can be written beside the file."""
    uri = f"file:{quote(str(path))}?mode=ro"
    for suffix, statement in ("", ""), *_without_shared_memory(path):
        db = sqlite3.connect(
            uri + suffix, uri=True, isolation_level=None, check_same_thread=check_same_thread, factory=factory
        )
        try:
            if statement:
                db.execute(statement)
            db.execute(_LOOK).fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                return db  # what is wrong with it is told when it is read
            db.close()
        except sqlite3.DatabaseError:
            return db
        else:
            return db
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=check_same_thread, factory=factory)


def _without_shared_memory(path: Path) -> list[tuple[str, str]]:
    """Return how to open it without: what to add to its address, and a statement before the first."""
    log = Path(f"{path}-wal")
    if os.access(path.parent, os.W_OK, effective_ids=os.access in os.supports_effective_ids) or not path.is_file():
        return []
    if log.exists() and log.stat().st_size:
        return [("&vfs=unix-none", "PRAGMA locking_mode = EXCLUSIVE")]
    return [("&immutable=1", "")]
