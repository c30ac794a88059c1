"""G3, G6, and laws of supervision as it runs: who is started again, in what order, and what outlives the program."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import evolve, frozen
from trio.testing import MockClock

from harnesses import BaseHarness, NoRestart
from orchestrator import (
    Backoff,
    GaveUp,
    Handle,
    MemoryStore,
    Orchestrator,
    OutcomeKind,
    Restart,
    Status,
    Store,
    StoreError,
    StoreLost,
)
from orchestrator.codec import decode
from orchestrator.store.store_protocol import Committed, ConsumedRow, Operation, StepRow
from orchestrator.testing import FaultyStore
from tests.orchestrator.scripted import STEADY, Scripted, Steps, crash, events, numbers, poll, three, to_the_end


def crashing(times: int, *, after_s: float = 1) -> Callable[[Scripted], Steps]:
    """Return a script that crashes in its first attempts and then makes a step each second for ever."""

    async def script(harness: Scripted) -> Steps:
        harness.ran.append("begun")
        while True:
            yield harness.current_step + 1, None
            await harness.sleep(after_s if len(harness.ran) <= times else 1)
            if len(harness.ran) <= times:
                raise ValueError("boom")

    return script


class MortalStore(FaultyStore):
    """A store whose program can be killed: from then on nothing reaches the disk."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, lambda: None, at=0)
        self.killed = False

    def commit(
        self,
        steps: Sequence[StepRow],
        operations: Sequence[Operation] = (),
        *,
        consumed: Sequence[ConsumedRow] = (),
        wait: bool = True,
    ) -> Committed:
        if self.killed:
            raise StoreError("killed")
        return super().commit(steps, operations, consumed=consumed, wait=wait)


@asynccontextmanager
async def life(store: Store, *, killed: bool = False, **options: Any) -> AsyncGenerator[Orchestrator, None]:
    """One life of a program over `store`, ended in order, or by a kill, when the block is left."""
    mortal = MortalStore(store)
    options.setdefault("backoff", STEADY)
    try:
        async with Orchestrator(mortal, handle_signals=False, **options) as orchestrator:
            yield orchestrator
            mortal.killed = killed
            orchestrator.stop(grace=0)
    except* StoreLost:
        pass
    store.close()


ENDS = pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])


# which exit is followed by another attempt


@pytest.mark.parametrize(
    ("restart", "script", "kind", "attempts"),
    [
        (Restart.PERMANENT, crash, OutcomeKind.GAVE_UP, 4),
        (Restart.PERMANENT, three, OutcomeKind.GAVE_UP, 4),
        (Restart.TRANSIENT, crash, OutcomeKind.GAVE_UP, 4),
        (Restart.TRANSIENT, three, OutcomeKind.FINISHED, 1),
        (Restart.TEMPORARY, crash, OutcomeKind.FAILED, 1),
        (Restart.TEMPORARY, three, OutcomeKind.FINISHED, 1),
    ],
)
async def test_a_harness_is_started_again_as_the_truth_table_says(
    restart: Restart, script: Callable[[Scripted], Steps], kind: OutcomeKind, attempts: int, autojump_clock: MockClock
) -> None:
    async with to_the_end(intensity=3) as (orchestrator, _):
        handle = orchestrator.start(Scripted(script), name="a", restart=restart)

    outcome = await handle.wait()
    assert outcome.kind is kind
    assert outcome.attempt == attempts


@pytest.mark.parametrize("restart", Restart)
async def test_a_completed_harness_is_never_started_again(restart: Restart, autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(poll, until=2), name="a", restart=restart)

    assert handle.outcome is not None
    assert handle.outcome.kind is OutcomeKind.COMPLETED
    assert handle.attempt == 1


