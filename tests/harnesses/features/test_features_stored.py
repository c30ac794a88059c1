"""With a file: a harness made anew goes on from what is on disk, by value and by type."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from harnesses.features import Feature, FeatureStatus, RunPolicy, Standing
from orchestrator import Orchestrator
from tests.harnesses.features.worked import UNLIMITED, Judge, Worker, harness, passing


async def life(path, work):
    async with Orchestrator(path, handle_signals=False) as orchestrator:
        return await orchestrator.start(work, name="work").wait()


async def test_life_after_life_the_list_is_worked_to_its_end(tmp_path):
    path, worker, ends = tmp_path / "run.db", Worker(seconds=0), []

    for _ in range(4):
        work = harness(worker, Judge(seconds=0), policy=RunPolicy())
        ends.append(str((await life(path, work)).kind))

    assert ends == ["finished", "finished", "completed", "completed"]
    assert worker.tries == ["a1", "b1", "c1"]
    assert passing(work.state) == "abc"
    assert isinstance(work.state.standings[0], Standing)
    assert work.state.standings[0].status is FeatureStatus.PASSED
    assert work.state.runs[-1].completed_at.tzinfo is not None


async def test_outcome_evidence_and_work_can_be_read_with_sql_alone(tmp_path):
    await life(tmp_path / "run.db", harness(Worker(seconds=0), Judge(seconds=0), policy=RunPolicy()))

    with closing(sqlite3.connect(tmp_path / "run.db")) as db:
        rows = db.execute("SELECT input, output FROM steps WHERE harness = 'work' ORDER BY step_number").fetchall()

    given, made = (json.loads(text) for text in rows[-1])
    assert (given["kind"], given["feature_id"], given["turn"]) == ("turn", "a", 1)
    assert (made["result"]["artifact"], made["verdict"]["evidence"], made["ended"]["status"]) == ("1", "a is 1", "succeeded")


async def test_a_step_stores_what_it_changes_not_the_list(tmp_path):
    given = [Feature(f"x{number}", "Bring it about.", steps="it is there") for number in range(100)]
    await life(tmp_path / "run.db", harness(Worker(seconds=0), Judge(seconds=0), list=given, policy=UNLIMITED))

    with closing(sqlite3.connect(tmp_path / "run.db")) as db:
        sizes = [len(delta) for (delta,) in db.execute("SELECT delta FROM steps ORDER BY step_number")]

    assert sizes[0] > 20_000
    # The last one tells of every other feature that it passes still.
    assert max(sizes[1:-1]) < 4_000
