"""Doing beside the loop what takes long, and what is told of it when it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import trio

from harnesses.timing.clock import jumps

_ResultT = TypeVar("_ResultT")


async def aside(function: Callable[[], _ResultT], threads: trio.CapacityLimiter) -> _ResultT:
    """Return the result of a function that is called in a thread; a cancellation leaves it to itself.

    Args:
        threads: of whom it is one, so that whoever asks much takes no threads from the harnesses.

    A virtual clock would run on meanwhile: then it is called here, and takes no time.
    """
    if jumps():
        await trio.lowlevel.checkpoint()
        return function()
    return await trio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=threads)


def leaf_of(error: BaseException) -> BaseException:
    """Return the first error that is no group."""
    while isinstance(error, BaseExceptionGroup):
        error = cast(BaseExceptionGroup[BaseException], error).exceptions[0]
    return error
