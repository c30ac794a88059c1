"""`orchestrator contract`: a builder's contract is checked before it is handed in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.orchestrator.commanding import Command

GOOD: dict[str, Any] = {
    "task_id": "07-code",
    "agent": "coder",
    "status": "PASS",
    "summary": "wrote the parser and its tests",
    "files_modified": ["parser.py"],
    "tests_run": ["pytest tests/test_parser.py: 3 passed"],
    "risks": [],
    "next_steps": [],
    "memory_summary": {"work_done": "wrote the parser", "evidence": ["parser.py"]},
    "stage_summaries": [
        {"stage_id": "07-code", "agent_id": "coder", "work_done": "wrote the parser", "evidence": ["parser.py"]}
    ],
}


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as made:
        yield made


def test_a_contract_is_found_good_or_each_thing_that_is_wrong_is_named(command: Command) -> None:
    command.write("parser.py", "def parse(): return 1\n")
    command.write("good.json", json.dumps(GOOD))
    command.write("gone.json", json.dumps({**GOOD, "files_modified": ["other.py"], "summary": "ok"}))
    command.write("torn.json", json.dumps(GOOD)[:-30])
    task = ["--task", "07-code"]

    good, gone, other, torn, stage, missing = command.each(
        ["contract", "good.json", *task],
        ["contract", "gone.json", *task, "--json"],
        ["contract", "good.json", "--task", "08-testing"],
        ["contract", "torn.json", *task],
        ["contract", "good.json", *task, "--stage", "07-code", "--stage", "08-testing"],
        ["contract", "none.json", *task],
    )

    assert [one.code for one in (good, gone, other, torn, stage, missing)] == [0, 1, 1, 1, 1, 2]
    failed = {check["name"] for check in gone.objects if check["status"] == "FAIL"}
    assert failed == {"summary_meaningful", "file:other.py"}
    assert "task_id" in other.out
    assert "FAIL stage_summary:08-testing" in stage.out
    assert missing.err.count("\n") == 1
