"""G4, G6 for scopes across a `yield`: each works or fails with its remedy, loses no step and disturbs no sibling."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import frozen
from trio.testing import MockClock

from orchestrator import Handle, HarnessFailed, MemoryStore, Orchestrator, Outcome, OutcomeKind, SqliteStore, Store
from orchestrator.store.store_protocol import Committed, ConsumedRow, Operation, StepRow
from orchestrator.testing import FaultyStore
from tests.orchestrator.scripted import Scripted, Steps, crash, events, numbers

COMPLETED, FINISHED, STOPPED, FAILED = (
    OutcomeKind.COMPLETED,
    OutcomeKind.FINISHED,
    OutcomeKind.STOPPED,
    OutcomeKind.FAILED,
)


_BAD = 1
"""The store's number for the harness with the scopes: it is started first."""


class SlowStore(FaultyStore):
    """A store in which each commit of a step of the harness with the scopes takes as long as `pass_time()`."""

    def __init__(self, store: Store, pass_time: Callable[[], object]) -> None:
        super().__init__(store, lambda: None, at=0)
        self.pass_time = pass_time

    def commit(
        self,
        steps: Sequence[StepRow],
        operations: Sequence[Operation] = (),
        *,
        consumed: Sequence[ConsumedRow] = (),
        wait: bool = True,
    ) -> Committed:
        if any(row.harness == _BAD for row in steps):
            self.pass_time()
        return super().commit(steps, operations, consumed=consumed, wait=wait)


@frozen
class End:
    """What became of a harness with scopes, and of its sibling."""

    outcome: Outcome
    at_s: float
    steps: list[int]
    ran: list[str]
    store: Store


async def healthy(harness: Scripted) -> Steps:
    """Make ten steps."""
    for number in range(10):
        yield number, None
        await harness.sleep(0.01)


async def run(
    script: Callable[[Scripted], Steps],
    orders: dict[float, Callable[[Handle], object]] | None = None,
    *,
    store: Store | None = None,
    until: int | None = None,
    **terms: Any,
) -> End:
    """Run `script` beside a healthy sibling, with orders at their moments, and hold the sibling to its ten steps."""
    store, harness = store or MemoryStore(), Scripted(script, until=until)
    terms.setdefault("restart", "temporary")
    begin, at_s, handles = trio.current_time(), inf, list[Handle]()
    try:
        async with Orchestrator(store, handle_signals=False) as orchestrator:
            handles.append(orchestrator.start(harness, name="bad", **terms))
            handles.append(orchestrator.start(Scripted(healthy), name="good"))
            for moment, order in (orders or {}).items():
                await trio.sleep_until(begin + moment)
                order(handles[0])
            await handles[0].wait()
            at_s = trio.current_time() - begin
    except* HarnessFailed:
        # It is in the outcome.
        pass
    bad, good = (handle.outcome for handle in handles)
    assert good is not None
    assert good.kind is FINISHED
    assert numbers(store, "good") == list(range(1, 11))
    assert bad is not None
    return End(bad, at_s, numbers(store, "bad"), harness.ran, store)


def pause(handle: Handle) -> None:
    handle.pause()


def resume(handle: Handle) -> None:
    handle.resume()


def stop(handle: Handle) -> None:
    handle.stop(grace=1)


def stop_now(handle: Handle) -> None:
    handle.stop(grace=0)


# a nursery open across yields


async def with_nursery(harness: Scripted) -> Steps:
    """Make a step each second, while a task of its own ticks and cleans up."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_tick, harness)
        for number in range(1, 5):
            yield number, None
            await trio.sleep(1)
        nursery.cancel_scope.cancel()


async def _tick(harness: Scripted) -> None:
    try:
        while True:
            harness.ran.append("tick")
            await trio.sleep(1)
    finally:
        harness.ran.append("clean-up")


async def test_a_nursery_may_stay_open_across_yields(autojump_clock: MockClock) -> None:
    end = await run(with_nursery)

    assert end.outcome.kind is FINISHED
    assert end.steps == [1, 2, 3, 4]
    assert end.ran.count("tick") >= 4
    assert end.ran[-1] == "clean-up"


async def test_completion_within_an_open_nursery_ends_its_tasks(autojump_clock: MockClock) -> None:
    end = await run(with_nursery, until=2)

    assert end.outcome.kind is COMPLETED
    assert end.steps == [1, 2]
    assert end.ran[-1] == "clean-up"


@pytest.mark.parametrize("order", [stop, stop_now])
async def test_a_stop_within_an_open_nursery_ends_its_tasks(
    order: Callable[[Handle], object], autojump_clock: MockClock
) -> None:
    end = await run(with_nursery, {1.5: order})

    assert end.outcome.kind is STOPPED
    assert end.at_s <= 2.5
    assert end.steps == list(range(1, len(end.steps) + 1))
    assert end.ran[-1] == "clean-up"


async def test_a_stop_while_held_ends_the_tasks_of_an_open_nursery(autojump_clock: MockClock) -> None:
    end = await run(with_nursery, {1.5: pause, 10.0: stop})

    assert end.outcome.kind is STOPPED
    assert end.at_s == pytest.approx(10, abs=0.1)
    assert end.ran[-1] == "clean-up"


async def test_tasks_of_an_open_nursery_go_on_while_the_harness_is_held(autojump_clock: MockClock) -> None:
    end = await run(with_nursery, {1.5: pause, 10.5: resume})

    assert end.outcome.kind is FINISHED
    assert end.steps == [1, 2, 3, 4]
    assert end.ran.count("tick") >= 12


async def test_a_deadline_within_an_open_nursery_ends_the_harness_with_an_error(autojump_clock: MockClock) -> None:
    end = await run(with_nursery, deadline_s=2.5)

    assert end.outcome.kind is FAILED
    assert "deadline" in end.outcome.cause
    assert end.steps == [1, 2, 3]
    assert end.ran[-1] == "clean-up"


# a background task that fails


async def with_failing_task(harness: Scripted) -> Steps:
    """Make steps while a task of its own fails at 1.5 s."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_fail_later)
        for number in range(1, 5):
            yield number, None
            await trio.sleep(1)


