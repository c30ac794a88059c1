"""A watchdog thread for harnesses that run alone: it reports code of theirs that blocks Trio's loop for more than a second.

It exists while such a harness runs, once for each loop, and not under a virtual clock. With an `Orchestrator`,
`orchestrator.runtime.loop_watch` does this, and has it recorded.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

import trio
from attrs import define, field

from harnesses.diagnostics.loop_thread import (
    LOOK_S,
    LoopThread,
    Spent,
    advice_at,
    blocked_between,
    is_debugged,
    shown_line,
    this_loop,
)
from harnesses.timing.clock import jumps

LIMIT_S = 1.0
SAID_S = 10.0
"""Seconds between two messages about the same line."""


@define(eq=False)
class LoneLoopWatch:
    """Watches one loop, from `start` to `stop`."""

    names: list[str] = field(factory=list[str])
    """Of the harnesses that run alone in the loop."""
    _loop: LoopThread = field(factory=this_loop)
    _ended: threading.Event = field(factory=threading.Event)
    _key: tuple[int, int] | None = None
    _blocked_s: float = 0.0
    _looked: tuple[float, Spent] | None = None
    _said: dict[str, float] = field(factory=dict[str, float])

    def start(self) -> None:
        """Begin, in a thread of its own."""
        threading.Thread(target=self._watch, name="harness-loop-watch", daemon=True).start()

    def stop(self) -> None:
        """End."""
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_S):
            try:
                self._look()
            except Exception:  # the thread looked at changes its data meanwhile
                self._key = None

    def _look(self) -> None:
        now, key, spent = time.monotonic(), self._loop.key(), self._loop.spent()
        looked, self._looked = self._looked or (now, spent), (now, spent)
        if key is None or key != self._key:
            self._key, self._blocked_s = key, 0.0
            return
        self._blocked_s += blocked_between(now - looked[0], looked[1], spent)
        frames = self._loop.frames() if self._blocked_s > LIMIT_S else None
        if frames is None or is_debugged(frames) or self._loop.key() != key:
            return
        line = shown_line(frames)
        if now - self._said.get(line, float("-inf")) >= SAID_S:
            self._said = {line: now}
            self._say(line)

    def _say(self, line: str) -> None:
        whose = f"harness {self.names[0]!r}" if len(self.names) == 1 else "a harness, or the program,"
        text = f"{whose} has blocked the loop for {self._blocked_s:.1f} s at {line}: nothing else of the program runs"
        print(f"{text}; {advice_at(line, 'self.sleep(…)')}", file=sys.stderr, flush=True)


_watch_of_loop: trio.lowlevel.RunVar[LoneLoopWatch | None] = trio.lowlevel.RunVar("lone_loop_watch", None)


@contextmanager
def watched_loop(name: str) -> Generator[None]:
    """Have the loop watched while a harness runs alone in it."""
    if jumps():
        yield
        return
    watch = _watch_of_loop.get()
    if watch is None:
        watch = LoneLoopWatch()
        _watch_of_loop.set(watch)
        watch.start()
    watch.names.append(name)
    try:
        yield
    finally:
        watch.names.remove(name)
        if not watch.names:
            watch.stop()
            _watch_of_loop.set(None)
