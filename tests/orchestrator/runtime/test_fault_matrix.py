"""G4: whatever one harness does, its siblings keep stepping, and it ends with an outcome that says what was wrong.

Each fault runs on a real file beside two healthy harnesses, which go on until the bad one has ended, and five steps longer.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import sniffio
import trio
import trio.lowlevel
from attrs import evolve, frozen

from orchestrator import Handle, Orchestrator, OrchestratorError, Outcome, OutcomeKind, SqliteStore
from tests.orchestrator.scripted import Scripted, Steps, numbers

FAILED, STOPPED, FINISHED = OutcomeKind.FAILED, OutcomeKind.STOPPED, OutcomeKind.FINISHED
BLOCKED = OutcomeKind.BLOCKED


@frozen
class State:
    """The state of the bad one."""

    total: int = 0
    items: tuple[int, ...] = ()


@frozen
class Fault:
    """One way to misbehave, and what is to become of it."""

    script: Callable[[Scripted], Any]
    kind: OutcomeKind
    cause: str
    """Part of the outcome's cause: what was wrong or, of a misuse, what to do."""
    steps: int
    order: Callable[[Handle], Awaitable[object]] | None
    terms: dict[str, Any]


FAULTS: dict[str, Fault] = {}


def fault(
    kind: OutcomeKind,
    cause: str,
    *,
    steps: int,
    order: Callable[[Handle], Awaitable[object]] | None = None,
    **terms: Any,
) -> Callable[[Callable[[Scripted], Any]], Callable[[Scripted], Any]]:
    """Enter a script in the matrix."""

    def add(script: Callable[[Scripted], Any]) -> Callable[[Scripted], Any]:
        FAULTS[script.__name__.replace("_", " ")] = Fault(script, kind, cause, steps, order, terms)
        return script

    return add


async def stop(handle: Handle) -> None:
    """Stop the bad one once it has made a step and gone on."""
    async for _ in handle.steps():
        break
    await trio.sleep(0.02)
    await handle.stop(grace=0.1)


# errors


@fault(FAILED, "ValueError: boom", steps=0)
async def raises_before_the_first_yield(harness: Scripted) -> Steps:
    raise ValueError("boom")
    yield 1, 1


@fault(FAILED, "ValueError: boom", steps=2)
async def raises_between_two_yields(harness: Scripted) -> Steps:
    yield 1, 1
    yield 2, 2
    raise ValueError("boom")


@fault(FAILED, "ValueError: boom", steps=1)
async def raises_in_its_clean_up(harness: Scripted) -> Steps:
    try:
        yield 1, 1
    finally:
        raise ValueError("boom")


@fault(FAILED, "ValueError: boom", steps=1, order=stop)
async def raises_in_its_clean_up_when_stopped(harness: Scripted) -> Steps:
    try:
        yield 1, 1
        await harness.sleep(1000)
    finally:
        raise ValueError("boom")


@fault(FAILED, "ValueError: boom", steps=1)
async def raises_in_is_complete(harness: Scripted) -> Steps:
    def boom() -> bool:
        raise ValueError("boom")

    harness.is_complete = boom  # type: ignore[method-assign]
    yield 1, 1
    yield 2, 2


@fault(FAILED, "ValueError: no truth", steps=1)
async def gives_is_complete_an_answer_without_truth(harness: Scripted) -> Steps:
    class Answer:
        def __bool__(self) -> bool:
            raise ValueError("no truth")

    harness.is_complete = Answer  # type: ignore[assignment,method-assign]
    yield 1, 1
    yield 2, 2


