"""Tasks that run beside a block of code."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def open_beside() -> AsyncGenerator[trio.Nursery]:
    """Open a nursery for what runs beside a block, and cancel it when the block ends.

    An error of the block is raised as it is; a plain nursery would put it into a group.
    """
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield nursery
        except Exception as error:
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
