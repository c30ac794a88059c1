"""Whoever reads a pruned store gets what is there, and is told plainly what is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio

from harnesses import BaseHarness
from orchestrator import Orchestrator
from orchestrator.history.past_reader import pages
from orchestrator.store import SqliteReader
from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.pruning.prune_store import prune
from tests.orchestrator.commanding import Command


class Counting(BaseHarness[int, int, int]):
    """Makes steps up to a last one."""

    last = 200

    async def execute(self) -> Any:
        while self.current_step < self.last:
            self.update_state(lambda count: count + 1)
            yield self.state, len(self.load_context().recent_steps)


async def run(store: Path, last: int, log: Path | None = None) -> list[int]:
    harness = Counting(0)
    harness.last = last
    async with Orchestrator(store, log=log) as orchestrator:
        handle = orchestrator.start(harness, name="one")
        return [step.step_number async for step in handle.steps()]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a store of 200 steps, of which the last 41 have stayed: the snapshot before the last 20 is that of step 160."""
    path = tmp_path_factory.mktemp("pruned") / "run.db"
    trio.run(run, path, 200)
    prune(path, Rule(keep=20, context=0), by="ann")
    return path


@pytest.fixture
def command(made: Path) -> Iterator[Command]:
    with Command(made.parent) as command:
        yield command


def test_a_harness_that_is_started_again_goes_on_and_looks_back_at_what_is_kept(tmp_path: Path) -> None:
    trio.run(run, tmp_path / "run.db", 200)
    prune(tmp_path / "run.db", Rule(keep=20, context=0), by="ann")

    followed = trio.run(run, tmp_path / "run.db", 205)

    assert followed == list(range(160, 206))
    with closing(SqliteReader(tmp_path / "run.db")) as reader:
        last = reader.steps("one", after=200)
        assert [(step.step_number, step.input, step.output) for step in last] == [(n, n, 10) for n in range(201, 206)]


def test_the_verbs_show_what_is_there_and_say_what_is_not(command: Command) -> None:
    steps, limited, shown, missing, state, never = command.each(
        ["steps", "one", "--json"],
        ["steps", "one", "--json", "--limit", "3"],
        ["show", "one", "160", "--state"],
        ["show", "one", "3"],
        ["show", "one", "3", "--state"],
        ["show", "one", "201"],
    )

    assert [step["step_number"] for step in steps.objects] == list(range(160, 201))
    assert steps.err == "steps 1 to 159 of 'one' were pruned\n"
    assert [step["step_number"] for step in limited.objects] == [160, 161, 162]
    assert shown.code == 0
    for done in (missing, state):
        assert (done.code, "step 3 was pruned: expected a number from 160" in done.err) == (2, True)
    assert "has no step 201: expected a number from 1 to 200" in never.err


def test_a_limit_counts_what_is_there(made: Path) -> None:
    with closing(SqliteReader(made)) as reader:
        assert sum(len(page) for page in pages(reader, "one", limit=40)) == 40
        assert sum(len(page) for page in pages(reader, "one", after=180, limit=40)) == 20


def test_status_doctor_events_and_the_run_folder_work(command: Command) -> None:
    status, doctor, events, folder = command.each(
        ["status", "--json"],
        ["doctor", "--json"],
        ["export", "--what", "events"],
        ["export", "one", "--layout", "run-folder", "--output", "folder"],
    )

    assert status.objects[0]["current_step"] == 200
    assert {check["check"]: check["level"] for check in doctor.objects if check["check"] in ("seals", "integrity")} == {
        "seals": "PASS",
        "integrity": "PASS",
    }
    assert [one["event"] for one in events.objects] == ["harness.started", "harness.finished", "harness.pruned"]
    assert (folder.code, folder.err) == (0, f"{folder.err.split()[0]} files written to folder\n")


def test_a_log_that_lags_behind_goes_on_where_it_ends(tmp_path: Path) -> None:
    log = tmp_path / "steps.jsonl"
    trio.run(run, tmp_path / "run.db", 100, log)
    before = log.read_text()
    trio.run(run, tmp_path / "run.db", 200)
    prune(tmp_path / "run.db", Rule(keep=20, context=0), by="ann")

    trio.run(run, tmp_path / "run.db", 201, log)

    assert log.read_text().startswith(before)
    steps = [int(text.split('"step":')[1].split(",")[0]) for text in log.read_text().splitlines() if "harness.step" in text]
    assert steps == [*range(1, 101), *range(160, 202)]
