"""The fifteen stages over a small project: an empty claim is refused, publishing waits for a person, a kill loses nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from orchestrator import StoreUnusable
from orchestrator.store import SqliteReader

ROOT = Path(__file__).parents[2]


def start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, str(ROOT / "examples" / "pipeline.py"), "--directory", str(folder / "place")]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


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


def test_it_is_killed_on_the_way_and_ends_with_every_stage_proven_and_one_release(tmp_path: Path) -> None:
    kill_at_step(tmp_path, 12)
    program = start(tmp_path)
    said, _ = program.communicate(timeout=300)
    again, _ = start(tmp_path).communicate(timeout=300)

    assert program.returncode == 0, said
    assert said.count(" PASS ") == 15
    assert "07-code: FAIL" in said
    assert "waits for publish" in said
    assert "published: slug-1.0.py" in said
    assert "run.db untouched" in said
    assert again.partition("task  ")[2] == said.partition("task  ")[2]


def test_what_is_exported_tells_of_the_refusal_and_of_the_approval(tmp_path: Path) -> None:
    program = start(tmp_path)
    said, _ = program.communicate(timeout=300)

    assert program.returncode == 0, said
    folder = tmp_path / "place" / "exported"
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    refused = [event for event in events if event["type"] == "validation_failed"]
    assert [event["task_id"] for event in refused] == ["07-code"]
    assert [event["category"] for event in events if event["type"] == "action_done"] == ["publish"]
    assert json.loads((folder / "manifest.json").read_text())["status"] == "DONE"
    assert len(list((folder / "artifacts" / "stages").iterdir())) == 15
