"""The tree of supervisors, as the store, the API and `orchestrator status` tell it."""

from __future__ import annotations

import json
from contextlib import closing, suppress
from pathlib import Path

import pytest
import trio

from harnesses.timing.clock import now_s
from orchestrator import Backoff, MemoryStore, Orchestrator, SqliteStore
from orchestrator.cli import main
from orchestrator.cli.read.watch_rows import tree_rows
from orchestrator.history.supervision_tree import SupervisionTree
from orchestrator.store import SqliteReader
from tests.orchestrator.control.asked import ask, controlled
from tests.orchestrator.scripted import Scripted, Steps
from tests.orchestrator.web.asking import asking


async def three(harness: Scripted) -> Steps:
    """Make three steps, and crash before the third once."""
    while harness.current_step < 3:
        if harness.current_step == 2 and not harness.ran:
            harness.ran.append("crashed")
            raise ValueError("boom")
        yield harness.current_step, None


async def nothing(harness: Scripted) -> Steps:
    yield 1, None


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("supervisors") / "run.db"

    async def run() -> None:
        async with Orchestrator(SqliteStore(path), backoff=Backoff(base_s=0), handle_signals=False) as orchestrator:
            desk = orchestrator.supervisor("desk", intensity=7, period_s=1000)
            pair = orchestrator.supervisor("pair", parent=desk, strategy="one_for_all", intensity=3, period_s=1000)
            orchestrator.supervisor("empty")
            orchestrator.start(Scripted(nothing), name="alone")
            orchestrator.start(Scripted(nothing), name="clerk", supervisor=desk)
            for name in ("one", "two"):
                orchestrator.start(Scripted(three), name=name, supervisor=pair)

    with suppress(ExceptionGroup):
        trio.run(run)
    return path


async def test_the_api_tells_each_supervisor_with_its_limit_and_each_harness_with_its_supervisor(store: Path) -> None:
    async with asking(store) as api:
        supervisors, fleet = await api.get("supervisors"), await api.get("fleet")

    assert {row["harness"]: row["supervisor"] for row in fleet["rows"]} == {
        "alone": None,
        "clerk": "desk",
        "one": "desk/pair",
        "two": "desk/pair",
    }
    desk, pair = supervisors
    assert (desk["supervisor"], desk["parent"], desk["strategy"], desk["harnesses"]) == ("desk", None, "one_for_one", 1)
    assert (pair["supervisor"], pair["parent"], pair["strategy"], pair["harnesses"]) == ("desk/pair", "desk", "one_for_all", 2)
    assert (pair["intensity"], pair["period_s"], pair["activity"], desk["activity"]) == (3, 1000.0, "finished", "finished")


def test_the_status_is_a_tree(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["status", "--store", str(store)])

    head, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith("HARNESS")
    assert [line[:8].rstrip() for line in lines] == ["alone", "desk/", "  clerk", "  pair/", "    one", "    two"]
    assert "one_for_all, " in lines[3]
    assert " of 3 restarts in 1000 s" in lines[3]


async def test_the_screen_shows_the_tree_worst_first_within_each_supervisor(store: Path) -> None:
    async with asking(store) as api:
        supervisors = await api.get("supervisors")
        rows = sorted((await api.get("fleet"))["rows"], key=lambda row: row["harness"] != "two")

    whole = dict(tree_rows(rows, supervisors, now_s()))
    found = [key for key, _ in tree_rows([row for row in rows if row["harness"] == "one"], supervisors, now_s())]

    assert [*whole] == ["alone", "desk/", "clerk", "desk/pair/", "two", "one"]
    assert [cells[0] for cells in whole.values()] == ["alone", "desk/", "  clerk", "  pair/", "    two", "    one"]
    assert str(whole["desk/pair/"][-1]).endswith("of 3 restarts in 1000 s")
    assert found == ["desk/", "desk/pair/", "one"]


async def test_the_status_of_a_program_tells_the_supervisor_of_each_harness(tmp_path: Path) -> None:
    async with controlled(tmp_path / "run.db") as orchestrator:
        desk = orchestrator.supervisor("desk")
        below = orchestrator.start(Scripted(three), name="below", supervisor=orchestrator.supervisor("pair", parent=desk))
        orchestrator.start(Scripted(nothing), name="alone")
        await below.wait()
        said = await ask(orchestrator.beside.control_path, "GET", "/status")

    told = [json.loads(line) for line in said.body.splitlines()]
    assert {one["harness"]: one["supervisor"] for one in told} == {"below": "desk/pair", "alone": None}


async def test_restarts_that_were_counted_are_those_within_the_period(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    async with Orchestrator(path, handle_signals=False) as orchestrator:
        pair = orchestrator.supervisor("pair", strategy="one_for_all", intensity=3, period_s=1000)
        slow = Backoff(base_s=60, jitter=0)
        for name in ("one", "two"):
            orchestrator.start(Scripted(three), name=name, supervisor=pair, backoff=slow)
        with closing(SqliteReader(path)) as reader, trio.fail_after(10):
            while len(reader.restarts()) < 2:  # noqa: ASYNC110 - a store rings for nobody
                await trio.sleep(0.02)
            tree = SupervisionTree(reader)
            (now,), (later,) = tree.supervisors(now_s()), tree.supervisors(now_s() + 1001)
        orchestrator.stop(0)

    assert (now.restarts in (1, 2), now.harnesses, later.restarts) == (True, ("one", "two"), 0)


async def test_a_tree_reads_no_record_twice(tmp_path: Path) -> None:
    path, asked = tmp_path / "run.db", list[int]()

    class Noting(SqliteReader):
        def supervision(self, *, after: int = 0) -> list[tuple[int, str, str, str]]:
            asked.append(after)
            return super().supervision(after=after)

    async with Orchestrator(path, handle_signals=False) as orchestrator:
        await orchestrator.start(Scripted(three), name="one").wait()
    with closing(Noting(path)) as reader:
        tree, last = SupervisionTree(reader), reader.last_seq()
        for _ in range(3):
            tree.above()

    assert asked == [0, last, last]


async def test_a_supervisor_is_recorded_once_however_many_harnesses_it_has() -> None:
    store = MemoryStore()
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        desk = orchestrator.supervisor("desk")
        for name in ("a", "b", "c"):
            orchestrator.start(Scripted(nothing), name=name, supervisor=desk)

    assert [record.kind for record in store.records()].count("supervisor") == 1
