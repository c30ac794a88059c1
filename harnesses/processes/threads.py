"""Runs what reads and writes files beside the loop; in the loop where a virtual clock would not wait for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import trio

from harnesses.timing.clock import jumps

T = TypeVar("T")


async def aside(function: Callable[..., T], *args: Any, **named: Any) -> T:
    """Return what a function returns, called in a thread; waits for its end also if cancelled."""
    if jumps():
        await trio.lowlevel.checkpoint()
        return function(*args, **named)
    return await trio.to_thread.run_sync(partial(function, *args, **named))
