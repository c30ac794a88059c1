"""A table describes a pipeline as a call would make it, or all of its mistakes are told at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harnesses.features.errors import InvalidRequest
from harnesses.governance import Guardrails
from harnesses.pipeline import PipelineHarness
from harnesses.run_file_harnesses.pipeline_table import read_harness

STAGE = {"id": "a", "title": "A", "artifact": "a.json", "agent": "agent.a"}
LEAST: dict[str, Any] = {
    "goal": "A",
    "workspace": "project",
    "stages": [STAGE, {**STAGE, "id": "b", "artifact": "b.json", "after": ["a"]}],
    "agents": {"function": "table_agents:builder"},
    "validators": {"*": {"function": "table_agents:judge"}},
}
AGENTS = """
import json
from pathlib import Path
from harnesses.agent import Agent

async def build(run):
    work = run.input
    for stage, path in work.artifacts.items():
        place = Path(work.directory, path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text('{"made": "all of it"}')
    files = list(work.artifacts.values())
    said = {"work_done": "all of it is written", "evidence": files}
    summaries = [{"stage_id": str(stage), "agent_id": work.agent, **said} for stage in work.artifacts]
    return json.dumps({"task_id": str(work.task.id), "agent": work.agent, "nonce": work.claim.nonce, "status": "PASS",
        "summary": "all of it is written", "files_modified": files, "tests_run": ["read"], "risks": [], "next_steps": [],
        "memory_summary": said, "stage_summaries": summaries})

async def look(run):
    it = run.input
    return {"task_id": str(it.task.id), "validator": it.validator, "status": "PASS", "nonce": it.claim.nonce, "issues": [],
        "checks": [{"name": "artifact", "status": "PASS", "evidence": "read"}], "retry_recommendation": "none"}

def builder():
    return Agent(build, name="builder")

def judge():
    return Agent(look, name="judge")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "table_agents.py").write_text(AGENTS, encoding="utf-8")
    (tmp_path / "project").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def make(folder: Path, **keys: object) -> PipelineHarness:
    table = {key: value for key, value in {**LEAST, **keys}.items() if value is not None}
    return read_harness(beside=folder, name="p", guardrails=Guardrails(max_task_attempts=3), **table)


async def test_stages_are_worked_and_what_passed_is_remembered(folder: Path) -> None:
    harness = make(folder, memory={"path": "memory.db", "project": "p", "top": 2})
    assert not (folder / "memory.db").exists()

    await harness.run()

    assert harness.is_complete()
    assert [str(task.id) for task in harness.state.tasks] == ["a", "b"]
    assert (folder / "memory.db").is_file()


def test_the_stages_of_software_development_are_the_default(folder: Path) -> None:
    harness = make(folder, stages=None, tasks="plan", evidence_policy={"needed": "rerun", "by_stage": {"07-code": "observed"}})

    assert isinstance(harness, PipelineHarness)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"goal": None}, "has no goal: expected one; add it"),
        ({"stages": "sdcl"}, "stages: expected one of sdlc, got 'sdcl'; did you mean 'sdlc'?"),
        ({"stages": [{**STAGE, "afer": []}]}, "stages 1: unknown key 'afer'"),
        ({"stages": [{"id": "a"}]}, "stages 1: has no title"),
        ({"stages": [{**STAGE, "after": ["z"]}]}, "after: expected one of a, was 'z'"),
        ({"tasks": "eight"}, "tasks: expected one of each-stage, plan, got 'eight'"),
        ({"agents": {"scripted": "x.toml"}}, "agents: expected a table with one of command, dialect, model, function"),
        ({"agents": "claude"}, "did you mean 'claude_code'?"),
        ({"agents": 3}, "agents: expected an agent, or a table of agents by task id or name, got 3"),
        ({"validators": None}, "has no validator"),
        (
            {"evidence_policy": {"needed": "seen"}},
            "needed: expected one of reported, observed, rerun, got 'seen'",
        ),
        (
            {"deeds": {"c": [{"category": "publish", "summary": "s", "command": ["x"]}]}},
            "deeds: deeds: expected ids of stages",
        ),
        ({"deeds": {"a": [{"category": "publish"}]}}, "deeds: a 1: has no summary"),
        ({"memory": {"tops": 3}}, "memory: 'tops' is not known"),
        ({"memory": {"path": ""}}, "memory: path: expected a text, got ''"),
        ({"mode": "fast"}, "'fast' is not a valid Mode"),
        ({"max_parallel": 0}, "max_parallel: expected a whole number from 1 up"),
        ({"nonce": "x"}, "unknown key 'nonce'"),
    ],
)
def test_a_mistake_is_told_with_its_key(folder: Path, keys: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        make(folder, **keys)
    assert told in str(caught.value)
