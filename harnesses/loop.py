"""The one loop: iterates `execute()`, hands each step to the runtime, and ends the generator whatever happens.

The generator is driven in the caller's own task, and no scope of ours opens or closes between two resumptions while one of
the user's may be open. What holds across a `yield`:

    the attempt's scope      belongs to the caller, around all of this; only its deadline is moved
    commit and pause gate    waits that no cancellation can end; events wake them
    early exit               the scope gets a deadline (the grace period), then `aclose()` in this same task
    what comes out           `GeneratorExit`s are dropped from a group, a real error is raised, `Cancelled` is the scope's
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from typing import Any, Protocol

from trio.lowlevel import current_clock

from harnesses.budgets.step_meter import Meter
from harnesses.control import Control, Ending
from harnesses.data.delta import Delta
from harnesses.diagnostics.error_groups import split
from harnesses.errors import HarnessMisuse, ScopeError, Stopping
from harnesses.step import Step


class Ledger(Protocol):
    """Where a yielded pair goes, station by station."""

    def make(self, pair: object) -> tuple[Step[Any, Any], Delta]:
        """Return the step of what was yielded, and what it changed."""
        ...

    def commit(self, step: Step[Any, Any], delta: Delta) -> Awaitable[None]:
        """Return when the step is recorded. Must not raise `Cancelled`."""
        ...

    def accept(self, step: Step[Any, Any]) -> None:
        """Show a step that is recorded."""
        ...

    def take_back(self) -> None:
        """Undo `make` for a step that could not be recorded."""
        ...

    def is_complete(self) -> bool:
        """Return whether that was the last step."""
        ...


async def drive(generator: AsyncGenerator[Any, None], control: Control, ledger: Ledger, meter: Meter | None = None) -> Ending:
    """Run `generator` to its end under `control`.

    Args:
        meter: has each step and its working time reserved before it is begun; None if nothing limits them.

    Raises:
        Exception: whatever the generator or the ledger raised. The generator is closed in every case.
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
            try:
                pair = await advance()
            except StopAsyncIteration:
                return control.end(Ending.EXHAUSTED)
            watch.stop()
            if control.timed:
                control.end_step()
            if meter is not None:
                meter.stop()
            step, delta = ledger.make(pair)
            try:
                await ledger.commit(step, delta)
            except BaseException:
                ledger.take_back()
                raise
            watch.record()
            ledger.accept(step)
            if ledger.is_complete():
                return control.end(Ending.COMPLETED)
            if control.held and await _held(control):
                return control.end(Ending.STOPPED)
            if control.timed and control.overdue():
                raise control.why_cancelled() or HarnessMisuse("out of time")
    except Exception as error:
        control.failure = error
        raise
    finally:
        if meter is not None:
            meter.charge(steps=0)
        control.begin_close()
        await _close(generator)


async def _held(control: Control) -> bool:
    """Wait at the gate; return whether the harness is to stop."""
    await control.gate()
    control.watch.resume()
    return control.stopping


async def _admitted(control: Control, meter: Meter) -> bool:
    """Have the next step reserved; return False if the harness is to stop instead."""
    while await meter.begin():
        if not control.held:
            return True
        # Nothing is kept from others while it is paused.
        meter.charge(steps=0)
        if await _held(control):
            return False
    if not control.stopping:
        raise control.why_cancelled() or HarnessMisuse("out of time")
    return False


async def _close(generator: AsyncGenerator[Any, None]) -> None:
    """Run the generator's clean-up. Drops the `GeneratorExit`s that a nursery open across the yield wraps in a group."""
    try:
        await generator.aclose()
    except BaseExceptionGroup as group:
        rest = split(group, GeneratorExit)[1]
        if rest is not None:
            raise rest from None


def explained(error: BaseException) -> BaseException | None:
    """Return what an error that came out of `drive` is to be raised as; None if it is only the way a stop ends."""
    rest = split(error, Stopping)[1]
    return rest if rest is None or type(rest) is not RuntimeError else _explained_scope(rest) or rest


def _explained_scope(error: RuntimeError) -> ScopeError | None:
    text = str(error)
    if "ignored GeneratorExit" in text:
        return ScopeError(
            "execute() yielded while it was being closed: expected no `yield` in a `finally` or an `except BaseException`; "
            "the step it yielded there is not recorded; move it before the clean-up"
        )
    if "stack corrupted" in text:
        return ScopeError(
            "execute() left a cancel scope or nursery open: expected each to be closed by the generator that opened it; "
            "use `with` and `async with`, and do not end the generator inside one by hand"
        )
    return None
