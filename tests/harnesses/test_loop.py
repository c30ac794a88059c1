"""Laws of the loop: whatever scope is open across a `yield`, no yielded step is lost and clean-up runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import pytest
import trio
from trio.testing import MockClock

from harnesses import BaseHarness, DeadlineExceeded, Ending, LocalRuntime, ScopeError, Step, StepTimeout, Unstorable
from harnesses.control import Control
from harnesses.data.delta import Delta

Steps: TypeAlias = AsyncIterator[tuple[Any, Any]]


class Scripted(BaseHarness[Any, Any, Any]):
    """Runs a generator function of the harness; complete after so many steps."""

    def __init__(self, script: Callable[[Scripted], Steps], complete_at: float = float("inf")) -> None:
        super().__init__(None)
        self.script = script
        self.complete_at = complete_at
        self.ran: list[str] = []

    def execute(self) -> Steps:
        return self.script(self)

    def is_complete(self) -> bool:
        return self.current_step >= self.complete_at

    @property
    def outputs(self) -> list[Any]:
        return [step.output for step in self.step_history]


class SlowRuntime(LocalRuntime):
    """A recorder that takes ten seconds for each step."""

    async def commit(self, step: Step[object, object], delta: Delta, state: Callable[[], object]) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(10)


def within(**limits: Any) -> LocalRuntime:
    return LocalRuntime("poller", Control(**limits))


async def live(harness: Scripted, name: str = "child") -> None:
    """Live until cancelled, and say so then."""
    try:
        await trio.sleep_forever()
    finally:
        harness.ran.append(f"{name} ended")


async def fail_soon() -> None:
    await trio.lowlevel.checkpoint()
    raise LookupError("no such market")


# a nursery open across yields


async def test_a_nursery_may_stay_open_across_yields(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        send, receive = trio.open_memory_channel[int](0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed, send)
            async for number in receive:
                yield number, number * 2

    async def feed(send: trio.MemorySendChannel[int]) -> None:
        async with send:
            for number in range(3):
                await trio.sleep(1)
                await send.send(number)

    harness = Scripted(script)

    assert await harness.run() is Ending.FINISHED
    assert harness.outputs == [0, 2, 4]


async def test_completion_ends_an_open_nursery_and_its_tasks(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live, harness)
            while True:
                yield 1, 1
                await trio.sleep(1)

    harness = Scripted(script, complete_at=2)

    assert await harness.run() is Ending.COMPLETED
    assert harness.ran == ["child ended"]
    assert harness.outputs == [1, 1]


async def test_completion_ends_nurseries_within_nurseries(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        async with trio.open_nursery() as outer, trio.open_nursery() as middle, trio.open_nursery() as inner:
            for nursery in (outer, middle, inner):
                nursery.start_soon(live, harness)
            await trio.sleep(1)
            yield 1, 1

    harness = Scripted(script, complete_at=1)

    assert await harness.run() is Ending.COMPLETED
    assert harness.ran == ["child ended"] * 3


async def test_completion_runs_the_clean_up_around_an_open_nursery(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(live, harness)
                await trio.sleep(1)
                yield 1, 1
        finally:
            await trio.sleep(1)
            harness.ran.append("clean-up")

    harness = Scripted(script, complete_at=1)
    await harness.run()

    assert harness.ran == ["child ended", "clean-up"]


async def test_a_background_task_that_fails_ends_the_harness_with_its_error(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        async with trio.open_nursery() as nursery:
            yield 1, 1
            nursery.start_soon(fail_soon)
            await trio.sleep_forever()

    harness = Scripted(script)

    with pytest.RaisesGroup(pytest.RaisesExc(LookupError, match="no such market")):
        await harness.run()

    assert harness.outputs == [1]


async def test_a_background_task_that_fails_while_a_step_is_recorded_is_heard_at_the_next_wait(
    autojump_clock: MockClock,
) -> None:
    async def script(harness: Scripted) -> Steps:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_soon)
            yield 1, 1
            harness.ran.append("resumed")
            await trio.sleep_forever()

    harness = Scripted(script)

    with pytest.RaisesGroup(LookupError):
        await harness.run(SlowRuntime("slow"))

    assert harness.ran == ["resumed"]
    assert harness.outputs == [1]


async def test_a_background_task_that_failed_is_heard_even_if_the_harness_is_complete(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_soon)
            yield 1, 1

    harness = Scripted(script, complete_at=1)

    with pytest.RaisesGroup(LookupError):
        await harness.run(SlowRuntime("slow"))

    assert harness.outputs == [1]


async def test_a_background_task_that_fails_in_its_clean_up_is_heard(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_at_the_end)
            await trio.sleep(1)
            yield 1, 1

    async def fail_at_the_end() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise LookupError

    harness = Scripted(script, complete_at=1)

    with pytest.RaisesGroup(LookupError):
        await harness.run()


async def test_a_background_task_may_go_on_while_a_step_is_recorded(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tick, harness)
            yield 1, 1
            nursery.cancel_scope.cancel()

    async def tick(harness: Scripted) -> None:
        while True:
            await trio.sleep(1)
            harness.ran.append("tick")

    harness = Scripted(script)
    await harness.run(SlowRuntime("slow"))

    assert len(harness.ran) in (9, 10)


# a time limit open across yields


async def test_a_time_limit_may_stay_open_across_yields(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        with trio.move_on_after(2.5):
            for number in range(100):
                yield number, number
                await trio.sleep(1)
        yield "after", "after"

    harness = Scripted(script)

    assert await harness.run() is Ending.FINISHED
    assert harness.outputs == [0, 1, 2, "after"]


async def test_a_time_limit_that_expires_while_a_step_is_recorded_ends_at_the_next_wait(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        with trio.move_on_after(5) as limit:
            yield 1, 1
            harness.ran.append("resumed")
            await trio.lowlevel.checkpoint()
            harness.ran.append("not reached")
        yield 2, limit.cancelled_caught

    harness = Scripted(script)
    await harness.run(SlowRuntime("slow"))

    assert harness.outputs == [1, True]
    assert harness.ran == ["resumed"]


async def test_an_expired_time_limit_does_not_lose_the_steps_yielded_within_it(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        with trio.move_on_after(5):
            for number in range(3):
                yield number, number

    harness = Scripted(script)
    await harness.run(SlowRuntime("slow"))

    assert harness.outputs == [0, 1, 2]
    assert trio.current_time() == 30


async def test_a_time_limit_that_raises_is_the_error_of_the_harness(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        with trio.fail_after(5):
            yield 1, 1
            await trio.sleep(10)

    harness = Scripted(script)

    with pytest.raises(trio.TooSlowError):
        await harness.run()

    assert harness.outputs == [1]


@pytest.mark.parametrize("expired", [False, True])
async def test_completion_within_a_time_limit_runs_the_clean_up(expired: bool, autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        with trio.move_on_after(5 if expired else 500):
            try:
                yield 1, 1
            finally:
                harness.ran.append("clean-up")

    harness = Scripted(script, complete_at=1)

    assert await harness.run(SlowRuntime("slow")) is Ending.COMPLETED
    assert harness.ran == ["clean-up"]


async def test_a_scope_cancelled_by_the_harness_itself_ends_where_it_closes(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        with trio.CancelScope() as scope:
            scope.cancel()
            yield 1, 1
            await trio.sleep_forever()
        yield 2, 2

    harness = Scripted(script)

    assert await harness.run() is Ending.FINISHED
    assert harness.outputs == [1, 2]


# clean-up


async def test_clean_up_that_awaits_has_the_grace_period(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        try:
            yield 1, 1
        finally:
            await trio.sleep(4)
            harness.ran.append("clean-up")

    harness = Scripted(script, complete_at=1)

    assert await harness.run(within(grace_s=5)) is Ending.COMPLETED
    assert harness.ran == ["clean-up"]


async def test_clean_up_that_takes_longer_than_the_grace_period_is_cancelled(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        try:
            yield 1, 1
        finally:
            try:
                await trio.sleep_forever()
            finally:
                harness.ran.append("cancelled")

    harness = Scripted(script, complete_at=1)

    assert await harness.run(within(grace_s=5)) is Ending.COMPLETED
    assert harness.ran == ["cancelled"]
    assert trio.current_time() == 5


async def test_a_child_that_takes_longer_than_the_grace_period_to_end_is_cancelled(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(linger)
            await trio.sleep(1)
            yield 1, 1

    async def linger() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(3):
                await trio.sleep_forever()

    harness = Scripted(script, complete_at=1)

    assert await harness.run(within(grace_s=1)) is Ending.COMPLETED
    assert trio.current_time() == 4


async def test_clean_up_after_a_refused_step_may_await(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        try:
            yield 1, object()
        finally:
            await trio.sleep(1)
            harness.ran.append("clean-up")

    harness = Scripted(script)

    with pytest.raises(Unstorable):
        await harness.run(within(grace_s=5))

    assert harness.ran == ["clean-up"]


async def test_an_error_in_the_clean_up_is_raised(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        try:
            yield 1, 1
        finally:
            raise LookupError

    with pytest.raises(LookupError):
        await Scripted(script, complete_at=1).run()


async def test_a_generator_may_answer_its_end_by_returning(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        try:
            yield 1, 1
        except GeneratorExit:
            harness.ran.append("told")

    harness = Scripted(script, complete_at=1)

    assert await harness.run() is Ending.COMPLETED
    assert harness.ran == ["told"]


# the limit on a step


async def test_a_step_that_takes_too_long_is_cancelled_and_the_ones_before_are_kept(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        try:
            yield 1, 1
            await trio.sleep(4)
            yield 2, 2
            await trio.sleep(100)
        finally:
            harness.ran.append("clean-up")

    harness = Scripted(script)

    with pytest.raises(StepTimeout, match=r"no step within 5 s: .*raise `step_timeout_s` or shorten the step"):
        await harness.run(within(step_timeout_s=5))

    assert harness.outputs == [1, 2]
    assert harness.ran == ["clean-up"]
    assert trio.current_time() == 9


async def test_the_time_a_step_takes_to_be_recorded_is_not_its_own(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        for number in range(3):
            await trio.sleep(4)
            yield number, number

    harness = Scripted(script)
    runtime = SlowRuntime("slow", Control(step_timeout_s=5))

    assert await harness.run(runtime) is Ending.FINISHED
    assert trio.current_time() == 42


async def test_a_step_that_takes_too_long_within_scopes_of_its_own_is_cancelled(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        with trio.move_on_after(1_000):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(live, harness)
                yield 1, 1
                await trio.sleep(100)
        yield 2, 2

    harness = Scripted(script)

    with pytest.raises(StepTimeout):
        await harness.run(within(step_timeout_s=5))

    assert harness.outputs == [1]
    assert harness.ran == ["child ended"]


async def test_a_shorter_limit_within_the_step_comes_first(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        with trio.move_on_after(1):
            await trio.sleep(100)
        yield 1, 1

    harness = Scripted(script)

    assert await harness.run(within(step_timeout_s=5)) is Ending.FINISHED
    assert harness.outputs == [1]


async def test_each_step_has_the_whole_of_its_time(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        for number in range(10):
            await trio.sleep(4.5)
            yield number, number

    harness = Scripted(script)
    await harness.run(within(step_timeout_s=5))

    assert harness.current_step == 10


# the limit on a harness


async def test_a_harness_past_its_deadline_is_cancelled(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        while True:
            await trio.sleep(4)
            yield 1, 1

    harness = Scripted(script)

    with pytest.raises(DeadlineExceeded, match="its deadline has passed"):
        await harness.run(within(deadline=10))

    assert harness.current_step == 2
    assert trio.current_time() == 10


async def test_a_harness_that_never_waits_ends_at_its_deadline_too(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        while True:
            yield 1, 1

    harness = Scripted(script)

    with pytest.raises(DeadlineExceeded):
        await harness.run(SlowRuntime("slow", Control(deadline=25)))

    assert harness.current_step == 3


async def test_a_deadline_does_not_hurt_a_harness_that_ends_before_it(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        yield 1, 1

    assert await Scripted(script).run(within(deadline=10, step_timeout_s=5)) is Ending.FINISHED


# a generator that swallows its cancellation


async def stubborn(harness: Scripted) -> Steps:
    for number in range(1, 100):
        try:
            await trio.sleep(10)
        except trio.Cancelled:
            harness.ran.append("swallowed")
        yield number, number


async def test_a_generator_that_swallows_a_cancellation_from_outside_ends_at_its_next_yield(autojump_clock: MockClock) -> None:
    harness = Scripted(stubborn)

    with trio.move_on_after(15) as outside:
        await harness.run()

    assert outside.cancelled_caught
    assert harness.ran == ["swallowed"]
    assert harness.outputs == [1, 2]
    assert trio.current_time() == 15


async def test_a_generator_that_swallows_its_deadline_ends_at_its_next_yield(autojump_clock: MockClock) -> None:
    harness = Scripted(stubborn)

    with pytest.raises(DeadlineExceeded):
        await harness.run(within(deadline=15))

    assert harness.outputs == [1, 2]


# what is left open


async def test_a_scope_left_open_is_an_error_that_says_so(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        trio.CancelScope().__enter__()
        yield 1, 1

    harness = Scripted(script)

    with pytest.raises(ScopeError, match="left a cancel scope or nursery open: expected each to be closed"):
        await harness.run()

    assert harness.outputs == [1]


async def test_scopes_left_open_across_completion_are_an_error_that_says_so(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        while True:
            trio.CancelScope().__enter__()
            yield 1, 1

    harness = Scripted(script, complete_at=3)

    with pytest.raises(ScopeError, match="left a cancel scope or nursery open"):
        await harness.run()

    assert harness.outputs == [1, 1, 1]


async def test_a_scope_left_open_does_not_disturb_the_caller(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        trio.move_on_after(5).__enter__()
        yield 1, 1

    with trio.move_on_after(100) as callers:
        with pytest.raises(ScopeError):
            await Scripted(script).run()
        await trio.sleep(50)

    assert not callers.cancelled_caught
    assert trio.current_time() == 50


async def test_a_yield_in_a_finally_is_an_error_that_says_so(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        try:
            yield 1, 1
        finally:
            yield 2, 2

    harness = Scripted(script, complete_at=1)

    with pytest.raises(ScopeError, match=r"yielded while it was being closed \(.*py:599\): expected no `yield`"):
        await harness.run()

    assert harness.outputs == [1]


# cancelled from outside


async def test_a_harness_that_waits_is_cancelled_from_outside(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        try:
            while True:
                yield 1, 1
                await trio.sleep(1)
        finally:
            harness.ran.append("clean-up")

    harness = Scripted(script)

    with trio.move_on_after(2.5) as outside:
        await harness.run()

    assert outside.cancelled_caught
    assert harness.ran == ["clean-up"]
    assert harness.current_step == 3


async def test_a_harness_that_never_waits_is_cancelled_from_outside(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        try:
            while True:
                yield 1, 1
        finally:
            harness.ran.append("clean-up")

    harness = Scripted(script)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.run)
        while harness.current_step < 10:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()

    assert harness.ran == ["clean-up"]
    assert 10 <= harness.current_step < 15
    assert len(harness.outputs) == harness.current_step


async def test_a_harness_with_scopes_open_is_cancelled_from_outside(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        with trio.move_on_after(1_000):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(live, harness)
                while True:
                    yield 1, 1
                    await trio.sleep(1)

    harness = Scripted(script)

    with trio.move_on_after(2.5) as outside:
        await harness.run()

    assert outside.cancelled_caught
    assert harness.ran == ["child ended"]


async def test_a_harness_in_one_of_its_own_waits_is_cancelled_from_outside(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        try:
            yield 1, 1
            await harness.sleep(1_000)
        finally:
            harness.ran.append("clean-up")

    harness = Scripted(script)

    with trio.move_on_after(1) as outside:
        await harness.run()

    assert outside.cancelled_caught
    assert harness.ran == ["clean-up"]


async def test_clean_up_is_cut_short_by_a_cancellation_from_outside(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        try:
            yield 1, 1
        finally:
            await trio.sleep(4)
            harness.ran.append("not reached")

    harness = Scripted(script, complete_at=1)

    with trio.move_on_after(1) as outside:
        await harness.run()

    assert outside.cancelled_caught
    assert harness.ran == []


async def test_a_time_limit_around_run_raises_as_around_anything(autojump_clock: MockClock) -> None:
    with pytest.raises(trio.TooSlowError), trio.fail_after(15):
        await Scripted(stubborn).run()


async def test_a_cancellation_from_before_the_start_ends_the_harness_within_two_steps(autojump_clock: MockClock) -> None:
    harness = Scripted(stubborn)

    with trio.CancelScope() as outside:
        outside.cancel()
        await harness.run()

    assert outside.cancelled_caught
    assert harness.current_step <= 2


async def test_a_harness_that_was_cancelled_can_be_run_again(autojump_clock: MockClock) -> None:
    harness = Scripted(stubborn, complete_at=4)
    with trio.move_on_after(15):
        await harness.run()

    assert await harness.run() is Ending.COMPLETED
    assert [step.step_number for step in harness.step_history] == [1, 2, 3, 4]


# siblings


@pytest.mark.parametrize("bad", ["raises", "leaks", "yields in finally"])
async def test_a_harness_that_goes_wrong_does_not_disturb_its_sibling(bad: str, autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        try:
            if bad == "leaks":
                trio.CancelScope().__enter__()
            yield 1, 1
            if bad == "raises":
                raise LookupError
        finally:
            if bad == "yields in finally":
                yield 2, 2

    async def contain(run: Callable[[], Awaitable[object]]) -> None:
        with pytest.raises((LookupError, ScopeError)):
            await run()

    sibling = Scripted(stubborn, complete_at=5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sibling.run)
        nursery.start_soon(contain, Scripted(script, complete_at=1 if bad == "yields in finally" else 2).run)

    assert sibling.outputs == [1, 2, 3, 4, 5]
    assert sibling.ran == []
