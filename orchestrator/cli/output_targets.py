"""Where a command may write its output: any file except those that a store needs.

Invariant: neither a store nor one of the files beside it is overwritten, whatever path or link leads there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from orchestrator.errors import UsageError

_ENDS = ("-wal", "-shm", "-journal", "-head", "-head.new", "-head.before", "-key", "-latch", "-files", "-summary")
_MARKS = (".run-", ".control-")
"""After the name of a store: the files of its runs."""
_MAGIC = b"SQLite format 3\0"
"""What a store begins with. Source: https://www.sqlite.org/fileformat.html, 1.3.1."""


def check_target(path: Path, *stores: Path) -> None:
    """Refuse to write to a file, or into a folder, that belongs to a store.

    Args:
        stores: which this process has open. They are not looked into, as closing a file lets go of the locks that SQLite has
            on it. Source: https://www.sqlite.org/howtocorrupt.html, 2.2.

    Raises:
        UsageError: it belongs to one of them, or to any other.
    """
    real = Path(os.path.realpath(path))
    if _is_store(real, stores):
        which = "the store" if not stores or _is_any(real, stores) else "a store"
        raise UsageError(f"{path} is {which}: expected another file; choose one")
    for place in (real, *real.parents):
        for store in map(place.with_name, _owners(place.name)):
            if _is_store(store, stores):
                raise UsageError(f"{path} belongs to the store {store}: expected another file; choose one")
    if real.is_socket():
        raise UsageError(f"{path} is a socket: expected the name of a file; choose one")


def _owners(name: str) -> Iterator[str]:
    """Yield what a store is called, if a file of that name is one of its own."""
    for end in _ENDS:
        if name.endswith(end) and name != end:
            yield name.removesuffix(end)
    for mark in _MARKS:
        if owner := name.rpartition(mark)[0]:
            yield owner


def _is_store(path: Path, stores: tuple[Path, ...]) -> bool:
    try:
        if not path.is_file():
            return False
        if _is_any(path, stores):
            return True
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def _is_any(path: Path, stores: tuple[Path, ...]) -> bool:
    return any(store.samefile(path) for store in stores)
