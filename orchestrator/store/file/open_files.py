"""The stores that this process has open: for writing by Python's SQLite, for reading by another SQLite library.

Invariant: a file that this process writes is opened and closed only by the SQLite that writes it. Closing any descriptor of a
file releases every lock that the process holds on it ("How To Corrupt An SQLite Database File", 2.2), and another SQLite
library, such as the one in DuckDB's extension, does not know of those locks. So a reader with another library registers first
with `reading_beside`, and provides a way to make it close the file. Whether it has closed it is checked among the process's
descriptors: a query that is not fetched to its end keeps the file open even after a detach.
"""

from __future__ import annotations

import gc
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeAlias, TypeVar
from urllib.parse import quote

from harnesses.processes.fork_safety import keep_for_ever
from orchestrator.errors import StoreUnusable
from orchestrator.store.file.schema_shape import Connection

_Identity: TypeAlias = tuple[int, int]

_DESCRIPTORS = Path("/proc/self/fd")
_BESIDE = ("-wal", "-shm", "-journal", "-summary", "-alerts")
"""Suffixes of what SQLite, analysis and alerts keep beside a store."""
_lock = threading.RLock()
_written: dict[_Identity, list[Path]] = {}
_open: weakref.WeakSet[Writing] = weakref.WeakSet()
"""Open writers; in a forked process, the parent's too."""
_beside: dict[_Identity, list[Callable[[], None]]] = {}
_ever_beside: set[_Identity] = set()


class Writing(Connection):
    """A connection that writes a store. `is_written` reports the store while it is open."""

    _of: _Identity | None = None
    _path: Path
    _pid: int

    @classmethod
    def to(cls, path: Path, busy_s: float) -> Writing:
        """Open a file, creating it if necessary, once no other SQLite library reads it.

        Raises:
            StoreUnusable: one still does.
            sqlite3.Error: it cannot be opened.
        """
        with _lock:
            _check_not_inherited(path)
            _have_let_go(path)
            with suppress(OSError):  # It exists already, or SQLite reports why it cannot be created.
                # Agents' data is private to the user. SQLite's files beside the store get the same permissions.
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o660))
            db = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False, factory=cls)
            db._pid = os.getpid()
            _open.add(db)
            # Before the first statement, which takes the first lock.
            found = _identity(path)
            if found is not None:
                db._of, db._path = found, path.resolve()
                _written.setdefault(found, []).append(db._path)
            return db

    def close(self) -> None:
        if os.getpid() != self._pid:
            return
        super().close()
        with _lock:
            if self._of is not None:
                _written[self._of].remove(self._path)
                self._of = None


def _check_not_inherited(path: Path) -> None:
    """Raise if the process that this one was forked from had the file open: SQLite would assume that it holds the locks."""
    found = _identity(path)
    if found is not None and any(db._of == found and db._pid != os.getpid() for db in _open):  # pyright: ignore[reportPrivateUsage]
        raise StoreUnusable(
            f"{path} was open in the process from which this one was forked: expected a newly started process; use "
            "`spawn` instead of `fork`, or return the results to the parent"
        )


def _keep_open() -> None:
    """Keep a forked process from closing its parent's connections, which would act on the parent's files."""
    global _lock
    _lock = threading.RLock()
    for db in list(_open):
        keep_for_ever(db)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_open)


def is_written(path: Path) -> bool:
    """Return whether this process has the file open for writing."""
    found = _identity(path)
    with _lock:
        return found is not None and bool(_written.get(found))


def is_beside_store(path: Path) -> bool:
    """Return whether this file is kept beside a store, judged by its name, or by the stores that this process writes."""
    for end in _BESIDE:
        if path.name.endswith(end) and path.name != end and path.with_name(path.name.removesuffix(end)).exists():
            return True
    found = _identity(path)
    with _lock:
        places = [place for places in _written.values() for place in places]
    return found is not None and any(found == _identity(Path(f"{place}{end}")) for place in places for end in _BESIDE)


def reading_beside(path: Path, let_go: Callable[[], None]) -> bool:
    """Register a reader with another SQLite library; return False if this process writes the file.

    Args:
        let_go: called before this process begins to write the file, until it returns without raising; must close the file.
    """
    found = _identity(path)
    with _lock:
        if found is None or is_written(path):
            return False
        _beside.setdefault(found, []).append(let_go)
        _ever_beside.add(found)
        return True


def read_no_more(path: Path, let_go: Callable[[], None]) -> None:
    """Unregister a reader: the other SQLite library has closed the file."""
    found = _identity(path)
    with _lock, suppress(KeyError, ValueError):
        if found is not None:
            _beside[found].remove(let_go)


