"""What the time of a step went into: read off Trio's clock, so that a virtual one gives virtual times.

    recorded ──held──► resumed ──────────work──────────► yielded ──commit──► recorded, is_complete()?
                                agent · effects · waiting

The law: in one task a moment counts once: an agent that waits for a message within its work is waiting. What is done side by
side, in several tasks, may add up to more than there was; but no part is longer than the work on the step in which it ended.
Without a pause, the work on a step begins when the one before is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

_COUNTED: ContextVar[float] = ContextVar("counted", default=0.0)
"""Seconds that were counted so far in this task: each has its own."""
_HELD_LEAST_S = 0.001
"""A shorter pause between two steps is the loop itself."""


class Stopwatch:
    """Times one attempt, step by step."""

    __slots__ = ("_at", "_counted", "_now", "agent", "commit", "effects", "held", "waiting", "work")

    def __init__(self) -> None:
        self._now: Callable[[], float] = lambda: 0.0
        self._at = 0.0
        self._counted = False
        self.work = self.agent = self.effects = self.waiting = self.commit = self.held = 0.0

    def start(self, now: Callable[[], float]) -> None:
        """Begin an attempt, by this clock, in seconds."""
        self._now, self._at = now, now()

    def resume(self) -> None:
        """Note that `execute()` is about to be resumed, after it was held."""
        now = self._now()
        held = now - self._at
        if held >= _HELD_LEAST_S:
            self.held += held
            self._counted = True
        self._at = now

    def stop(self) -> None:
        """Note that it has yielded."""
        now = self._now()
        self.work = now - self._at
        self._at = now

    def record(self) -> None:
        """Note that the step is recorded; the times of the next one begin at 0."""
        now = self._now()
        self.commit = now - self._at
        self._at = now
        if self._counted:
            self.agent = self.effects = self.waiting = self.held = 0.0
            self._counted = False

    @property
    def age_s(self) -> float:
        """Seconds since the last step was recorded, the attempt began, or it was let go on."""
        return self._now() - self._at

    def begin(self) -> float:
        """Return what `end` needs to know of the beginning of something."""
        return self._now() - _COUNTED.get()

    def end(self, part: str, since: float) -> None:
        """Count the time since `begin` to `agent`, `effects` or `waiting`, without what was counted meanwhile."""
        now, counted = self._now(), _COUNTED.get()
        seconds = now - counted - since
        if seconds > 0.0:
            _COUNTED.set(counted + seconds)
            self._counted = True
            # In the background it may have begun with an earlier step.
            setattr(self, part, getattr(self, part) + min(seconds, now - self._at))

    def took_us(self) -> str:
        """Return a JSON object of whole microseconds by name, `work` first; of the others those that are not 0.

        `commit` is that of the step before.
        """
        text = f'{{"work":{int(self.work * 1e6)}'
        if self.commit:
            text += f',"commit":{int(self.commit * 1e6)}'
        if self._counted:
            for name in ("agent", "effects", "waiting", "held"):
                seconds = getattr(self, name)
                if seconds:
                    most = seconds if name == "held" else min(seconds, self.work)
                    text += f',"{name}":{int(most * 1e6)}'
        return text + "}"
