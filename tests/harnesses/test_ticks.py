"""Laws of `every`: the first tick at once, then one at each multiple of the period, without drift."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from harnesses import BaseHarness, Ending, HarnessMisuse, LocalRuntime
from harnesses.control import Control


class Ticking(BaseHarness[None, int, float]):
    """Works for so long after each tick; yields the tick and when it came."""

    def __init__(self, period_s: float, work_s: tuple[float, ...]) -> None:
        super().__init__(None)
        self.period_s = period_s
        self.work_s = work_s

    async def execute(self) -> AsyncIterator[tuple[int, float]]:
        began = trio.current_time()
        async for tick in self.every(self.period_s):
            yield tick, trio.current_time() - began
            if self.current_step == len(self.work_s):
                break
            await trio.sleep(self.work_s[self.current_step - 1])

    @property
    def ticks(self) -> list[tuple[int, float]]:
        return [(step.input, step.output) for step in self.step_history]


async def test_the_first_tick_comes_at_once_and_the_others_a_period_apart(autojump_clock: MockClock) -> None:
    harness = Ticking(5, (0,) * 4)

    await harness.run()

    assert harness.ticks == [(0, 0), (1, 5), (2, 10), (3, 15)]


async def test_work_within_the_period_makes_no_drift(autojump_clock: MockClock) -> None:
    harness = Ticking(5, (1, 4.5, 0.25, 4.75))

    await harness.run()

    assert harness.ticks == [(0, 0), (1, 5), (2, 10), (3, 15)]


async def test_a_period_that_no_binary_fraction_can_hold_does_not_drift(autojump_clock: MockClock) -> None:
    harness = Ticking(0.1, (0.05,) * 1_001)

    await harness.run()

    tick, when = harness.ticks[-1]
    assert tick == 1_000
    assert when == pytest.approx(100, abs=1e-6)


async def test_ticks_go_on_counting_from_the_start_of_the_loop(autojump_clock: MockClock) -> None:
    await trio.sleep(3)
    harness = Ticking(5, (0, 0))

    await harness.run()

    assert harness.ticks == [(0, 0), (1, 5)]


async def test_missed_ticks_are_skipped_and_their_numbers_with_them(autojump_clock: MockClock) -> None:
    harness = Ticking(5, (0, 22, 0, 0))

    await harness.run()

    numbers = [tick for tick, _ in harness.ticks]
    assert numbers == sorted(set(numbers))
    assert harness.ticks[-1][0] * 5 == harness.ticks[-1][1]
    assert len(numbers) == 4


async def test_a_harness_that_waits_for_a_tick_stops_at_once(autojump_clock: MockClock) -> None:
    endings: list[Ending] = []
    harness, control = Ticking(1_000, (0,) * 5), Control()

    async def run() -> None:
        endings.append(await harness.run(LocalRuntime("ticking", control)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await trio.sleep(10)
        control.stop()

    assert endings == [Ending.STOPPED]
    assert trio.current_time() == 10


@pytest.mark.parametrize("period_s", [0, -1, float("nan")])
def test_a_period_that_is_not_above_0_is_refused(period_s: Any) -> None:
    with pytest.raises(HarnessMisuse, match="every: expected a period above 0 seconds, was"):
        Ticking(1, ()).every(period_s)
