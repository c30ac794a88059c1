"""Whether the run that owns a harness is alive: an operating-system lock that dies with its holder.

Each run over a file has a lock file beside it, `<store>.run-<id>`, and holds an exclusive `flock` on it as long as it lives.
Who finds a harness owned by a run whose lock can be had knows that run to be dead, however it ended. The epochs in the
store, checked in every commit, are what keeps two runs apart; this lock only tells when a take-over is in order.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import suppress
from glob import escape
from pathlib import Path


class RunLock:
    """The lock of this run."""

    def __init__(self, store: Path) -> None:
        _sweep(store)
        self.run = secrets.token_hex(6)
        self._path = _lock_path(store, self.run)
        self._descriptor = _hold(self._path)
        os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let the lock go and remove its file."""
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def _hold(path: Path) -> int:
    """Make the file and lock it. Between the two, another run's sweep may take it for a dead one's: then make it again."""
    while True:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)


def is_alive(store: Path, run: str, *, sweep: bool = True) -> bool:
    """Return whether that run still holds its lock.

    Args:
        sweep: whether the file of a dead one is removed.
    """
    path = _lock_path(store, run)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except PermissionError:
        return True
    try:
        # Shared, so that two who look at the same time do not take each other for the owner.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        if sweep:
            with suppress(OSError):
                path.unlink()
        return False
    finally:
        os.close(descriptor)


def pid_of(store: Path, run: str) -> int | None:
    """Return the process number that a run wrote into its lock file, for messages."""
    try:
        return int(_lock_path(store, run).read_text().strip() or 0) or None
    except (OSError, ValueError):
        return None


def _sweep(store: Path) -> None:
    """Remove the lock files of runs that were killed, those too that never owned a harness."""
    prefix = f"{store.name}.run-"
    for path in store.parent.glob(f"{escape(prefix)}*"):
        is_alive(store, path.name.removeprefix(prefix))


def _lock_path(store: Path, run: str) -> Path:
    return store.with_name(f"{store.name}.run-{run}")
