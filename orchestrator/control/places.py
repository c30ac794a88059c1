"""Where a running program listens: a socket beside its store, named after its run.

    run.db.control-1f3a…    as long as the run lives; two programs on one store have one each

The law: only its user can connect, at no moment anybody else; the socket of a run that is dead is removed by the next one, and
that of a living one is left alone, which the lock of the run tells apart.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Generator
from contextlib import contextmanager, suppress
from glob import escape
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from orchestrator.errors import UsageError
from orchestrator.store.owner import is_alive

_LONGEST = 100
"""Bytes of an address: Linux takes 107, others 103."""
_LONGEST_NAME = 60
_BACKLOG = 64
_PEER = struct.Struct("3i")


def open_socket(store: Path, run: str) -> socket.socket:
    """Return a socket that listens beside a store; remove those of dead runs.

    Raises:
        OSError: it can not be made.
        UsageError: its address is too long for this system.
    """
    for path in sockets(store):
        if not is_alive(store, _run_of(path), sweep=False):
            path.unlink(missing_ok=True)
    path = socket_path(store, run)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with suppress(OSError):
            # On Linux the file is made with no more rights than this.
            os.fchmod(listening.fileno(), 0o600)
        with address_of(path) as address:
            listening.bind(address)
        os.chmod(path, 0o600)
        # Only from here on can anybody connect at all.
        listening.listen(_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


def sockets(store: Path) -> list[Path]:
    """Return the sockets beside a store, of living runs and dead ones."""
    prefix = _prefix(store)
    found = store.parent.glob(f"{escape(prefix)}*")
    return sorted(path for path in found if _is_socket(path))


def socket_path(store: Path, run: str) -> Path:
    """Return where a run over a store listens."""
    return store.with_name(f"{_prefix(store)}{run}")


@contextmanager
def address_of(path: Path) -> Generator[str]:
    """Give an address of a socket, short enough however long its path is.

    Raises:
        UsageError: this system knows no such address.
    """
    if len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        short = f"/proc/self/fd/{folder}"
        if not os.path.isdir(short):
            raise UsageError(f"{path} is too long for a socket: expected at most {_LONGEST} bytes; choose a shorter folder")
        yield f"{short}/{path.name}"
    finally:
        os.close(folder)


class Connected(Protocol):
    """A socket, Trio's or Python's own."""

    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes:
        """Return what the system says of it."""
        ...


def is_ours(connected: Connected) -> bool:
    """Return whether who has connected is this user, or root; where the system does not say, the file's rights have to do."""
    return user_of(connected) in (None, 0, os.geteuid())


def user_of(connected: Connected) -> int | None:
    """Return the user at the other end; None where the system does not say."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    return int(_PEER.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[1])


def _prefix(store: Path) -> str:
    name = store.name
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = blake2b(os.fsencode(name), digest_size=12).hexdigest()
    return f"{name}.control-"


def _run_of(path: Path) -> str:
    return path.name.rpartition("-")[2]


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return False
