"""Laws of the orders: pause holds at a step boundary, stop ends with grace, abort at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import pytest
import trio
from trio.testing import MockClock

from harnesses import BaseHarness, DeadlineExceeded, Ending, HarnessError, LocalRuntime, StepTimeout, Stopping
from harnesses.control import Control

Steps: TypeAlias = AsyncIterator[tuple[Any, Any]]
Order: TypeAlias = Callable[[Control], object]


class Scripted(BaseHarness[Any, Any, Any]):
    """Runs a generator function of the harness under a control, and remembers how it ended and when."""

    def __init__(self, script: Callable[[Scripted], Steps]) -> None:
        super().__init__(None)
        self.script = script
        self.ran: list[str] = []
        self.ending: Ending | None = None
        self.ended_at = -1.0

    def execute(self) -> Steps:
        return self.script(self)

    async def run_under(self, control: Control) -> None:
        self.ending = await self.run(LocalRuntime("poller", control))
        self.ended_at = trio.current_time()


async def poll(harness: Scripted) -> Steps:
    """Make a step each second, in one of Trio's waits."""
    try:
        for number in range(1, 1_000):
            yield number, number
            await trio.sleep(1)
    finally:
        harness.ran.append("clean-up")


async def nap(harness: Scripted) -> Steps:
    """Make a step each 100 seconds, in a wait of the harness's own."""
    try:
        while True:
            yield 1, 1
            await harness.sleep(100)
    finally:
        await trio.sleep(1)
        harness.ran.append("clean-up")


async def hang(harness: Scripted) -> Steps:
    """Make a step, wait for ever, and take for ever to clean up."""
    try:
        yield 1, 1
        await trio.sleep_forever()
    finally:
        harness.ran.append("clean-up")
        await trio.sleep_forever()


async def at(script: Callable[[Scripted], Steps], orders: dict[float, Order], **limits: Any) -> Scripted:
    """Run a script while the orders are given, each at its moment, and return the harness when it has ended."""
    harness, control = Scripted(script), Control(**limits)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.run_under, control)
        for moment, order in orders.items():
            await trio.sleep_until(moment)
            order(control)
    return harness


# pause and resume


async def test_a_paused_harness_makes_no_step_until_it_is_resumed(autojump_clock: MockClock) -> None:
    seen: list[int] = []
    harness, control = Scripted(poll), Control()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.run_under, control)
        for moment, order in ((2.5, control.pause), (100, control.resume), (102.5, nursery.cancel_scope.cancel)):
            await trio.sleep_until(moment)
            seen.append(harness.current_step)
            order()

    assert seen == [3, 4, 6]


async def test_the_step_being_made_when_a_pause_is_ordered_is_recorded(autojump_clock: MockClock) -> None:
    harness = await at(poll, {0.5: Control.pause, 50: Control.stop})

    assert harness.current_step == 2
    assert harness.ended_at == 50


async def test_a_harness_paused_before_its_start_makes_no_step(autojump_clock: MockClock) -> None:
    harness, control = Scripted(poll), Control()
    control.pause()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.run_under, control)
        await trio.sleep(50)
        assert harness.current_step == 0
        control.resume()
        await trio.sleep(1.5)
        control.stop()

    assert harness.current_step >= 2


async def test_orders_given_twice_are_as_one(autojump_clock: MockClock) -> None:
    harness = await at(
        poll, {0.5: Control.pause, 1: Control.pause, 2: Control.resume, 3.5: Control.resume, 9.5: lambda it: it.stop(0)}
    )

    assert harness.ending is Ending.STOPPED
    assert harness.current_step == 9


async def test_a_pause_taken_back_before_the_boundary_holds_nothing(autojump_clock: MockClock) -> None:
    harness = await at(poll, {0.2: Control.pause, 0.4: Control.resume, 9.5: lambda it: it.stop(0)})

    assert harness.current_step == 10


async def test_time_spent_paused_is_not_the_time_of_a_step(autojump_clock: MockClock) -> None:
    harness = await at(poll, {0.5: Control.pause, 500: Control.resume, 502.5: lambda it: it.stop(0)}, step_timeout_s=2)

    assert harness.ending is Ending.STOPPED
    assert harness.current_step >= 4


async def test_a_paused_harness_can_be_cancelled_from_outside(autojump_clock: MockClock) -> None:
    harness, control = Scripted(poll), Control()
    control.pause()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.run_under, control)
        await trio.sleep(5)
        control.abort()

    assert harness.ending is Ending.STOPPED
    assert harness.current_step == 0


async def test_a_resume_does_not_take_a_stop_back(autojump_clock: MockClock) -> None:
    def pause_stop_resume(control: Control) -> None:
        control.pause()
        control.stop()
        control.resume()

    harness = await at(poll, {2.5: pause_stop_resume})

    assert harness.ending is Ending.STOPPED
    assert harness.ended_at == 3


# stop


async def test_a_harness_in_a_wait_of_its_own_stops_at_once_and_its_clean_up_has_grace(autojump_clock: MockClock) -> None:
    harness = await at(nap, {150: Control.stop}, grace_s=5)

    assert harness.ending is Ending.STOPPED
    assert harness.ran == ["clean-up"]
    assert harness.current_step == 2
    assert harness.ended_at == 151


