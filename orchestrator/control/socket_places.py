"""The control socket of a running program: beside its store, named after its run.

    run.db.control-1f3a…    for the life of the run; two programs on one store have one each

Invariants: only its user can connect, never anybody else, nor a process that the user has sandboxed. A new run removes the
sockets of dead runs and leaves those of living ones, which it tells apart by their run locks.
"""

from __future__ import annotations

import os
import select
import socket
import stat
import struct
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from glob import escape
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from orchestrator.errors import UsageError
from orchestrator.store.file.run_lock import is_alive

_LONGEST = 100
"""Limit on a socket address, bytes: Linux takes 107, others 103."""
_LONGEST_NAME = 60
_BACKLOG = 64
_PEER = struct.Struct("3i")
_SO_PEERPIDFD = 77
"""Linux 6.5; a few rare architectures use another number, and there the call fails."""
_NAMESPACE = "/proc/{}/ns/pid"


def open_socket(store: Path, run: str) -> socket.socket:
    """Return a socket that listens beside a store; remove those of dead runs.

    Raises:
        OSError: it cannot be created.
        UsageError: its address is too long for this system.
    """
    for path in sockets(store):
        if not is_alive(store, run_of(path), sweep=False):
            path.unlink(missing_ok=True)
    path = socket_path(store, run)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with suppress(OSError):
            # On Linux the file is created with these permissions.
            os.fchmod(listening.fileno(), 0o600)
        with address_of(path) as address:
            listening.bind(address)
        os.chmod(path, 0o600)
        # Nobody can connect before this.
        listening.listen(_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


def sockets(store: Path) -> list[Path]:
    """Return the sockets beside a store, of living and dead runs."""
    prefix = _prefix(store)
    found = store.parent.glob(f"{escape(prefix)}*")
    return sorted(path for path in found if _is_socket(path))


def socket_path(store: Path, run: str) -> Path:
    """Return the path of the socket of a run on a store."""
    return store.with_name(f"{_prefix(store)}{run}")


@contextmanager
def address_of(path: Path) -> Generator[str]:
    """Yield an address of a socket that is short enough however long its path is.

    Raises:
        UsageError: this system has no such address.
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
    """A socket of Trio or of the standard library."""

    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes:
        """Return the value of a socket option."""
        ...


def is_ours(connected: Connected) -> bool:
    """Return whether the client is this user or root, and not sandboxed.

    Where the system cannot tell, the permissions of the file decide.
    """
    user = user_of(connected)
    return user is None or (user in (0, os.geteuid()) and not is_sandboxed(connected))


def is_sandboxed(connected: Connected) -> bool:
    """Return whether the client is in a PID namespace below this one, or gone, so that this cannot be determined."""
    pid, user, _ = _peer(connected)
    if pid <= 0 or not os.path.exists(_NAMESPACE.format("self")):
        # From outside a container in which this program runs, or without namespaces.
        return False
    held = _hold(connected)
    try:
        return os.readlink(_NAMESPACE.format(pid)) != os.readlink(_NAMESPACE.format("self")) or _is_gone(held)
    except PermissionError:
        return user != 0 or os.geteuid() == 0
    except OSError:
        return True
    finally:
        if held is not None:
            os.close(held)


def _hold(connected: Connected) -> int | None:
    """Return a pidfd of the client, so that its PID cannot be reused; None before Linux 6.5."""
    try:
        return int.from_bytes(connected.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, 4), sys.byteorder)
    except OSError:
        return None


def _is_gone(process: int | None) -> bool:
    if process is None:
        return False
    poll = select.poll()  # `select.select` cannot handle a descriptor above 1023
    poll.register(process, select.POLLIN)
    return bool(poll.poll(0))


def user_of(connected: Connected) -> int | None:
    """Return the user id of the client; None where the system cannot tell."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    return _peer(connected)[1]


def _peer(connected: Connected) -> tuple[int, int, int]:
    """Return process, user and group id of the client."""
    pid, user, group = _PEER.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return pid, user, group


def _prefix(store: Path) -> str:
    name = store.name
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = blake2b(os.fsencode(name), digest_size=12).hexdigest()
    return f"{name}.control-"


def run_of(path: Path) -> str:
    """Return the name of the run that a socket is of."""
    return path.name.rpartition("-")[2]


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return False
