"""Laws of the wiring: what may be started and when, how the block is left, and what is loud."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from harnesses import Budget
from orchestrator import (
    AlreadyRunning,
    HarnessFailed,
    MemoryStore,
    Orchestrator,
    OutcomeKind,
    SqliteStore,
    Status,
    Store,
    StoreError,
    StoreLost,
    UsageError,
)
from orchestrator.errors import ScopeError
from orchestrator.testing import FaultyStore
from tests.orchestrator.scripted import Scripted, Steps, crash, kinds, numbers, poll, three, to_the_end


async def busy(harness: Scripted) -> Steps:
    """Make steps without ever waiting."""
    while True:
        yield 1, None


async def waiting(harness: Scripted) -> Steps:
    """Make a step, and wait for ever in one of Trio's waits."""
    yield 1, None
    await trio.sleep_forever()


def quiet(store: Any = None, **options: Any) -> Orchestrator:
    return Orchestrator(store, handle_signals=False, **options)


# what may be started


async def test_a_name_that_runs_can_not_be_started(autojump_clock: MockClock) -> None:
    async with quiet() as orchestrator:
        orchestrator.start(Scripted(three), name="a")

        with pytest.raises(AlreadyRunning, match="harness 'a' runs already"):
            orchestrator.start(Scripted(three), name="a")


@pytest.mark.parametrize("name", ["", "-a", ".a", "a b", "a/b", "ä", "a\n", "a\x00", "_a", None, 7])
async def test_a_name_that_would_not_do_for_a_file_or_a_command_is_refused(name: Any) -> None:
    async with quiet() as orchestrator:
        with pytest.raises(UsageError, match="expected letters"):
            orchestrator.start(Scripted(three), name=name)

    assert not orchestrator.handles


@pytest.mark.parametrize("name", ["a", "7", "a.b-c_d", "A" * 200])
async def test_a_plain_name_is_taken(name: str, autojump_clock: MockClock) -> None:
    async with quiet() as orchestrator:
        handle = orchestrator.start(Scripted(three), name=name)

    assert handle.name == name


def test_nothing_can_be_started_before_the_block() -> None:
    with pytest.raises(UsageError, match="within `async with"):
        quiet().start(Scripted(three), name="a")


async def test_nothing_can_be_started_after_the_block() -> None:
    async with quiet() as orchestrator:
        pass

    with pytest.raises(UsageError, match="within `async with"):
        orchestrator.start(Scripted(three), name="a")


async def test_an_orchestrator_can_be_entered_once() -> None:
    async with quiet() as orchestrator:
        pass

    with pytest.raises(UsageError, match="entered before"):
        await orchestrator.__aenter__()


async def test_one_object_can_not_run_under_two_names(autojump_clock: MockClock) -> None:
    harness = Scripted(three)
    async with quiet() as orchestrator:
        orchestrator.start(harness, name="a")

        with pytest.raises(UsageError, match="that object runs as 'a'"):
            orchestrator.start(harness, name="b")

    assert numbers(orchestrator.store, "a") == [1, 2, 3]


@pytest.mark.parametrize("harness", [Scripted, None, three])
async def test_what_is_no_harness_is_refused(harness: Any) -> None:
    async with quiet() as orchestrator:
        with pytest.raises(UsageError, match="pass an instance of your class"):
            orchestrator.start(harness, name="a")


async def test_a_restart_that_is_not_one_of_the_words_is_refused() -> None:
    async with quiet() as orchestrator:
        with pytest.raises(UsageError, match="expected permanent, transient or temporary, was 'always'"):
            orchestrator.start(Scripted(three), name="a", restart="always")


def test_a_strategy_that_is_not_one_of_the_words_is_refused() -> None:
    with pytest.raises(UsageError, match="expected one_for_one, one_for_all or rest_for_one, was 'all'"):
        quiet(strategy="all")


