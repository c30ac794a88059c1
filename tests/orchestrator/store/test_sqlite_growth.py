"""What a step costs on disk is what it changed, not what the state has become."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

from attrs import evolve, frozen

from harnesses import BaseHarness
from orchestrator import Orchestrator
from orchestrator.store import SqliteReader

STEPS = 2_000
ITEM = "x" * 100


@frozen
class Kept:
    items: tuple[str, ...] = ()
    latest: str = ""


class Appending(BaseHarness[Kept, None, None]):
    """Appends an item of a hundred characters at each step."""

    def is_complete(self) -> bool:
        return self.current_step == STEPS

    async def execute(self) -> AsyncIterator[tuple[None, None]]:
        while True:
            self.update_state(self.change)
            yield None, None

    def change(self, state: Kept) -> Kept:
        return evolve(state, items=(*state.items, ITEM))


class Replacing(Appending):
    """Replaces a field of a hundred characters at each step."""

    def change(self, state: Kept) -> Kept:
        return evolve(state, latest=f"{self.current_step:0100}")


async def run(harness: Appending, path: Path) -> None:
    """Run a harness to its end."""
    async with Orchestrator(path) as orchestrator:
        orchestrator.start(harness, name="one")


def size_of(path: Path) -> int:
    """Return how many bytes all the steps took."""
    with closing(SqliteReader(path)) as reader:
        assert reader.harnesses()[0].current_step == STEPS
    return path.stat().st_size


async def test_a_state_that_grows_costs_at_most_three_times_one_that_does_not(tmp_path: Path) -> None:
    await run(Replacing(Kept()), tmp_path / "replaced.db")
    await run(Appending(Kept()), tmp_path / "appended.db")

    replaced, appended = size_of(tmp_path / "replaced.db"), size_of(tmp_path / "appended.db")

    assert appended <= 3 * replaced
    assert replaced < STEPS * 600