@fault(FAILED, "ZeroDivisionError", steps=1)
async def raises_in_a_change_of_its_state(harness: Scripted) -> Steps:
    yield 1, 1
    harness.update_state(lambda state: evolve(state, total=1 // state.total))
    yield 2, 2


@fault(FAILED, "SystemExit: 3", steps=1)
async def calls_sys_exit(harness: Scripted) -> Steps:
    yield 1, 1
    sys.exit(3)


@fault(FAILED, "KeyboardInterrupt", steps=1)
async def raises_keyboard_interrupt(harness: Scripted) -> Steps:
    yield 1, 1
    raise KeyboardInterrupt


@fault(FAILED, "GeneratorExit", steps=1)
async def raises_generator_exit(harness: Scripted) -> Steps:
    yield 1, 1
    raise GeneratorExit


@fault(FAILED, "raised StopAsyncIteration", steps=1)
async def raises_stop_async_iteration(harness: Scripted) -> Steps:
    yield 1, 1
    raise StopAsyncIteration


@fault(FAILED, "raised StopIteration", steps=1)
async def raises_stop_iteration(harness: Scripted) -> Steps:
    yield 1, 1
    next(iter(()))


@fault(FAILED, "CancelledError", steps=1)
async def raises_the_cancellation_of_asyncio(harness: Scripted) -> Steps:
    yield 1, 1
    raise asyncio.CancelledError


@fault(FAILED, "KeyboardInterrupt: ; ValueError: boom", steps=1)
async def raises_a_group_with_an_interrupt(harness: Scripted) -> Steps:
    yield 1, 1
    raise BaseExceptionGroup("two", [KeyboardInterrupt(), ValueError("boom")])


@fault(FAILED, "ValueError: deep", steps=1)
async def raises_a_group_within_groups(harness: Scripted) -> Steps:
    yield 1, 1
    raise _nested(ValueError("deep"), 50)


@fault(FAILED, "", steps=1)
async def raises_a_group_within_three_thousand_groups(harness: Scripted) -> Steps:
    yield 1, 1
    raise _nested(ValueError("deep"), 3000)


def _nested(error: Exception, depth: int) -> Exception:
    for _ in range(depth):
        error = ExceptionGroup("group", [error])
    return error


@fault(FAILED, "Mute: its message cannot be read", steps=1)
async def raises_an_error_that_can_not_be_read(harness: Scripted) -> Steps:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

        __repr__ = __str__

    yield 1, 1
    raise Mute


@fault(FAILED, "ValueError: xxxx", steps=1)
async def raises_an_error_of_a_million_characters(harness: Scripted) -> Steps:
    yield 1, 1
    raise ValueError("x" * 1_000_000)


@fault(FAILED, "ValueError: ?", steps=1)
async def raises_an_error_that_can_not_be_encoded(harness: Scripted) -> Steps:
    yield 1, 1
    raise ValueError("\ud800")


@fault(FAILED, "ValueError: boom", steps=1)
async def raises_an_error_that_causes_itself(harness: Scripted) -> Steps:
    yield 1, 1
    error, other = ValueError("boom"), ValueError("other")
    error.__cause__, other.__cause__ = other, error
    raise error


@fault(FAILED, "ValueError: the last", steps=1)
async def raises_an_error_with_twenty_thousand_causes(harness: Scripted) -> Steps:
    yield 1, 1
    error = ValueError("the first")
    for _ in range(20_000):
        error, error.__cause__ = ValueError("the last"), error
    raise error


@fault(FAILED, "RecursionError", steps=1)
async def recurses_without_end(harness: Scripted) -> Steps:
    def deeper() -> int:
        return deeper() + 1

    yield 1, 1
    deeper()


@fault(FAILED, "MemoryError", steps=1)
async def runs_out_of_memory(harness: Scripted) -> Steps:
    yield 1, 1
    bytearray(1 << 62)


# values


@fault(FAILED, "expected StepYield(input=…, output=…) or a pair", steps=1)
async def yields_what_is_no_pair(harness: Scripted) -> Steps:
    yield 1, 1
    yield 2


@fault(FAILED, "expected StepYield(input=…, output=…) or a pair", steps=1)
async def yields_a_string_of_two_characters(harness: Scripted) -> Steps:
    yield 1, 1
    yield "ab"


@fault(FAILED, "output is nan", steps=1)
async def yields_what_is_not_a_number(harness: Scripted) -> Steps:
    yield 1, 1
    yield 2, float("nan")


@fault(FAILED, "output[0]", steps=1)
async def yields_an_object(harness: Scripted) -> Steps:
    yield 1, 1
    yield 2, [object()]


@fault(FAILED, "harness 'bad', step 2", steps=1)
async def yields_a_lone_surrogate(harness: Scripted) -> Steps:
    yield 1, 1
    yield 2, "\ud800"


@fault(FAILED, "private", steps=1)
async def yields_a_private_field(harness: Scripted) -> Steps:
    @frozen
    class Private:
        _secret: int = 1

    yield 1, 1
    yield 2, Private()


@fault(FAILED, "harness 'bad', step 2", steps=1)
async def yields_lists_within_lists_without_end(harness: Scripted) -> Steps:
    yield 1, 1
    endless: list[Any] = []
    endless.append(endless)
    yield 2, endless


@fault(FAILED, "expected a State, got dict", steps=1)
async def gives_itself_a_state_of_another_type(harness: Scripted) -> Steps:
    yield 1, 1
    harness.update_state(lambda state: {"total": 1})
    yield 2, 2


@fault(FAILED, "StateError: harness 'bad', step 2", steps=1)
async def gives_itself_no_state(harness: Scripted) -> Steps:
    yield 1, 1
    harness.update_state(lambda state: None)
    yield 2, 2


@fault(FINISHED, "", steps=2)
async def changes_in_place_what_it_has_yielded(harness: Scripted) -> Steps:
    shared = [1]
    yield shared, shared
    shared.append(2)
    harness.step_history[0].output.append(3)
    yield shared, shared


@fault(FAILED, "the state is read-only", steps=1)
async def changes_its_state_in_place(harness: Scripted) -> Steps:
    harness.update_state(lambda state: evolve(state, items=(1,)))
    yield 1, 1
    harness.state.total += 1
    yield 2, 2


@fault(FINISHED, "", steps=3)
async def yields_five_megabytes_a_step(harness: Scripted) -> Steps:
    for number in range(3):
        yield number, "x" * 5_000_000


# time


@fault(FINISHED, "", steps=2)
async def holds_the_whole_program_up(harness: Scripted) -> Steps:
    yield 1, 1
    time.sleep(0.2)  # noqa: ASYNC251  (that is the fault)
    yield 2, 2


@fault(FINISHED, "", steps=3000)
async def floods_the_recorder_with_steps(harness: Scripted) -> Steps:
    for number in range(3000):
        yield number, number


@fault(STOPPED, "stopped by order", steps=-1, order=stop)
async def never_ends(harness: Scripted) -> Steps:
    while True:
        yield 1, 1


@fault(STOPPED, "stopped by order", steps=1, order=stop)
async def waits_for_ever_on_a_lock(harness: Scripted) -> Steps:
    lock = trio.Lock()
    async with trio.open_nursery() as nursery:
        await nursery.start(_hold, lock)
        yield 1, 1
        async with lock:
            yield 2, 2


async def _hold(lock: trio.Lock, *, task_status: trio.TaskStatus[None]) -> None:
    async with lock:
        task_status.started()
        await trio.sleep_forever()


@fault(STOPPED, "stopped by order", steps=1, order=stop)
async def waits_for_ever_for_a_message(harness: Scripted) -> Steps:
    yield 1, 1
    yield await harness.receive(), 2


@fault(STOPPED, "stopped by order", steps=1, order=stop)
async def sleeps_for_ever(harness: Scripted) -> Steps:
    yield 1, 1
    await trio.sleep_forever()
    yield 2, 2


@fault(STOPPED, "stopped by order", steps=1, order=stop)
async def cleans_up_for_ever(harness: Scripted) -> Steps:
    try:
        yield 1, 1
        await harness.sleep(1000)
    finally:
        await trio.sleep_forever()


@fault(STOPPED, "stopped by order", steps=1, order=stop)
async def shields_itself_beyond_its_grace_period(harness: Scripted) -> Steps:
    try:
        yield 1, 1
        await harness.sleep(1000)
    finally:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.3)


@fault(STOPPED, "stopped by order", steps=1, order=stop)
async def leaves_a_thread_that_outlives_it(harness: Scripted) -> Steps:
    yield 1, 1
    await trio.to_thread.run_sync(threading.Event().wait, 0.5, abandon_on_cancel=True)
    yield 2, 2


@fault(FAILED, "no step within 0.2 s", steps=1, step_timeout_s=0.2)
async def takes_too_long_over_a_step(harness: Scripted) -> Steps:
    yield 1, 1
    await trio.sleep_forever()
    yield 2, 2


@fault(FAILED, "no step within 0.2 s", steps=-1, step_timeout_s=0.2)
async def swallows_the_limit_on_its_steps(harness: Scripted) -> Steps:
    while True:
        with suppress(trio.Cancelled):
            await trio.sleep_forever()
        yield 1, 1


@fault(FAILED, "its deadline has passed", steps=-1, deadline_s=0.1)
async def goes_on_past_its_deadline(harness: Scripted) -> Steps:
    while True:
        yield 1, 1


# scopes


@fault(FINISHED, "", steps=1)
async def leaves_a_scope_open(harness: Scripted) -> Steps:
    trio.CancelScope().__enter__()
    yield 1, 1


@fault(FAILED, "expected it to cancel only scopes that it has opened, and closes", steps=1)
async def leaves_a_time_limit_open(harness: Scripted) -> Steps:
    trio.move_on_after(0.01).__enter__()
    yield 1, 1
    await trio.sleep_forever()


@fault(FAILED, "use `with` and `async with`", steps=1)
async def leaves_a_nursery_with_tasks_open(harness: Scripted) -> Steps:
    nursery = await trio.open_nursery().__aenter__()
    nursery.start_soon(trio.sleep_forever)
    yield 1, 1


@fault(FAILED, "use `with` and `async with`", steps=1)
async def leaves_a_nursery_with_a_failing_task_open(harness: Scripted) -> Steps:
    nursery = await trio.open_nursery().__aenter__()
    nursery.start_soon(_fail)
    yield 1, 1


@fault(FAILED, "use `with` and `async with`", steps=1)
async def leaves_a_nursery_with_an_interrupted_task_open(harness: Scripted) -> Steps:
    nursery = await trio.open_nursery().__aenter__()
    nursery.start_soon(_interrupt)
    yield 1, 1


async def _interrupt() -> None:
    raise KeyboardInterrupt


async def _fail() -> None:
    await trio.sleep(0.02)
    raise ValueError("boom")


@fault(FAILED, "ScopeError", steps=1)
async def closes_scopes_out_of_order(harness: Scripted) -> Steps:
    outer, inner = trio.CancelScope(), trio.CancelScope()
    outer.__enter__()
    inner.__enter__()
    yield 1, 1
    outer.__exit__(None, None, None)
    inner.__exit__(None, None, None)
    yield 2, 2


@fault(FAILED, "expected it to cancel only scopes that it has opened", steps=1)
async def cancels_the_nursery_it_runs_in(harness: Scripted) -> Steps:
    yield 1, 1
    nursery = trio.lowlevel.current_task().parent_nursery
    assert nursery is not None
    nursery.cancel_scope.cancel()
    await trio.sleep(1)
    yield 2, 2


@fault(FAILED, "expected it to cancel only scopes that it has opened", steps=-1)
async def cancels_the_nursery_it_runs_in_before_it_yields(harness: Scripted) -> Steps:
    nursery = trio.lowlevel.current_task().parent_nursery
    assert nursery is not None
    nursery.cancel_scope.cancel()
    for number in range(10):
        yield number, number
        await trio.lowlevel.checkpoint()


@fault(STOPPED, "stopped by order", steps=2, order=stop)
async def swallows_its_cancellation_and_goes_on(harness: Scripted) -> Steps:
    yield 1, 1
    with suppress(trio.Cancelled):
        await trio.sleep_forever()
    while True:
        yield 2, 2


@fault(FAILED, "expected it to cancel only scopes that it has opened, and closes", steps=1)
async def raises_a_cancellation_it_has_kept(harness: Scripted) -> Steps:
    yield 1, 1
    raise await _kept_cancellation()


@fault(FAILED, "ValueError: boom", steps=1)
async def raises_a_cancellation_it_has_kept_with_an_error(harness: Scripted) -> Steps:
    yield 1, 1
    raise BaseExceptionGroup("two", [await _kept_cancellation(), ValueError("boom")])


async def _kept_cancellation() -> trio.Cancelled:
    kept: list[trio.Cancelled] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.sleep(1)
        except trio.Cancelled as error:
            kept.append(error)
            raise
    return kept[0]


@fault(FAILED, "boom", steps=-1)
async def has_a_background_task_that_fails(harness: Scripted) -> Steps:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_fail)
        while True:
            yield 1, 1
            await trio.sleep(0.002)


