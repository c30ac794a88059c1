"""The fifteen stages over a small project: an empty claim is refused, publishing waits for a person, a kill loses nothing."""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator import StoreUnusable
from orchestrator.store import SqliteReader
from tests import ROOT
from tests.zygote import Program


def start(folder: Path) -> subprocess.Popen[str]:
    command = [str(ROOT / "examples" / "pipeline.py"), "--directory", str(folder / "place")]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return Program(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def steps(folder: Path) -> int:
    try:
        with closing(SqliteReader(folder / "place" / "run.db")) as reader:
            return max((harness.current_step for harness in reader.harnesses()), default=0)
    except StoreUnusable:
        return 0


def kill_at_step(folder: Path, number: int) -> None:
    program = start(folder)
    while steps(folder) < number:
        assert program.poll() is None, program.communicate()[0]
        time.sleep(0.02)
    program.kill()
    program.communicate()


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return where it was killed on the way and went on to its end, and what it said then."""
    folder = tmp_path_factory.mktemp("pipeline")
    kill_at_step(folder, 12)
    program = start(folder)
    said, _ = program.communicate(timeout=300)
    assert program.returncode == 0, said
    return folder / "place", said


def test_it_is_killed_on_the_way_and_ends_with_every_stage_proven_and_one_release(ended: tuple[Path, str]) -> None:
    place, said = ended

    again, _ = start(place.parent).communicate(timeout=300)

    assert said.count(" PASS ") == 15
    assert "07-code: FAIL" in said
    assert "waits for publish" in said
    assert "published: slug-1.0.py" in said
    assert "run.db untouched" in said
    assert again.partition("task  ")[2] == said.partition("task  ")[2]


def test_what_is_exported_tells_of_the_refusal_and_of_the_approval(ended: tuple[Path, str]) -> None:
    folder = ended[0] / "exported"

    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    refused = [event for event in events if event["type"] == "validation_failed"]
    assert [event["task_id"] for event in refused] == ["07-code"]
    assert [event["category"] for event in events if event["type"] == "action_done"] == ["publish"]
    assert json.loads((folder / "manifest.json").read_text())["status"] == "DONE"
    assert len(list((folder / "artifacts" / "stages").iterdir())) == 15