async def test_two_supervisors_of_one_name_under_one_are_refused() -> None:
    async with quiet() as orchestrator:
        inner = orchestrator.supervisor("inner")
        orchestrator.supervisor("inner", parent=inner)

        with pytest.raises(UsageError, match="choose another"):
            orchestrator.supervisor("inner")


@pytest.mark.parametrize("name", ["a/b", "/", "a/", "", None, 7])
async def test_a_supervisor_whose_name_could_be_a_path_is_refused_with_the_remedy(name: Any) -> None:
    async with quiet() as orchestrator:
        with pytest.raises(UsageError, match="stands between levels; nest it with `parent=`"):
            orchestrator.supervisor(name)


@pytest.mark.parametrize(
    "use",
    [
        lambda it: it.store,
        lambda it: it.approve("1", by="me"),
        lambda it: it.deny("1", by="me"),
        lambda it: it.supervisor("team", budget=Budget(steps=1)),
        lambda it: it.pool("all", Budget(steps=1)),
    ],
    ids=["store", "approve", "deny", "supervisor", "pool"],
)
async def test_what_needs_the_block_says_so_before_and_after_it(use: Callable[[Orchestrator], object]) -> None:
    orchestrator = quiet()
    with pytest.raises(UsageError, match="within `async with"):
        use(orchestrator)
    async with orchestrator:
        use(orchestrator)


async def test_a_supervisor_that_is_refused_takes_no_name() -> None:
    orchestrator = quiet()
    with pytest.raises(UsageError):
        orchestrator.supervisor("team", budget=Budget(steps=1))
    async with orchestrator:
        with pytest.raises(UsageError, match="expected a Budget"):
            orchestrator.supervisor("team", budget=cast(Any, 7))
        orchestrator.supervisor("team", budget=Budget(steps=1))


async def test_a_handle_keeps_its_step_when_the_object_is_started_under_another_name(autojump_clock: MockClock) -> None:
    async with quiet() as orchestrator:
        harness = Scripted(three)
        first = orchestrator.start(harness, name="a")
        await first.wait()
        second = orchestrator.start(harness, name="b")
        await trio.sleep(0.5)
        steps = (first.current_step, second.current_step)
        await second.wait()

    assert steps == (3, 1)
    assert (first.current_step, second.current_step) == (3, 3)


async def test_a_harness_that_has_ended_goes_on_when_it_is_started_again(autojump_clock: MockClock) -> None:
    async with quiet() as orchestrator:
        first = orchestrator.start(Scripted(poll), name="a")
        await trio.sleep(1.5)
        await first.stop()
        second = orchestrator.start(Scripted(poll, until=4), name="a")
        outcome = await second.wait()

    assert outcome.kind is OutcomeKind.COMPLETED
    assert numbers(orchestrator.store, "a") == [1, 2, 3, 4]


async def test_a_harness_started_while_the_block_waits_is_waited_for_too(autojump_clock: MockClock) -> None:
    async def start_another(harness: Scripted) -> Steps:
        yield 1, None
        await trio.sleep(5)
        orchestrator.start(Scripted(three), name="another")

    async with quiet() as orchestrator:
        orchestrator.start(Scripted(start_another), name="first")

    assert numbers(orchestrator.store, "another") == [1, 2, 3]


async def test_handles_are_in_the_order_of_the_starts(autojump_clock: MockClock) -> None:
    async with quiet() as orchestrator:
        for name in "cab":
            orchestrator.start(Scripted(three), name=name)

    assert [handle.name for handle in orchestrator.handles] == ["c", "a", "b"]


async def test_ten_harnesses_each_make_all_their_steps_in_order(autojump_clock: MockClock) -> None:
    async with quiet() as orchestrator:
        for number in range(10):
            orchestrator.start(Scripted(poll, until=20), name=f"h{number}")

    assert all(numbers(orchestrator.store, f"h{number}") == list(range(1, 21)) for number in range(10))


# how the block is left