@fault(FINISHED, "", steps=2)
async def has_a_time_limit_that_expires_while_a_step_is_recorded(harness: Scripted) -> Steps:
    with trio.move_on_after(0.05):
        # The program stands still until after the limit: it has expired when the step is on disk.
        trio.lowlevel.current_trio_token().run_sync_soon(time.sleep, 0.1)
        yield 1, 1
        await trio.sleep_forever()
    yield 2, 2


# the model


@fault(FAILED, "move it before the clean-up", steps=1)
async def yields_in_its_clean_up(harness: Scripted) -> Steps:
    harness.until = 1
    try:
        yield 1, 1
    finally:
        yield 2, 2


@fault(STOPPED, "stopped by order", steps=2, order=stop)
async def yields_once_more_when_it_is_stopped(harness: Scripted) -> Steps:
    try:
        yield 1, 1
        await harness.sleep(1000)
    finally:
        yield 2, 2


@fault(FAILED, "expected `async def` with a `yield` in it", steps=0)
def is_no_generator(harness: Scripted) -> None:
    return None


@fault(FAILED, "expected `async def` with a `yield` in it, got a coroutine", steps=0)
async def is_a_coroutine(harness: Scripted) -> None:
    await trio.lowlevel.checkpoint()


@fault(FAILED, "yield the steps instead", steps=1)
async def runs_itself(harness: Scripted) -> Steps:
    yield 1, 1
    await harness.run()
    yield 2, 2


