"""Who holds the loop up: a thread that notices code which blocks it, says so at once, and has it recorded.

The law: whoever is named has kept the loop's thread for more than a second in one go. Time in which this process did not
run, or the loop's thread waited for a processor, is nobody's.

Code of an extension that holds the interpreter's lock stops this thread too: it is named when the lock is free again, if it
was computing meanwhile; one that sleeps with the lock held is not told apart from a suspended process. While a debugger
waits for its user, nobody is named.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import threading
import time
from collections.abc import Container, Mapping
from contextlib import suppress
from itertools import islice
from types import FrameType
from typing import Any, cast

import trio
import trio._core._run
from attrs import define, field, frozen

from harnesses.diagnostics.author_frames import Place, innermost, near, rank_of
from harnesses.timing.clock import jumps, now_us
from orchestrator.codec import encode
from orchestrator.recording.recorder import Recorder
from orchestrator.runtime.system_faults import names_above
from orchestrator.store.store_protocol import Remark
from orchestrator.text.terminal_text import one_line, say

KIND = "loop_blocked"
"""Of the record."""
LIMIT_S = 1.0
LOOK_S = 0.1
"""Between two looks."""
SAID_S = 10.0
"""Between two lines about the same."""
RECORDED_S = 60.0
"""Between two records about the same; the second one counts what was between."""
_LATE_S = 0.1
"""How late a look may be for the time since the last one to count in full."""
_MOST_FRAMES = 2_000
_LOOP = os.path.join(os.path.dirname(trio.__file__), "_core", "_run.py"), "unrolled_run"
_OURS = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
_STORE = os.path.join(_OURS, "store", "")
_RECORDER = frozenset((os.path.join(_OURS, "recording", "recorder.py"), os.path.join(_OURS, "recording", "commit_queue.py")))
_COMMIT = os.path.join(_OURS, "recording", "commit_queue.py"), "commit"
_DEBUGGERS = frozenset(("bdb", "pdb", "pydevd"))
_CALLED = re.compile(r"\s*(?:await\s+)?([A-Za-z_][\w.]{0,80})\(")


@frozen
class Blocker:
    """Who holds the loop up, and where."""

    harness: str
    """Empty if it is none of them."""
    whose: str
    """For a sentence to begin with."""
    place: str
    advice: str


@define
class _Stay:
    """One task's stay on the loop's thread."""

    until: float
    """When it was looked at last."""
    blocked_s: float = 0.0
    by: Blocker | None = None
    counted: bool = False


@define
class _Tally:
    """What one of them has blocked, and what of it is not recorded yet."""

    due: float = 0.0
    """When the next record may be made."""
    said: float = float("-inf")
    times: int = 0
    seconds: float = 0.0
    place: str = ""


@frozen
class Spent:
    """Seconds that the loop's thread has computed, and has waited for a processor, until now; 0 where nobody counts."""

    computed_s: float = 0.0
    queued_s: float = 0.0
    own_s: float = 0.0
    """What this thread has waited for a processor."""


