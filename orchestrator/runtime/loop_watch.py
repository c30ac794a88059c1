"""A watchdog thread that detects code which blocks the event loop, reports it at once, and has it recorded.

Invariant: code that is named has held the loop's thread for more than a second without a break. Time in which this process
did not run, or the thread waited for a processor, is not counted.

Extension code that holds the interpreter lock stops this thread too. It is named when the lock is free again, if it was
computing; if it slept with the lock held, it cannot be told apart from a suspended process. Nobody is named while a debugger
is waiting.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Container
from contextlib import suppress

import trio
import trio._core._run
from attrs import define, field, frozen

from harnesses.diagnostics.author_frames import rank_of
from harnesses.diagnostics.loop_thread import (
    LATE_S,
    LOOK_S,
    Frames,
    LoopThread,
    Spent,
    advice_at,
    blocked_between,
    is_debugged,
    shown_line,
)
from harnesses.timing.clock import jumps, now_us
from orchestrator.codec import encode
from orchestrator.recording.recorder import Recorder
from orchestrator.runtime.system_faults import names_above
from orchestrator.store.store_protocol import Remark
from orchestrator.text.terminal_text import one_line, say

KIND = "loop_blocked"
"""Kind of the record."""
LIMIT_S = 1.0
SAID_S = 10.0
"""Seconds between two messages about the same code."""
RECORDED_S = 60.0
"""Seconds between two records about the same code; a record includes the time since the one before."""
_OURS = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
_STORE = os.path.join(_OURS, "store", "")
_RECORDER = frozenset((os.path.join(_OURS, "recording", "recorder.py"), os.path.join(_OURS, "recording", "commit_queue.py")))
_COMMIT = os.path.join(_OURS, "recording", "commit_queue.py"), "commit"


@frozen
class Blocker:
    """What blocks the loop, and where."""

    harness: str
    """Name of the harness; empty if it is none of them."""
    whose: str
    """Subject of a sentence about it."""
    place: str
    advice: str


@define
class _Stay:
    """The uninterrupted time of one task on the loop's thread."""

    until: float
    """Time of the last check."""
    blocked_s: float = 0.0
    by: Blocker | None = None
    counted: bool = False


@define
class _Tally:
    """Time that one of them has blocked, and the part that is not recorded yet."""

    due: float = 0.0
    """Time at which the next record is allowed."""
    said: float = float("-inf")
    times: int = 0
    seconds: float = 0.0
    place: str = ""


@define
class LoopWatch:
    """Watches the event loop it is started in, from `start` to `stop`. It cannot fail a run.

    Args:
        recorder: writes the records.
        harnesses: names of those that run here.
    """

    _recorder: Recorder
    _harnesses: Container[str]
    _ended: threading.Event = field(factory=threading.Event)
    _tallies: dict[str, _Tally] = field(factory=dict[str, _Tally])
    """Blocked time by harness; only the loop's thread records, only the watchdog thread prints."""
    _stay: _Stay | None = None
    _key: tuple[int, int] | None = None
    _looked: tuple[float, Spent] | None = None
    """Time of the last check, and `Spent` then."""

    def start(self) -> None:
        """Begin, unless Trio's clock is virtual, since that does not measure durations."""
        if jumps():
            return
        token = trio.lowlevel.current_trio_token()
        # Trio's state for this thread, including its current task. The object differs by thread; its dict does not.
        context = vars(getattr(trio._core._run, "GLOBAL_RUN_CONTEXT", threading.local()))
        loop = LoopThread(threading.get_ident(), threading.get_native_id(), context)
        threading.Thread(target=self._watch, args=(loop, token), name="orchestrator-loop-watch", daemon=True).start()

    def stop(self) -> None:
        """End, and record what is left; called in the loop."""
        self._ended.set()
        if self._stay is not None:
            self._count(self._stay)
        self._record(at_once=True)

    # in the watchdog thread

    def _watch(self, loop: LoopThread, token: trio.lowlevel.TrioToken) -> None:
        while not self._ended.wait(LOOK_S):
            try:
                self._look(loop, token)
            except trio.RunFinishedError:
                return
            except Exception:  # The data read here changes concurrently.
                self._stay = None

    def _look(self, loop: LoopThread, token: trio.lowlevel.TrioToken) -> None:
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
            stay.by = _blocker(loop, self._harnesses, self._recorder.store.location)
            if stay.by is None or loop.key() != key:
                stay.by = None
                return
            # Runs as soon as the loop runs again, before anything can end.
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
        tally.seconds += stay.blocked_s + min(max(time.monotonic() - stay.until, 0.0), LOOK_S + LATE_S)
        tally.place = stay.by.place

    def _record(self, *, at_once: bool = False) -> None:
        """Record what is due."""
        # An error in a callback would end the whole program.
        with suppress(Exception):
            now = time.monotonic()
            for name, tally in list(self._tallies.items()):
                if tally.times and (at_once or now >= tally.due):
                    body = {"seconds": round(tally.seconds, 3), "place": tally.place, "times": tally.times}
                    tally.due, tally.times, tally.seconds = now + RECORDED_S, 0, 0.0
                    self._recorder.submit(Remark(name, KIND, encode(body), now_us()))


def held_between(seconds: float, before: Spent, now: Spent) -> float:
    """Return for how long the interpreter lock was held by a task that is seen for the first time.

    Running Python code releases the lock to this thread within milliseconds, so then it was not late.
    """
    late_s, busy_s = seconds - LOOK_S, now.computed_s - before.computed_s
    return max(0.0, min(late_s - (now.own_s - before.own_s), busy_s)) if late_s > LIMIT_S else 0.0


def _blocker(loop: LoopThread, harnesses: Container[str], store: str) -> Blocker | None:
    """Return what holds the thread; None if nobody is to be named."""
    task, frames = loop.context.get("task"), loop.frames()
    if task is None or frames is None or is_debugged(frames):
        return None
    shown = one_line(shown_line(frames))
    if _is_of_store(frames):
        name = one_line(f"the store {store}")
        return Blocker("", name, shown, "put it on a fast disk, and check what else writes to that disk")
    harness = next((name for name in names_above(task) if name in harnesses), "")
    if not harness:
        return Blocker("", "the program, in no harness,", shown, advice_at(shown, "trio.sleep(…)"))
    return Blocker(harness, f"harness {harness!r}", shown, advice_at(shown, "self.sleep(…)"))


def _is_of_store(frames: Frames) -> bool:
    """Return whether the recorder or a store is executing, and no other code of a harness or of the program below it."""
    for frame, _ in reversed(frames):
        file = os.path.realpath(frame.f_code.co_filename)
        if file.startswith(_STORE) or file in _RECORDER:
            return True
        if rank_of(frame.f_code.co_filename) == 0:
            break
    return any((frame.f_code.co_filename, frame.f_code.co_name) == _COMMIT for frame, _ in frames)
