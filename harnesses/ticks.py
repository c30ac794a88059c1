"""Ticks at a steady pace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import ceil

import trio

from harnesses.errors import HarnessMisuse


class Every:
    """An async iterator of tick numbers from 0, due at `start + n * period_s` on Trio's clock. Missed ones are skipped."""

    def __init__(self, period_s: float, sleep: Callable[[float], Awaitable[None]]) -> None:
        if not period_s > 0:
            raise HarnessMisuse(f"every: expected a period above 0 seconds, was {period_s!r}")
        self._period_s = period_s
        self._sleep = sleep
        self._start: float | None = None
        self._tick = 0

    def __aiter__(self) -> Every:
        return self

    async def __anext__(self) -> int:
        now = trio.current_time()
        if self._start is None:
            self._start = now
        else:
            self._tick = max(self._tick + 1, ceil((now - self._start) / self._period_s - 1e-9))
        due = self._start + self._tick * self._period_s
        await self._sleep(max(0.0, due - now))
        return self._tick
