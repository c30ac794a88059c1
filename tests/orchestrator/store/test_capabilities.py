"""A store of another make works with the whole program: it is asked for what it can do, never for its class."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import cast

import trio

from orchestrator import MemoryStore, Orchestrator, SqliteStore
from orchestrator.errors import StoreLost, StoreUnusable
from orchestrator.records import Record
from orchestrator.store import Counted, InFile, Keyed, SqliteReader, Watched
from orchestrator.store.store_protocol import Post
from orchestrator.testing import FaultyStore
from tests.orchestrator.control.asked import ask
from tests.orchestrator.scripted import Scripted, Steps, to_the_end


class Foreign(FaultyStore):
    """A store of another make, with every capability: it is no subclass of ours."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__(store, lambda: None, at=0)
        self.inner = store
        self.is_gone = False

    def outlines(self, *, after: int = 0, limit: int = 1000) -> list[Record]:
        return self.inner.outlines(after=after, limit=limit)

    def messages_waiting(self) -> int:
        return self.inner.messages_waiting()

    def check_in_place(self) -> None:
        if self.is_gone:
            raise StoreUnusable("it was taken away")

    def arrivals(self, *, after: int) -> Sequence[tuple[str, int]]:
        return self.inner.arrivals(after=after)

    def answers(self, *, after: int, limit: int) -> Sequence[tuple[int, str]]:
        return self.inner.answers(after=after, limit=limit)


async def listen(harness: Scripted) -> Steps:
    """Make a step of one message."""
    yield await harness.receive(), None


def test_every_store_of_ours_says_what_it_can_do(tmp_path: Path) -> None:
    memory = MemoryStore()
    with closing(SqliteStore(tmp_path / "run.db")) as file:
        able = {
            kind: [isinstance(store, kind) for store in (memory, file, Foreign(file))]
            for kind in (Counted, Watched, InFile, Keyed)
        }

    assert able == {
        Counted: [True, True, True],
        Watched: [False, True, True],
        InFile: [False, True, True],
        Keyed: [True, False, True],
    }


async def test_a_store_of_another_make_has_control_numbers_and_messages_from_outside(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "run.db")) as file:
        with trio.fail_after(20):
            async with Orchestrator(Foreign(file), control=True, handle_signals=False) as orchestrator:
                handle = orchestrator.start(Scripted(listen), name="a")
                path = orchestrator.beside.control_path
                assert path is not None
                told = [await ask(path, "GET", f"/{what}") for what in ("status", "metrics")]
                file.commit([], [Post("a", "", time.time_ns() // 1000, '"from outside"')])
                outcome = await handle.wait()

    assert [said.status for said in told] == [200, 200]
    assert told[0].fields["harness"] == "a"
    assert b"orchestrator_messages_waiting 0.0" in told[1].body
    assert outcome.step == 1


async def test_a_store_of_another_make_that_is_taken_away_ends_the_run_loudly(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "run.db")) as file:
        with trio.fail_after(20):
            async with to_the_end(Foreign(file)) as (orchestrator, errors):
                orchestrator.start(Scripted(listen), name="a")
                cast(Foreign, orchestrator.store).is_gone = True

    lost = next(error for error in errors if isinstance(error, StoreLost))
    assert "it was taken away" in str(lost)


def test_a_reader_of_a_store_is_asked_for_what_it_can_do_too(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "run.db").close()

    with closing(SqliteReader(tmp_path / "run.db")) as reader:
        assert isinstance(reader, Counted)
        assert isinstance(reader, InFile)
