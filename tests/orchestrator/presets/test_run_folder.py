"""Run folders from a store: what a pipeline shows live comes out of the store the same; other harnesses have theirs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from harnesses.agent import Agent, AgentRun
from harnesses.features import Feature, FeatureHarness, NoHealthCheck, RunPolicy, TurnResult, Verdict
from harnesses.pipeline.pipeline_state import PipelineState
from orchestrator import Orchestrator, UnknownHarness, UsageError
from orchestrator.presets.run_folder import export_run_folder
from orchestrator.store import SqliteReader
from tests.harnesses.pipeline.scripted import Builders, Work, honest, pipeline
from tests.orchestrator.commanded import HOSTILE, Hostile, Three
from tests.orchestrator.commanding import Command


def prose(work: Work) -> str:
    return f"All done. {HOSTILE}"


class Says:
    """A validator of features."""

    proves = True

    async def validate(self, feature: Feature, work: TurnResult) -> Verdict:
        return Verdict(passed=True, evidence="token=ghp_0123456789abcdefghijklmnopqrstuvwxyzAB was seen", validator="eyes")


async def works(run: AgentRun[object, object]) -> TurnResult:
    return TurnResult(message="done")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("run_folder")
    features = [Feature("one", "The first works", steps=["look"]), Feature("../../b::c", "The second works", steps=["look"])]

    async def record() -> None:
        async with Orchestrator(place / "run.db") as orchestrator:
            orchestrator.start(
                pipeline(place / "w", "a", "b", "c", chain=True, agents=Builders({"b": [prose, honest]})), name="sdlc"
            )
            orchestrator.start(Three(0), name="three")
            hostile = orchestrator.start(Hostile(0), name="hostile")
            listed = FeatureHarness(
                Agent(works, name="worker"),
                Says(),
                objective="make both work",
                features=features,
                health_check=NoHealthCheck(),
                policy=RunPolicy(mode="unlimited_batch"),
            )
            orchestrator.start(listed, name="listed")
            async for _ in hostile.steps():
                hostile.stop()

    trio.run(record, clock=MockClock(autojump_threshold=0))
    return place


@pytest.fixture
def reader(place: Path) -> Iterator[SqliteReader]:
    with closing(SqliteReader(place / "run.db")) as reader:
        yield reader


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_what_a_pipeline_shows_live_comes_out_of_the_store_byte_for_byte(
    place: Path, reader: SqliteReader, tmp_path: Path
) -> None:
    export_run_folder(reader, "sdlc", tmp_path / "out")

    assert files(tmp_path / "out") == files(place / "w/run")


def test_it_has_the_layout(reader: SqliteReader, tmp_path: Path) -> None:
    export_run_folder(reader, "sdlc", tmp_path / "out")

    assert sorted(files(tmp_path / "out")) == [
        "artifacts/stages/a/a.json",
        "artifacts/stages/b/b.json",
        "artifacts/stages/c/c.json",
        "events.jsonl",
        "evidence.jsonl",
        "manifest.json",
        "pipeline-state.json",
        *(f"tasks/{task}/{name}" for task in "abc" for name in ("builder.json", "prompt.md", "validation.json")),
    ]


def test_the_manifest_says_what_the_run_is_and_where_it_stands(reader: SqliteReader, tmp_path: Path) -> None:
    export_run_folder(reader, "sdlc", tmp_path / "out")

    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert (manifest["status"], manifest["goal"], manifest["mode"]) == ("DONE", "try things out", "interactive")
    assert manifest["run_id"].endswith("Z-try-things-out")
    assert [stage["id"] for stage in manifest["stage_taxonomy"]] == ["a", "b", "c"]


def test_every_line_of_evidence_has_the_fields_that_are_needed(reader: SqliteReader, tmp_path: Path) -> None:
    export_run_folder(reader, "sdlc", tmp_path / "out")

    for line in lines(tmp_path / "out/evidence.jsonl"):
        assert {"ts", "task_id", "kind", "status", "evidence"} <= line.keys()
        assert line["status"] in ("PASS", "FAIL", "BLOCKED", "INFO")


def test_any_harness_has_its_events(reader: SqliteReader, tmp_path: Path) -> None:
    export_run_folder(reader, "three", tmp_path / "out")

    types = [line["type"] for line in lines(tmp_path / "out/events.jsonl")]
    assert types.count("harness.step") == 3
    assert (types[0], types[-1]) == ("harness.started", "harness.completed")
    assert json.loads((tmp_path / "out/manifest.json").read_text())["status"] == "DONE"


def test_no_line_has_a_character_that_a_terminal_acts_upon(reader: SqliteReader, tmp_path: Path) -> None:
    export_run_folder(reader, "hostile", tmp_path / "out")

    assert all(character in b"\n" or 32 <= character < 127 for character in (tmp_path / "out/events.jsonl").read_bytes())


def test_a_feature_list_has_its_tasks_and_its_verdicts_without_secrets(reader: SqliteReader, tmp_path: Path) -> None:
    export_run_folder(reader, "listed", tmp_path / "out")

    evidence = lines(tmp_path / "out/evidence.jsonl")
    assert {(line["task_id"], line["status"]) for line in evidence} == {("one", "PASS"), ("../../b::c", "PASS")}
    assert (tmp_path / "out/tasks/one/validation.json").exists()
    assert not any(b"ghp_" in content for content in files(tmp_path / "out").values())


def test_no_name_of_an_agent_leads_out_of_the_folder(reader: SqliteReader, tmp_path: Path) -> None:
    export_run_folder(reader, "listed", tmp_path / "deep/down/out")

    assert os.listdir(tmp_path / "deep/down") == ["out"]
    assert sorted(os.listdir(tmp_path / "deep/down/out/tasks"))[0].startswith("b-c-")


def test_the_same_run_may_be_exported_again_and_another_may_not(reader: SqliteReader, tmp_path: Path) -> None:
    export_run_folder(reader, "sdlc", tmp_path / "out")
    export_run_folder(reader, "sdlc", tmp_path / "out")

    with pytest.raises(UsageError, match="has other files"):
        export_run_folder(reader, "three", tmp_path / "out")


def test_nothing_is_written_through_a_link(reader: SqliteReader, tmp_path: Path) -> None:
    export_run_folder(reader, "sdlc", tmp_path / "out")
    (tmp_path / "elsewhere").mkdir()
    for file in (tmp_path / "out/tasks/a").iterdir():
        file.unlink()
    (tmp_path / "out/tasks/a").rmdir()
    (tmp_path / "out/tasks/a").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(UsageError, match="not a plain directory"):
        export_run_folder(reader, "sdlc", tmp_path / "out")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_harness_that_is_not_there_is_named_with_those_that_are(reader: SqliteReader, tmp_path: Path) -> None:
    with pytest.raises(UnknownHarness, match="expected one of sdlc, three"):
        export_run_folder(reader, "none", tmp_path / "out")


def test_the_command_writes_it(place: Path, tmp_path: Path) -> None:
    with Command(tmp_path) as command:
        done = command("export", "sdlc", "--layout", "run-folder", "--output", "out", "--store", str(place / "run.db"))

    assert done.code == 0
    assert "files written to out" in done.err
    assert files(tmp_path / "out") == files(place / "w/run")


def test_the_command_says_what_it_needs(place: Path, tmp_path: Path) -> None:
    with Command(tmp_path) as command:
        done = command("export", "sdlc", "--layout", "run-folder", "--store", str(place / "run.db"))

    assert done.code == 2
    assert "expected --output DIR" in done.err


def test_the_state_of_a_pipeline_can_be_read_back(place: Path, reader: SqliteReader) -> None:
    from orchestrator.codec import decode
    from orchestrator.presets.run_folder import pipeline_of

    step = next(record.current_step for record in reader.harnesses() if record.name == "sdlc")
    state = pipeline_of(decode(reader.state_at("sdlc", step)))

    assert isinstance(state, PipelineState)
    assert [str(task.status) for task in state.tasks] == ["PASS"] * 3
