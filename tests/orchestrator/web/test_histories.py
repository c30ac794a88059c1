"""What the API tells of the past: spans with true gaps, failures in groups, causes, stores and runs, and what is found."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from harnesses import BaseHarness
from harnesses.budgets.budget import Budget
from orchestrator import Orchestrator
from tests.orchestrator.web.asking import asking

KILLED_AT, STEPS = 3, 5


class Counting(BaseHarness[int, int, str]):
    """Counts; the program may be killed under it, and it may fail."""

    def __init__(self, *, kills: bool = False, fails: bool = False) -> None:
        super().__init__(0)
        self.kills, self.fails = kills, fails

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        for number in range(self.current_step + 1, STEPS + 1):
            if self.kills and number > KILLED_AT:
                os._exit(9)
            yield number, f"counted {number}"
        if self.fails:
            raise ConnectionError(f"no connection to port {id(self)}")


async def run(path: Path, *, kills: bool) -> None:
    async with Orchestrator(str(path)) as orchestrator:
        orchestrator.start(Counting(kills=kills), name="counting", budget=Budget(steps=100))
        if not kills:
            for name in ("one", "two"):
                orchestrator.start(Counting(fails=True), name=name, restart="temporary")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store on which a program was killed, and another one has gone on."""
    path = tmp_path_factory.mktemp("runs") / "below" / "run.db"
    path.parent.mkdir()
    if (killed := os.fork()) == 0:
        trio.run(lambda: run(path, kills=True))
    assert os.waitstatus_to_exitcode(os.waitpid(killed, 0)[1]) == 9
    with suppress(ExceptionGroup):
        trio.run(lambda: run(path, kills=False))
    return path


async def test_a_killed_attempt_ends_at_the_last_sign_of_life_and_then_there_is_a_gap(store: Path) -> None:
    async with asking(store) as api:
        told = await api.get("timeline", names="counting,one")
        records = [one for one in api.site.reader.records() if one.harness == "counting"]

    first, gap, second = told["harnesses"]["counting"]
    assert [one["kind"] for one in (first, gap, second)] == ["running", "gone", "running"]
    assert (first["attempt"], first["first_step"], first["last_step"]) == (1, 1, KILLED_AT)
    assert (second["attempt"], second["first_step"], second["last_step"]) == (2, KILLED_AT + 1, STEPS)
    assert first["end"] == gap["begin"] < gap["end"] == second["begin"]
    assert len({one.run for one in records if one.run}) == 2


async def test_failures_of_the_same_kind_are_one_group_whoever_failed(store: Path) -> None:
    async with asking(store) as api:
        (group,) = await api.get("failures")

    assert (group["error"], group["message"], group["count"]) == ("ConnectionError", "no connection to port <n>", 2)
    assert (sorted(group["harnesses"]), group["last_step"]) == (["one", "two"], STEPS + 1)
    assert "in execute" in group["where"]
    assert "Traceback" in group["traceback"]


async def test_a_harness_is_told_with_the_chain_of_its_causes(store: Path) -> None:
    async with asking(store) as api:
        end, step = await api.get("harnesses/one/why"), await api.get("harnesses/counting/why", step="4")

    assert end[0]["text"].startswith("one failed, and was not started again after step 5")
    assert any("no connection to port" in link["text"] for link in end)
    assert any("step 4" in link["text"] for link in step)


async def test_a_search_finds_the_newest_records_in_any_case(store: Path) -> None:
    async with asking(store) as api:
        found = await api.get("search", text="COUNTED 2", harness="two")
        nothing = await api.get("search", text="counted 2 ", harness="two")

    assert [(one["harness"], one["step"], one["kind"]) for one in found["found"]] == [("two", 2, "step")]
    assert ("counted 2" in found["found"][0]["excerpt"], found["before"]) == (True, None)
    assert nothing["found"] == []


async def test_the_state_after_any_step_and_a_fork_of_it_are_had_by_their_numbers(store: Path, tmp_path: Path) -> None:
    async with asking(store) as api:
        state = await api.get("harnesses/counting/state", step="2")
        unknown = await api.response("GET", "harnesses/counting/state", {"step": "6"})
        forked = await api.response("POST", "harnesses/counting/fork", body={"step": 2, "as": "other"})
        again = await api.response("POST", "harnesses/counting/fork", body={"step": 2, "as": "other"})
        steps = await api.get("harnesses/other/steps")

    assert state == {"harness": "counting", "step_number": 2, "state": 0}
    assert (unknown.status, forked.status, again.status) == (400, 200, 400)
    assert [step["step_number"] for step in steps] == [2, 1]


async def test_a_limit_is_set_in_a_store_without_a_program(store: Path) -> None:
    limits = {"steps": None, "money": "1.50"}
    async with asking(store) as api:
        done = await api.response("POST", "budgets", body={"pool": "harness/counting", "limits": limits, "by": "ann"})
        wrong = await api.response("POST", "budgets", body={"pool": "harness/counting", "limits": {"steps": True}})
        pools = await api.get("budgets")

    assert (done.status, wrong.status) == (200, 400)
    assert [(pool["pool"], pool["limits"]) for pool in pools] == [("harness/counting", {"money": "1.50"})]


async def test_a_folder_is_told_as_its_stores_with_the_runs_on_each(store: Path) -> None:
    (store.parent / "broken.db").write_bytes(b"no store" * 600)
    name = "below/run.db"
    async with asking(store.parent.parent) as api:
        broken, good = sorted(await api.get("stores"), key=lambda one: one["store"])
        rows = await api.get("fleet", store=name)
        outside = await api.response("GET", "fleet", {"store": "../run.db"})
        none = await api.response("GET", "events", {})

    assert (broken["store"], good["store"]) == ("below/broken.db", name)
    assert broken["problem"]
    assert [run["is_live"] for run in good["runs"]] == [False, False]
    assert {row["harness"] for row in rows["rows"]} >= {"counting", "one", "two"}
    assert (outside.status, none.status) == (400, 400)
