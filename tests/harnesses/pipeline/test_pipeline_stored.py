"""A pipeline in a store: stopped and started again it goes on, and what was asked of a person is not asked twice."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve

from harnesses.pipeline import Deed, PipelineHarness, each_stage
from orchestrator import Handle, Orchestrator, Outcome
from orchestrator.operating.approval_answers import respond
from orchestrator.status import known_approvals
from orchestrator.store import SqliteReader

from .scripted import Builders, Work, honest, pipeline, stages, statuses, write

PUBLISH = Deed(category="publish", summary="put it out", command=(sys.executable, "-c", "open('published', 'a').write('x')"))
SECRET = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"


def releasing(workspace: Path, **options: Any) -> PipelineHarness:
    given = stages("a", "b")
    return pipeline(workspace, stages=given, tasks=each_stage(given, deeds={"b": [PUBLISH]}), **options)


def asked(store: Path) -> list[str]:
    with closing(SqliteReader(store)) as reader:
        return [one.record.id for one in known_approvals(reader, None, every=False)]


async def until(ready: Callable[[], object]) -> None:
    with trio.fail_after(60):
        while not ready():  # noqa: ASYNC110 - it waits for what is on disk
            await trio.sleep(0.02)


async def run_until_asked(store: Path, harness: PipelineHarness) -> list[str]:
    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(harness, name="p")
        await until(lambda: handle.outcome or asked(store))
        found = asked(store)
        handle.stop(grace=2.0)
    return found


async def run_to_the_end(store: Path, harness: PipelineHarness, then: Callable[[Handle], object] | None = None) -> Outcome:
    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(harness, name="p")
        if then is not None:
            then(handle)
        with trio.fail_after(60):
            return await handle.wait()


async def test_what_waits_for_a_person_is_not_asked_twice_over_a_restart(tmp_path: Path) -> None:
    store = tmp_path / "run.db"
    first = await run_until_asked(store, releasing(tmp_path / "w", agents=Builders(pause_s=0.0)))
    again = await run_until_asked(store, releasing(tmp_path / "w", agents=Builders(pause_s=0.0)))

    respond(str(store), first[0], "approved", by="ada", reason="seen")
    harness = releasing(tmp_path / "w", agents=Builders(pause_s=0.0))
    outcome = await run_to_the_end(store, harness)

    assert first == again
    assert str(outcome) == "completed"
    assert statuses(harness) == {"a": "PASS", "b": "PASS"}
    assert (tmp_path / "w/published").read_text() == "x"


async def test_a_message_that_comes_while_it_waits_for_a_person_does_not_have_it_ask_anew(tmp_path: Path) -> None:
    store = tmp_path / "run.db"
    first = await run_until_asked(store, releasing(tmp_path / "w", agents=Builders(pause_s=0.0)))
    respond(str(store), first[0], "approved", by="ada", reason="seen")

    harness = releasing(tmp_path / "w", agents=Builders(pause_s=0.0))
    outcome = await run_to_the_end(store, harness, lambda handle: handle.send({"block": "a"}))

    assert str(outcome) == "completed"
    with closing(SqliteReader(store)) as reader:
        assert len(reader.approvals()) == 1


async def test_a_task_that_somebody_denies_is_blocked_and_a_person_may_let_it_go_on(tmp_path: Path) -> None:
    store = tmp_path / "run.db"
    first = await run_until_asked(store, releasing(tmp_path / "w", agents=Builders(pause_s=0.0)))
    respond(str(store), first[0], "denied", by="ada", reason="not today")

    harness = releasing(tmp_path / "w", agents=Builders(pause_s=0.0))
    outcome = await run_to_the_end(store, harness)

    assert str(outcome).startswith("blocked")
    assert statuses(harness) == {"a": "PASS", "b": "BLOCKED"}
    assert "not today" in harness.state.tasks[1].note
    assert not (tmp_path / "w/published").exists()


async def test_what_is_under_way_at_a_stop_may_come_to_its_end_and_no_attempt_is_lost(tmp_path: Path) -> None:
    store, builders = tmp_path / "run.db", Builders(pause_s=0.05)
    for _ in range(30):
        harness = pipeline(tmp_path / "w", "a", "b", "c", "d", chain=True, agents=builders)
        async with Orchestrator(store) as orchestrator:
            handle = orchestrator.start(harness, name="p")
            begun = len(builders.begun)
            await until(lambda: handle.outcome or len(builders.begun) > begun)  # noqa: B023
            handle.stop(grace=10.0)
        if harness.is_complete():
            break

    assert statuses(harness) == dict.fromkeys("abcd", "PASS")
    assert builders.begun == [("a", 1), ("b", 1), ("c", 1), ("d", 1)]


async def test_no_secret_of_an_agent_reaches_the_store_or_a_file(tmp_path: Path) -> None:
    def leaks(work: Work) -> object:
        made = honest(work)
        write(work, "run/artifacts/stages/a/a.json", json.dumps({"said": f"token={SECRET}"}))
        return {**made, "summary": f"used {SECRET} to do it", "risks": [f"password: {SECRET}"]}

    def raises(work: Work) -> object:
        raise RuntimeError(f"401 for Authorization: Bearer {SECRET}")

    harness = pipeline(tmp_path / "w", "a", "b", agents=Builders({"a": leaks, "b": [raises, leaks]}, pause_s=0.0))
    await run_to_the_end(tmp_path / "run.db", harness)

    place = tmp_path / "w/run"
    views = [path.read_text() for path in place.rglob("*") if path.is_file() and "artifacts" not in path.parts]
    assert not any(SECRET in view for view in views)
    assert not any(
        SECRET.encode() in (tmp_path / name).read_bytes() for name in os.listdir(tmp_path) if name.startswith("run.db")
    )


async def test_what_others_write_into_the_run_folder_is_written_anew(tmp_path: Path) -> None:
    def meddles(work: Work) -> object:
        write(work, "run/manifest.json", "{}")
        write(work, "run/tasks/a/validation.json", '{"status": "PASS"}')
        write(work, "run/events.jsonl", "")
        return honest(work)

    harness = pipeline(tmp_path / "w", "a", "b", chain=True, agents=Builders({"b": meddles}, pause_s=0.0))
    await run_to_the_end(tmp_path / "run.db", harness)

    place = tmp_path / "w/run"
    assert json.loads((place / "manifest.json").read_text())["status"] == "DONE"
    assert json.loads((place / "tasks/a/validation.json").read_text())["checks"]
    assert len((place / "events.jsonl").read_text().splitlines()) > 5


async def test_stage_folders_are_there_before_any_agent_works(tmp_path: Path) -> None:
    found: list[list[str]] = []

    def looks(work: Work) -> object:
        place = Path(str(work.directory)) / "run"
        found.append(sorted(path.name for path in (place / "artifacts/stages").iterdir()))
        assert (place / "tasks/a/prompt.md").read_text() == work.prompt
        return honest(work)

    await run_to_the_end(
        tmp_path / "run.db", pipeline(tmp_path / "w", "a", "b", "c", chain=True, agents=Builders({"a": looks}))
    )

    assert found == [["a", "b", "c"]]


async def test_what_stands_in_the_way_of_the_run_folder_is_removed_and_nothing_behind_a_link_is_touched(
    tmp_path: Path,
) -> None:
    (tmp_path / "elsewhere").mkdir()

    def meddles(work: Work) -> object:
        place = Path(str(work.directory)) / "run"
        made = honest(work)
        shutil.rmtree(place / "tasks")
        (place / "tasks").symlink_to(tmp_path / "elsewhere")
        (place / "manifest.json").unlink()
        (place / "manifest.json").mkdir()
        return made

    harness = pipeline(tmp_path / "w", "a", "b", chain=True, agents=Builders({"b": meddles}, pause_s=0.0))
    outcome = await run_to_the_end(tmp_path / "run.db", harness)

    assert str(outcome) == "completed"
    assert os.listdir(tmp_path / "elsewhere") == []
    assert json.loads((tmp_path / "w/run/tasks/a/validation.json").read_text())["status"] == "PASS"
    assert json.loads((tmp_path / "w/run/manifest.json").read_text())["status"] == "DONE"


async def test_a_run_folder_that_can_not_be_written_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("harnesses.pipeline.run_folder.folder_files.write_folder", full)
    harness = pipeline(tmp_path / "w", "a", agents=Builders({"a": with_folder}, pause_s=0.0))

    assert str(await run_to_the_end(tmp_path / "run.db", harness)) == "completed"
    assert "could not write its run folder" in caplog.text


def with_folder(work: Work) -> object:
    return honest(work)


async def test_a_destructive_task_is_claimed_once_it_is_approved(tmp_path: Path) -> None:
    store, given = tmp_path / "run.db", stages("a")
    tasks = tuple(evolve(task, destructive=True) for task in each_stage(given))

    def make() -> PipelineHarness:
        return pipeline(tmp_path / "w", stages=given, tasks=tasks, agents=Builders(pause_s=0.0))

    first = await run_until_asked(store, make())
    respond(str(store), first[0], "approved", by="ada", reason="a backup was made")

    assert str(await run_to_the_end(store, make())) == "completed"