async def test_a_harness_in_another_wait_stops_at_its_next_step(autojump_clock: MockClock) -> None:
    harness = await at(poll, {2.5: Control.stop}, grace_s=5)

    assert harness.ending is Ending.STOPPED
    assert harness.ran == ["clean-up"]
    assert harness.current_step == 4
    assert harness.ended_at == 3


async def test_a_harness_that_makes_no_further_step_is_cancelled_after_the_grace_period(autojump_clock: MockClock) -> None:
    harness = await at(hang, {10: Control.stop}, grace_s=5)

    assert harness.ending is Ending.STOPPED
    assert harness.ran == ["clean-up"]
    assert harness.ended_at == 15


async def test_a_stop_may_bring_its_own_grace_period(autojump_clock: MockClock) -> None:
    harness = await at(hang, {10: lambda control: control.stop(2)}, grace_s=5)

    assert harness.ended_at == 12


async def test_a_second_stop_can_only_shorten_the_grace_period(autojump_clock: MockClock) -> None:
    shortened = await at(hang, {10: lambda control: control.stop(50), 20: lambda control: control.stop(5)})
    begun = trio.current_time()
    lengthened = await at(hang, {begun + 10: lambda control: control.stop(5), begun + 12: lambda control: control.stop(50)})

    assert shortened.ended_at == 25
    assert lengthened.ended_at == begun + 15


async def test_a_paused_harness_stops_at_once(autojump_clock: MockClock) -> None:
    harness = await at(poll, {0.5: Control.pause, 10: Control.stop})

    assert harness.ending is Ending.STOPPED
    assert harness.ended_at == 10


async def test_a_harness_stopped_before_its_start_makes_no_step(autojump_clock: MockClock) -> None:
    harness, control = Scripted(poll), Control()
    control.stop()

    await harness.run_under(control)

    assert harness.ending is Ending.STOPPED
    assert harness.current_step == 0


async def test_a_harness_that_catches_exceptions_does_not_catch_its_stop(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        while True:
            try:
                await harness.sleep(100)
            except Exception:
                harness.ran.append("caught")
            yield 1, 1

    harness = await at(script, {10: Control.stop})

    assert harness.ending is Ending.STOPPED
    assert harness.ran == []
    assert harness.current_step == 0


async def test_a_task_of_the_harness_in_its_own_wait_stops_it(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(harness.sleep, 1_000)
            yield 1, 1
            await trio.sleep(1_000)

    harness = await at(script, {10: Control.stop})

    assert harness.ending is Ending.STOPPED
    assert harness.ended_at == 10


async def test_an_error_beside_a_stop_is_not_lost(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_when_cancelled)
            yield 1, 1
            await harness.sleep(1_000)

    async def fail_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise LookupError

    with pytest.RaisesGroup(pytest.RaisesGroup(LookupError)):
        await at(script, {10: Control.stop})


async def test_an_own_wait_within_the_clean_up_of_a_stopped_harness_ends_at_once(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        try:
            yield 1, 1
            await harness.sleep(1_000)
        finally:
            await harness.sleep(1_000)

    harness = await at(script, {10: Control.stop})

    assert harness.ending is Ending.STOPPED
    assert harness.ended_at == 10


# abort


@pytest.mark.parametrize("script", [poll, nap, hang])
async def test_abort_ends_at_once_without_grace(script: Callable[[Scripted], Steps], autojump_clock: MockClock) -> None:
    harness = await at(script, {10.5: Control.abort}, grace_s=1_000)

    assert harness.ending is Ending.STOPPED
    assert harness.ended_at == 10.5


async def test_abort_cuts_the_grace_period_of_a_stop_short(autojump_clock: MockClock) -> None:
    harness = await at(hang, {10: lambda control: control.stop(1_000), 20: Control.abort})

    assert harness.ended_at == 20


# waits of the harness's own


async def test_a_wait_that_is_not_stopped_lasts_as_long_as_it_was_asked_to(autojump_clock: MockClock) -> None:
    await Control().sleep(7.5)

    assert trio.current_time() == 7.5


async def test_a_wait_after_a_stop_does_not_begin(autojump_clock: MockClock) -> None:
    control = Control()
    control.stop()

    with pytest.raises(Stopping):
        await control.sleep(1_000)

    assert trio.current_time() == 0


async def test_a_wait_can_be_cancelled_from_outside(autojump_clock: MockClock) -> None:
    with trio.move_on_after(1) as outside:
        await Control().sleep(1_000)

    assert outside.cancelled_caught


# limits


@pytest.mark.parametrize(
    ("limits", "error"), [({"step_timeout_s": 5}, StepTimeout), ({"deadline": 5}, DeadlineExceeded)], ids=["step", "deadline"]
)
async def test_a_limit_that_passes_is_an_error(
    limits: dict[str, float], error: type[HarnessError], autojump_clock: MockClock
) -> None:
    harness = Scripted(hang)

    with pytest.raises(error):
        await harness.run_under(Control(**limits))

    assert trio.current_time() == 5
    assert harness.current_step == 1


async def test_a_stop_within_a_limit_is_no_error(autojump_clock: MockClock) -> None:
    harness = await at(hang, {2: Control.stop}, step_timeout_s=5, deadline=6.0, grace_s=100)

    assert harness.ending is Ending.STOPPED
    assert harness.ended_at <= 6


async def test_a_harness_without_limits_may_take_hours_over_a_step(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        await trio.sleep(36_000)
        yield 1, 1

    harness = await at(script, {})

    assert harness.ending is Ending.FINISHED
    assert harness.ended_at == 36_000
