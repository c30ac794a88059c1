"""The head of the chain of seals: a file beside the store that says how long the chain is.

Invariant: it names a seal in the chain. It is written after the commit, so it may lag behind after a crash, and it never goes
back. A chain that does not contain it was cut off, or is another one.

One line of JSON of fixed length, written in place; a lock keeps two programs from writing at once.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from attrs import frozen

from harnesses.files.safe_files import draft_of
from harnesses.processes.fork_safety import close_unshared, keep_from_forks
from orchestrator.errors import StoreCorrupt, StoreUnusable

LENGTH = 192
"""Length of the line in bytes, including its end: twice the maximum needed."""
_WAIT_S = 0.5
"""Seconds to wait for another program that is writing it, which takes microseconds."""
_POLL_S = 0.001


@frozen
class Noted:
    """The content of a head."""

    position: int
    """Position of the newest seal known to it."""
    last_seq: int
    """The last record under that seal."""
    hash: str


def head_path(store: Path) -> Path:
    """Return the path of a store's head."""
    return store.with_name(f"{store.name}-head")


def read_head(text: str | bytes) -> Noted:
    """Parse a head.

    Raises:
        ValueError: it is not a valid head.
    """
    try:
        return msgspec.json.decode(text, type=Noted)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error


def begin_head(store: Path, noted: Noted) -> None:
    """Create the head of a new store. An existing head without records belongs to a store that was never finished.

    Raises:
        StoreCorrupt: the existing head knows records, so the store was lost and is not new.
        StoreUnusable: it cannot be written.
    """
    path = head_path(store)
    _check_new(store, path)
    try:
        with suppress(FileNotFoundError):
            os.replace(path, path.with_name(f"{path.name}.before"))
        with draft_of(path, mode=0o660) as file:
            file.write(_line(noted))
    except OSError as error:
        raise StoreUnusable(f"{path} cannot be written: {error.strerror}; make its folder writable") from error


def _check_new(store: Path, path: Path) -> None:
    try:
        there = read_head(path.read_bytes())
    except (OSError, ValueError):
        return  # There is none, or it is not ours: it is moved aside.
    if there.last_seq:
        raise StoreCorrupt(
            f"{store} is empty, and its head, {path}, knows {there.last_seq} records: expected the store that has them; "
            f"put it back, with its -wal if there is one, or remove {path.name} to begin a new one"
        )


class Head:
    """The head of one store, for a program that writes to the store.

    Raises:
        StoreUnusable: it cannot be written.
    """

    def __init__(self, store: Path) -> None:
        self.path = head_path(store)
        self._wait_s = _WAIT_S
        try:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o660)
        except OSError as error:
            raise StoreUnusable(f"{self.path} cannot be written: {error.strerror}; make the file writable") from error
        keep_from_forks(self._descriptor)

    def read(self) -> Noted | None:
        """Return the content; None if the head was just created.

        Raises:
            StoreCorrupt: something else has written to it.
        """
        text = os.pread(self._descriptor, 2 * LENGTH, 0)
        try:
            return read_head(text) if text else None
        except ValueError as error:
            raise StoreCorrupt(
                f"{self.path} cannot be read back: {error}; it was changed by something else: run `orchestrator verify`, then "
                "restore the file, or remove it"
            ) from error

    def write(self, noted: Noted) -> None:
        """Record a newer seal. The content stays if it is newer still, or cannot be read."""
        if not self._take_lock():
            return  # It lags behind until the next seal.
        try:
            with suppress(StoreCorrupt):
                there = self.read()
                if there is None or there.position < noted.position:
                    os.pwrite(self._descriptor, _line(noted), 0)
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file."""
        close_unshared(self._descriptor)

    def _take_lock(self) -> bool:
        """Lock out other writers; return False if one does not release the lock, which any reader of the file can hold."""
        until = time.monotonic() + self._wait_s
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    self._wait_s = 0.0
                    return False
                time.sleep(_POLL_S)
            else:
                self._wait_s = _WAIT_S
                return True


def _line(noted: Noted) -> bytes:
    text = json.dumps({"position": noted.position, "last_seq": noted.last_seq, "hash": noted.hash})
    return text.ljust(LENGTH - 1).encode() + b"\n"
