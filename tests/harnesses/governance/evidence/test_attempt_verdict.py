"""Only the attempt that is claimed is judged, and nothing passes for lack of something to look at."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses.governance import (
    BuilderContract,
    Check,
    Claim,
    ContractError,
    Decision,
    Guardrails,
    NotClaimed,
    Recommendation,
    TaskStatus,
    ValidatorContract,
    check_claimed,
    decide,
    feedback,
    follow,
    judge,
    quality,
    read_builder,
    refused_claim,
    stamped,
    unreadable,
)
from harnesses.governance.evidence.attempt_verdict import STATUS_AFTER

CLAIM = Claim(task_id="004", attempt=2, nonce="n2")
BUILT = BuilderContract(task_id="004", agent="builder", status="PASS", summary="wrote the parser", nonce="n2")
GOOD, BAD = Check("files", "PASS", "there"), Check("tests", "FAIL", "2 of 3 passed")
SAID = ValidatorContract(task_id="004", validator="checker", status="PASS", checks=[GOOD], nonce="n2")


def failed(verdict: ValidatorContract) -> list[str]:
    return [check.name for check in verdict.checks if not check.ok]


def test_work_that_passes_every_check_passes() -> None:
    verdict = judge(CLAIM, BUILT, [GOOD], [GOOD], validator=SAID)

    assert (verdict.status, verdict.retry_recommendation, verdict.issues) == ("PASS", "none", ())
    assert (verdict.task_id, verdict.validator, verdict.nonce) == ("004", "checker", "n2")


@pytest.mark.parametrize("nonce", ["", "n1", "N2", "n2 "])
def test_what_was_handed_in_for_another_attempt_is_not_judged(nonce: str) -> None:
    with pytest.raises(NotClaimed, match="task '004', attempt 2: expected the nonce of the claim"):
        judge(CLAIM, evolve(BUILT, nonce=nonce), [GOOD], validator="rules")
    with pytest.raises(NotClaimed):
        judge(CLAIM, BUILT, [GOOD], validator=evolve(SAID, nonce=nonce))


def test_what_was_handed_in_for_another_task_is_not_judged() -> None:
    with pytest.raises(NotClaimed, match="expected a contract of this task, got one of '005'"):
        judge(CLAIM, evolve(BUILT, task_id="005"), [GOOD], validator="rules")


@pytest.mark.parametrize("claim", [None, Claim(task_id="004", attempt=1, nonce="")])
def test_a_task_that_is_not_claimed_can_not_be_judged(claim: Claim | None) -> None:
    with pytest.raises(NotClaimed):
        judge(claim, evolve(BUILT, nonce=""), [GOOD], validator="rules")
    with pytest.raises(NotClaimed, match="is not claimed"):
        check_claimed(claim, evolve(BUILT, nonce=""))


def test_no_message_tells_the_nonce() -> None:
    with pytest.raises(NotClaimed) as caught:
        judge(Claim(task_id="004", attempt=2, nonce="secret"), BUILT, [], validator="rules")

    assert "secret" not in str(caught.value)
    assert "secret" not in repr(Claim(task_id="004", attempt=2, nonce="secret"))


def test_a_contract_straight_from_the_agent_is_stamped_and_an_old_one_is_not() -> None:
    assert stamped(evolve(BUILT, nonce=""), CLAIM).nonce == "n2"
    assert stamped(evolve(BUILT, nonce="n1"), CLAIM).nonce == "n1"


@pytest.mark.parametrize("status", ["FAIL", "BLOCKED"])
def test_a_builder_that_does_not_say_pass_is_not_passed(status: str) -> None:
    verdict = judge(CLAIM, evolve(BUILT, status=status), [GOOD], [GOOD], validator=SAID)

    assert failed(verdict) == ["builder_reported_pass"]


def test_nothing_handed_in_is_a_failure() -> None:
    assert failed(judge(CLAIM, None, [], validator="rules")) == ["builder_contract_exists"]


def test_what_can_not_be_read_is_a_failure_with_every_problem() -> None:
    with pytest.raises(ContractError) as caught:
        read_builder("{}", task_id="004")

    verdict = judge(CLAIM, None, unreadable(caught.value), validator="rules")

    assert len(verdict.checks) == 9
    assert verdict.issues[1].startswith("builder_contract: builder.task_id: expected text, got nothing")


def test_one_failed_check_is_enough() -> None:
    verdict = judge(CLAIM, BUILT, [GOOD, BAD], [GOOD], validator=SAID)

    assert (verdict.status, verdict.retry_recommendation) == ("FAIL", "retry_builder")
    assert verdict.issues == ("tests: 2 of 3 passed",)


def test_a_validator_that_says_fail_is_believed_and_one_that_says_pass_does_not_make_it_so() -> None:
    said = evolve(SAID, status="FAIL", issues=["no tests"], retry_recommendation="ask_user")

    assert failed(judge(CLAIM, BUILT, [GOOD], validator=said)) == ["validator_passed"]
    assert judge(CLAIM, BUILT, [GOOD], validator=said).retry_recommendation is Recommendation.ASK_USER
    assert failed(judge(CLAIM, BUILT, [BAD], validator=SAID)) == ["tests"]


def test_a_failed_check_of_a_validator_that_says_pass_fails() -> None:
    assert failed(judge(CLAIM, BUILT, [], validator=evolve(SAID, checks=[BAD]))) == ["validator:tests"]


def test_a_pass_that_needs_evidence_does_not_come_without() -> None:
    assert failed(judge(CLAIM, BUILT, [GOOD], (), validator="rules")) == ["evidence"]
    assert failed(judge(CLAIM, BUILT, [GOOD], None, validator="rules")) == []


def test_where_a_validator_is_needed_rules_alone_pass_nothing() -> None:
    assert failed(judge(CLAIM, BUILT, [GOOD], validator="rules", validator_needed=True)) == ["validator_contract_exists"]


def test_nothing_passes_when_nothing_was_looked_at() -> None:
    assert failed(judge(CLAIM, None, [], validator="rules", contract_needed=False)) == ["checks"]


def test_issues_are_few_and_short() -> None:
    bad = [Check(f"check {number}", "FAIL", "x\n" * 1000) for number in range(20)]

    verdict = judge(CLAIM, BUILT, bad, validator="rules")

    assert len(verdict.issues) == 5
    assert all(len(issue) <= 120 and "\n" not in issue for issue in verdict.issues)


def test_a_builder_that_is_blocked_needs_a_person() -> None:
    verdict = judge(CLAIM, evolve(BUILT, status="BLOCKED"), [GOOD], validator="rules")

    assert verdict.retry_recommendation is Recommendation.ASK_USER


def test_a_validator_that_has_looked_at_nothing_passes_nothing() -> None:
    assert failed(judge(CLAIM, BUILT, [GOOD], validator=evolve(SAID, checks=[]))) == ["validator_passed"]


def test_quality_is_the_part_of_the_checks_that_passed() -> None:
    assert quality([GOOD, GOOD, BAD]) == 0.67
    assert quality([]) == 0.0


@pytest.mark.parametrize(
    ("guardrails", "attempts", "destructive", "limit"),
    [
        ({}, 0, False, None),
        ({}, 1, False, None),
        ({}, 2, False, "max_task_attempts"),
        ({}, 3, False, "max_task_attempts"),
        ({}, 0, True, None),
        ({}, 1, True, "max_destructive_task_attempts"),
        ({"max_task_attempts": 0}, 0, False, "max_task_attempts"),
        ({"max_task_attempts": 1, "max_destructive_task_attempts": 5}, 1, True, "max_task_attempts"),
    ],
)
def test_attempts_are_counted_before_a_claim(guardrails: Any, attempts: int, destructive: bool, limit: str | None) -> None:
    finding = refused_claim(Guardrails(**guardrails), task_id="004", attempts=attempts, destructive=destructive)

    assert (finding and finding.limit_name) == limit


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

    assert lines[0] == "The previous attempt failed these checks:"
    assert [line[:5] for line in lines[1:]] == ["- c0:", "- c1:", "- c2:", "- c3:", "- c4:", "- and"]
    assert all(len(line) <= 122 and "\x1b" not in line for line in lines)


def test_nothing_is_said_of_an_attempt_without_failures() -> None:
    assert feedback([Check("ok", "PASS", "fine")]) == ""
