"""A clock and a disk whose times are known, so that a recorded run can be told of in a page."""

from __future__ import annotations

import platform
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import trio
from trio.testing import MockClock

from orchestrator.store.in_memory.memory_store import MemoryStore
from orchestrator.store.store_protocol import Operation, StepRow

BEGIN_S = 1_767_603_600
"""2026-01-05 09:00:00 UTC."""
HOST = "server"
"""Name of the machine that a recorded run tells of."""


@contextmanager
def virtual_wall() -> Generator[MockClock, None, None]:
    """Give a clock for Trio that the wall clock of this process follows meanwhile."""
    clock = MockClock(autojump_threshold=0)
    kept = time.time, time.time_ns, platform.node

    def now() -> float:
        return BEGIN_S + clock.current_time()

    try:
        time.time, time.time_ns, platform.node = now, lambda: round(now() * 1e6) * 1000, lambda: HOST
        yield clock
    finally:
        time.time, time.time_ns, platform.node = kept


class SlowDisk(MemoryStore):
    """A store whose commits take 2 to 5 ms of that clock, and every fiftieth ten times as long."""

    def __init__(self, clock: MockClock) -> None:
        super().__init__()
        self._clock, self._commits = clock, 0

    def commit(self, steps: Sequence[StepRow], operations: Sequence[Operation] = (), **options: Any) -> Any:
        self._commits += 1
        # A step says itself when it was made, and nothing but the real clock tells it.
        at_us = time.time_ns() // 1000
        self._clock.jump((0.002 + self._commits % 7 * 0.0005) * (10 if self._commits % 50 == 0 else 1))
        return super().commit([step._replace(time_us=at_us) for step in steps], operations, **options)


async def until(ready: Any, every_s: float = 0.5) -> None:
    """Wait until something holds; ten minutes at most."""
    with trio.fail_after(600):
        while not ready():  # noqa: ASYNC110 - a store rings for nobody
            await trio.sleep(every_s)
