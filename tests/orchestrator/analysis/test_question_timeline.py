"""The timeline tells what each harness was doing when, as spans that follow each other."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.questions import timeline_question as timeline
from orchestrator.analysis.questions.record_scan import Said
from orchestrator.analysis.questions.timeline_question import ALIVE, Life, spans
from tests.orchestrator.analysis.asked import rows
from tests.orchestrator.analysis.picturing import BEGIN, Diary

KINDS = ("started", "paused", "resumed", "failed", "restarting", "stopped", "blocked", "completed", "approval_requested")


def kinds(run: Run) -> list[tuple[object, ...]]:
    told = rows(timeline.answer(run), "spans")
    return [(row["attempt"], row["kind"], row["duration_s"], row["first_step"], row["last_step"]) for row in told]


def test_attempts_and_what_is_between_them_are_spans(eventful: Run) -> None:
    told = rows(timeline.answer(eventful), "spans")

    assert [
        (row["attempt"], row["kind"], row["first_step"], row["last_step"]) for row in told if row["harness"] == "twin"
    ] == [
        (1, "running", 1, 1),
        (1, "backing_off", None, None),
        (2, "running", 2, 6),
    ]
    assert [row["kind"] for row in told if row["harness"] == "unsure"] == ["running", "blocked"]
    assert [row["kind"] for row in told if row["harness"] == "asking"] == ["running", "waiting"]


def test_spans_are_exact(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.life("a", 3, "failed", every_s=1.0)
    diary.say("restarting", "a", 4.5, step=3, delay_s=2.0, cause="boom")
    diary.say("started", "a", 6.0, attempt=2, step=3)
    diary.steps("a", 2, from_s=6.0, attempt=2, first=4)
    diary.say("paused", "a", 8.0, attempt=2, step=5)
    diary.say("resumed", "a", 18.0, attempt=2, step=5)
    diary.say("stopped", "a", 20.0, attempt=2, step=5, cause="stopped by order")

    with diary.open() as run:
        assert kinds(run) == [
            (1, "running", 4.0, 1, 3),
            (1, "backing_off", 2.0, None, None),
            (2, "running", 2.0, 4, 5),
            (2, "held", 10.0, None, None),
            (2, "running", 2.0, None, None),
        ]


def test_a_program_that_was_killed_is_told_from_one_that_was_stopped(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.say("started", "killed", 0)
    diary.steps("killed", 2)
    diary.say("started", "killed", 10, attempt=2, step=2)
    diary.life("stopped", 2, "stopped")
    diary.say("started", "stopped", 10, attempt=2, step=2)

    with diary.open() as run:
        told = timeline.answer(run)

    between = {row["harness"]: (row["kind"], row["duration_s"]) for row in rows(told, "spans") if row["kind"] not in ALIVE}
    assert between == {"killed": ("gone", 8.0), "stopped": ("stopped", 7.0)}
    assert any("killed: attempt 1 has no end on record; its program was gone for 8 s" in said for said in told.sentences)


def test_waiting_for_a_person_is_a_span_of_its_own(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.say("started", "a", 0)
    diary.say("approval_requested", "a", 1, step=1, id="x")
    diary.say("approval_answered", "a", 61, step=1, attempt=0, id="x", verdict="approved")
    diary.say("step", "a", 62, step=1)

    with diary.open() as run:
        told = rows(timeline.answer(run), "spans")

    assert [(row["kind"], row["duration_s"], row["first_step"]) for row in told] == [
        ("running", 1.0, None),
        ("waiting", 60.0, None),
        ("running", 1.0, 1),
    ]
    assert told[-1]["open"] is True


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(-5, 50)), max_size=12))
def test_spans_follow_each_other_whatever_happened(happened: list[tuple[str, int]]) -> None:
    begin, attempt, events = BEGIN.replace(tzinfo=None), 0, []
    for seq, (kind, after_s) in enumerate(happened):
        begin, attempt = begin + timedelta(seconds=after_s), attempt + (kind == "started")
        events.append(Said(seq, begin, "a", attempt, seq, kind, id=str(seq)))

    found = spans("a", events, {1: Life(begin, 3, is_killed=True)}, begin, is_gone=len(events) % 2 == 1)

    assert all(one.duration_s >= 0 for one in found)
    assert all(second.begin >= first.end for first, second in pairwise(found))