@fault(FAILED, "execute() called trio.run (tests", steps=1)
async def starts_trio_within_trio(harness: Scripted) -> Steps:
    yield 1, 1
    trio.run(trio.sleep, 0)
    yield 2, 2


@fault(FAILED, "asynchronous generator is already running", steps=1)
async def closes_its_own_generator(harness: Scripted) -> Steps:
    yield 1, 1
    await harness.generator.aclose()
    yield 2, 2


@fault(FAILED, "called asyncio", steps=1)
async def calls_asyncio(harness: Scripted) -> Steps:
    yield 1, 1
    await asyncio.sleep(1)
    yield 2, 2


@fault(BLOCKED, "is not installed", steps=1)
async def imports_what_is_not_installed(harness: Scripted) -> Steps:
    yield 1, 1
    import there_is_no_such_module  # type: ignore[import-not-found]  # noqa: F401

    yield 2, 2


@fault(BLOCKED, "was not found", steps=1)
async def runs_a_program_that_is_not_there(harness: Scripted) -> Steps:
    yield 1, 1
    await trio.run_process(["there-is-no-such-program"])
    yield 2, 2


@fault(FAILED, "nobody", steps=1)
async def writes_to_a_harness_that_is_not_there(harness: Scripted) -> Steps:
    yield 1, 1
    await harness.send("nobody", "hello")
    yield 2, 2


