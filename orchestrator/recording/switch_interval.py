"""Lets threads that wait for the interpreter have it soon, while a writer thread works beside the loop.

Python lets a thread compute for 5 ms while others wait, each time that they wait. A writer waits after each statement, each
search and each wake-up, so at 5 ms it stands still for longer than the loop takes for the steps of a batch, and both hardly
ever work at the same time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

SWITCH_S = 0.0005
"""Seconds. With 1,000 harnesses, the writer waits 30 us a step at 5 ms, 5 us at 0.5 ms; a switch takes about 0.01 ms."""


class _Interval:
    """The interval of this process, and how many need it short. Invariant: it is as it was before when nobody does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 0.0
        self._ours = 0.0

    def shorten(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._before = sys.getswitchinterval()
                if self._before > SWITCH_S:
                    _set(SWITCH_S)
                self._ours = sys.getswitchinterval()

    def restore(self) -> None:
        with self._lock:
            self._users -= 1
            # Not if the program has chosen another one meanwhile.
            if not self._users and sys.getswitchinterval() == self._ours:
                _set(self._before)


def _set(seconds: float) -> None:
    # Python cuts off to whole microseconds: what it has returned itself would become one less.
    sys.setswitchinterval(seconds + 5e-7)


_interval = _Interval()


@contextmanager
def prompt_switches() -> Generator[None]:
    """Shorten the switch interval of the process within the block, unless it is shorter already. Blocks may overlap."""
    _interval.shorten()
    try:
        yield
    finally:
        _interval.restore()
