"""Which stores this process has open: for writing by the one SQLite that Python has, for reading by another one.

The law: a file that this process writes is never opened or closed but by the SQLite that writes it. Closing any descriptor of
a file lets go of every lock that the process holds on it ("How To Corrupt An SQLite Database File", 2.2), and another SQLite,
such as the one in DuckDB's extension, knows nothing of those locks. Who reads by another one therefore says so first, with
`reading_beside`, and how it can be made to let go.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

_Identity: TypeAlias = tuple[int, int]

_lock = threading.RLock()
_written: dict[_Identity, int] = {}
_beside: dict[_Identity, list[Callable[[], None]]] = {}


class Writing(sqlite3.Connection):
    """A connection that writes a store. As long as it is open, `is_written` knows of it."""

    _of: _Identity | None = None

    def begin(self, path: Path) -> None:
        """Take note of it, once whoever reads the file by another SQLite has let go of it."""
        found = _identity(path)
        if found is None or self._of is not None:
            return
        with _lock:
            _written[found] = _written.get(found, 0) + 1
            self._of = found
            for let_go in _beside.pop(found, []):
                let_go()

    def close(self) -> None:
        super().close()
        with _lock:
            if self._of is not None:
                _written[self._of] -= 1
                self._of = None


def is_written(path: Path) -> bool:
    """Return whether this process has the file open for writing."""
    found = _identity(path)
    with _lock:
        return found is not None and _written.get(found, 0) > 0


def reading_beside(path: Path, let_go: Callable[[], None]) -> bool:
    """Say that the file is going to be read by another SQLite; False if that can not be, because this process writes it.

    Args:
        let_go: is called, once, before this process begins to write it. Has to close the file.
    """
    found = _identity(path)
    with _lock:
        if found is None or is_written(path):
            return False
        _beside.setdefault(found, []).append(let_go)
        return True


def read_no_more(path: Path, let_go: Callable[[], None]) -> None:
    """Say that the other SQLite has closed the file."""
    found = _identity(path)
    with _lock, suppress(KeyError, ValueError):
        if found is not None:
            _beside[found].remove(let_go)


def _identity(path: Path) -> _Identity | None:
    """Return what the file is, whatever name it is reached by."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