async def test_an_error_that_no_restart_can_mend_fails_at_once(autojump_clock):
    async def script(harness: Scripted) -> Steps:
        raise NoRestart("the list is empty: expected one or more")
        yield

    with pytest.raises(ExceptionGroup):
        async with Orchestrator() as orchestrator:
            handle = orchestrator.start(Scripted(script), name="one", restart="permanent")

    assert (handle.outcome.kind, handle.attempt) == (OutcomeKind.FAILED, 1)


async def test_every_decision_is_an_event_in_the_store(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        orchestrator.start(Scripted(crashing(2), until=5), name="a")

    assert events(store, "a") == ["started", "failed", "restarting", "started", "failed", "restarting", "started", "completed"]
    assert numbers(store, "a") == [1, 2, 3, 4, 5]


async def test_a_harness_waits_out_its_back_off(autojump_clock: MockClock) -> None:
    attempts: list[int] = []
    async with life(MemoryStore(), backoff=Backoff(base_s=2, factor=3, jitter=0)) as orchestrator:
        handle = orchestrator.start(Scripted(crashing(2)), name="a")
        for moment in (2.9, 3.1, 9.9, 10.1):
            await trio.sleep_until(moment)
            attempts.append(handle.attempt)

    assert attempts == [1, 2, 2, 3]


async def test_a_harness_that_gives_up_leaves_its_siblings_running(autojump_clock: MockClock) -> None:
    async with to_the_end(intensity=2) as (orchestrator, errors):
        bad = orchestrator.start(Scripted(crash), name="bad")
        good = orchestrator.start(Scripted(poll, until=30), name="good")

    [error] = errors
    assert isinstance(error, GaveUp)
    assert str(error) == "harness 'bad' gave up at step 4: 2 restarts within 60 s; ValueError: boom"
    assert isinstance(error.__cause__, ValueError)
    assert bad.status is Status.GAVE_UP
    assert good.status is Status.COMPLETED


async def test_crashes_further_apart_than_the_period_are_put_up_with_for_ever(autojump_clock: MockClock) -> None:
    async with life(MemoryStore(), intensity=2, period_s=10) as orchestrator:
        handle = orchestrator.start(Scripted(crashing(20, after_s=9)), name="a")
        await trio.sleep(190)

    assert handle.attempt >= 19
    assert handle.status is Status.STOPPED


# whom a crash concerns


async def _three_children(store: Store, *, restarts: tuple[str, ...] = ("transient",) * 3, **options: Any) -> list[Handle]:
    """Run three harnesses for 20 seconds, of which the second crashes once, at 1 s."""
    async with life(store, **options) as orchestrator:
        scripts = (poll, crashing(1), poll)
        rows = list(zip("abc", scripts, restarts, strict=True))
        handles = [orchestrator.start(Scripted(script), name=name, restart=word) for name, script, word in rows]
        await trio.sleep(20)
    return handles


@pytest.mark.parametrize(
    ("strategy", "attempts"),
    [("one_for_one", [1, 2, 1]), ("one_for_all", [2, 2, 2]), ("rest_for_one", [1, 2, 2])],
)
async def test_a_crash_concerns_those_whom_the_strategy_says(
    strategy: str, attempts: list[int], autojump_clock: MockClock
) -> None:
    store = MemoryStore()

    handles = await _three_children(store, strategy=strategy)

    assert [handle.attempt for handle in handles] == attempts
    for handle in handles:
        assert handle.current_step >= 15
        assert numbers(store, handle.name) == list(range(1, handle.current_step + 1))


async def test_a_sibling_that_is_taken_down_records_why_and_no_failure(autojump_clock: MockClock) -> None:
    store = MemoryStore()

    await _three_children(store, strategy="one_for_all")

    assert events(store, "a") == ["started", "restarting", "started", "stopped"]
    [body] = [decode(record.body) for record in store.records() if record.harness == "a" and record.kind == "restarting"]
    assert body["cause"] == "ValueError: boom"


async def test_nobody_starts_again_before_everybody_has_ended(autojump_clock: MockClock) -> None:
    store = MemoryStore()

    await _three_children(store, strategy="one_for_all")

    records = [record for record in store.records(limit=1000) if record.step >= 1]
    second = min(record.seq for record in records if record.attempt == 2)
    first = max(record.seq for record in records if record.attempt == 1 and record.kind in ("step", "failed"))
    assert first < second


async def test_a_completed_sibling_is_not_started_again(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with life(store, strategy="one_for_all") as orchestrator:
        done = orchestrator.start(Scripted(poll, until=1), name="done")
        orchestrator.start(Scripted(crashing(1)), name="bad")
        await trio.sleep(10)

    assert done.outcome is not None
    assert done.outcome.kind is OutcomeKind.COMPLETED
    assert events(store, "done") == ["started", "completed"]


async def test_a_temporary_sibling_ends_with_the_crash(autojump_clock: MockClock) -> None:
    store = MemoryStore()

    _, _, temporary = await _three_children(store, strategy="one_for_all", restarts=("transient", "transient", "temporary"))

    assert temporary.outcome is not None
    assert temporary.outcome.kind is OutcomeKind.STOPPED
    assert temporary.outcome.cause == "a sibling crashed: ValueError: boom"
    assert temporary.attempt == 1


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
async def test_two_that_crash_at_the_same_moment_both_go_on(strategy: str, autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with life(store, strategy=strategy) as orchestrator:
        handles = [orchestrator.start(Scripted(crashing(1)), name=name) for name in "abc"]
        await trio.sleep(20)

    assert all(handle.current_step >= 10 for handle in handles)
    assert all(numbers(store, handle.name) == list(range(1, handle.current_step + 1)) for handle in handles)


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
async def test_a_crash_during_the_back_off_of_another_leaves_nobody_behind(strategy: str, autojump_clock: MockClock) -> None:
    async with life(MemoryStore(), strategy=strategy, backoff=Backoff(base_s=5, factor=1, jitter=0)) as orchestrator:
        handles = [orchestrator.start(Scripted(script), name=name) for name, script in (("a", crashing(1)), ("b", poll))]
        await trio.sleep(3)
        handles.append(orchestrator.start(Scripted(crashing(1)), name="late"))
        await trio.sleep(27)

    assert all(handle.current_step >= 10 for handle in handles)


@pytest.mark.parametrize("passes", range(14))
async def test_a_crash_at_any_moment_of_a_siblings_start_takes_it_along(passes: int, autojump_clock: MockClock) -> None:
    async def crash_soon(harness: Scripted) -> Steps:
        if not harness.current_step:
            yield 1, None
            for _ in range(passes):
                await trio.lowlevel.checkpoint()
            raise ValueError("boom")
        await harness.sleep(1000)
        yield 2, None

    store = MemoryStore()
    async with life(store, strategy="one_for_all") as orchestrator:
        async for _ in orchestrator.start(Scripted(crash_soon), name="bad").steps():
            break
        sibling = orchestrator.start(Scripted(poll), name="sibling")
        await trio.sleep(10)

    assert sibling.current_step >= 7
    assert numbers(store, "sibling") == list(range(1, sibling.current_step + 1))
    assert "restarting" not in events(store, "sibling")[:1]


async def test_a_sibling_that_does_not_end_holds_up_its_own_group_only(autojump_clock: MockClock) -> None:
    async def stuck(harness: Scripted) -> Steps:
        yield 1, None
        with trio.CancelScope(shield=True):
            await trio.sleep(100)
        yield 2, None

    async with life(MemoryStore()) as orchestrator:
        group = orchestrator.supervisor("group", strategy="one_for_all")
        bad = orchestrator.start(Scripted(crashing(1)), name="bad", supervisor=group)
        orchestrator.start(Scripted(stuck), name="stuck", supervisor=group)
        await trio.sleep(5)
        other = orchestrator.start(Scripted(crashing(1)), name="other")
        await trio.sleep(20)

        assert bad.attempt == 1
        assert other.attempt == 2
        assert other.current_step >= 10


# supervisors below supervisors


async def test_a_supervisor_that_gives_up_is_started_again_as_a_whole(autojump_clock: MockClock) -> None:
    async with life(MemoryStore()) as orchestrator:
        inner = orchestrator.supervisor("inner", intensity=1, period_s=1000)
        bad = orchestrator.start(Scripted(crashing(2)), name="bad", supervisor=inner)
        good = orchestrator.start(Scripted(poll), name="good", supervisor=inner)
        outside = orchestrator.start(Scripted(poll), name="outside")
        await trio.sleep(30)

    assert [bad.attempt, good.attempt, outside.attempt] == [3, 2, 1]
    assert bad.current_step >= 20


async def test_a_temporary_supervisor_that_gives_up_ends_its_children_and_nobody_else(autojump_clock: MockClock) -> None:
    async with to_the_end() as (orchestrator, errors):
        inner = orchestrator.supervisor("inner", restart="temporary", intensity=2)
        bad = orchestrator.start(Scripted(crash), name="bad", supervisor=inner)
        good = orchestrator.start(Scripted(poll), name="good", supervisor=inner)
        outside = orchestrator.start(Scripted(poll, until=30), name="outside")

    assert [str(error) for error in errors] == ["harness 'bad' gave up at step 4: 2 restarts within 60 s; ValueError: boom"]
    assert bad.status is Status.GAVE_UP
    assert good.outcome is not None
    assert good.outcome.cause == "its supervisor gave up when 'bad' ended: ValueError: boom"
    assert outside.status is Status.COMPLETED


async def test_a_supervisor_that_gives_up_too_often_gives_up_for_good(autojump_clock: MockClock) -> None:
    async with to_the_end(intensity=2, period_s=1000) as (orchestrator, errors):
        inner = orchestrator.supervisor("inner", intensity=1, period_s=1000)
        bad = orchestrator.start(Scripted(crash), name="bad", supervisor=inner)
        good = orchestrator.start(Scripted(poll), name="good", supervisor=inner)

    assert len(errors) == 1
    assert bad.status is Status.GAVE_UP
    assert good.status is Status.STOPPED


async def test_a_crash_deep_in_the_tree_that_nobody_puts_up_with_reaches_the_root(autojump_clock: MockClock) -> None:
    async with to_the_end(intensity=0, strategy="one_for_all") as (orchestrator, _):
        middle = orchestrator.supervisor("middle", intensity=0)
        inner = orchestrator.supervisor("inner", intensity=0, parent=middle)
        bad = orchestrator.start(Scripted(crash), name="bad", supervisor=inner)
        cousin = orchestrator.start(Scripted(poll), name="cousin", supervisor=middle)
        outside = orchestrator.start(Scripted(poll), name="outside")

    assert bad.status is Status.GAVE_UP
    assert cousin.status is Status.STOPPED
    assert outside.status is Status.STOPPED


# orders and limits, wherever the harness is


async def test_a_stop_ends_a_back_off(autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False, backoff=Backoff(base_s=1000, cap_s=1000)) as orchestrator:
        handle = orchestrator.start(Scripted(crash), name="a")
        await trio.sleep(2)
        assert handle.status is Status.BACKING_OFF

        outcome = await handle.stop()

    assert outcome.kind is OutcomeKind.STOPPED
    assert trio.current_time() == pytest.approx(2, abs=0.1)


async def test_a_pause_given_during_a_back_off_holds_the_next_attempt(autojump_clock: MockClock) -> None:
    async with life(MemoryStore(), backoff=Backoff(base_s=5, jitter=0)) as orchestrator:
        handle = orchestrator.start(Scripted(crashing(1)), name="a")
        await trio.sleep(2)
        await handle.pause()
        await trio.sleep(20)
        assert handle.status is Status.PAUSED
        assert handle.current_step == 1

        await handle.resume()
        await trio.sleep(5)

        assert handle.current_step > 4


async def test_a_resume_during_a_back_off_leaves_it_backing_off(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with life(store, backoff=Backoff(base_s=5, jitter=0)) as orchestrator:
        handle = orchestrator.start(Scripted(crashing(1)), name="a")
        await trio.sleep(2)
        await handle.pause()
        await handle.resume()
        assert handle.status is Status.BACKING_OFF
        assert [known.status for known in store.harnesses()] == [Status.BACKING_OFF]
        await trio.sleep(10)

        assert handle.status is Status.RUNNING
        assert events(store, "a")[:6] == ["started", "failed", "restarting", "paused", "resumed", "started"]


async def test_a_resume_during_the_back_off_of_an_earlier_program_leaves_it_backing_off(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with life(store, killed=True, backoff=Backoff(base_s=500, factor=1, jitter=0)) as orchestrator:
        handle = orchestrator.start(Scripted(crashing(1)), name="a")
        await trio.sleep(2)
        await handle.pause()
    async with life(store) as orchestrator:
        handle = orchestrator.start(Scripted(crashing(1)), name="a")
        await trio.sleep(1)
        await handle.resume()

        assert handle.status is Status.BACKING_OFF
        assert [known.status for known in store.harnesses()] == [Status.BACKING_OFF]


async def test_a_sibling_that_is_held_for_a_restart_and_resumed_is_backing_off(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with life(store, strategy="one_for_all", backoff=Backoff(base_s=5, jitter=0)) as orchestrator:
        orchestrator.start(Scripted(crashing(1)), name="a")
        sibling = orchestrator.start(Scripted(poll), name="b")
        await trio.sleep(2)
        await sibling.pause()
        await sibling.resume()

        assert sibling.status is Status.BACKING_OFF


async def test_a_pause_outlives_a_crash(autojump_clock: MockClock) -> None:
    async def step_and_crash(harness: Scripted) -> Steps:
        yield 1, None
        await trio.sleep(1)
        raise ValueError("boom")

    async with life(MemoryStore()) as orchestrator:
        handle = orchestrator.start(Scripted(step_and_crash), name="a")
        await trio.sleep(0.5)
        await handle.pause()
        await trio.sleep(10)

        assert handle.status is Status.PAUSED
        assert handle.current_step == 1


@pytest.mark.parametrize("moment", ["running", "held", "backing off", "never waits"])
async def test_a_deadline_ends_a_harness_wherever_it_is(moment: str, autojump_clock: MockClock) -> None:
    async def busy(harness: Scripted) -> Steps:
        while True:
            autojump_clock.jump(0.5)
            yield 1, None

    script = {"backing off": crash, "never waits": busy}.get(moment, poll)
    async with to_the_end(backoff=Backoff(base_s=100, cap_s=100)) as (orchestrator, _):
        handle = orchestrator.start(Scripted(script), name="a", deadline_s=3)
        if moment == "held":
            handle.pause()

    assert trio.current_time() == pytest.approx(3, abs=0.6)
    assert handle.outcome is not None
    assert handle.outcome.kind is OutcomeKind.FAILED
    assert "deadline" in handle.outcome.cause


@pytest.mark.parametrize("moment", ["running", "held", "backing off"])
async def test_the_deadline_of_the_run_stops_every_harness_and_leaves_it_resumable(
    moment: str, autojump_clock: MockClock
) -> None:
    async with Orchestrator(handle_signals=False, deadline_s=5, backoff=Backoff(base_s=100, cap_s=100)) as orchestrator:
        handle = orchestrator.start(Scripted(crash if moment == "backing off" else poll), name="a")
        if moment == "held":
            handle.pause()
        await trio.sleep(100)

    assert trio.current_time() == pytest.approx(5, abs=0.1)
    assert handle.outcome is not None
    assert handle.outcome.kind is OutcomeKind.STOPPED
    assert handle.outcome.cause == "the run's deadline of 5 s has passed"


async def test_a_harness_given_a_deadline_may_be_restarted_within_it(autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False, backoff=STEADY) as orchestrator:
        handle = orchestrator.start(Scripted(crashing(1), until=4), name="a", deadline_s=50)

    assert handle.status is Status.COMPLETED


# what outlives the program


@ENDS
async def test_a_pause_outlives_the_program(killed: bool, autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with life(store, killed=killed) as orchestrator:
        handle = orchestrator.start(Scripted(poll), name="a")
        await trio.sleep(2.5)
        await handle.pause()
        await trio.sleep(5)
        held = handle.current_step
    async with life(store) as orchestrator:
        handle = orchestrator.start(Scripted(poll), name="a")
        await trio.sleep(10)
        assert handle.status is Status.PAUSED
        assert handle.current_step == held

        await handle.resume()
        await trio.sleep(2.5)

        assert handle.current_step >= held + 2


@pytest.mark.parametrize("awaited", [True, False])
@ENDS
async def test_a_resume_given_before_the_store_has_answered_counts(
    killed: bool, awaited: bool, autojump_clock: MockClock
) -> None:
    store = MemoryStore()
    async with life(store, killed=killed) as orchestrator:
        await orchestrator.start(Scripted(poll), name="a").pause()
        await trio.sleep(5)
    async with life(store) as orchestrator:
        handle = orchestrator.start(Scripted(poll), name="a")
        order = handle.resume()
        if awaited:
            await order
        await trio.sleep(2.5)

        assert handle.status is Status.RUNNING
        assert handle.current_step >= 3


async def test_a_harness_stopped_by_order_while_held_is_not_held_when_it_is_started_again(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with life(store) as orchestrator:
        handle = orchestrator.start(Scripted(poll), name="a")
        await handle.pause()
        await handle.stop()
    async with life(store) as orchestrator:
        handle = orchestrator.start(Scripted(poll), name="a")
        await trio.sleep(2.5)

        assert handle.current_step >= 2


@ENDS
async def test_a_back_off_outlives_the_program(killed: bool, autojump_clock: MockClock) -> None:
    store, slow = MemoryStore(), Backoff(base_s=100, cap_s=100, jitter=0)
    async with life(store, killed=killed, backoff=slow) as orchestrator:
        orchestrator.start(Scripted(crash), name="a")
        await trio.sleep(2)
    [due] = [decode(record.body)["due"] for record in store.records() if record.kind == "restarting"]
    async with life(store) as orchestrator:
        remaining_s = due - time.time()
        handle = orchestrator.start(Scripted(poll), name="a")
        await trio.sleep(remaining_s - 1)
        assert handle.attempt == 1
        await trio.sleep(2)

        assert remaining_s > 90
        assert handle.attempt == 2


@ENDS
async def test_restarts_that_count_outlive_the_program(killed: bool, autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with life(store, killed=killed, intensity=3, period_s=10_000) as orchestrator:
        orchestrator.start(Scripted(crashing(2)), name="a")
        await trio.sleep(10)

    async with to_the_end(store, intensity=3, period_s=10_000) as (orchestrator, errors):
        handle = orchestrator.start(Scripted(crash), name="a")

    assert "3 restarts within 10000 s" in str(errors[0])
    assert handle.attempt == 5


async def test_restarts_do_not_count_after_a_stop_by_order(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with life(store, intensity=2, period_s=10_000) as orchestrator:
        handle = orchestrator.start(Scripted(crashing(2)), name="a")
        await trio.sleep(10)
        await handle.stop()
    async with life(store, intensity=2, period_s=10_000) as orchestrator:
        handle = orchestrator.start(Scripted(crashing(2)), name="a")
        await trio.sleep(10)

        assert handle.status is Status.RUNNING


@ENDS
async def test_one_restart_of_a_whole_group_counts_once_in_the_next_program(killed: bool, autojump_clock: MockClock) -> None:
    store = MemoryStore()
    options: dict[str, Any] = {"strategy": "one_for_all", "intensity": 4, "period_s": 10_000}
    async with life(store, killed=killed, **options) as orchestrator:
        for name, script in zip("abc", (crashing(2), poll, poll), strict=True):
            orchestrator.start(Scripted(script), name=name)
        await trio.sleep(10)
    async with life(store, **options) as orchestrator:
        handles = [
            orchestrator.start(Scripted(script), name=name)
            for name, script in zip("abc", (crashing(2), poll, poll), strict=True)
        ]
        await trio.sleep(10)

        assert [handle.status for handle in handles] == [Status.RUNNING] * 3


@ENDS
async def test_a_running_harness_goes_on_in_the_next_program(killed: bool, autojump_clock: MockClock) -> None:
    store = MemoryStore()
    for _ in range(3):
        async with life(store, killed=killed) as orchestrator:
            orchestrator.start(Scripted(poll), name="a")
            await trio.sleep(2.5)

    steps = numbers(store, "a")
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= 7


async def test_a_harness_completed_in_the_store_ends_at_once_without_a_step(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with life(store) as orchestrator:
        await orchestrator.start(Scripted(poll, until=3), name="a").wait()
    before = len(store.records())
    async with life(store) as orchestrator:
        outcome = await orchestrator.start(Scripted(poll, until=3), name="a").wait()

    assert outcome.kind is OutcomeKind.COMPLETED
    assert outcome.step == 3
    assert len(store.records()) == before


async def test_a_harness_whose_last_step_is_recorded_but_not_its_end_completes_without_another_step(
    autojump_clock: MockClock,
) -> None:
    store = MemoryStore()
    async with life(store, killed=True) as orchestrator:
        orchestrator.start(Scripted(poll), name="a")
        await trio.sleep(2.5)
    async with life(store) as orchestrator:
        outcome = await orchestrator.start(Scripted(poll, until=3), name="a").wait()

    assert outcome.kind is OutcomeKind.COMPLETED
    assert numbers(store, "a") == [1, 2, 3]


async def test_a_harness_that_failed_for_good_goes_on_when_it_is_started_again(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with to_the_end(store) as (orchestrator, _):
        orchestrator.start(Scripted(crash), name="a", restart="temporary")
    store.close()
    async with life(store) as orchestrator:
        handle = orchestrator.start(Scripted(poll, until=4), name="a")
        await handle.wait()

    assert handle.status is Status.COMPLETED
    assert numbers(store, "a") == [1, 2, 3, 4]


# a past that cannot be taken up


@frozen
class Total:
    """A state whose checks can grow stricter from one version of a program to the next."""

    total: int = 0
    strict = False

    def __attrs_post_init__(self) -> None:
        if self.strict and self.total > 1:
            raise KeyError("no totals above 1")


class Totalling(BaseHarness[Total, int, int]):
    """Adds one a second."""

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        while True:
            self.update_state(lambda state: evolve(state, total=state.total + 1))
            yield 1, self.state.total
            await self.sleep(1)


async def test_a_state_that_can_not_be_restored_fails_that_harness_alone(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    async with life(store) as orchestrator:
        orchestrator.start(Totalling(Total()), name="a")
        await trio.sleep(2.5)
    monkeypatch.setattr(Total, "strict", True)

    async with to_the_end(store) as (orchestrator, errors):
        bad = orchestrator.start(Totalling(Total()), name="a")
        good = orchestrator.start(Scripted(poll, until=5), name="good")

    assert "harness 'a'" in str(errors[0])
    assert bad.status is Status.FAILED
    assert good.status is Status.COMPLETED
    assert numbers(store, "a") == [1, 2, 3]
