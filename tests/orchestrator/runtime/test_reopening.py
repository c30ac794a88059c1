"""A completed harness is started again only if it says that there is more to do."""

from __future__ import annotations

import pytest

from harnesses import BaseHarness
from orchestrator import Orchestrator, Status


class Counting(BaseHarness[int, int, int]):
    """Counts as far as it is told; with `again`, it looks whether that is further than before."""

    def __init__(self, until: int, *, again: bool) -> None:
        super().__init__(0)
        self.until, self.again = until, again

    def is_complete(self) -> bool:
        return self.state >= self.until

    def reopens(self) -> bool:
        return self.again and not self.is_complete()

    async def execute(self):
        while True:
            self.update_state(lambda count: count + 1)
            yield self.state, self.state


async def count(path, until: int, *, again: bool) -> tuple[int, int, Status]:
    """Run it to its end; return step, attempt and status."""
    async with Orchestrator(path) as orchestrator:
        handle = orchestrator.start(Counting(until, again=again), name="one")
        await handle.wait()
    return handle.current_step, handle.attempt, handle.status


@pytest.mark.parametrize(
    ("until", "again", "end"),
    [
        (5, True, (5, 2, Status.COMPLETED)),
        (5, False, (3, 1, Status.COMPLETED)),
        (3, True, (3, 1, Status.COMPLETED)),
    ],
)
async def test_a_completed_harness_goes_on_only_if_it_says_so(tmp_path, until, again, end):
    await count(tmp_path / "run.db", 3, again=True)

    assert await count(tmp_path / "run.db", until, again=again) == end


async def test_one_that_was_reopened_can_be_completed_and_reopened_again(tmp_path):
    for until in (3, 5, 7):
        step, attempt, status = await count(tmp_path / "run.db", until, again=True)

    assert (step, attempt, status) == (7, 3, Status.COMPLETED)


async def test_one_that_was_reopened_is_owned(tmp_path):
    await count(tmp_path / "run.db", 3, again=True)

    async with Orchestrator(tmp_path / "run.db") as orchestrator:
        handle = orchestrator.start(Counting(1_000_000, again=True), name="one")
        async for _ in handle.steps(after=3):
            break
        assert [record.owned for record in orchestrator.store.harnesses()] == [True]
        await handle.stop()

    assert handle.status is Status.STOPPED