async def test_leaving_the_block_waits_for_all(autojump_clock: MockClock) -> None:
    async with quiet() as orchestrator:
        handle = orchestrator.start(Scripted(poll, until=100), name="a")

    assert handle.status is Status.COMPLETED


async def test_an_error_in_the_block_stops_every_harness_and_is_raised_as_it_is(autojump_clock: MockClock) -> None:
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught:
        await _leave_with(error, poll, waiting)

    assert caught.value is error


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), ExceptionGroup("mine", [ValueError("mine")])])
async def test_an_error_of_any_class_leaves_the_block(error: BaseException, autojump_clock: MockClock) -> None:
    with pytest.raises(type(error)) as caught:
        await _leave_with(error, poll, waiting)

    assert caught.value is error


async def _leave_with(error: BaseException, *scripts: Callable[[Scripted], Steps], store: Store | None = None) -> None:
    async with quiet(store) as orchestrator:
        for number, script in enumerate(scripts):
            orchestrator.start(Scripted(script), name=f"h{number}", restart="temporary")
        await trio.sleep(2.5)
        raise error


async def test_sys_exit_leaves_an_outcome_for_every_harness(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    with pytest.raises(SystemExit):
        await _leave_with(SystemExit(3), poll, store=store)

    assert kinds(store, "h0") == ["started", "step", "step", "step", "stopped"]


async def test_failures_besides_an_error_of_the_block_are_noted_on_it(autojump_clock: MockClock) -> None:
    error = KeyError("mine")
    with pytest.raises(KeyError):
        await _leave_with(error, crash)

    assert error.__notes__ == ["also: harness 'h0' failed at step 2: ValueError: boom"]


@pytest.mark.parametrize("script", [poll, busy, waiting])
@pytest.mark.parametrize("held", [False, True])
async def test_a_cancellation_from_outside_ends_the_block_at_once(
    script: Callable[[Scripted], Steps], held: bool, tmp_path: Path
) -> None:
    store = SqliteStore(tmp_path / "run.db")
    orchestrator = quiet(store)
    scope = trio.CancelScope()

    async def cancel_when_it_runs() -> None:
        while not store.last_seq():  # noqa: ASYNC110 - a store rings for nobody
            await trio.sleep(0.01)
        if held:
            orchestrator.handles[0].pause()
        await trio.sleep(0.05)
        scope.cancel()

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_when_it_runs)
            with scope:
                async with orchestrator:
                    orchestrator.start(Scripted(script), name="a")

    assert scope.cancelled_caught
    [handle] = orchestrator.handles
    assert handle.outcome is not None
    assert handle.outcome.kind is OutcomeKind.STOPPED
    assert numbers(store, "a") == list(range(1, handle.current_step + 1))
    assert kinds(store, "a")[-1] == "stopped"
    store.close()


async def test_a_block_in_a_scope_cancelled_beforehand_ends(autojump_clock: MockClock) -> None:
    with trio.move_on_after(0) as scope:
        async with quiet() as orchestrator:
            orchestrator.start(Scripted(three), name="a")

    assert scope.cancelled_caught


async def test_a_cancellation_from_outside_runs_clean_up_and_no_longer(autojump_clock: MockClock) -> None:
    async def cleaning(harness: Scripted) -> Steps:
        try:
            yield 1, None
            await trio.sleep_forever()
        finally:
            harness.ran.append("begun")
            await trio.sleep(1)
            harness.ran.append("ended")

    harness = Scripted(cleaning)
    with trio.move_on_after(5):
        async with quiet() as orchestrator:
            orchestrator.start(harness, name="a")

    assert harness.ran == ["begun"]
    assert trio.current_time() == pytest.approx(5, abs=0.1)


async def test_stop_ends_every_harness_and_the_block(autojump_clock: MockClock) -> None:
    async with quiet() as orchestrator:
        for number, script in enumerate((poll, waiting)):
            orchestrator.start(Scripted(script), name=f"h{number}")
        await trio.sleep(2.5)
        orchestrator.stop(grace=3)

    assert [handle.status for handle in orchestrator.handles] == [Status.STOPPED] * 2
    assert trio.current_time() == pytest.approx(5.5, abs=0.1)


