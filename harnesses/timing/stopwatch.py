"""The stopwatch of a step: how much of its time went into which part, measured on Trio's clock.

    recorded ──held──► resumed ──────────work──────────► yielded ──commit──► recorded, is_complete()?
                                agent · effects · waiting

Invariant: within one task each moment is counted once: an agent that waits for a message is counted as waiting. Parallel tasks
may add up to more than the elapsed time, but no part is longer than the work of the step in which it ended. Without a pause,
the work of a step begins when the previous step is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

_COUNTED: ContextVar[float] = ContextVar("counted", default=0.0)
"""Seconds counted so far in the current task."""
_HELD_LEAST_S = 0.001
"""Shortest pause between two steps that counts as held, in seconds; less is the overhead of the loop."""


class Stopwatch:
    """Times one attempt, step by step."""

    __slots__ = ("_at", "_counted", "_now", "agent", "commit", "effects", "held", "waiting", "work")

    def __init__(self) -> None:
        self._now: Callable[[], float] = _not_started
        self._at = 0.0
        self._counted = False
        self.work = self.agent = self.effects = self.waiting = self.commit = self.held = 0.0

    def start(self, now: Callable[[], float]) -> None:
        """Start an attempt; `now` returns the time in seconds."""
        self._now, self._at = now, now()

    def resume(self) -> None:
        """Note that `execute()` is about to be resumed after it was held."""
        now = self._now()
        held = now - self._at
        if held >= _HELD_LEAST_S:
            self.held += held
            self._counted = True
        self._at = now

    def stop(self) -> None:
        """Note that `execute()` has yielded."""
        now = self._now()
        self.work = now - self._at
        self._at = now

    def record(self) -> None:
        """Note that the step is recorded, and reset the times for the next one."""
        now = self._now()
        self.commit = now - self._at
        self._at = now
        if self._counted:
            self.agent = self.effects = self.waiting = self.held = 0.0
            self._counted = False

    @property
    def age_s(self) -> float:
        """Seconds since the last step was recorded, the attempt began, or it was resumed."""
        return self._now() - self._at

    def age_at(self, now: float) -> float:
        """Return `age_s` at a time on its clock, for those who ask many at once."""
        return 0.0 if self._now is _not_started else now - self._at

    @property
    def since(self) -> float | None:
        """The time on its clock from which `age_s` counts; None before the attempt has begun."""
        return None if self._now is _not_started else self._at

    def begin(self) -> float:
        """Start measuring a part; return the value to pass to `end`."""
        return self._now() - _COUNTED.get()

    def end(self, part: str, since: float) -> None:
        """Add the time since `begin` to `agent`, `effects` or `waiting`, except what was counted in between."""
        now, counted = self._now(), _COUNTED.get()
        seconds = now - counted - since
        if seconds > 0.0:
            _COUNTED.set(counted + seconds)
            self._counted = True
            # A background task may have begun in an earlier step.
            setattr(self, part, getattr(self, part) + min(seconds, now - self._at))

    def took_us(self) -> dict[str, int]:
        """Return the times in whole microseconds: `work` first, then those that are not 0.

        `commit` is that of the previous step.
        """
        took = {"work": int(self.work * 1e6)}
        if self.commit:
            took["commit"] = int(self.commit * 1e6)
        if self._counted:
            for name in ("agent", "effects", "waiting", "held"):
                seconds = getattr(self, name)
                if seconds:
                    took[name] = int((seconds if name == "held" else min(seconds, self.work)) * 1e6)
        return took


def _not_started() -> float:
    return 0.0
