"""What follows from a verdict is a table, and nothing that is not known becomes a PASS."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses.governance import Check, Decision, TaskStatus, ValidatorContract, decide, feedback, follow
from harnesses.governance.evidence.retry_rule import STATUS_AFTER

TABLE = [
    ("PASS", "none", 1, "complete", "PASS"),
    ("PASS", "none", 2, "complete", "PASS"),
    ("FAIL", "none", 1, "retry", "FAIL"),
    ("FAIL", "retry_builder", 1, "retry", "FAIL"),
    ("PASS", "retry_builder", 1, "retry", "FAIL"),
    ("FAIL", "none", 2, "exhausted", "BLOCKED"),
    ("FAIL", "retry_builder", 2, "exhausted", "BLOCKED"),
    ("PASS", "retry_builder", 3, "exhausted", "BLOCKED"),
    ("FAIL", "ask_user", 1, "human_context", "NEEDS_CONTEXT"),
    ("PASS", "ask_user", 1, "human_context", "NEEDS_CONTEXT"),
    ("FAIL", "block", 1, "block", "BLOCKED"),
    ("PASS", "block", 1, "block", "BLOCKED"),
    ("FAIL", "try harder", 1, "block", "BLOCKED"),
    ("PASS", "", 1, "block", "BLOCKED"),
    ("pass", "none", 1, "block", "BLOCKED"),
    ("UNKNOWN", "none", 1, "block", "BLOCKED"),
]


@pytest.mark.parametrize(("status", "recommendation", "attempts", "decision", "task"), TABLE)
def test_the_table(status: str, recommendation: str, attempts: int, decision: str, task: str) -> None:
    retry = decide(status, recommendation, attempts=attempts, most=2)

    assert (retry.decision, retry.status) == (Decision(decision), TaskStatus(task))
    assert retry.reason


@settings(max_examples=100, deadline=None)
@given(st.text() | st.sampled_from(["PASS", "FAIL"]), st.text() | st.sampled_from(["none"]), st.integers(), st.integers())
def test_nothing_that_is_not_known_becomes_a_pass(status: str, recommendation: str, attempts: int, most: int) -> None:
    retry = decide(status, recommendation, attempts=attempts, most=most)

    assert (retry.status is TaskStatus.PASS) == (status == "PASS" and recommendation == "none")


def test_every_decision_leads_to_a_status() -> None:
    assert set(STATUS_AFTER) == set(Decision)


def test_a_verdict_is_followed() -> None:
    verdict = ValidatorContract(task_id="004", validator="v", status="FAIL")

    assert follow(verdict, attempts=1, most=2).decision is Decision.RETRY
    assert follow(verdict, attempts=1, most=1).decision is Decision.EXHAUSTED


def test_failed_checks_go_into_the_next_prompt_few_short_and_inert() -> None:
    checks = [Check("ok", "PASS", "fine"), *(Check(f"c{number}", "FAIL", "\x1b[31m" + "y\n" * 500) for number in range(7))]

    lines = feedback(checks, ["c0: no", "c0: no"]).splitlines()

    assert lines[0] == "The attempt before failed these checks:"
    assert [line[:5] for line in lines[1:]] == ["- c0:", "- c1:", "- c2:", "- c3:", "- c4:", "- and"]
    assert all(len(line) <= 122 and "\x1b" not in line for line in lines)


def test_nothing_is_said_of_an_attempt_without_failures() -> None:
    assert feedback([Check("ok", "PASS", "fine")]) == ""
