"""Which stores this process has open: for writing by the one SQLite that Python has, for reading by another one.

The law: a file that this process writes is never opened or closed but by the SQLite that writes it. Closing any descriptor of
a file lets go of every lock that the process holds on it ("How To Corrupt An SQLite Database File", 2.2), and another SQLite,
such as the one in DuckDB's extension, knows nothing of those locks. Who reads by another one therefore says so first, with
`reading_beside`, and how it can be made to let go. Whether it has is looked up among the descriptors of the process: a query
that is not fetched to its end holds the file, whatever it was detached from.
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
_BESIDE = ("-wal", "-shm", "-journal")
"""How the files that SQLite has beside a store are called."""
_lock = threading.RLock()
_written: dict[_Identity, list[Path]] = {}
_open: weakref.WeakSet[Writing] = weakref.WeakSet()
"""In a forked process, the parent's too."""
_beside: dict[_Identity, list[Callable[[], None]]] = {}
_ever_beside: set[_Identity] = set()


class Writing(Connection):
    """A connection that writes a store. As long as it is open, `is_written` knows of it."""

    _of: _Identity | None = None
    _path: Path
    _pid: int

    @classmethod
    def to(cls, path: Path, busy_s: float) -> Writing:
        """Return a connection to a file, which is made if it is not there, once nobody reads it by another SQLite.

        Raises:
            StoreUnusable: somebody still does.
            sqlite3.Error: it cannot be opened.
        """
        with _lock:
            _check_not_inherited(path)
            _have_let_go(path)
            with suppress(OSError):  # it is there, or SQLite says why it cannot be made
                # What agents write is nobody else's to read. The files that SQLite has beside it get its permissions.
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
    """Refuse a file that the process from which this one was forked had open: SQLite believes to have its locks."""
    found = _identity(path)
    if found is not None and any(db._of == found and db._pid != os.getpid() for db in _open):  # pyright: ignore[reportPrivateUsage]
        raise StoreUnusable(
            f"{path} was open in the process from which this one was forked: expected a process that was started anew; use "
            "`spawn` instead of `fork`, or give what was computed back to the parent"
        )


def _keep_open() -> None:
    """Keep a forked process from ever closing its parent's connections: it would do so in the parent's name."""
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
    """Return whether a file is one that SQLite has beside a store, by its name or because this process writes that store."""
    for end in _BESIDE:
        if path.name.endswith(end) and path.name != end and path.with_name(path.name.removesuffix(end)).exists():
            return True
    found = _identity(path)
    with _lock:
        places = [place for places in _written.values() for place in places]
    return found is not None and any(found == _identity(Path(f"{place}{end}")) for place in places for end in _BESIDE)


def reading_beside(path: Path, let_go: Callable[[], None]) -> bool:
    """Say that the file is going to be read by another SQLite; False if that cannot be, because this process writes it.

    Args:
        let_go: is called before this process begins to write it, until it has once not raised. Has to close the file.
    """
    found = _identity(path)
    with _lock:
        if found is None or is_written(path):
            return False
        _beside.setdefault(found, []).append(let_go)
        _ever_beside.add(found)
        return True


def read_no_more(path: Path, let_go: Callable[[], None]) -> None:
    """Say that the other SQLite has closed the file."""
    found = _identity(path)
    with _lock, suppress(KeyError, ValueError):
        if found is not None:
            _beside[found].remove(let_go)


def _have_let_go(path: Path) -> None:
    """Have whoever reads the file by another SQLite let go of it. A query that is not fetched to its end does not."""
    found = _identity(path)
    if found is None or found not in _ever_beside or _written.get(found):
        return
    if not _DESCRIPTORS.exists() and _beside.get(found):
        raise _still_read(path, "close")
    for let_go in list(_beside.get(found, [])):
        try:
            let_go()
        except Exception as error:
            raise _still_read(path, f"it does not let go of it ({error}); close") from error
        read_no_more(path, let_go)
    if _DESCRIPTORS.exists() and _is_held_beside(path.resolve(), found):
        gc.collect()
        if _is_held_beside(path.resolve(), found):
            raise _still_read(path, "fetch each of its queries to the end or drop it, close")


def _still_read(path: Path, what: str) -> StoreUnusable:
    return StoreUnusable(
        f"{path} is still being read by an analysis in this process: expected nobody who would take the locks from what "
        f"writes it; {what} the analysis, then start"
    )


def _is_held_beside(path: Path, found: _Identity) -> bool:
    """Return whether another SQLite than Python's has the file open.

    Each has the shared memory of a file open once, however many connections it has. Of the file itself there can be more
    descriptors than connections: SQLite keeps those of closed connections as long as another one has a lock.
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
    """Return how many descriptors of this process are that file, or one that was there by that name and is gone."""
    found = found or _identity(path)
    held = 0
    for descriptor in _DESCRIPTORS.iterdir():
        with suppress(OSError):
            held += _identity(descriptor) == found or os.readlink(descriptor) == f"{path} (deleted)"
    return held


def _identity(path: Path) -> _Identity | None:
    """Return what the file is, whatever name it is reached by; None if it is not there, or cannot be looked at."""
    try:
        return _find(path)
    except OSError:
        return None


def _find(file: str | Path) -> _Identity | None:
    """Return what a file is; None if it is not there.

    Raises:
        OSError: it cannot be looked at.
    """
    try:
        status = os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


_ENDS = ("", "-wal", "-shm")


class Presence:
    """The files of one store, as they were when it was opened. What was not there then is not looked for.

    A file that was deleted or replaced can be written to as before: everything succeeds, and nothing of it will ever be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = {file: known for end in _ENDS if (known := _find(file := f"{path}{end}")) is not None}

    def check(self) -> None:
        """Return if all are there. Three calls to the system, of a microsecond each.

        Raises:
            StoreUnusable: one is not, or is another.
        """
        for file, known in self._known.items():
            try:
                found = _find(file)
            except OSError:  # it cannot be looked at, which says nothing
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
    """Return a connection that reads, whatever can be written beside the file.

    SQLite reads a write-ahead log by a file of shared memory that it makes beside the store. Where it cannot make one (a
    read-only mount or folder, a user without rights to it), a log that is there is read into memory, and a store without a log
    as it is. Nobody holds a lock then: who writes meanwhile, by another way to the file, may be seen in parts.
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