async def _fail_later() -> None:
    await trio.sleep(1.5)
    raise ValueError("background")


@pytest.mark.parametrize(
    "orders",
    [{}, {1.2: pause, 9.0: resume}, {0.5: pause, 9.0: resume}],
    ids=["between two steps", "told to hold", "held"],
)
async def test_a_background_task_that_fails_is_the_failure_of_the_harness(
    orders: dict[float, Callable[[Handle], object]], autojump_clock: MockClock
) -> None:
    end = await run(with_failing_task, orders)

    assert end.outcome.kind is FAILED
    assert end.outcome.cause == "ValueError: background"
    assert end.steps == [1, 2]


async def test_a_background_task_that_fails_while_a_step_is_recorded_loses_no_step(autojump_clock: MockClock) -> None:
    slow = SlowStore(MemoryStore(), lambda: autojump_clock.jump(0.6))

    end = await run(with_failing_task, store=slow)

    assert end.outcome.cause == "ValueError: background"
    assert end.steps == list(range(1, end.outcome.step + 1))
    assert end.steps


async def test_a_harness_whose_background_task_failed_is_started_again_after_its_last_step(autojump_clock: MockClock) -> None:
    end = await run(with_failing_task, restart="transient", until=6)

    assert end.outcome.kind is COMPLETED
    assert end.steps == [1, 2, 3, 4, 5, 6]
    assert end.outcome.attempt == 3


# a time limit open across yields


async def with_limit(harness: Scripted) -> Steps:
    """Make steps within a limit of 2.5 s, and one after it."""
    with trio.move_on_after(2.5) as scope:
        for number in range(1, 100):
            yield number, None
            await trio.sleep(1)
    harness.ran.append(f"expired: {scope.cancelled_caught}")
    yield "after", None


async def test_a_time_limit_may_stay_open_across_yields_and_ends_what_is_within_it(autojump_clock: MockClock) -> None:
    end = await run(with_limit)

    assert end.outcome.kind is FINISHED
    assert end.steps == [1, 2, 3, 4]
    assert end.ran == ["expired: True"]


async def test_a_time_limit_that_expires_while_a_step_is_recorded_loses_no_step(autojump_clock: MockClock) -> None:
    slow = SlowStore(MemoryStore(), lambda: autojump_clock.jump(3))

    end = await run(with_limit, store=slow)

    assert end.outcome.kind is FINISHED
    assert end.steps == [1, 2]
    assert end.store.steps("bad")[-1].input == "after"
    assert end.ran == ["expired: True"]


async def test_a_time_limit_that_expires_while_the_disk_works_loses_no_step(tmp_path: Path) -> None:
    async def brief(harness: Scripted) -> Steps:
        with trio.move_on_after(0.02):
            yield "within", None
            await trio.sleep_forever()
        yield "after", None

    store = SqliteStore(tmp_path / "run.db")

    end = await run(brief, store=SlowStore(store, lambda: time.sleep(0.05)))

    assert end.outcome.kind is FINISHED
    assert [step.input for step in store.steps("bad")] == ["within", "after"]
    store.close()


async def test_a_time_limit_that_expires_while_the_harness_is_held_ends_at_the_next_wait(autojump_clock: MockClock) -> None:
    end = await run(with_limit, {0.5: pause, 9.0: resume})

    assert end.outcome.kind is FINISHED
    assert end.at_s == pytest.approx(9, abs=0.1)
    assert end.store.steps("bad")[-1].input == "after"
    assert end.ran == ["expired: True"]


async def test_a_time_limit_that_raises_is_the_failure_of_the_harness(autojump_clock: MockClock) -> None:
    async def limited(harness: Scripted) -> Steps:
        with trio.fail_after(2.5):
            while True:
                yield 1, None
                await trio.sleep(1)

    end = await run(limited, {0.5: pause, 9.0: resume})

    assert end.outcome.kind is FAILED
    assert "TooSlowError" in end.outcome.cause
    assert end.steps == [1, 2]