def _have_let_go(path: Path) -> None:
    """Make readers with another SQLite library close the file. A query that is not fetched to its end keeps it open."""
    found = _identity(path)
    if found is None or found not in _ever_beside or _written.get(found):
        return
    if not _DESCRIPTORS.exists() and _beside.get(found):
        raise _still_read(path, "close")
    for let_go in list(_beside.get(found, [])):
        try:
            let_go()
        except Exception as error:
            raise _still_read(path, f"it does not close it ({error}); close") from error
        read_no_more(path, let_go)
    if _DESCRIPTORS.exists() and _is_held_beside(path.resolve(), found):
        gc.collect()
        if _is_held_beside(path.resolve(), found):
            raise _still_read(path, "fetch each of its queries to the end or drop it, close")


def _still_read(path: Path, what: str) -> StoreUnusable:
    return StoreUnusable(
        f"{path} is still being read by an analysis in this process: expected no reader that would release the writer's "
        f"locks; {what} the analysis, then start"
    )


def _is_held_beside(path: Path, found: _Identity) -> bool:
    """Return whether another SQLite library than Python's has the file open.

    Each library maps the shared memory of a file once, however many connections it has. The file itself may have more
    descriptors than connections: SQLite keeps those of closed connections while another connection has a lock.
    """
    shared = Path(f"{path}-shm")
    held = _count_descriptors(shared)
    if held == 0:
        return _count_descriptors(path, found) > 0
    if held > 1:
        return True
    # It is Python's, if Python's opens no second one.
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as db:
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return _count_descriptors(shared) > 1


def _count_descriptors(path: Path, found: _Identity | None = None) -> int:
    """Return how many descriptors of this process refer to that file, or to a deleted one of that name."""
    found = found or _identity(path)
    held = 0
    for descriptor in _DESCRIPTORS.iterdir():
        with suppress(OSError):
            held += _identity(descriptor) == found or os.readlink(descriptor) == f"{path} (deleted)"
    return held


def _identity(path: Path) -> _Identity | None:
    """Return the identity of a file, independent of its name; None if it does not exist or cannot be examined."""
    try:
        return _find(path)
    except OSError:
        return None


def _find(file: str | Path) -> _Identity | None:
    """Return the identity of a file; None if it does not exist.

    Raises:
        OSError: it cannot be examined.
    """
    try:
        status = os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


_ENDS = ("", "-wal", "-shm")


class Presence:
    """The files of one store as they were when it was opened.

    Writing to a deleted or replaced file succeeds as before, but nobody will ever read what was written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = {file: known for end in _ENDS if (known := _find(file := f"{path}{end}")) is not None}

    def check(self) -> None:
        """Raise if a file is missing or replaced. Three system calls, a microsecond each.

        Raises:
            StoreUnusable: a file is missing, or is another one.
        """
        for file, known in self._known.items():
            try:
                found = _find(file)
            except OSError:  # It cannot be examined, which proves nothing.
                continue
            if found != known:
                raise StoreUnusable(
                    f"{file} was {'deleted or moved' if found is None else 'replaced'} while it was being written to: "
                    f"expected the file that was opened; what was recorded since is lost; put {self._path} back, from a copy "
                    "if need be, and start again"
                )


ConnectionT = TypeVar("ConnectionT", bound=sqlite3.Connection)

_LOOK = "SELECT count(*) FROM sqlite_master"


def connect_reader(path: Path, factory: type[ConnectionT], *, check_same_thread: bool = True) -> ConnectionT:
    """Return a read connection that works whatever can be written beside the file.

    SQLite reads a write-ahead log by means of a shared-memory file beside the store. Where it cannot create one (a read-only
    mount or folder, missing permissions), an existing log is read into memory, and a store without a log as it is. No lock is
    held then, so concurrent writes may be seen partially.
    """
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
                return db  # Errors in it are reported when it is read.
            db.close()
        except sqlite3.DatabaseError:
            return db
        else:
            return db
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=check_same_thread, factory=factory)


def _without_shared_memory(path: Path) -> list[tuple[str, str]]:
    """Return how to open it without shared memory: an addition to the URI, and a statement to run first."""
    log = Path(f"{path}-wal")
    if os.access(path.parent, os.W_OK, effective_ids=os.access in os.supports_effective_ids) or not path.is_file():
        return []
    if log.exists() and log.stat().st_size:
        return [("&vfs=unix-none", "PRAGMA locking_mode = EXCLUSIVE")]
    return [("&immutable=1", "")]
