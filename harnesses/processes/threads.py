"""Runs blocking file access in a thread, or in the event loop if a virtual clock would not wait for a thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import trio

from harnesses.timing.clock import jumps

T = TypeVar("T")


async def aside(function: Callable[..., T], *args: Any, **named: Any) -> T:
    """Call a function in a thread and return its result; waits for it to finish even if cancelled."""
    if jumps():
        await trio.lowlevel.checkpoint()
        return function(*args, **named)
    return await trio.to_thread.run_sync(partial(function, *args, **named))
