"""Which process holds a lock file: written into it by the holder, and held against the processes there are by who looks.

A lock alone does not tell: a process that was forked off the holder by a library, past Python, may have it still.

The law: who cannot be shown to be gone counts as alive. Numbers of processes are compared only within one boot of one machine
and one namespace, and together with when the process was started, since numbers are given out again.
"""

from __future__ import annotations

import os
import select
from contextlib import suppress
from pathlib import Path

from attrs import frozen

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
