"""Why: the chain of what is on record behind where a harness is, in sentences with step numbers; no more than records say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator import analysis
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.questions import why_question as why
from orchestrator.errors import UsageError
from orchestrator.history.forking import fork
from tests.orchestrator.analysis.asked import NAMES, SOURCES, rows
from tests.orchestrator.analysis.picturing import Diary
from tests.orchestrator.buying import run as buying


def said(run: Run, name: str, step: int | None = None) -> str:
    return "\n".join(why.answer(run, name, step).sentences)


def test_a_harness_that_gave_up_is_followed_to_its_error_and_the_message_that_lay_there(eventful: Run) -> None:
    told = said(eventful, "poisoned")

    assert told.startswith("poisoned gave up after step 2, in attempt 6, at ")
    assert (
        "6 attempts of poisoned, 1 to 6, failed with the same error while step 3 was being made: ValueError: cannot read"
        in told
    )
    assert "poisoned was started again 5 times, after a back-off of 1 s, 1 s, 1 s, 1 s and 1 s." in told
    assert "the oldest message to poisoned that no step has consumed was message " in told
    assert 'from sender, sent while sender was making step 3: "poison".' in told
    assert 'from sender, sent while sender was making step 2: "again".' in told


def test_a_message_that_is_only_there_is_called_no_cause(eventful: Run) -> None:
    assert "because" not in said(eventful, "poisoned")


def test_a_restart_for_the_sake_of_a_sibling_names_it_and_its_error(eventful: Run) -> None:
    told = said(eventful, "twin")

    assert (
        "Attempt 1 of twin was ended after step 1 because of its sibling leader, whose attempt 1 failed after step 2: "
        "RuntimeError: bad luck." in told
    )


def test_a_blocked_harness_is_told_what_to_type(eventful: Run) -> None:
    told = said(eventful, "unsure")

    assert told.startswith("unsure is blocked after step 1 since ")
    assert "In step 2 effect 'pay-7' may have happened: its outcome is unknown: OSError: the line is dead." in told
    assert "`orchestrator effects settle unsure pay-7 --as done|not-done --reason TEXT`" in told


def test_a_stopped_harness_that_waits_for_a_person_says_for_what(eventful: Run) -> None:
    told = said(eventful, "asking")

    assert "asking was stopped after step 1" in told
    assert "stopped by order" in told
    assert "order: pay 100 to Bob; `orchestrator approve " in told


def test_a_budget_that_is_spent_is_told_with_what_it_went_on(eventful: Run) -> None:
    told = said(eventful, "spender")

    assert "spender has spent its budget after step 4" in told
    assert "Of pool 'harness/spender' spender has spent 4 of steps in 4 reservations." in told


def test_a_harness_that_is_done_is_told_with_the_step_that_made_it_so(eventful: Run) -> None:
    told = said(eventful, "steady")

    assert told.startswith("steady is finished at step 10, in attempt 1, since ")
    assert "Step 10 changed the state." in told
    assert 'The output of step 10 was "thought 9".' in told
    assert "In step 10 effect 'order-9' has happened." in told


def test_a_step_is_told_with_the_message_it_used_up_and_whom_it_wrote_to(eventful: Run) -> None:
    assert 'sent while sender was making step 1: "hello".' in said(eventful, "poisoned", 1)
    assert "While step 2 was being made, it sent message" in said(eventful, "sender", 2)
    assert "; step 2 of poisoned consumed it." in said(eventful, "sender", 2)
    assert "; no step has consumed it yet." in said(eventful, "sender", 3)


def test_a_step_that_is_not_recorded_is_told_with_the_attempts_that_died_at_it(eventful: Run) -> None:
    told = said(eventful, "hopeless", 3)

    assert "hopeless: step 3 is not recorded; it is what comes next since step 2 was recorded at " in told
    assert "6 attempts of hopeless, 1 to 6, failed with the same error while step 3 was being made" in told


@pytest.mark.parametrize("step", [0, 4])
def test_a_step_that_can_not_be_is_a_mistake(eventful: Run, step: int) -> None:
    with pytest.raises(UsageError, match=f"harness 'hopeless' has no step {step}: expected one from 1 to 2, or 3"):
        why.answer(eventful, "hopeless", step)


@pytest.mark.parametrize("name", NAMES)
def test_store_and_log_tell_the_same(asked: Path, name: str) -> None:
    answers = []
    for source in SOURCES:
        with analysis.open(asked / source) as run:
            answers.append(why.answer(run, name))

    assert answers[0] == answers[1]


def test_every_sentence_is_a_row_with_the_record_it_tells_of(eventful: Run) -> None:
    told = why.answer(eventful, "poisoned")

    chain = rows(told, "chain")
    assert [row["text"] for row in chain] == list(told.sentences)
    assert {row["harness"] for row in chain} == {"poisoned", "sender"}
    assert all(row["seq"] for row in chain)


def test_errors_that_differ_are_told_one_after_the_other(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    for attempt, error in enumerate(("OSError", "OSError", "KeyError"), start=1):
        diary.say("started", "a", attempt, attempt=attempt, step=attempt)
        diary.say("failed", "a", attempt + 0.5, attempt=attempt, step=attempt, error=error, cause=f"{error}: {attempt}")

    with diary.open() as run:
        told = why.answer(run, "a").sentences

    assert "2 attempts of a, 1 to 2, failed with the same error while steps 2 and 3 were being made: OSError: 2." in told
    assert "Attempt 3 of a failed while step 4 was being made: KeyError: 3." in told


def test_whom_a_supervisor_took_down_is_followed_to_the_sibling_that_its_record_names(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    for name in ("a", "b"):
        diary.say("started", name, 0)
    diary.say("failed", "b", 1, error="ValueError", cause="ValueError: boom")
    diary.say("gave_up", "b", 1, cause="0 restarts within 60 s; ValueError: boom", restarts=0, period_s=60.0)
    diary.say("stopped", "a", 2, cause="its supervisor gave up when 'b' ended: ValueError: boom", program_ended=False)

    with diary.open() as run:
        told = "\n".join(why.answer(run, "a").sentences)

    assert "a was stopped because of b: its supervisor gave up when 'b' ended: ValueError: boom." in told
    assert "b gave up after step 0, in attempt 1" in told
    assert "Attempt 1 of b failed while step 1 was being made: ValueError: boom." in told


def test_a_harness_that_runs_is_told_by_what_is_open(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.say("started", "a", 0)
    diary.say("step", "a", 1, step=1)
    diary.say("intent", "a", 2, step=2, key="slow; rm -rf /", arguments=[])
    more: dict[str, Any] = {"from": "", "message": "hi"}
    diary.say("message", "b", 61, attempt=0, **more)

    with diary.open() as run:
        told = "\n".join(why.answer(run, "a").sentences)
        idle = "\n".join(why.answer(run, "b").sentences)

    assert (
        "a is running in attempt 1: it is making step 2 since 2026-03-01T12:00:01.000000Z, 60 s before the end"
        in told.replace("1 min before", "60 s before")
    )
    assert "In step 2 effect 'slow; rm -rf /' was begun, and has no recorded outcome." in told
    assert idle == "b has not been started: nothing is on record of its life."


async def test_a_fork_that_nobody_has_started_is_told_as_new_with_its_origin(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    await buying(path, 7)
    fork(path, "buying", 5, to="other")

    with analysis.open(path) as run:
        told = why.answer(run, "other").sentences

    assert told[0].startswith("other is new: it was forked from buying at step 5, at ")
    assert told[0].endswith(", and has not been started; starting it goes on with step 6.")
    assert len(told) == 1


def test_what_an_agent_wrote_can_not_slip_into_a_command(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.say("started", "a", 0)
    diary.say("intent", "a", 2, step=1, key="x; rm -rf /\x1b[31m", arguments=[])
    diary.say("blocked", "a", 3, cause="UnknownOutcome: \x1b]0;owned\x07")

    with diary.open() as run:
        told = "\n".join(why.answer(run, "a").sentences)

    assert "settle a 'x; rm -rf /\\x1b[31m' --as" in told
    assert "\x1b" not in told
