"""Worker threads of synchronous tools, apart from Trio's own, which files, stores and locks need.

A thread cannot be ended: one that is left at a time limit goes on, and its place is not free before it ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import trio
from attrs import define, field

from harnesses.agents.tools.tool import ToolError

MAX_THREADS = 40
"""Threads of synchronous tools in one program; further calls wait, and are refused once all threads are abandoned ones."""


@define(eq=False)
class _Threads:
    limiter: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(MAX_THREADS))
    lock: threading.Lock = field(factory=threading.Lock)
    abandoned: int = 0
    """Threads that still run although their calls were abandoned."""


_threads: trio.lowlevel.RunVar[_Threads] = trio.lowlevel.RunVar("harnesses.tool_threads")


async def call_in_thread(call: Callable[[], Any], *, abandons: bool) -> Any:
    """Call a function in a thread of the tools, and return its result.

    Args:
        abandons: whether a call that is cancelled leaves its thread to itself; else it is waited for.

    Raises:
        ToolError: all threads are held by abandoned calls.
    """
    threads = _known()
    if threads.abandoned >= MAX_THREADS:
        raise ToolError(
            f"the call was not made: all {MAX_THREADS} threads of tools are held by calls that took longer than their time "
            "limit and have not ended yet; do without it, or try later"
        )
    state = {"runs": False, "left": False}

    def work() -> Any:
        with threads.lock:
            state["runs"] = True
        try:
            return call()
        finally:
            with threads.lock:
                state["runs"] = False
                threads.abandoned -= state["left"]

    try:
        return await trio.to_thread.run_sync(work, abandon_on_cancel=abandons, limiter=threads.limiter)
    except trio.Cancelled:
        with threads.lock:
            state["left"] = state["runs"]
            threads.abandoned += state["runs"]
        raise


def _known() -> _Threads:
    try:
        return _threads.get()
    except LookupError:
        _threads.set(_Threads())
        return _threads.get()
