"""Where a running program listens: a socket beside its store, named after its run.

    run.db.control-1f3a…    as long as the run lives; two programs on one store have one each

The law: only its user can connect, at no moment anybody else, and nothing that its user keeps in a sandbox; the socket of a
run that is dead is removed by the next one, and that of a living one is left alone, which the lock of the run tells apart.
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
"""Bytes of an address: Linux takes 107, others 103."""
_LONGEST_NAME = 60
_BACKLOG = 64
_PEER = struct.Struct("3i")
_SO_PEERPIDFD = 77
"""Linux 6.5; on a few rare architectures it is another number, and fails."""
_NAMESPACE = "/proc/{}/ns/pid"


def open_socket(store: Path, run: str) -> socket.socket:
    """Return a socket that listens beside a store; remove those of dead runs.

    Raises:
        OSError: it cannot be made.
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
    """Return whether who has connected is this user, or root, and not in a sandbox of theirs.

    Where the system does not say, the file's rights have to do.
    """
    user = user_of(connected)
    return user is None or (user in (0, os.geteuid()) and not is_sandboxed(connected))


def is_sandboxed(connected: Connected) -> bool:
    """Return whether who has connected is in a namespace of processes below this one, or gone, so that nobody can tell."""
    pid, user, _ = _peer(connected)
    if pid <= 0 or not os.path.exists(_NAMESPACE.format("self")):
        # From outside of a container in which this program runs, or no namespaces at all.
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
    """Return a descriptor of the process that has connected, so that its number is no other's; None before Linux 6.5."""
    try:
        return int.from_bytes(connected.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, 4), sys.byteorder)
    except OSError:
        return None


def _is_gone(process: int | None) -> bool:
    if process is None:
        return False
    poll = select.poll()  # `select.select` takes no descriptor above 1023
    poll.register(process, select.POLLIN)
    return bool(poll.poll(0))


def user_of(connected: Connected) -> int | None:
    """Return the user at the other end; None where the system does not say."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    return _peer(connected)[1]


def _peer(connected: Connected) -> tuple[int, int, int]:
    """Return process, user and group at the other end."""
    pid, user, group = _PEER.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return pid, user, group


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
