"""Laws of the wall clock: the virtual clock drives it, and a wait for a moment follows it wherever it is set."""

from __future__ import annotations

import io
import re
import time
import tokenize
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

import harnesses
from harnesses.timing.clock import WallClock
from orchestrator import MemoryStore, Orchestrator
from tests.orchestrator.scripted import Scripted, three

ROOT = Path(harnesses.__file__).parents[1]


class Clock:
    """A clock on the wall, that somebody sets: what has passed on Trio's, and how far it was set."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.naps: list[float] = []

    def __call__(self) -> float:
        return 1e9 + trio.current_time() + self.ahead_s

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        await trio.sleep(seconds)

    async def set_after(self, seconds: float, ahead_s: float) -> None:
        await trio.sleep(seconds)
        self.ahead_s = ahead_s


async def slept(clock: WallClock, until: float, naps: Callable[[float], object] = float) -> float:
    """Return how long a wait took on Trio's clock."""
    began = trio.current_time()

    async def sleep(seconds: float) -> None:
        naps(seconds)
        await trio.sleep(seconds)

    await clock.sleep_until(until, sleep)
    return trio.current_time() - began


def test_it_is_the_systems_clock() -> None:
    before, now, after = time.time(), WallClock().now(), time.time()

    assert before <= now <= after


async def test_without_a_virtual_clock_it_is_the_systems_in_trio_too() -> None:
    before, now, after = time.time(), WallClock().now(), time.time()

    assert before <= now <= after


async def test_the_virtual_clock_drives_it(autojump_clock: MockClock) -> None:
    clock = WallClock()
    began = clock.now()

    await trio.sleep(80_000)

    assert abs(began - time.time()) < 10
    assert abs(clock.now() - began - 80_000) < 1e-6


async def test_two_clocks_under_one_virtual_clock_agree_whenever_they_were_made(autojump_clock: MockClock) -> None:
    first = WallClock()
    await trio.sleep(80_000)

    assert WallClock().now() == first.now()


async def test_under_the_virtual_clock_a_long_wait_is_one_sleep(autojump_clock: MockClock) -> None:
    clock, naps = WallClock(), list[float]()

    passed_s = await slept(clock, clock.now() + 5_000_000, naps.append)

    assert abs(passed_s - 5_000_000) < 1e-5
    assert len(naps) <= 2


async def test_a_wait_is_never_over_before_its_moment(autojump_clock: MockClock) -> None:
    autojump_clock.jump(2**32)  # where a float that counts seconds cannot tell apart moments within a microsecond
    clock = WallClock()

    for part in range(1_000):
        until = clock.now() + part / 7
        await clock.sleep_until(until, trio.sleep)

        assert until <= clock.now() < until + 1e-5


async def test_a_moment_that_has_passed_is_not_waited_for(autojump_clock: MockClock) -> None:
    clock, naps = WallClock(), list[float]()

    await slept(clock, clock.now() - 5, naps.append)

    assert naps == [0]


async def test_a_wall_clock_of_another_kind_is_looked_at_again_and_again(autojump_clock: MockClock) -> None:
    source, naps = Clock(), list[float]()

    passed_s = await slept(WallClock(source, recheck_s=60), source() + 90, naps.append)

    assert abs(passed_s - 90) < 1e-5
    assert naps[:2] == [60, 30]


async def test_a_clock_that_is_set_forward_ends_the_wait_at_the_next_look(autojump_clock: MockClock) -> None:
    source = Clock()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.set_after, 100, 7_200)
        passed_s = await slept(WallClock(source, recheck_s=60), source() + 3_600)

    assert passed_s == 120


async def test_a_clock_that_is_set_back_makes_the_wait_longer(autojump_clock: MockClock) -> None:
    source = Clock()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.set_after, 100, -7_200)
        passed_s = await slept(WallClock(source, recheck_s=60), source() + 3_600)

    assert abs(passed_s - 3 * 3_600) < 1e-5


async def test_a_wait_on_the_systems_clock_ends() -> None:
    clock = WallClock()

    passed_s = await slept(clock, clock.now() + 0.02)

    assert 0.015 < passed_s < 2


async def test_whoever_replaces_the_systems_clock_sets_the_time_of_every_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harnesses.timing.clock.system_time_ns", lambda: 1_700_000_000_123_456_789)
    store = MemoryStore()
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        orchestrator.start(Scripted(three), name="one")

    assert len(store.records()) == 5
    assert {record.time_us for record in store.records()} == {1_700_000_000_123_456}


def test_the_systems_clock_is_read_in_one_module() -> None:
    read = re.compile(r"\btime\.time(_ns)?\b|datetime\.now\(|\.utcnow\(")
    sources = [path for package in ("harnesses", "orchestrator") for path in (ROOT / package).rglob("*.py")]
    reading = {str(path.relative_to(ROOT)) for path in sources if read.search(_code(path))}

    # The judged process imports nothing of ours that the code it judges could have changed.
    assert {path for path in reading if "/in_process/" not in path} == {"harnesses/timing/clock.py"}


def _code(path: Path) -> str:
    """Return a source without its comments and strings."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    return "".join(token.string for token in tokens if token.type not in (tokenize.COMMENT, tokenize.STRING))
