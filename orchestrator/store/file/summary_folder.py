"""The folder `run.db-summary` beside a store: what analysis has copied from it into columns, to answer questions quickly.

Invariants: it can be deleted at any time, and holds nothing that the store does not hold; only the user who owns the store
makes and reads it; one process at a time writes it; files that nothing names are removed by the next that writes.
`orchestrator.analysis.sources.store_summary` says what is in it, and whether it belongs to the store.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

_LOCK = "lock"
_WAIT_S = 60.0
"""Seconds to wait for another process that is writing it."""
_POLL_S = 0.02
_PRIVATE = 0o700


def summary_folder(store: Path) -> Path:
    """Return the path of a store's summary."""
    return store.with_name(f"{store.name}-summary")


def usable_folder(store: Path, *, is_made: bool = True) -> Path | None:
    """Return the folder if this user may keep a summary of the store there, None otherwise.

    Args:
        is_made: whether to create it.
    """
    folder = summary_folder(store)
    with suppress(OSError):
        if store.stat().st_uid != os.geteuid():
            return None
        if is_made:
            with suppress(FileExistsError):
                folder.mkdir(mode=_PRIVATE)
        found = folder.lstat()
        is_private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
        if is_private and os.access(folder, os.W_OK):
            return folder
    return None


@contextmanager
def writing(folder: Path) -> Generator[bool]:
    """Hold the lock of a folder; yield False if another process has held it for a minute, or it cannot be locked."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        yield False
        return
    try:
        yield _is_locked(descriptor, time.monotonic() + _WAIT_S)
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(_POLL_S)
        except OSError:
            return False
        else:
            return True


def remove_others(folder: Path, names: frozenset[str]) -> None:
    """Remove all files but these; whoever has one open continues to read it."""
    for path in folder.iterdir():
        if path.name not in names and path.name != _LOCK:
            path.unlink(missing_ok=True)


def remove_summary(store: Path) -> None:
    """Remove the summary of a store, as when its records are removed. Does nothing if there is none of this user."""
    folder = usable_folder(store, is_made=False)
    if folder is not None:
        with writing(folder):
            shutil.rmtree(folder, ignore_errors=True)
