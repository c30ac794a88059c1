"""A burst of starts: harnesses begin in portions, and Python's collector does not look at all objects again and again.

While thousands of harnesses start, the number of live objects grows all the time, so that the collector looks at all of them
over and over: half of the processor time of starts. Freezing and unfreezing them at once makes them old without looking at
them, and the next full collection is the first one after the burst. Nothing stays frozen.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable

import trio
from attrs import define, field

_PORTION = 256
"""Harnesses that begin in one pass of Trio's scheduler: about 30 ms, for which their siblings wait."""


@define(eq=False, repr=False)
class StartBurst:
    """Counts the harnesses that are starting.

    Invariant: everything passed to `begin` is called, once and in order, even if the nursery is cancelled.
    """

    _starting: int = 0
    """Harnesses that were started, and whose first attempt has not begun."""
    _waiting: deque[Callable[[], object]] = field(factory=deque[Callable[[], object]])
    _spares: bool = True
    """Whether the collector may be spared; a program that freezes objects itself decides on its own."""

    def begin(self, start_task: Callable[[], object], nursery: trio.Nursery) -> None:
        """Call `start_task`: at once, or in a burst soon.

        Args:
            nursery: where the remaining ones are called.
        """
        self._starting += 1
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

    def spare_collector(self) -> None:
        """Make all objects old in a burst, unless the program has disabled the collector or freezes objects."""
        if self._starting > _PORTION and self._spares and gc.isenabled():
            self._spares = not gc.get_freeze_count()
            if self._spares:
                gc.freeze()
                gc.unfreeze()