async def test_completion_within_a_time_limit_that_has_expired_is_completion(autojump_clock: MockClock) -> None:
    slow = SlowStore(MemoryStore(), lambda: autojump_clock.jump(3))

    end = await run(with_limit, store=slow, until=1)

    assert end.outcome.kind is COMPLETED
    assert end.steps == [1]


# a generator that swallows `Cancelled`


async def test_a_harness_that_swallows_its_cancellation_ends_at_its_next_step(autojump_clock: MockClock) -> None:
    async def stubborn(harness: Scripted) -> Steps:
        yield 1, None
        while True:
            with suppress(trio.Cancelled):
                await trio.sleep_forever()
            yield 2, None

    end = await run(stubborn, {3.0: stop})

    assert end.outcome.kind is STOPPED
    assert end.at_s == pytest.approx(4, abs=0.1)
    assert end.steps == [1, 2]


async def test_a_harness_that_swallows_its_step_limit_fails_at_its_next_step(autojump_clock: MockClock) -> None:
    async def stubborn(harness: Scripted) -> Steps:
        while True:
            with suppress(trio.Cancelled):
                await trio.sleep_forever()
            yield 1, None

    end = await run(stubborn, step_timeout_s=2)

    assert end.outcome.kind is FAILED
    assert "no step within 2 s" in end.outcome.cause
    assert end.at_s == pytest.approx(2, abs=0.1)
    assert end.steps == list(range(1, end.outcome.step + 1))


# clean-up that awaits


def cleaning(seconds: float) -> Callable[[Scripted], Steps]:
    async def script(harness: Scripted) -> Steps:
        try:
            for number in range(1, 1000):
                yield number, None
                await harness.sleep(1)
        finally:
            harness.ran.append("begun")
            await trio.sleep(seconds)
            harness.ran.append("ended")

    return script


@pytest.mark.parametrize(("seconds", "ran", "at_s"), [(0.5, ["begun", "ended"], 3.0), (30, ["begun"], 3.5)])
async def test_clean_up_has_the_grace_period_and_is_then_cancelled(
    seconds: float, ran: list[str], at_s: float, autojump_clock: MockClock
) -> None:
    end = await run(cleaning(seconds), {2.5: stop})

    assert end.outcome.kind is STOPPED
    assert end.ran == ran
    assert end.at_s == pytest.approx(at_s, abs=0.1)
    assert end.steps == [1, 2, 3]


@pytest.mark.parametrize(("seconds", "ran"), [(0.5, ["begun", "ended"]), (30, ["begun"])])
async def test_clean_up_after_completion_has_the_grace_period_too(
    seconds: float, ran: list[str], autojump_clock: MockClock
) -> None:
    end = await run(cleaning(seconds), until=2, grace_s=1)

    assert end.outcome.kind is COMPLETED
    assert end.ran == ran
    assert end.at_s <= 2.2


# a limit on each step


async def test_a_step_past_its_limit_fails_and_the_steps_before_it_are_kept(autojump_clock: MockClock) -> None:
    end = await run(with_nursery, step_timeout_s=0.5)

    assert end.outcome.kind is FAILED
    assert "no step within 0.5 s" in end.outcome.cause
    assert end.steps == [1]
    assert end.ran[-1] == "clean-up"


async def test_neither_the_disk_nor_a_pause_count_as_the_time_of_a_step(autojump_clock: MockClock) -> None:
    slow = SlowStore(MemoryStore(), lambda: autojump_clock.jump(5))

    end = await run(with_nursery, {1.5: pause, 90.0: resume}, store=slow, step_timeout_s=1.5)

    assert end.outcome.kind is FINISHED
    assert end.steps == [1, 2, 3, 4]


async def test_a_harness_that_took_too_long_over_a_step_is_started_again(autojump_clock: MockClock) -> None:
    async def slow_at_first(harness: Scripted) -> Steps:
        yield 1, None
        await trio.sleep(0.1 if harness.current_step > 1 else 100)
        yield 2, None

    end = await run(slow_at_first, restart="transient", step_timeout_s=1)

    assert end.outcome.kind is FINISHED
    assert events(end.store, "bad") == ["started", "failed", "restarting", "started", "finished"]
    assert end.steps == [1, 2, 3]


# all of it at once


async def test_scopes_within_scopes_end_in_order_when_the_harness_fails(autojump_clock: MockClock) -> None:
    async def nested(harness: Scripted) -> Steps:
        async with trio.open_nursery() as outer:
            outer.start_soon(_tick, harness)
            with trio.move_on_after(100):
                async with trio.open_nursery() as inner:
                    inner.start_soon(_tick, harness)
                    async for step in crash(harness):
                        yield step

    end = await run(nested)

    assert end.outcome.cause == "ValueError: boom"
    assert end.steps == [1]
    assert end.ran.count("clean-up") == 2
    assert end.ran[-1] == "clean-up"