@define
class LoopWatch:
    """Watches the loop it is started in, from `start` to `stop`. None of it can fail a run.

    Args:
        recorder: who has it recorded.
        harnesses: names of those that run here.
    """

    _recorder: Recorder
    _harnesses: Container[str]
    _ended: threading.Event = field(factory=threading.Event)
    _tallies: dict[str, _Tally] = field(factory=dict[str, _Tally])
    """By harness; only the loop's thread records, only the watch's thread says."""
    _stay: _Stay | None = None
    _key: tuple[int, int] | None = None
    _looked: tuple[float, Spent] | None = None
    """When the last look was, and what was spent then."""

    def start(self) -> None:
        """Begin, unless the clock is a virtual one, which does not tell how long anything takes."""
        if jumps():
            return
        token = trio.lowlevel.current_trio_token()
        # What Trio knows of this thread, its current task among it. The object shows each thread its own; the dict does not.
        context = vars(getattr(trio._core._run, "GLOBAL_RUN_CONTEXT", threading.local()))
        loop = _Loop(threading.get_ident(), threading.get_native_id(), context)
        threading.Thread(target=self._watch, args=(loop, token), name="orchestrator-loop-watch", daemon=True).start()

    def stop(self) -> None:
        """End, and have recorded what is not yet; in the loop."""
        self._ended.set()
        if self._stay is not None:
            self._count(self._stay)
        self._record(at_once=True)

    # in the watch's thread

    def _watch(self, loop: _Loop, token: trio.lowlevel.TrioToken) -> None:
        while not self._ended.wait(LOOK_S):
            try:
                self._look(loop, token)
            except trio.RunFinishedError:
                return
            except Exception:  # what is looked at changes meanwhile
                self._stay = None

    def _look(self, loop: _Loop, token: trio.lowlevel.TrioToken) -> None:
        now, key, spent = time.monotonic(), loop.key(), loop.spent()
        looked, self._looked = self._looked or (now, spent), (now, spent)
        if key is None or key != self._key or self._stay is None:
            self._key, self._stay = key, None if key is None else _Stay(now, held_between(now - looked[0], looked[1], spent))
            if any(one.times and now >= one.due for one in list(self._tallies.values())):
                token.run_sync_soon(self._record)
        else:
            self._stay.blocked_s += blocked_between(now - looked[0], looked[1], spent)
            self._stay.until = now
        stay = self._stay
        if stay is None or stay.blocked_s <= LIMIT_S:
            return
        if stay.by is None:
            stay.by = loop.blocker(self._harnesses, self._recorder.store.location)
            if stay.by is None or loop.key() != key:
                stay.by = None
                return
            # It is called as soon as the loop runs again, before anything can end.
            token.run_sync_soon(self._settle, stay)
        self._say(stay, stay.by, now)

    def _say(self, stay: _Stay, by: Blocker, now: float) -> None:
        tally = self._tallies.setdefault(by.harness, _Tally())
        if now - tally.said >= SAID_S:
            tally.said = now
            what = f"{by.whose} has blocked the loop for {stay.blocked_s:.1f} s at {by.place}"
            say(f"{what}: all harnesses stand still; {by.advice}")

    # in the loop

    def _settle(self, stay: _Stay) -> None:
        self._count(stay)
        self._record()

    def _count(self, stay: _Stay) -> None:
        if stay.by is None or stay.counted:
            return
        stay.counted = True
        tally = self._tallies.setdefault(stay.by.harness, _Tally())
        tally.times += 1
        tally.seconds += stay.blocked_s + min(max(time.monotonic() - stay.until, 0.0), LOOK_S + _LATE_S)
        tally.place = stay.by.place

    def _record(self, *, at_once: bool = False) -> None:
        """Have recorded what may be now."""
        # An error in a callback would end the whole program.
        with suppress(Exception):
            now = time.monotonic()
            for name, tally in list(self._tallies.items()):
                if tally.times and (at_once or now >= tally.due):
                    body = {"seconds": round(tally.seconds, 3), "place": tally.place, "times": tally.times}
                    tally.due, tally.times, tally.seconds = now + RECORDED_S, 0, 0.0
                    self._recorder.submit(Remark(name, KIND, encode(body), now_us()))


def blocked_between(seconds: float, before: Spent, now: Spent) -> float:
    """Return how much of the time between two looks counts: not what this thread was late by, unless the other was busy."""
    busy_s = now.computed_s - before.computed_s
    return max(0.0, min(seconds - (now.queued_s - before.queued_s), LOOK_S + _LATE_S + busy_s))


def held_between(seconds: float, before: Spent, now: Spent) -> float:
    """Return for how long the interpreter's lock was held by a task that is seen for the first time.

    This thread is given the lock within milliseconds where Python code runs: then it was not late.
    """
    late_s, busy_s = seconds - LOOK_S, now.computed_s - before.computed_s
    return max(0.0, min(late_s - (now.own_s - before.own_s), busy_s)) if late_s > LIMIT_S else 0.0


