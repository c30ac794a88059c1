"""The loop that runs every harness: iterates `execute()`, records each step, and always closes the generator.

The generator runs in the caller's own task. None of our scopes opens or closes between two resumptions, since a scope of the
user may be open then. What holds across a `yield`:

    the attempt's scope      belongs to the caller and encloses the loop; only its deadline is moved
    commit and pause gate    uncancellable waits; events wake them
    early exit               the scope gets a deadline (the grace period), then `aclose()` in this same task
    what comes out           `GeneratorExit`s are dropped from a group, a real error is raised, `Cancelled` is the scope's
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Protocol, cast

import trio
from trio.lowlevel import current_clock

from harnesses.attachments import attachment
from harnesses.budgets.step_meter import Meter
from harnesses.control import Control, Ending
from harnesses.data.delta import Delta
from harnesses.data.values import ATOMS, detach, explain
from harnesses.diagnostics.author_frames import definition_line, yield_line
from harnesses.diagnostics.error_groups import split
from harnesses.diagnostics.lone_loop_watch import watched_loop
from harnesses.diagnostics.unawaited_calls import Calls
from harnesses.diagnostics.uncaught_errors import told_in_a_line
from harnesses.errors import HarnessError, HarnessMisuse, RecordTooLarge, ScopeError, Stopping, Unstorable, located
from harnesses.runtime import LocalRuntime, Runtime
from harnesses.state import PersistentState
from harnesses.step import NewStep
from harnesses.timing.clock import now_us


def place(name: str, steps: int) -> str:
    """Return the location for messages: the harness and the step in progress."""
    return f"harness {name!r}, step {steps + 1}"


_PAIRS: Any = (tuple, list)
_new_step: Callable[[type[NewStep[Any, Any]], tuple[object, ...]], NewStep[Any, Any]] = cast(Any, tuple).__new__
"""Makes a `NewStep` without the cost of a constructor call."""


class Completable(Protocol):
    """The part of a harness that the step ledger uses."""

    unawaited_calls: Calls
    """Calls of awaitable methods that were not awaited."""

    def is_complete(self) -> bool:
        """Return whether the work is done."""
        ...


class StepLedger:
    """Turns a yielded pair into a step: validates, numbers and records it, and only then makes it visible."""

    __slots__ = ("_control", "_effects", "_governor", "_harness", "_meter", "_runtime", "_state")

    def __init__(self, harness: Completable, state: PersistentState[Any, Any, Any], runtime: Runtime) -> None:
        self._harness = harness
        self._state = state
        self._runtime = runtime
        self._effects = runtime.effects
        self._meter: Meter | None = runtime.meter
        self._governor = runtime.governor
        self._control = runtime.control

    def make(self, pair: Any) -> tuple[NewStep[Any, Any], Delta]:
        """Make a step of what was yielded; return it with its state delta."""
        if not isinstance(pair, _PAIRS) or len(pair) != 2:
            raise HarnessMisuse(
                f"{self.where()}: execute() yielded {pair!r:.200}: expected StepYield(input=…, output=…) or a pair; "
                "`yield (input, output)`"
            )
        self._harness.unawaited_calls.check()
        given, made = pair
        if given.__class__ not in ATOMS:
            given = self._private("input", given)
        if made.__class__ not in ATOMS:
            made = self._private("output", made)
        try:
            self._effects.close()
        except HarnessError as error:
            raise located(error, self.where()) from None
        state = self._state
        state_delta, delta = state.take_delta()
        return _new_step(NewStep, (state.steps + 1, now_us(), given, made, state_delta)), delta

    async def wait_approvals(self) -> None:
        """Wait for the approvals that agents in the background have asked for within the step.

        Raises:
            HarnessMisuse: the harness itself waits for one.
        """
        if not self._effects.has_calls:
            raise HarnessMisuse(
                f"{self.where()}: an approval is waited for at the yield of its step: expected it answered; await it before"
            )
        await self._control.wait_unparked()

    def commit(self, step: NewStep[Any, Any], delta: Delta) -> Awaitable[None]:
        """Record the step and wait until it is stored. Must not raise `Cancelled`."""
        if self._meter is not None:
            self._meter.charge()
        if self._governor is not None:
            for finding in self._governor.look(step.as_step(), delta, self._state.snapshot):
                self._runtime.attach(attachment("guardrail", finding))
        return self._runtime.commit(step, delta, self._state.snapshot)

    def accept(self, step: NewStep[Any, Any]) -> None:
        """Make a recorded step visible in the history."""
        self._state.append(step)
        self._effects.end_recording(recorded=True)

    def is_complete(self) -> bool:
        if answer := self._harness.is_complete():
            if answer is not True:
                check_answer(answer, self._harness)
            return True
        if self._governor is not None:
            self._governor.check()
        return False

    def take_back(self) -> None:
        """Undo `make` for a step that could not be recorded."""
        self._state.untake_delta()
        self._effects.end_recording(recorded=False)

    def _private(self, role: str, value: Any) -> Any:
        try:
            return detach(value)
        except RecordTooLarge as error:
            raise located(error, f"{self.where()}: {role}") from None
        except Unstorable as error:
            raise Unstorable(f"{self.where()}: {explain(value, role)}") from error

    def where(self) -> str:
        """Say which step of which harness is being made."""
        return place(self._runtime.name, self._state.steps)


def check_answer(answer: object, harness: Completable) -> None:
    """Raise `HarnessMisuse` if what `is_complete()` has returned is a coroutine, which is always true."""
    if inspect.iscoroutine(answer):
        answer.close()
        line = definition_line(type(harness).is_complete)
        raise HarnessMisuse(
            f"is_complete(){line and f' ({line})'} is a coroutine function: "
            "expected a plain method that returns True or False, got a coroutine; "
            "write `def is_complete(self)`, without `async`"
        )


async def run_alone(harness: Any, runtime: LocalRuntime) -> Ending:
    """Run a harness beside a watcher task, which reports cancellations that the generator cannot see to the loop.

    The loop has a task of its own, so that a nursery `execute()` leaves open corrupts that task and not the caller's.
    """
    control = runtime.control
    control.ending = control.failure = failure = None
    ended = False

    async def attempt() -> None:
        nonlocal failure, ended
        try:
            with trio.CancelScope() as scope:
                control.attach(scope)
                control.ending = await harness.run(runtime)
            if control.ending is None:
                failure = control.failure or control.why_cancelled()
        except trio.Cancelled:
            raise
        except BaseException as error:
            failure = explained(error)
        finally:
            ended = True
            control.detach()
        nursery.cancel_scope.cancel()

    async def watch() -> None:
        try:
            await control.wait_deadline()
            control.expire()
            await trio.sleep_forever()
        finally:
            if not ended:
                control.abort()

    try:
        with watched_loop(runtime.name):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch)
                nursery.start_soon(attempt)
    except (trio.Cancelled, BaseExceptionGroup) as error:
        rest = error.split(trio.Cancelled)[1] if isinstance(error, BaseExceptionGroup) else None
        if failure is None and rest is None:
            raise
        failure = failure or explained(cast(Any, rest).exceptions[0])
    if failure is not None:
        harness.rewind()
        try:
            with told_in_a_line():
                raise located(failure, place(runtime.name, harness.current_step))
        finally:
            del failure
    return control.ending or Ending.STOPPED


async def drive(
    generator: AsyncGenerator[Any, None], control: Control, ledger: StepLedger, meter: Meter | None = None
) -> Ending:
    """Run `generator` to its end under `control`.

    Args:
        meter: reserves budget and working time before each step; None without limits.

    Raises:
        Exception: raised by the generator or the ledger. The generator is closed in every case.
    """
    advance, watch = generator.__anext__, control.watch
    watch.start(current_clock().current_time)
    try:
        if control.held and await _held(control):
            return control.end(Ending.STOPPED)
        while True:
            if meter is not None:
                if not await _admitted(control, meter):
                    return control.end(Ending.STOPPED)
                watch.resume()
            if control.timed:
                control.begin_step()
            control.is_making = True
            try:
                pair = await advance()
            except StopAsyncIteration:
                return control.end(Ending.FINISHED)
            watch.stop()
            control.is_making = False
            if control.timed:
                control.end_step()
            if meter is not None:
                meter.stop()
            if control.is_parked:
                await ledger.wait_approvals()
            step, delta = ledger.make(pair)
            try:
                await ledger.commit(step, delta)
            except BaseException:
                ledger.take_back()
                raise
            watch.record()
            ledger.accept(step)
            # Thousands of harnesses may wait for their next step: they need not hold the last one meanwhile.
            del pair, step, delta
            if ledger.is_complete():
                return control.end(Ending.COMPLETED)
            if control.held and await _held(control):
                return control.end(Ending.STOPPED)
            if control.timed and control.overdue():
                raise control.why_cancelled() or HarnessMisuse("out of time")
    except Exception as error:
        # While the generator is suspended, what is wrong is what it has yielded.
        control.failure = failure = located(error, ledger.where(), yield_line(generator))
        if failure is error:
            raise
        raise failure from error
    finally:
        if meter is not None:
            meter.charge(steps=0)
        control.begin_close()
        await _close(generator)


async def _held(control: Control) -> bool:
    """Wait at the pause gate; return whether the harness is to stop."""
    await control.gate()
    control.watch.resume()
    return control.stopping


async def _admitted(control: Control, meter: Meter) -> bool:
    """Reserve budget for the next step; return False if the harness is to stop instead."""
    while await meter.begin():
        if not control.held:
            return True
        # A paused harness holds no reservation.
        meter.charge(steps=0)
        if await _held(control):
            return False
    if not control.stopping:
        raise control.why_cancelled() or HarnessMisuse("out of time")
    return False


async def _close(generator: AsyncGenerator[Any, None]) -> None:
    """Run the generator's clean-up; drop the `GeneratorExit`s that a nursery open across the yield wraps in a group."""
    try:
        await generator.aclose()
    except RuntimeError as error:
        line = yield_line(generator)
        if not line or "ignored GeneratorExit" not in str(error):
            raise
        raise ScopeError(_YIELDED.format(f" ({line})")) from error
    except BaseExceptionGroup as group:
        rest = split(group, GeneratorExit)[1]
        if rest is not None:
            raise rest from None


def explained(error: BaseException) -> BaseException | None:
    """Return the error to raise for one that came out of `drive`; None if it is only the result of a stop."""
    rest = split(error, Stopping)[1]
    return rest if rest is None or type(rest) is not RuntimeError else _explained_scope(rest) or rest


_YIELDED = (
    "execute() yielded while it was being closed{}: expected no `yield` in a `finally` or an `except BaseException`; "
    "the step it yielded there is not recorded; move it before the clean-up"
)


def _explained_scope(error: RuntimeError) -> ScopeError | None:
    text = str(error)
    if "ignored GeneratorExit" in text:
        return ScopeError(_YIELDED.format(""))
    if "stack corrupted" in text:
        return ScopeError(
            "execute() left a cancel scope or nursery open: expected each to be closed by the generator that opened it; "
            "use `with` and `async with`, and do not end the generator inside one by hand"
        )
    return None
