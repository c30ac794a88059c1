"""Kills processes found by a mark in their environment or by their working directory, when no process tree holds them.

Invariant: this process and its ancestors are never killed. A process is killed only if it matches at that moment, even if its
id was reused.

Processes are found through /proc; on systems without it nothing is found.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import trio
from attrs import frozen

from harnesses.errors import HarnessMisuse

MARK = "HARNESS_TREE"
"""Environment variable of every command; its value is the marks of the enclosing commands, each followed by a colon."""


_QUIET = 5
"""Consecutive empty scans before a sweep ends: a process that keeps forking is missing from some scans."""


@frozen
class Swept:
    """The result of a sweep."""

    ended: tuple[int, ...] = ()
    """Ids of processes that were killed."""
    left: tuple[int, ...] = ()
    """Ids of matching processes that could not be killed in time, such as those of another user."""


async def sweep(directory: Path | str, *, within_s: float = 5.0) -> Swept:
    """Kill every process whose working directory is `directory` or below it, even if it was deleted.

    Not interrupted by cancellation.
    """
    return await _in_thread(partial(_sweep_directory, directory, within_s))


async def sweep_marked(mark: str, *, within_s: float = 5.0) -> Swept:
    """Kill every process that was started with `mark` in its environment and has kept it.

    Not interrupted by cancellation.
    """
    return await _in_thread(partial(_sweep, partial(_is_marked, f"{mark}:".encode()), within_s))


async def _in_thread(work: Callable[[], Swept]) -> Swept:
    swept: list[Swept] = []
    with trio.CancelScope(shield=True):
        swept.append(await trio.to_thread.run_sync(work))
    return swept[0]


def _sweep_directory(directory: Path | str, within_s: float) -> Swept:
    path = os.path.realpath(directory)
    if path == os.sep:
        raise HarnessMisuse(f"processes cannot be ended below {path!r}: expected a directory of one's own")
    return _sweep(partial(_works_below, path), within_s)


def _sweep(matches: Callable[[int], bool], within_s: float) -> Swept:
    spared = set(_own_line())
    ended: set[int] = set()
    left: list[int] = []
    deadline = time.monotonic() + within_s
    quiet = 0
    while quiet < _QUIET and time.monotonic() < deadline:
        left = [number for number in _numbers() if number not in spared and _end(number, matches)]
        ended.update(left)
        quiet = 0 if left else quiet + 1
        time.sleep(0.002)
    return Swept(tuple(sorted(ended - set(left))), tuple(sorted(left)))


def _end(number: int, matches: Callable[[int], bool]) -> bool:
    """Kill a process if it matches; return whether it does."""
    if not matches(number):
        return False
    # The id may have been reused: check again what the descriptor refers to, which cannot change.
    with suppress(OSError):
        process = os.pidfd_open(number)
        try:
            if matches(number):
                signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            os.close(process)
    return True


def _numbers() -> list[int]:
    """Return the ids of all processes, newest first: of processes that keep forking, only the newest still exist."""
    try:
        return sorted((int(name) for name in os.listdir("/proc") if name.isdigit()), reverse=True)
    except FileNotFoundError:
        return []


def _own_line() -> Iterator[int]:
    """Yield the ids of this process and its ancestors."""
    number = os.getpid()
    while number > 0:
        yield number
        try:
            number = int(Path(f"/proc/{number}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            return


def _works_below(directory: str, number: int) -> bool:
    try:
        place = os.readlink(f"/proc/{number}/cwd").removesuffix(" (deleted)")
    except OSError:
        return False
    return place == directory or place.startswith(directory + os.sep)


def _is_marked(mark: bytes, number: int) -> bool:
    try:
        block = Path(f"/proc/{number}/environ").read_bytes()
    except OSError:
        return False
    wanted = f"{MARK}=".encode()
    return any(pair.startswith(wanted) and mark in pair for pair in block.split(b"\0"))