@fault(FAILED, "cannot be stored", steps=1)
async def writes_what_can_not_be_stored(harness: Scripted) -> Steps:
    yield 1, 1
    await harness.send("left", object())
    yield 2, 2


@fault(FINISHED, "", steps=2)
async def breaks_its_context(harness: Scripted) -> Steps:
    yield 1, 1
    for variable in list(contextvars.copy_context()):
        variable.set(None)
    sniffio.current_async_library_cvar.set("asyncio")
    yield 2, 2


# the matrix


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_has_a_typed_outcome_and_its_siblings_keep_stepping(
    name: str, tmp_path: Path, report: Callable[[str, Outcome], None]
) -> None:
    fault, path = FAULTS[name], tmp_path / "run.db"

    outcome = await _run_beside(fault, path)

    report(name, outcome)
    with closing(SqliteStore(path)) as store:
        bad, left, right = (numbers(store, harness) for harness in ("bad", "left", "right"))
    assert outcome.kind is fault.kind, outcome
    assert fault.cause in outcome.cause
    assert bad == list(range(1, outcome.step + 1))
    assert fault.steps in (outcome.step, -1)
    assert left == list(range(1, len(left) + 1))
    assert right == list(range(1, len(right) + 1))
    assert min(len(left), len(right)) > 5


async def _run_beside(fault: Fault, path: Path) -> Outcome:
    """Run the fault beside two healthy harnesses to the end of all three, and return its outcome."""
    handles: list[Handle] = []
    try:
        async with Orchestrator(path, handle_signals=False) as orchestrator:
            for name in ("left", "right"):
                handles.append(orchestrator.start(Scripted(lambda healthy: _go_on(healthy, handles)), name=name))
            bad = orchestrator.start(Scripted(fault.script, State()), name="bad", restart="temporary", **fault.terms)
            handles.append(bad)
            if fault.order is not None:
                await fault.order(bad)
    except* OrchestratorError as group:
        assert len(group.exceptions) == 1  # noqa: PT017
    outcomes = [handle.outcome for handle in handles]
    assert all(outcomes)
    assert outcomes[2] is not None
    return outcomes[2]


async def _go_on(healthy: Scripted, handles: list[Handle]) -> Steps:
    """Make steps until the bad one has ended, and five more."""
    after = 0
    while after < 5:
        after += len(handles) == 3 and handles[2].outcome is not None
        yield healthy.current_step + 1, None
        await trio.sleep(0.002)


def test_the_matrix_is_as_large_as_it_claims() -> None:
    assert len(FAULTS) >= 30
