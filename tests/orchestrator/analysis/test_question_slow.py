"""What took long is told with where the time went, against what is usual for the harness."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.questions import slow_question as slow
from tests.orchestrator.analysis.asked import rows
from tests.orchestrator.analysis.picturing import Diary


def test_the_slowest_steps_are_told_with_what_they_spent_their_time_on(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.say("started", "a", 0)
    for step in range(1, 10):
        diary.say("step", "a", step, step=step, took_us={"work": 1_000_000, "waiting": 900_000, "commit": step * 1000})
    diary.say("step", "a", 30, step=10, took_us={"work": 20_000_000, "agent": 15_000_000, "effects": 2_000_000})

    with diary.open() as run:
        told = slow.answer(run, limit=2)

    first = rows(told, "steps")[0]
    assert [first[name] for name in ("step", "work_s", "times_median", "most_in", "own_s")] == [10, 20.0, 20.0, "agent", 3.0]
    assert told.sentences[0] == "a: step 10 took 20 s, 20 times its median; 75 % of it in an agent."
    assert [(row["step"], row["commit_s"]) for row in rows(told, "commits")] == [(8, 0.009), (7, 0.008)]
    assert [(row["step"], row["agent_s"]) for row in rows(told, "agents")] == [(10, 15.0)]


def test_the_longest_time_without_a_step_is_told_and_not_that_between_attempts(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.life("a", 2)
    diary.say("started", "a", 5000, attempt=2, step=2)
    diary.say("step", "a", 5040, attempt=2, step=3)
    diary.say("message", "a", 5100, attempt=0)

    with diary.open() as run:
        told = rows(slow.answer(run), "stalls")

    assert [(row["attempt"], row["step"], row["duration_s"]) for row in told[:2]] == [(2, 4, 60.0), (2, 3, 40.0)]


def test_the_slowest_effects_are_told(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.say("started", "a", 0)
    for key, took_s in (("quick", 1), ("slow", 9)):
        diary.say("intent", "a", 1, step=1, key=key, arguments=[])
        diary.say("outcome", "a", 1 + took_s, step=1, key=key, outcome="confirmed", result=None)

    with diary.open() as run:
        told = rows(slow.answer(run), "effects")

    assert [(row["key"], row["took_s"], row["outcome"]) for row in told] == [
        ("slow", 9.0, "confirmed"),
        ("quick", 1.0, "confirmed"),
    ]


def test_of_steps_without_times_it_is_the_time_since_the_record_before(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.say("started", "a", 0)
    for step, at_s in enumerate((1, 2, 10), start=1):
        diary.say("step", "a", at_s, step=step)

    with diary.open() as run:
        told = slow.answer(run)

    assert [(row["step"], row["work_s"], row["most_in"]) for row in rows(told, "steps")] == [
        (3, 8.0, None),
        (1, 1.0, None),
        (2, 1.0, None),
    ]
    assert "no times of parts are recorded" in told.tables[0].note


def test_a_real_run_tells_its_slowest_steps(eventful: Run) -> None:
    told = rows(slow.answer(eventful, harness="twin"), "steps")

    assert len(told) == 6
    assert {row["most_in"] for row in told} == {"waiting"}
    assert told[0]["work_s"] == pytest.approx(1.1, abs=1e-5)
