"""What runs beside a block ends with it, and the block's own error is raised as it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from harnesses.nurseries import open_beside


async def test_what_runs_beside_a_block_is_cancelled_at_its_end() -> None:
    ended = trio.Event()

    async def service() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    with trio.fail_after(5):
        async with open_beside() as nursery:
            nursery.start_soon(service)
            await trio.testing.wait_all_tasks_blocked()
    assert ended.is_set()


@pytest.mark.parametrize("kind", [ValueError, StopAsyncIteration])
async def test_an_error_of_the_block_is_in_no_group_and_one_of_a_task_is(kind: type[Exception]) -> None:
    async def fail() -> None:
        raise kind("mine")

    async def run(service: Callable[[], Awaitable[object]], block: Callable[[], Awaitable[object]]) -> None:
        async with open_beside() as nursery:
            nursery.start_soon(service)
            await block()

    with pytest.raises(kind, match="mine"):
        await run(trio.sleep_forever, fail)
    with pytest.RaisesGroup(kind):
        await run(fail, trio.sleep_forever)
