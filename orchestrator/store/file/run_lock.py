"""Whether the run that owns a harness is alive: an operating-system lock that dies with its holder.

Each run over a file has a lock file beside it, `<store>.run-<id>`, and holds an exclusive `flock` on it as long as it lives.
The file says which process that is. A run whose lock can be had is dead, however it ended; so is one whose process is gone
while something that it forked, perhaps past Python, still has the lock. The epochs in the store, checked in every commit, are
what keeps two runs apart; this lock only tells when a take-over is in order.

Who cannot be shown to be gone counts as alive. Numbers of processes are compared only within one boot of one machine and one
namespace, and together with when the process was started, since numbers are given out again.

A lock of `fcntl`, which no fork inherits, would be lost as soon as anything in the process closes any descriptor of the file,
and two runs in one process would not see each other's.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import select
from contextlib import suppress
from glob import escape
from pathlib import Path

from attrs import frozen

from harnesses.processes.fork_safety import close_unshared, keep_from_forks

_TEXT_BYTES = 4096
_NOT_OURS = (errno.ELOOP, errno.ENXIO)
"""What a link and a socket answer to being opened."""


class RunLock:
    """The lock of this run: of the process that made it, and of none that is forked off it."""

    def __init__(self, store: Path) -> None:
        _sweep(store)
        self._pid = os.getpid()
        self.run, self._path, self._descriptor = _hold(store)
        keep_from_forks(self._descriptor)
        os.write(self._descriptor, describe_self().encode())

    def release(self) -> None:
        """Let the lock go and remove its file. A forked process has neither."""
        if os.getpid() == self._pid:
            self._path.unlink(missing_ok=True)
            close_unshared(self._descriptor)


def _hold(store: Path) -> tuple[str, Path, int]:
    """Make a file that was not there and lock it. Between the two, another run's sweep may take it for a dead one's: again."""
    while True:
        run = secrets.token_hex(6)
        path = _lock_path(store, run)
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            continue
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.lstat()):
                return run, path, descriptor
        os.close(descriptor)


def is_alive(store: Path, run: str, *, sweep: bool = True) -> bool:
    """Return whether that run still lives. Looking takes the lock from nobody.

    Args:
        sweep: whether the file of a dead one is removed.
    """
    path = _lock_path(store, run)
    try:
        # A pipe or a link in its place is not ours, and must neither hold us up nor lead elsewhere.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        return error.errno not in _NOT_OURS
    try:
        # Shared, so that two who look at the same time do not take each other for the owner.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        if not _is_orphaned(path, read_holder(os.pread(descriptor, _TEXT_BYTES, 0).decode(errors="replace"))):
            return True
    finally:
        os.close(descriptor)
    if sweep:
        with suppress(OSError):
            path.unlink()
    return False


def pid_of(store: Path, run: str) -> int | None:
    """Return the process that holds the lock of a run, for messages: the one in its file, if that is not known to be gone."""
    path = _lock_path(store, run)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            holder = read_holder(os.read(descriptor, _TEXT_BYTES).decode(errors="replace"))
        finally:
            os.close(descriptor)
    except OSError:
        return None
    if holder is None or not is_running(holder.pid):
        return next(iter(lock_holders(path)), holder.pid if holder else None)
    return holder.pid


def running_on(store: Path) -> list[int | None]:
    """Return the processes that run on a store; None for one that is not known."""
    prefix = f"{store.name}.run-"
    runs = [path.name.removeprefix(prefix) for path in store.parent.glob(f"{escape(prefix)}*")]
    return [pid_of(store, run) for run in runs if is_alive(store, run)]


def _is_orphaned(path: Path, holder: Holder | None) -> bool:
    """Return whether a lock that is held is held by something that the run has forked, and the run itself is gone."""
    if holder is None:
        return False
    if holder.where:
        return holder.is_gone()
    # Written by an earlier version, perhaps in another container: gone if it is seen who has the lock now, and it is others.
    return not is_running(holder.pid) and bool(lock_holders(path))


def _sweep(store: Path) -> None:
    """Remove the lock files of runs that were killed, those too that never owned a harness."""
    prefix = f"{store.name}.run-"
    for path in store.parent.glob(f"{escape(prefix)}*"):
        is_alive(store, path.name.removeprefix(prefix))


def _lock_path(store: Path, run: str) -> Path:
    return store.with_name(f"{store.name}.run-{run}")


_PROC = Path("/proc")
_DIGITS = 12
"""Of a number of a process at most, and more than any has."""


@frozen
class Holder:
    """A process, as it described itself."""

    pid: int
    started: str = ""
    """Clock ticks from the machine's boot to the process's start; empty if that is not known."""
    where: str = ""
    """The boot and the namespaces in which the number and the start count; empty if they are not known."""

    def is_gone(self) -> bool:
        """Return whether it is certain that the process has ended."""
        if not self.where or self.where != _where():
            return False
        return not is_running(self.pid) or (self.started != "" and self.started != _read_start_time(self.pid, self.started))


def describe_self() -> str:
    """Return the text by which others know this process: its number, its start, and where both count."""
    pid = os.getpid()
    where = _where()
    return f"{pid}\n{_read_start_time(pid, '')}\n{where}\n" if where else f"{pid}\n"


def read_holder(text: str) -> Holder | None:
    """Return the process that a lock file names; None if it names none. Earlier versions wrote the number alone."""
    pid, *rest = text.split("\n")
    if not (pid.isascii() and pid.isdecimal() and 0 < int(pid[:_DIGITS]) < 2**31):
        return None
    started, where = rest[:2] if len(rest) >= 2 else ("", "")
    return Holder(int(pid[:_DIGITS]), started, where)


def is_running(pid: int) -> bool:
    """Return whether there is a process with that number which has not ended; one that was not collected has."""
    try:
        with suppress(PermissionError):
            os.kill(pid, 0)
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    except (OSError, AttributeError):  # a system without that call, or one that refuses it
        return True
    try:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        return not poll.poll(0)
    finally:
        os.close(process)


def lock_holders(path: Path) -> list[int]:
    """Return the processes, of those this user can look at, that have an exclusive lock on the file."""
    try:
        wanted = os.stat(path)
        numbers = [int(name) for name in os.listdir(_PROC) if name.isdigit()]
    except OSError:
        return []
    return sorted(number for number in numbers if _holds(number, wanted))


def _holds(number: int, wanted: os.stat_result) -> bool:
    with suppress(OSError):
        for descriptor in os.listdir(_PROC / str(number) / "fd"):
            with suppress(OSError):
                if os.path.samestat(os.stat(_PROC / str(number) / "fd" / descriptor), wanted):
                    about = (_PROC / str(number) / "fdinfo" / descriptor).read_text()
                    if any("FLOCK" in line and "WRITE" in line for line in about.splitlines() if line.startswith("lock:")):
                        return True
    return False


def _where() -> str:
    try:
        if os.readlink(_PROC / "self") != str(os.getpid()):
            return ""
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return " ".join([boot, *(os.readlink(_PROC / "self/ns" / kind) for kind in ("pid", "time"))])
    except OSError:
        return ""


def _read_start_time(pid: int, unknown: str) -> str:
    """Return when a process was started; `unknown` if the system does not say."""
    try:
        return (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return unknown