@frozen
class _Loop:
    """The loop's thread, as it is seen from another one."""

    ident: int
    native: int
    context: Mapping[str, Any]

    def key(self) -> tuple[int, int] | None:
        """Return what is the same as long as a task keeps the thread; None if no task has it, or Trio does not tell."""
        task: Any = self.context.get("task")
        points = getattr(task, "_schedule_points", None)
        return None if points is None else (id(task), points)

    def spent(self) -> Spent:
        computed_s = 0.0
        if sys.platform != "win32" and sys.platform != "darwin":
            with suppress(OSError):
                computed_s = time.clock_gettime(time.pthread_getcpuclockid(self.ident))
        return Spent(computed_s, _queued_s(self.native), _queued_s(threading.get_native_id()))

    def blocker(self, harnesses: Container[str], store: str) -> Blocker | None:
        """Return who has the thread; None if nobody is to be named."""
        task, frames = self.context.get("task"), self._frames()
        if task is None or frames is None or any(frame.f_globals.get("__name__") in _DEBUGGERS for frame, _ in frames):
            return None
        place = innermost((frame, frame.f_lineno) for frame, _ in frames)
        shown = "an unknown place" if place is None else one_line(_shown(place, frames))
        if _is_of_store(frames):
            name = one_line(f"the store {store}")
            return Blocker("", name, shown, "have it on a disk that is quick, and see what else writes to it")
        harness = next((name for name in names_above(task) if name in harnesses), "")
        if not harness:
            return Blocker("", "the program, in no harness,", shown, "use trio.sleep, or await trio.to_thread.run_sync(…)")
        return Blocker(harness, f"harness {harness!r}", shown, "use self.sleep, or await trio.to_thread.run_sync(…)")

    def _frames(self) -> list[tuple[FrameType, int]] | None:
        """Return the frames below Trio's loop, outermost first, each with its last instruction; None if it is not in there."""
        frames: list[tuple[FrameType, int]] = []
        frame = sys._current_frames().get(self.ident)  # pyright: ignore[reportPrivateUsage]
        while frame is not None and len(frames) < _MOST_FRAMES:
            if (frame.f_code.co_filename, frame.f_code.co_name) == _LOOP:
                return frames[::-1]
            frames.append((frame, frame.f_lasti))
            frame = frame.f_back
        return None


def _queued_s(thread: int) -> float:
    try:
        with open(f"/proc/self/task/{thread}/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _is_of_store(frames: list[tuple[FrameType, int]]) -> bool:
    """Return whether the recorder or the store is at work, and for no code of an author below it but that of a store."""
    for frame, _ in reversed(frames):
        file = os.path.realpath(frame.f_code.co_filename)
        if file.startswith(_STORE) or file in _RECORDER:
            return True
        if rank_of(frame.f_code.co_filename) == 0:
            break
    return any((frame.f_code.co_filename, frame.f_code.co_name) == _COMMIT for frame, _ in frames)


def _shown(place: Place, frames: list[tuple[FrameType, int]]) -> str:
    """Return a place for people: `strategy.py:41 in decide (time.sleep)`."""
    at = place.file, place.function
    frame, last = next(one for one in reversed(frames) if (one[0].f_code.co_filename, one[0].f_code.co_name) == at)
    called = _called(frame, last)
    return f"{near(place.file)}:{place.line} in {place.function}{f' ({called})' if called else ''}"


def _called(frame: FrameType, last: int) -> str:
    """Return the name of the function that a frame has called, as it is written there; empty if that is not a plain name."""
    position = next(islice(frame.f_code.co_positions(), last // 2, None), None)
    if position is None or position[0] is None or position[2] is None:
        return ""
    source = linecache.getline(frame.f_code.co_filename, position[0])
    match = _CALLED.match(source.encode()[position[2] :].decode(errors="replace"))
    return "" if match is None else cast(str, match[1])
