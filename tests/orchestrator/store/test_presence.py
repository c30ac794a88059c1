"""A store that is deleted or replaced under a running program stops it within a second."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest
import trio

from harnesses import BaseHarness
from orchestrator import Orchestrator, SqliteStore, StoreLost
from orchestrator.store.conformance.conformance_tools import claim, numbers, step_row


class Stepping(BaseHarness[int, int, int]):
    """Steps for ever, every so often."""

    def __init__(self, every_s: float) -> None:
        super().__init__(0)
        self.every_s = every_s

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        while True:
            yield 0, 0
            await self.sleep(self.every_s)


def delete(path: Path) -> None:
    path.unlink()


def delete_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


def delete_shared(path: Path) -> None:
    path.with_name(f"{path.name}-shm").unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("moved"))


def move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def replace(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    os.replace(path.with_name("copy"), path)


@pytest.mark.parametrize(
    ("deed", "every_s"),
    [(deed, 0.0) for deed in (delete, delete_log, delete_shared, move, move_folder, replace)] + [(delete, 1000.0)],
)
async def test_a_store_that_is_taken_away_stops_the_run(tmp_path: Path, deed: Callable[[Path], None], every_s: float) -> None:
    path = tmp_path / "folder" / "run.db"
    path.parent.mkdir()

    with trio.fail_after(20), pytest.RaisesGroup(pytest.RaisesExc(StoreLost, match="while it was being written to")):
        async with Orchestrator(path) as orchestrator:
            handle = orchestrator.start(Stepping(every_s), name="one")
            async for _ in handle.steps():
                break
            deed(path)


def test_a_store_that_took_the_place_of_another_is_not_touched_when_that_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    first = SqliteStore(path)
    claimed = claim(first, "one")
    first.commit([step_row(claimed, 1)])
    for name in os.listdir(tmp_path):
        if ".run-" not in name:
            (tmp_path / name).unlink()
    with closing(SqliteStore(path)) as second:
        claimed = claim(second, "two")
        second.commit([step_row(claimed, 1)])
        before = sorted(os.listdir(tmp_path))

        first.close()

        assert sorted(set(before) - set(os.listdir(tmp_path))) == [f"run.db.run-{first.run}"]
        second.commit([step_row(claimed, 2)])
    with closing(SqliteStore(path)) as again:
        assert numbers(again, "two") == [1, 2]
