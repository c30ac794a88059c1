"""Wall time: seconds since 1970, as the system or Trio's virtual clock has it. And ticks: a clock that cannot be set.

The system's wall clock is read here and nowhere else, by `system_time_ns`: whoever replaces that sets the time of all records.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from math import inf
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import trio
from attrs import frozen


@frozen
class Ticks:
    """A moment by a clock that cannot be set; two of them can be compared if they are of one era."""

    era: str
    """One boot of a machine, as far as its processes share a clock; where that is not known, one process."""
    us: int
    """Microseconds since some moment before the era's first; where the system can tell, time asleep included."""


_ORIGINS: WeakKeyDictionary[Any, tuple[float, float]] = WeakKeyDictionary()
"""Wall time and Trio's time when a virtual clock was first seen: all who ask under one clock are told the same."""


_EPOCH = datetime.fromtimestamp(0, UTC)
system_time_ns: Callable[[], int] = time.time_ns
"""Nanoseconds since 1970."""


def now_us() -> int:
    """Return the system's wall time in whole microseconds since 1970: what records are stamped with."""
    return system_time_ns() // 1000


def now_s() -> float:
    """Return the system's wall time in seconds since 1970."""
    return system_time_ns() / 1e9


def utc_now() -> datetime:
    """Return the system's wall time."""
    return _EPOCH + timedelta(microseconds=system_time_ns() // 1000)


def read_ticks() -> Ticks:
    """Return the moment by the system's clock that cannot be set."""
    era, clock = _era()
    return Ticks(era, (time.monotonic_ns() if clock is None else time.clock_gettime_ns(clock)) // 1000)


@cache
def _era() -> tuple[str, int | None]:
    """Return the name of the era, and the clock that all its processes share; None for the process's own."""
    clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    if clock is not None:
        with suppress(OSError):
            boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
            # A time namespace has an offset of its own. Kernels before 5.6 have none.
            space = os.stat("/proc/self/ns/time").st_ino if os.path.exists("/proc/self/ns/time") else 0
            return f"{boot}/{space}", clock
    return f"process/{secrets.token_hex(8)}", None


class WallClock:
    """Wall time in seconds since 1970 (UTC).

    It follows the system's clock. Under `trio.testing.MockClock` it is the wall time at its making and what has passed on
    that clock since, so that the virtual clock drives it.

    Args:
        source: another clock to follow.
        recheck_s: how long a wait may go without a look at the clock, which may have been set meanwhile.
    """

    def __init__(self, source: Callable[[], float] | None = None, recheck_s: float = 60.0) -> None:
        self._source = source
        self._recheck_s = recheck_s
        self._virtual()

    def now(self) -> float:
        """Return the wall time."""
        if self._source is not None:
            return self._source()
        virtual = self._virtual()
        return now_s() if virtual is None else virtual

    def ticks(self) -> Ticks | None:
        """Return the moment by the clock that cannot be set; None if the wall time is not the system's."""
        return read_ticks() if self._source is None and self._virtual() is None else None

    async def sleep_until(self, when: float, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Sleep until the wall time `when`; if it has passed, only let other tasks run.

        A clock that is set forward or back meanwhile is followed.

        Args:
            sleep: sleeps for so many seconds.
        """
        longest_s = self._recheck_s if self._virtual() is None else float("inf")
        remaining_s = when - self.now()
        if remaining_s <= 0:
            await sleep(0.0)
        while remaining_s > 0:
            # a wait below a microsecond may be lost in the rounding, and the next look would find the same moment
            await sleep(max(1e-6, min(remaining_s, longest_s)))
            remaining_s = when - self.now()

    def _virtual(self) -> float | None:
        """Return the wall time as the virtual clock has it; None if there is no such clock or a source is followed."""
        clock = None if self._source is not None else _virtual_clock()
        if clock is None:
            return None
        now: float = clock.current_time()
        wall, began = _ORIGINS.setdefault(clock, (now_s(), now))
        return wall + (now - began)


def jumps() -> bool:
    """Return whether Trio's clock is a virtual one that jumps ahead as soon as no task can run.

    What is done in another thread then takes any length of time.
    """
    clock = _virtual_clock()
    return clock is not None and clock.autojump_threshold != inf


def _virtual_clock() -> Any:
    """Return Trio's clock if it is a virtual one."""
    testing = sys.modules.get("trio.testing")
    if testing is None:
        return None
    try:
        clock = trio.lowlevel.current_clock()
    except RuntimeError:  # not in Trio
        return None
    return clock if isinstance(clock, testing.MockClock) else None
