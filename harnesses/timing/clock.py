"""Clocks: wall time in seconds since 1970, from the system or Trio's virtual clock; and ticks of a monotonic clock.

The system's wall clock is read only by `system_time_ns`: replacing that function sets the time of all records.
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

from attrs import frozen


@frozen
class Ticks:
    """A monotonic time; comparable with others of the same era."""

    era: str
    """Id of the boot of the machine, as far as its processes share a clock; else an id of the process."""
    us: int
    """Microseconds since an unspecified origin of the era; includes time asleep where the system supports it."""


_ORIGINS: WeakKeyDictionary[Any, tuple[float, float]] = WeakKeyDictionary()
"""Wall time and Trio's time when a virtual clock was first seen, so that all readers of one clock agree."""


_EPOCH = datetime.fromtimestamp(0, UTC)
system_time_ns: Callable[[], int] = time.time_ns
"""Nanoseconds since 1970."""


def now_us() -> int:
    """Return the system's wall time in whole microseconds since 1970: the timestamp of records."""
    return system_time_ns() // 1000


def now_s() -> float:
    """Return the system's wall time in seconds since 1970."""
    return system_time_ns() / 1e9


def utc_now() -> datetime:
    """Return the system's wall time, in UTC."""
    return from_us(now_us())


def from_us(time_us: int) -> datetime:
    """Return a time in whole microseconds since 1970 as a datetime, in UTC."""
    return _EPOCH + timedelta(microseconds=time_us)


def read_ticks() -> Ticks:
    """Return the current time of the system's monotonic clock."""
    era, clock = _era()
    return Ticks(era, (time.monotonic_ns() if clock is None else time.clock_gettime_ns(clock)) // 1000)


@cache
def _era() -> tuple[str, int | None]:
    """Return the era, and the id of the clock that its processes share; None for the process's own clock."""
    clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    if clock is not None:
        with suppress(OSError):
            boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
            # A time namespace has its own clock offset. Kernels before 5.6 have none.
            space = os.stat("/proc/self/ns/time").st_ino if os.path.exists("/proc/self/ns/time") else 0
            return f"{boot}/{space}", clock
    return f"process/{secrets.token_hex(8)}", None


class WallClock:
    """Wall time in seconds since 1970 (UTC).

    It follows the system's clock. Under `trio.testing.MockClock` it starts at the wall time of its creation and advances with
    the virtual clock.

    Args:
        source: another clock to follow.
        recheck_s: longest sleep, in seconds, before the clock is read again, since it may have been set.
    """

    def __init__(self, source: Callable[[], float] | None = None, recheck_s: float = 60.0) -> None:
        self._source = source
        self._recheck_s = recheck_s
        self._virtual()

    def now(self) -> float:
        """Return the wall time, in seconds since 1970."""
        if self._source is not None:
            return self._source()
        virtual = self._virtual()
        return now_s() if virtual is None else virtual

    def ticks(self) -> Ticks | None:
        """Return the monotonic time; None if the wall time is not the system's."""
        return read_ticks() if self._source is None and self._virtual() is None else None

    async def sleep_until(self, when: float, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Sleep until the wall time `when`; if it has passed, only yield to other tasks.

        Adjustments of the clock in the meantime are followed.

        Args:
            sleep: awaited with the number of seconds to sleep.
        """
        longest_s = self._recheck_s if self._virtual() is None else float("inf")
        remaining_s = when - self.now()
        if remaining_s <= 0:
            await sleep(0.0)
        while remaining_s > 0:
            # A shorter wait could be lost in rounding, and the next reading would be the same.
            await sleep(max(1e-6, min(remaining_s, longest_s)))
            remaining_s = when - self.now()

    def _virtual(self) -> float | None:
        """Return the wall time of the virtual clock; None if there is none or a source is followed."""
        clock = None if self._source is not None else _virtual_clock()
        if clock is None:
            return None
        now: float = clock.current_time()
        wall, began = _ORIGINS.setdefault(clock, (now_s(), now))
        return wall + (now - began)


def jumps() -> bool:
    """Return whether Trio's clock is a virtual one that jumps ahead as soon as no task can run.

    Work in a thread then takes an arbitrary amount of virtual time.
    """
    clock = _virtual_clock()
    return clock is not None and clock.autojump_threshold != inf


def _virtual_clock() -> Any:
    """Return Trio's clock if it is a virtual one; else None."""
    testing = sys.modules.get("trio.testing")
    if testing is None:
        return None
    import trio  # it is there already; who only reads a store does not pay for it

    try:
        clock = trio.lowlevel.current_clock()
    except RuntimeError:  # Not in Trio.
        return None
    return clock if isinstance(clock, testing.MockClock) else None
