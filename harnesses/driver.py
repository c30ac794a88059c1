"""The one loop: iterates `execute()`, hands each step to the runtime, and ends the generator whatever happens.

The generator is driven in the caller's own task, and no scope of ours opens or closes between two resumptions while one of
the user's may be open. What holds across a `yield`:

    the attempt's scope      opened below everything, so every scope in `execute()` lies within it; its deadline is moved
    commit and pause gate    waits that no cancellation can end; events wake them
    early exit               the scope gets a deadline (the grace period), then `aclose()` in this same task
    what comes out           `GeneratorExit`s are dropped from a group, a real error is raised, `Cancelled` is the scope's
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from enum import StrEnum
from typing import Any, NamedTuple

from harnesses.control import Control
from harnesses.delta import Delta
from harnesses.errors import HarnessMisuse, ScopeError, Stopping
from harnesses.step import Step


class Ending(StrEnum):
    """How an attempt that did not fail came to its end."""

    COMPLETED = "completed"
    """`is_complete()` was true."""
    EXHAUSTED = "exhausted"
    """`execute()` returned."""
    STOPPED = "stopped"
    """It was told to stop."""


class Stations(NamedTuple):
    """Where a yielded pair goes, station by station."""

    make: Callable[[Any], tuple[Step[Any, Any], Delta]]
    """Makes the step of a pair, and finds what changed."""
    commit: Callable[[Step[Any, Any], Delta, Callable[[], object]], Awaitable[None]]
    """Returns when the step is recorded. Must not raise `Cancelled`."""
    state: Callable[[], object]
    """Gives the state after the step, for `commit`."""
    accept: Callable[[Step[Any, Any]], None]
    """Shows a step that is recorded."""
    take_back: Callable[[], None]
    """Undoes `make` for a step that is not."""
    is_complete: Callable[[], bool]
    """Is asked after each recorded step."""


async def drive(generator: AsyncGenerator[Any, None], control: Control, stations: Stations) -> Ending:
    """Run `generator` to its end under `control`.

    Raises:
        Exception: whatever the generator or a station raised. The generator is closed in every case.
    """
    ending: Ending | None = None
    try:
        with control.scope:
            try:
                ending = await _iterate(generator, control, stations)
            finally:
                control.begin_close()
                await _close(generator)
    except RuntimeError as error:
        explained = _explained(error)
        if explained is None:
            raise
        raise explained from error
    except BaseException as error:
        rest = _without_stopping(error)
        if rest is error:
            raise
        if rest is not None:
            raise rest from None
        ending = Ending.STOPPED
    if ending is not None:
        return ending
    reason = control.why_cancelled()
    if reason is not None:
        raise reason
    return Ending.STOPPED


async def _iterate(generator: AsyncGenerator[Any, None], control: Control, stations: Stations) -> Ending:
    make, commit, state, accept, take_back, is_complete = stations
    advance = generator.__anext__
    if control.held and await _held(control):
        return Ending.STOPPED
    while True:
        if control.timed:
            control.begin_step()
        try:
            pair = await advance()
        except StopAsyncIteration:
            return Ending.EXHAUSTED
        if control.timed:
            control.end_step()
        step, delta = make(pair)
        try:
            await commit(step, delta, state)
        except BaseException:
            take_back()
            raise
        accept(step)
        if is_complete():
            return Ending.COMPLETED
        if control.held and await _held(control):
            return Ending.STOPPED
        if control.timed and control.overdue():
            raise control.why_cancelled() or HarnessMisuse("out of time")


async def _held(control: Control) -> bool:
    """Wait at the gate; return whether the harness is to stop."""
    await control.gate()
    return control.stopping


async def _close(generator: AsyncGenerator[Any, None]) -> None:
    """Run the generator's clean-up. Drops the `GeneratorExit`s that a nursery open across the yield wraps in a group."""
    try:
        await generator.aclose()
    except BaseExceptionGroup as group:
        rest = group.split(GeneratorExit)[1]
        if rest is not None:
            raise rest from None


def _without_stopping(error: BaseException) -> BaseException | None:
    if isinstance(error, Stopping):
        return None
    if isinstance(error, BaseExceptionGroup):
        stopping, rest = error.split(Stopping)
        return error if stopping is None else rest
    return error


def _explained(error: RuntimeError) -> ScopeError | None:
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
