"""Run locks: whether the run that owns a harness is alive, by an operating-system lock that is released when its holder dies.

Each run on a file has a lock file beside it, `<store>.run-<id>`, and holds an exclusive `flock` on it while it lives. The file
identifies its process. A run is dead if its lock is free, however it ended, or if its process is gone while something that it
forked still holds the lock. What keeps two runs apart are the epochs in the store, checked in every commit; the lock only
decides whether a harness may be taken over.

A process that may still exist counts as alive. Process numbers are compared only within one boot of one machine and one
namespace, and together with the start time, since numbers are reused.

An `fcntl` lock, which forks do not inherit, would be lost when anything in the process closes any descriptor of the file, and
two runs in one process would not see each other's lock.
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
from orchestrator.store.file.server_copy import living_runs

_TEXT_BYTES = 4096
_NOT_OURS = (errno.ELOOP, errno.ENXIO)
"""Errors on opening a link or a socket."""


class RunLock:
    """The lock of this run. It belongs to the process that made it, not to its forks.

    Args:
        run: name of the run; default is a new one.
    """

    def __init__(self, store: Path, run: str = "") -> None:
        _sweep(store)
        self._pid = os.getpid()
        self.run, self._path, self._descriptor = _hold(store, run)
        keep_from_forks(self._descriptor)
        os.write(self._descriptor, describe_self().encode())

    def release(self) -> None:
        """Release the lock and remove its file. A forked process does neither."""
        if os.getpid() == self._pid:
            self._path.unlink(missing_ok=True)
            close_unshared(self._descriptor)


def _hold(store: Path, named: str) -> tuple[str, Path, int]:
    """Create a new file and lock it; retry if another run removes it in between as that of a dead run."""
    while True:
        run = named or secrets.token_hex(6)
        path = _lock_path(store, run)
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            if named:
                raise
            continue
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.lstat()):
                return run, path, descriptor
        os.close(descriptor)


def is_alive(store: Path, run: str, *, sweep: bool = True) -> bool:
    """Return whether that run is alive, without taking its lock.

    Args:
        sweep: whether to remove the lock file of a dead run.
    """
    path = _lock_path(store, run)
    try:
        # A pipe or link in its place is not ours, and must neither block nor redirect this process.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return run in living_runs(store)
    except OSError as error:
        return error.errno not in _NOT_OURS
    try:
        # Shared, so that two processes checking at the same time do not take each other for the owner.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        if not _is_orphaned(path, read_holder(os.pread(descriptor, _TEXT_BYTES, 0).decode(errors="replace"))):
            return True
    finally:
        os.close(descriptor)
    if sweep:
        with suppress(OSError):
            path.unlink()
    return run in living_runs(store)


def pid_of(store: Path, run: str) -> int | None:
    """Return the process that holds a run's lock, for messages: the one named in its file, unless that is known to be gone."""
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
    """Return the processes that run on a store; None for an unknown one, or one on another machine."""
    prefix = f"{store.name}.run-"
    runs = [path.name.removeprefix(prefix) for path in store.parent.glob(f"{escape(prefix)}*")]
    here = [pid_of(store, run) for run in runs if is_alive(store, run)]
    return [*here, *[None for _ in living_runs(store).difference(runs)]]


def _is_orphaned(path: Path, holder: Holder | None) -> bool:
    """Return whether a held lock is held by a fork of the run, while the run itself is gone."""
    if holder is None:
        return False
    if holder.where:
        return holder.is_gone()
    # Written by an earlier version, perhaps in another container: gone only if the lock's holders are visible, and others.
    return not is_running(holder.pid) and bool(lock_holders(path))


def _sweep(store: Path) -> None:
    """Remove the lock files of runs that were killed, including those that never owned a harness."""
    prefix = f"{store.name}.run-"
    for path in store.parent.glob(f"{escape(prefix)}*"):
        is_alive(store, path.name.removeprefix(prefix))


def _lock_path(store: Path, run: str) -> Path:
    return store.with_name(f"{store.name}.run-{run}")


_PROC = Path("/proc")
_DIGITS = 12
"""Limit on the digits of a process number, larger than any real one."""


@frozen
class Holder:
    """A process, as it described itself."""

    pid: int
    started: str = ""
    """Clock ticks from boot to the process's start; empty if unknown."""
    where: str = ""
    """The boot and the namespaces in which number and start time are valid; empty if unknown."""

    def is_gone(self) -> bool:
        """Return whether the process has certainly ended."""
        if not self.where or self.where != _where():
            return False
        return not is_running(self.pid) or (self.started != "" and self.started != _read_start_time(self.pid, self.started))


def describe_self() -> str:
    """Return the text that identifies this process to others: number, start time, and where both are valid."""
    pid = os.getpid()
    where = _where()
    return f"{pid}\n{_read_start_time(pid, '')}\n{where}\n" if where else f"{pid}\n"


def read_holder(text: str) -> Holder | None:
    """Parse the process in a lock file; None if there is none. Earlier versions wrote the number alone."""
    pid, *rest = text.split("\n")
    if not (pid.isascii() and pid.isdecimal() and 0 < int(pid[:_DIGITS]) < 2**31):
        return None
    started, where = rest[:2] if len(rest) >= 2 else ("", "")
    return Holder(int(pid[:_DIGITS]), started, where)


def is_running(pid: int) -> bool:
    """Return whether a process with that number is running; a zombie is not."""
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


_STOPPED = ("T", "t")
"""How the kernel calls a process that was suspended."""


def is_suspended(pid: int) -> bool:
    """Return whether a process with that number is suspended (SIGSTOP); false where that cannot be known."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] in _STOPPED


def lock_holders(path: Path) -> list[int]:
    """Return the processes, among those visible to this user, that hold an exclusive lock on the file."""
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
    """Return the start time of a process; `unknown` if the system does not tell it."""
    try:
        return (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return unknown