async def test_a_second_shorter_stop_counts(autojump_clock: MockClock) -> None:
    async with quiet() as orchestrator:
        handle = orchestrator.start(Scripted(waiting), name="a")
        await trio.sleep(1)
        orchestrator.stop(grace=100)
        await trio.sleep(1)
        outcome = await handle.stop(grace=1)

    assert outcome.kind is OutcomeKind.STOPPED
    assert trio.current_time() == pytest.approx(3, abs=0.1)


async def test_one_group_at_the_end_carries_what_failed_and_only_that(autojump_clock: MockClock) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await _three_of_whom_two_fail()

    assert caught.value.message == "2 of 3 harnesses failed"
    assert [type(error) for error in caught.value.exceptions] == [HarnessFailed, HarnessFailed]
    assert [str(error) for error in caught.value.exceptions] == [
        "harness 'a' failed at step 2: ValueError: boom",
        "harness 'c' failed at step 2: ValueError: boom",
    ]
    assert all(isinstance(error.__cause__, ValueError) for error in caught.value.exceptions)


async def _three_of_whom_two_fail() -> None:
    async with quiet() as orchestrator:
        for name, script in zip("abc", (crash, three, crash), strict=True):
            orchestrator.start(Scripted(script), name=name, restart="temporary")


async def test_a_harness_that_cancels_everything_above_it_is_found_out() -> None:
    async def vandal(harness: Scripted) -> Steps:
        yield 1, None
        own = trio.lowlevel.current_task().parent_nursery
        assert own is not None
        children = own.parent_task.parent_nursery
        assert children is not None
        children.cancel_scope.cancel()
        await trio.sleep(1)
        yield 2, None

    async with to_the_end() as (orchestrator, errors):
        orchestrator.start(Scripted(vandal), name="a")

    assert any(isinstance(error, ScopeError) for error in errors)
    assert all(handle.outcome is not None for handle in orchestrator.handles)


# the loss of the store


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", [1, 2, 3, 7])
async def test_the_loss_of_the_store_ends_the_group_at_once_and_loudly(
    at: int, after: bool, autojump_clock: MockClock
) -> None:
    faulty = FaultyStore(MemoryStore(), StoreError("no space left"), at=at, after=after)
    async with to_the_end(faulty) as (orchestrator, errors):
        for number, script in enumerate((poll, poll, waiting)):
            orchestrator.start(Scripted(script), name=f"h{number}")

    [error] = errors
    assert isinstance(error, StoreLost)
    assert "no space left" in str(error)
    assert trio.current_time() < 10
    assert all(handle.outcome is not None for handle in orchestrator.handles)


async def test_no_step_is_acknowledged_that_a_lost_store_does_not_have(autojump_clock: MockClock) -> None:
    resumed: list[int] = []

    async def watched(harness: Scripted) -> Steps:
        for number in range(1, 100):
            yield number, None
            resumed.append(number)

    store = MemoryStore()
    with pytest.raises(ExceptionGroup):
        async with quiet(FaultyStore(store, StoreError("gone"), at=5, only_steps=True)) as orchestrator:
            orchestrator.start(Scripted(watched), name="a")

    assert resumed == numbers(store, "a") == [1, 2, 3, 4]


async def test_the_loss_of_a_real_file_ends_a_held_harness_too(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "run.db")
    faulty = FaultyStore(store, StoreError("gone"), at=10, only_steps=True)
    async with to_the_end(faulty) as (orchestrator, errors):
        held = orchestrator.start(Scripted(poll), name="held")
        await held.pause()
        orchestrator.start(Scripted(busy), name="busy")

    assert [type(error) for error in errors] == [StoreLost]
    assert held.outcome is not None
    store.close()
