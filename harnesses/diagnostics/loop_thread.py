"""The thread of Trio's loop, seen from another one: which task has it, for how long, and at which line of code."""

from __future__ import annotations

import linecache
import os
import re
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from types import FrameType
from typing import Any, TypeAlias, cast

import trio
import trio._core._run
from attrs import frozen

from harnesses.diagnostics.author_frames import Place, innermost, near

LOOK_S = 0.1
"""Seconds between two checks."""
LATE_S = 0.1
"""How many seconds late a check may be and still count in full."""
ASYNCIO_ADVICE = "use `await trio.to_thread.run_sync(asyncio.run, …)`, or Trio's own functions"
_MOST_FRAMES = 2_000
_LOOP = os.path.join(os.path.dirname(trio.__file__), "_core", "_run.py"), "unrolled_run"
_DEBUGGERS = frozenset(("bdb", "pdb", "pydevd"))
_CALLED = re.compile(r"\s*(?:await\s+)?([A-Za-z_][\w.]{0,80})\(")

Frames: TypeAlias = list[tuple[FrameType, int]]
"""Outermost first, each with its last instruction."""


@frozen
class Spent:
    """Seconds so far that the loop's thread computed, and that it waited for a processor; 0 if the system does not tell."""

    computed_s: float = 0.0
    queued_s: float = 0.0
    own_s: float = 0.0
    """Seconds that this thread waited for a processor."""


def blocked_between(seconds: float, before: Spent, now: Spent) -> float:
    """Return how much of the time between two checks counts: less this thread's own delay, unless the other computed."""
    busy_s = now.computed_s - before.computed_s
    return max(0.0, min(seconds - (now.queued_s - before.queued_s), LOOK_S + LATE_S + busy_s))


@frozen
class LoopThread:
    """The loop's thread, seen from another thread."""

    ident: int
    native: int
    context: Mapping[str, Any]

    def key(self) -> tuple[int, int] | None:
        """Return a key that is constant while a task keeps the thread; None if no task has it, or Trio does not tell."""
        task: Any = self.context.get("task")
        points = getattr(task, "_schedule_points", None)
        return None if points is None else (id(task), points)

    def spent(self) -> Spent:
        computed_s = 0.0
        if sys.platform != "win32" and sys.platform != "darwin":
            with suppress(OSError):
                computed_s = time.clock_gettime(time.pthread_getcpuclockid(self.ident))
        return Spent(computed_s, _queued_s(self.native), _queued_s(threading.get_native_id()))

    def frames(self) -> Frames | None:
        """Return the frames below Trio's loop, outermost first, each with its last instruction; None outside the loop."""
        frames: Frames = []
        frame = sys._current_frames().get(self.ident)  # pyright: ignore[reportPrivateUsage]
        while frame is not None and len(frames) < _MOST_FRAMES:
            if (frame.f_code.co_filename, frame.f_code.co_name) == _LOOP:
                return frames[::-1]
            frames.append((frame, frame.f_lasti))
            frame = frame.f_back
        return None


def this_loop() -> LoopThread:
    """Return the loop that runs in this thread."""
    # What Trio knows of this thread, its current task among it. The object shows each thread its own; the dict does not.
    context = vars(getattr(trio._core._run, "GLOBAL_RUN_CONTEXT", threading.local()))
    return LoopThread(threading.get_ident(), threading.get_native_id(), context)


def is_debugged(frames: Frames) -> bool:
    """Return whether a debugger is waiting in these frames."""
    return any(frame.f_globals.get("__name__") in _DEBUGGERS for frame, _ in frames)


def shown_line(frames: Frames) -> str:
    """Return the line of the author's code that frames are at, as text."""
    place = innermost((frame, frame.f_lineno) for frame, _ in frames)
    return "an unknown place" if place is None else shown(place, frames)


def advice_at(line: str, sleep: str) -> str:
    """Return what to do about code that blocks the loop.

    Args:
        line: from `shown_line`.
        sleep: what to sleep with.
    """
    return ASYNCIO_ADVICE if line.endswith("(asyncio.run)") else f"use `await {sleep}`, or `await trio.to_thread.run_sync(…)`"


def _queued_s(thread: int) -> float:
    try:
        with open(f"/proc/self/task/{thread}/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def shown(place: Place, frames: Frames) -> str:
    """Return a place as text: `strategy.py:41 in decide (time.sleep)`."""
    at = place.file, place.function
    frame, last = next(one for one in reversed(frames) if (one[0].f_code.co_filename, one[0].f_code.co_name) == at)
    called = _called(frame, last)
    return f"{near(place.file)}:{place.line} in {place.function}{f' ({called})' if called else ''}"


def _called(frame: FrameType, last: int) -> str:
    """Return the name of the function that a frame calls, as written in the source; empty if it is not a plain name."""
    position = next(islice(frame.f_code.co_positions(), last // 2, None), None)
    if position is None or position[0] is None or position[2] is None:
        return ""
    source = linecache.getline(frame.f_code.co_filename, position[0])
    match = _CALLED.match(source.encode()[position[2] :].decode(errors="replace"))
    return "" if match is None else cast(str, match[1])
