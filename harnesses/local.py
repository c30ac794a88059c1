"""A harness that runs without an orchestrator: the loop, and a watcher beside it."""

from __future__ import annotations

from typing import Any, cast

import trio

from harnesses.control import Ending
from harnesses.errors import located
from harnesses.ledger import place
from harnesses.loop import explained
from harnesses.runtime import LocalRuntime


async def run_alone(harness: Any, runtime: LocalRuntime) -> Ending:
    """Run a harness beside a watcher, which tells the loop of a cancellation that it could not see from the generator.

    The loop has a task of its own: a nursery that `execute()` leaves open spoils that one, not the caller's.
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
            raise located(failure, place(runtime.name, harness.current_step))
        finally:
            del failure
    return control.ending or Ending.STOPPED
