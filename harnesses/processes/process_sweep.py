"""Ends processes by a mark in their environment or by the directory they work in: what no tree of processes holds any more.

The law: neither this process nor one that it descends from is ever ended; a process is ended only if it matches at that
moment, whoever had its number before.

Finds them in /proc; on systems without it nothing is found.
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
"""Name in the environment of every command; its value is the marks of the commands around it, each ended by a colon."""


_QUIET = 5
"""How often nothing is found before it is taken for true: what forks on and on is not in every list."""


@frozen
class Swept:
    """What a sweep has done."""

    ended: tuple[int, ...] = ()
    """Ids of processes that are gone."""
    left: tuple[int, ...] = ()
    """Ids of processes that match and could not be ended in time, such as those of another user."""


async def sweep(directory: Path | str, *, within_s: float = 5.0) -> Swept:
    """End every process whose working directory is `directory`, or below it, also if it has been deleted.

    It is not cut short when cancelled.
    """
    return await _in_thread(partial(_sweep_directory, directory, within_s))


async def sweep_marked(mark: str, *, within_s: float = 5.0) -> Swept:
    """End every process that was started with `mark` in its environment and has kept it.

    It is not cut short when cancelled.
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
    # The number may be another's by now; what the descriptor stands for is asked once more, and stays the same.
    with suppress(OSError):
        process = os.pidfd_open(number)
        try:
            if matches(number):
                signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            os.close(process)
    return True


def _numbers() -> list[int]:
    """Return the ids of all processes, the newest first: of those that fork on and on, only the newest are still there."""
    try:
        return sorted((int(name) for name in os.listdir("/proc") if name.isdigit()), reverse=True)
    except FileNotFoundError:
        return []


def _own_line() -> Iterator[int]:
    """Yield this process and those that it descends from."""
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
