"""A burst of starts or ends: harnesses begin in portions, and Python's collector does not look at all objects again and again.

While thousands of harnesses start, the number of live objects grows all the time, so that the collector looks at all of them
over and over: half of the processor time of starts. Freezing and unfreezing them at once makes them old without looking at
them, and the next full collection is the first one after the burst. Nothing stays frozen. A burst that lasts is no burst:
after `_LONGEST_S` the collector works as always.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable

import trio
from attrs import define, field

_PORTION = 256
"""Harnesses that begin in one pass of Trio's scheduler: about 30 ms, for which their siblings wait."""
_LONGEST_S = 30.0
"""Seconds for which the collector is spared: 10,000 harnesses start and end in 2 to 5 s each."""
_PAUSE_S = 1.0
"""Seconds without an end after which the next one may begin a burst."""


@define(eq=False, repr=False)
class StartBurst:
    """Counts the harnesses that start and end.

    Invariant: everything passed to `begin` is called, once and in order, even if the nursery is cancelled.
    """

    _starting: int = 0
    """Harnesses that were started, and whose first attempt has not begun."""
    _waiting: deque[Callable[[], object]] = field(factory=deque[Callable[[], object]])
    _ended: int = 0
    """Attempts and harnesses that have ended without a pause between."""
    _last_end: float = 0.0
    _starts_until: float = 0.0
    """Time until which the collector is spared for the starts, seconds on the monotonic clock."""
    _ends_until: float = 0.0
    """The same for the ends."""
    _spares: bool = True
    """Whether the collector may be spared; a program that freezes objects itself decides on its own."""

    def begin(self, start_task: Callable[[], object], nursery: trio.Nursery) -> None:
        """Call `start_task`: at once, or in a burst soon.

        Args:
            nursery: where the remaining ones are called.
        """
        self._starting += 1
        if self._starting == _PORTION:
            self._starts_until = time.monotonic() + _LONGEST_S
        if self._starting <= _PORTION and not self._waiting:
            start_task()
            return
        self._waiting.append(start_task)
        if len(self._waiting) == 1:
            nursery.start_soon(self._begin_in_portions)
        self.spare_collector()

    def has_begun(self) -> None:
        """Count one harness less: it has begun its first attempt, or ended without one."""
        self.spare_collector()
        self._starting -= 1

    async def _begin_in_portions(self) -> None:
        try:
            while self._waiting:
                for _ in range(min(_PORTION, len(self._waiting))):
                    self._waiting.popleft()()
                self.spare_collector()
                await trio.lowlevel.checkpoint()
        finally:
            while self._waiting:
                self._waiting.popleft()()

    def has_ended(self) -> None:
        """Count an attempt, or a harness, that has ended."""
        now = time.monotonic()
        if now - self._last_end > _PAUSE_S:
            self._ended, self._ends_until = 0, now + _LONGEST_S
        self._ended += 1
        self._last_end = now
        if self._ended > _PORTION and now < self._ends_until:
            self._make_old()

    def spare_collector(self) -> None:
        """Make all objects old, in a burst of starts."""
        if self._starting > _PORTION and time.monotonic() < self._starts_until:
            self._make_old()

    def _make_old(self) -> None:
        """Make all objects old, unless the program has disabled the collector or freezes objects."""
        if self._spares and gc.isenabled():
            self._spares = not gc.get_freeze_count()
            if self._spares:
                gc.freeze()
                gc.unfreeze()
