"""Failures are told by error and message, with what came next; also effects, what blocks, and messages folded."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.questions import failures_question as failures
from orchestrator.analysis.questions import why_question as why
from orchestrator.analysis.questions.record_scan import folded, innermost
from tests.orchestrator.analysis.asked import by_name, rows
from tests.orchestrator.analysis.picturing import Diary


def test_failures_that_are_the_same_are_one_group(eventful: Run) -> None:
    told = by_name(failures.answer(eventful), "failures")

    assert {name: (row["count"], row["error"], row["message"], row["then"]) for name, row in told.items()} == {
        "hopeless": (6, "RuntimeError", "no luck with <path>", "restarted 5, gave up"),
        "poisoned": (6, "ValueError", "cannot read poison", "restarted 5, gave up"),
        "leader": (1, "RuntimeError", "bad luck", "restarted"),
    }
    assert [told["hopeless"][column] for column in ("first_attempt", "last_attempt", "first_step", "last_step")] == [
        1,
        6,
        3,
        3,
    ]


def test_the_line_that_raised_is_named(eventful: Run) -> None:
    told = by_name(failures.answer(eventful), "failures")

    assert told["hopeless"]["where"].endswith(" in hopeless")
    assert "asked.py:" in told["hopeless"]["where"]


def test_what_can_not_go_on_is_told_with_its_cause(eventful: Run) -> None:
    told = by_name(failures.answer(eventful), "halts")

    assert {name: (row["status"], row["step"]) for name, row in told.items()} == {
        "spender": ("budget_spent", 4),
        "unsure": ("blocked", 1),
    }


def test_effects_that_were_refused_or_are_unknown_are_told(eventful: Run) -> None:
    told = rows(failures.answer(eventful), "effects")

    assert [(row["harness"], row["step"], row["key"], row["outcome"], row["reason"]) for row in told] == [
        ("refused", 1, "buy-1", "refused", "not enough cash"),
        ("unsure", 2, "pay-7", "unknown", "OSError: the line is dead"),
    ]


def test_kept_errors_are_told_and_one_that_was_cut_off_is_no_open_effect(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.say("started", "a", 0)
    for key in ("raised", "stopped", "cut off"):
        diary.say("intent", "a", 1, step=1, key=key, arguments=[], keep=True)
    diary.say("outcome", "a", 2, step=1, key="raised", outcome="failed", reason="ValueError: no")
    diary.say("outcome", "a", 2, step=1, key="stopped", outcome="interrupted", reason="killed")

    with diary.open() as run:
        told = failures.answer(run)
        effects = run.rows("SELECT key, outcome, keep FROM effects ORDER BY seq")
        why_told = why.answer(run, "a", 1).sentences

    assert [(row["key"], row["outcome"]) for row in rows(told, "effects")] == [
        ("raised", "failed"),
        ("stopped", "interrupted"),
    ]
    assert told.sentences == ("2 effects failed or were interrupted, and recorded so as a result.",)
    assert effects == [("raised", "failed", True), ("stopped", "interrupted", True), ("cut off", "begun", True)]
    assert not any("orchestrator effects settle" in sentence for sentence in why_told)


def test_harnesses_that_failed_in_the_same_way_are_told_together(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    for name in ("a", "b"):
        diary.say("started", name, 0)
        diary.say("failed", name, 1, error="OSError", cause=f"OSError: no route to 10.0.0.{ord(name)}")

    with diary.open() as run:
        told = failures.answer(run)

    assert "2 harnesses failed in the same way, OSError: no route to <n>: a and b." in told.sentences
    assert [row["then"] for row in rows(told, "failures")] == ["nothing", "nothing"]


def test_a_run_in_which_nothing_went_wrong_says_so(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.life("a", 3)

    with diary.open() as run:
        assert failures.answer(run).sentences == ("Nothing has gone wrong.",)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("timed out after 30.5 s, try 3", "timed out after <n> s, try <n>"),
        ("no file /tmp/a/b.txt", "no file <path>"),
        ("see https://example.org/x?y=1 now", "see <url> now"),
        ("job 123e4567-e89b-12d3-a456-426614174000 is gone", "job <id> is gone"),
        ("at 2026-01-02T03:04:05.678Z and 2026-01-02", "at <time> and <time>"),
        ("object at 0x7f12ab, commit 8dc994e1", "object at <id>, commit <id>"),
        ("h264 and utf8 stay", "h264 and utf8 stay"),
        ("either/or", "either/or"),
        ("\x1b[31mred\r\n", "\\x1b[<n>mred"),
    ],
)
def test_what_differs_from_one_message_to_the_next_is_folded(message: str, said: str) -> None:
    assert folded(message) == said


def test_text_that_is_no_traceback_names_no_line() -> None:
    assert innermost("nothing of the kind") == ""
    assert innermost('  File "/a b/c.py", line 7, in run\n    x()\nValueError: y') == "/a b/c.py:7 in run"
    library = '\n  File "/x/site-packages/p/q.py", line 3, in f\n  File "/usr/lib/python3.12/json/x.py", line 9, in g'
    assert innermost(f'  | File "/a/c.py", line 7, in run{library}\nValueError: y') == "/a/c.py:7 in run"
    assert innermost(library) == "/x/site-packages/p/q.py:3 in f"
