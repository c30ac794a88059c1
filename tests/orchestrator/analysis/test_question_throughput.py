"""Steps by time add up to all steps; gaps and trends are exact."""

from __future__ import annotations

from pathlib import Path

from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.questions import throughput_question as throughput
from tests.orchestrator.analysis.asked import by_name, rows
from tests.orchestrator.analysis.picturing import Diary


def test_the_buckets_hold_every_step_once_per_harness_and_in_all(eventful: Run) -> None:
    told = rows(throughput.answer(eventful), "buckets")

    sums: dict[str | None, int] = {}
    for row in told:
        sums[row["harness"]] = sums.get(row["harness"], 0) + row["steps"]
    assert sums.pop(None) == sum(sums.values()) == 34
    assert sum(row["harness"] is None for row in told) <= throughput.BUCKETS


def test_a_bucket_without_a_step_is_told_as_one(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.say("started", "a", 0)
    for step, at_s in enumerate((0, 1, 58, 59), start=1):
        diary.say("step", "a", at_s, step=step)

    with diary.open() as run:
        told = throughput.answer(run)

    counts = [(row["begin"][14:19], row["steps"]) for row in rows(told, "buckets")]
    assert told.tables[0].note == "a bucket is 2 s long"
    assert (len(counts), counts[0], counts[1], counts[-1]) == (30, ("00:00", 2), ("00:02", 0), ("00:58", 2))


def test_the_longest_time_without_any_step_is_told(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    for name, at_s in (("a", 1), ("b", 2), ("a", 42), ("b", 43)):
        diary.say("step", name, at_s, step=1)

    with diary.open() as run:
        told = throughput.answer(run)

    first = rows(told, "gaps")[0]
    assert (first["duration_s"], first["step_before_of"], first["step_after_of"]) == (40.0, "b", "a")
    assert "Nothing was recorded for 40 s after 2026-03-01T12:00:02.000000Z, a step of b." in told.sentences


def test_a_harness_that_slows_down_is_told(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.say("started", "a", 0)
    diary.steps("a", 100, every_s=0.5)
    diary.steps("a", 25, from_s=50, every_s=2.0, first=101)

    with diary.open() as run:
        told = throughput.answer(run)

    row = by_name(told, "trend")["a"]
    assert (row["first_half_per_s"], row["second_half_per_s"], row["change_share"]) == (2.0, 0.5, -0.75)
    assert "a made 75 % fewer steps in the second half of its time than in the first." in told.sentences
