"""Restarts are counted; storms, and steps that attempts die at again and again, are told by a rule that is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.questions import restarts_question as restarts
from tests.orchestrator.analysis.asked import by_name, rows
from tests.orchestrator.analysis.picturing import Diary, crashing


def test_restarts_are_counted_with_those_for_the_sake_of_siblings(eventful: Run) -> None:
    told = by_name(restarts.answer(eventful), "harnesses")

    columns = ("restarts", "for_siblings", "killed", "planned_backoff_s", "most_counted", "gave_up")
    assert {name: tuple(row[column] for column in columns) for name, row in told.items()} == {
        "hopeless": (5, 0, 0, 5.0, 5, True),
        "leader": (1, 0, 0, 2.0, 1, False),
        "poisoned": (5, 0, 0, 5.0, 5, True),
        "twin": (1, 1, 0, 2.0, 1, False),
    }


def test_attempts_that_die_at_the_same_step_are_told(eventful: Run) -> None:
    told = rows(restarts.answer(eventful), "stuck")

    assert [(row["harness"], row["step"], row["attempts"]) for row in told] == [("hopeless", 3, 6), ("poisoned", 3, 6)]


@pytest.mark.parametrize(("every_s", "found"), [(15.0, [(6, 1, 6)]), (15.1, [])])
def test_a_storm_is_five_restarts_within_a_minute(tmp_path: Path, every_s: float, found: list[tuple[int, ...]]) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    crashing(diary, "a", 6, every_s=every_s)

    with diary.open() as run:
        told = rows(restarts.answer(run), "storms")

    assert [(row["restarts"], row["first_attempt"], row["last_attempt"]) for row in told] == found


def test_two_storms_are_told_apart(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    for attempt in range(1, 13):
        at_s = attempt + (1000 if attempt > 6 else 0)
        diary.say("started", "a", at_s, attempt=attempt)
        diary.say("failed", "a", at_s + 0.5, attempt=attempt, error="E", cause="E")
        diary.say("restarting", "a", at_s + 0.5, attempt=attempt, delay_s=0.5, cause="E")

    with diary.open() as run:
        told = rows(restarts.answer(run), "storms")

    assert [(row["restarts"], row["duration_s"]) for row in told] == [(6, 5.0), (6, 5.0)]


def test_time_between_attempts_is_exact(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    crashing(diary, "a", 2, every_s=9.0)

    with diary.open() as run:
        row = rows(restarts.answer(run), "harnesses")[0]

    assert (row["backoff_s"], row["planned_backoff_s"]) == (12.0, 2.0)


def test_an_attempt_that_was_killed_counts_as_one(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    for attempt in (1, 2, 3, 4):
        diary.say("started", "a", attempt, attempt=attempt)

    with diary.open() as run:
        told = restarts.answer(run)

    assert rows(told, "harnesses")[0]["killed"] == 3
    assert [(row["attempts"], row["step"]) for row in rows(told, "stuck")] == [(3, 1)]


def test_a_run_without_restarts_says_so(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.life("a", 3)

    with diary.open() as run:
        assert restarts.answer(run).sentences == ("No harness was restarted.",)
