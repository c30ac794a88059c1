"""Laws of what becomes of the state: only a verdict makes a feature pass; a run is handed off with the step it ends with."""

from __future__ import annotations

from datetime import timedelta

import pytest
from attrs import evolve

from harnesses.errors import HarnessMisuse
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import FeatureStatus, TurnResult
from harnesses.features.feature_record import MAX_PROGRESS, MAX_TEXT, MAX_TOUCHED, RunStatus
from harnesses.features.planning.feature_selectors import FirstPending
from harnesses.features.planning.next_move import Turn, next_move
from harnesses.features.planning.state_changes import (
    block,
    close_run,
    fail_run,
    find_outcome,
    finish_recheck,
    finish_turn,
    interrupt_run,
    open_run,
    unblock,
)
from harnesses.features.run_policy import FailFast, OnExhausted, RunPolicy
from tests.harnesses.features.played import CUT, ERROR, FAIL, LENIENT, NOW, PASS, begun, played, statuses, unlimited, verdict

PENDING, PASSED, BLOCKED = FeatureStatus.PENDING, FeatureStatus.PASSED, FeatureStatus.BLOCKED
LATER = NOW + timedelta(seconds=5)


def test_a_passing_verdict_makes_a_feature_pass_and_is_kept_as_evidence() -> None:
    result = TurnResult(message="done", session="s1", commit="c1", touched=["a.py"])

    after = finish_turn(open_run(begun("a"), NOW), RunPolicy(), "a", result=result, verdict=verdict(True, "ok"), now=LATER)

    assert after.features[0].passes
    standing = after.standings[0]
    assert (standing.status, standing.turns, standing.tries, standing.session) == (PASSED, 1, 1, "s1")
    assert (standing.verified_at, standing.accepted_at, after.version) == (1, 1, 1)
    assert standing.evidence == verdict(True, "ok")
    assert standing.accepted == result


def test_a_run_that_ends_with_a_turn_is_handed_off_in_the_same_state() -> None:
    before = open_run(begun("a"), NOW)

    after = finish_turn(before, RunPolicy(), "a", result=TurnResult(), verdict=verdict(True), now=LATER)

    assert after.run is None
    assert (outcome := find_outcome(before, after)) is not None
    assert (outcome.status, outcome.note) == (RunStatus.SUCCEEDED, "completion gate satisfied")
    assert (outcome.started_at, outcome.completed_at) == (NOW, LATER)
    assert (outcome.processed_feature_ids, outcome.validated_feature_ids) == (("a",), ("a",))
    assert outcome.no_pending_features
    assert (after.progress[-1].summary, after.progress[-1].run) == (outcome.note, 1)


def test_a_run_that_goes_on_has_no_hand_off() -> None:
    before = open_run(begun("a", "b"), NOW)

    after = finish_turn(before, unlimited(), "a", result=TurnResult(), verdict=verdict(True), now=LATER)

    assert after.run is not None
    assert find_outcome(before, after) is None


def test_the_last_known_good_commit_is_that_of_the_last_accepted_work() -> None:
    state = open_run(begun("a", "b"), NOW)

    accepted = finish_turn(state, unlimited(), "a", result=TurnResult(), verdict=verdict(True), commit="c1", now=NOW)
    refused = finish_turn(accepted, unlimited(2), "b", result=TurnResult(), verdict=verdict(False), now=NOW)

    assert state.manifest is not None
    assert accepted.manifest is not None
    assert (state.manifest.last_known_good_commit, accepted.manifest.last_known_good_commit) == ("c0", "c1")
    assert refused.manifest == accepted.manifest


def test_work_that_is_not_validated_leaves_the_feature_pending_and_tells_the_next_try_why() -> None:
    state = open_run(begun("a"), NOW)

    after = finish_turn(state, unlimited(2), "a", result=TurnResult(session="s"), verdict=verdict(False, "no\nway"), now=NOW)

    assert statuses(after) == [PENDING]
    assert not after.features[0].passes
    assert (after.standings[0].last_failure, after.standings[0].session) == ("no\nway", "s")
    assert after.progress[-1].summary == "feature a: not validated (try 1): no"


def test_progress_tells_what_was_run_and_the_assertion_that_failed() -> None:
    why = "`pytest a.py` with PYTHONHASHSEED=1\n- a.py::test_a: failed\n>   assert f() == 2\nE   assert 1 == 2"
    state = open_run(begun("a"), NOW)

    after = finish_turn(state, unlimited(2), "a", result=TurnResult(), verdict=verdict(False, why), now=NOW)

    assert after.progress[-1].summary == "feature a: not validated (try 1): `pytest a.py` with PYTHONHASHSEED=1: assert 1 == 2"


def test_an_agent_that_fails_has_used_a_try_and_keeps_its_conversation() -> None:
    state = open_run(begun("a"), NOW)
    state = finish_turn(state, unlimited(3), "a", result=TurnResult(session="s"), verdict=verdict(False), now=NOW)

    after = finish_turn(state, unlimited(3), "a", error="TimeoutError: slow", now=NOW)

    assert (after.standings[0].turns, after.standings[0].session) == (2, "s")
    assert after.standings[0].last_failure == "TimeoutError: slow"
    assert after.progress[-1].summary == "feature a: the agent failed (try 2): TimeoutError: slow"


def test_a_feature_whose_tries_are_used_up_is_blocked() -> None:
    state, _ = played(begun("a", "b"), unlimited(2), [FAIL, FAIL])

    assert statuses(state) == [BLOCKED, PENDING]
    assert state.run is not None


def test_a_feature_whose_tries_are_used_up_can_end_the_run_instead_and_has_all_its_tries_in_the_next() -> None:
    state, moves = played(begun("a", "b"), unlimited(2, on_exhausted=OnExhausted.STOP), [FAIL, FAIL])

    assert statuses(state) == [PENDING, PENDING]
    assert (state.runs[-1].status, state.runs[-1].note) == (RunStatus.FAILED, "feature a not validated")
    assert moves[-1] == Turn("a", turn=1, attempt=3, opens=True)


@pytest.mark.parametrize(
    ("word", "note"), [(FAIL, "feature a not validated"), (ERROR, "Run failed: Chat: ConnectionError: gone")]
)
def test_a_failure_that_is_not_to_be_borne_ends_the_run_and_leaves_the_tries_that_are_left(word: str, note: str) -> None:
    policy = unlimited(2, fail_fast=FailFast(on_chat_error=True, on_validation_failure=True))

    state, _ = played(begun("a", "b"), policy, [word])

    assert (state.runs[-1].status, state.runs[-1].note) == (RunStatus.FAILED, note)
    assert statuses(state) == [PENDING, PENDING]


def test_by_default_a_failure_of_the_agent_does_not_end_the_run_at_once_and_one_of_the_work_does() -> None:
    policy = RunPolicy(max_turns_per_feature=3, max_retries_per_feature=2)

    borne, _ = played(begun("a"), policy, [ERROR, PASS])
    ended_, _ = played(begun("a"), policy, [FAIL])

    assert borne.runs[-1].status is RunStatus.SUCCEEDED
    assert ended_.runs[-1].status is RunStatus.FAILED


def test_work_that_is_neither_judged_nor_failed_is_a_mistake() -> None:
    state = open_run(begun("a"), NOW)

    with pytest.raises(HarnessMisuse, match="expected a verdict or an error"):
        finish_turn(state, RunPolicy(), "a", result=TurnResult(), now=NOW)


def test_a_turn_belongs_to_an_open_run() -> None:
    with pytest.raises(HarnessMisuse, match="no run is open"):
        finish_turn(begun("a"), RunPolicy(), "a", error="oh", now=NOW)


def test_what_is_kept_of_texts_and_paths_is_bounded_and_texts_keep_their_end() -> None:
    long = "x" * 10_000 + "the end"
    result = TurnResult(message=long, touched=[str(n) for n in range(1000)], artifact=long)
    state = open_run(begun("a", "b"), NOW)

    passed = finish_turn(state, unlimited(), "a", result=result, verdict=verdict(True, long), now=NOW).standings[0]
    refused = finish_turn(state, unlimited(), "a", result=result, verdict=verdict(False, long), now=NOW).standings[0]

    assert passed.evidence is not None
    assert passed.accepted is not None
    for text in (passed.evidence.evidence, passed.accepted.message, refused.last_failure or ""):
        assert len(text) == MAX_TEXT
        assert text.endswith("the end")
    assert len(passed.accepted.touched) == MAX_TOUCHED
    assert passed.accepted.artifact == long


def test_what_can_not_be_cut_is_kept_whole_or_not_at_all() -> None:
    result = TurnResult(session="s" * 10_000, touched=["a" * 10_000, "b"], stop_reason="r" * 10_000)
    state = open_run(begun("a", "b"), NOW)

    standing = finish_turn(state, unlimited(), "a", result=result, verdict=verdict(True), now=NOW).standings[0]

    assert standing.accepted is not None
    assert (standing.session, standing.accepted.session, standing.accepted.touched) == (None, None, ("b",))
    assert len(standing.accepted.stop_reason) == 1_000


def test_a_feature_that_passes_still_was_seen_to_at_this_version() -> None:
    state, _ = played(begun("a", "b", "c"), unlimited(), [PASS, PASS])

    after = finish_recheck(state, unlimited(), "a", verdict(True, "still"), NOW)

    assert (state.standings[0].verified_at, after.standings[0].verified_at) == (1, 2)
    assert after.standings[0].evidence == verdict(True, "still")
    assert after.run is not None
    assert after.run.rechecked == 1


def test_a_feature_that_does_not_pass_any_more_is_set_back_with_the_evidence_and_has_all_its_tries() -> None:
    state, _ = played(begun("a", "b", "c"), unlimited(), [PASS, PASS])

    after = finish_recheck(state, unlimited(), "a", verdict(False, "broken\nby b"), NOW)

    standing = after.standings[0]
    assert (standing.status, standing.turns, standing.tries, standing.set_backs) == (PENDING, 0, 1, 1)
    assert (standing.last_failure, standing.evidence) == ("broken\nby b", verdict(False, "broken\nby b"))
    assert not after.features[0].passes
    assert after.run is not None
    assert after.run.validated == ("b",)
    assert next_move(after, unlimited(), FirstPending()) == Turn("a", turn=1, attempt=2)


def test_a_feature_that_is_set_back_too_often_is_blocked() -> None:
    policy = unlimited(max_set_backs_per_feature=1, recheck_sample=0)
    state, _ = played(begun("a", "b"), policy, [PASS, PASS, FAIL, PASS])

    blocked_, _ = played(state, policy, [FAIL, PASS, FAIL])

    assert statuses(state) == [PASSED, PASSED]
    assert statuses(blocked_) == [BLOCKED, PASSED]
    assert any("set back too often" in entry.summary for entry in blocked_.progress)


def test_a_try_that_was_cut_off_is_none_and_its_run_is_handed_off() -> None:
    state, _ = played(begun("a"), unlimited(3), [FAIL])

    after = interrupt_run(state, "a", LATER, "kill -9")

    assert after.run is None
    assert (after.runs[-1].status, after.runs[-1].turns) == (RunStatus.INTERRUPTED, 1)
    assert after.runs[-1].note == "interrupted by kill -9: feature a was interrupted in try 2, which will be repeated"
    assert (after.standings[0].interruptions, after.standings[0].turns) == (1, 1)
    assert next_move(after, unlimited(3), FirstPending()) == Turn("a", turn=2, attempt=2, opens=True)


def test_a_run_that_was_cut_off_before_it_was_on_record_is_handed_off_too() -> None:
    after = interrupt_run(begun("a"), "a", NOW)

    assert [(run.run, run.status, run.turns) for run in after.runs] == [(1, RunStatus.INTERRUPTED, 0)]


def test_a_judgement_that_was_cut_off_is_no_interruption_of_a_try() -> None:
    state, _ = played(begun("a", "b"), unlimited(), [PASS])

    after = interrupt_run(state, "a", NOW)

    assert statuses(after) == [PASSED, PENDING]
    assert after.standings == state.standings
    assert "being rechecked" in after.runs[-1].note


def test_interruptions_do_not_give_a_run_more_than_its_limit() -> None:
    policy = RunPolicy(mode="unlimited_batch", max_turns_per_run=2, fail_fast=LENIENT, recheck_sample=0)

    state, _ = played(begun("a", "b", "c"), policy, [PASS, CUT, CUT, PASS, PASS])

    assert [(run.status.value, run.turns) for run in state.runs] == [("interrupted", 1), ("interrupted", 1), ("succeeded", 2)]


def test_what_fails_beside_the_work_counts_as_no_try() -> None:
    state, _ = played(begun("a"), unlimited(3), [FAIL])

    after = fail_run(state, "HealthCheck: no disk", LATER)

    assert (after.runs[-1].status, after.runs[-1].note) == (RunStatus.FAILED, "Run failed: HealthCheck: no disk")
    assert after.standings == state.standings


def test_a_blocked_feature_can_be_unblocked_and_has_all_its_tries_but_knows_why_it_failed() -> None:
    state, _ = played(begun("a", "b"), unlimited(), [FAIL])

    after = unblock(state, "a", NOW)

    assert statuses(after) == [PENDING, PENDING]
    assert (after.standings[0].turns, after.standings[0].tries) == (0, 1)
    assert after.standings[0].last_failure == "AssertionError: no"


def test_a_pending_feature_can_be_blocked_and_the_run_ends_if_nothing_else_is_left() -> None:
    state = open_run(begun("a"), NOW)

    after = block(state, unlimited(), "a", "not now", NOW)

    assert statuses(after) == [BLOCKED]
    assert after.standings[0].last_failure == "not now"
    assert after.run is None
    assert after.runs[-1].note == "validated 0 features, 0 remaining pending; only blocked features are left: a"


def test_orders_that_make_no_sense_change_nothing_and_say_so() -> None:
    state, _ = played(begun("a", "b"), unlimited(), [PASS])

    with pytest.raises(InvalidRequest, match="feature 'z' does not exist"):
        unblock(state, "z", NOW)
    with pytest.raises(InvalidRequest, match=r"feature 'b' is not blocked: .* was 'pending'"):
        unblock(state, "b", NOW)
    with pytest.raises(InvalidRequest, match=r"feature 'a' is not pending: .* was 'passed'"):
        block(state, unlimited(), "a", "", NOW)


def test_runs_and_progress_are_bounded_and_runs_are_numbered_on() -> None:
    state = begun("a")
    for number in range(3 * MAX_PROGRESS):
        state = close_run(open_run(state, NOW), RunStatus.FAILED, f"run {number}", NOW)

    assert [run.run for run in state.runs] == list(range(2 * MAX_PROGRESS + 1, 3 * MAX_PROGRESS + 1))
    assert len(state.progress) == MAX_PROGRESS


def test_a_run_is_opened_once() -> None:
    state = open_run(begun("a"), NOW)

    assert open_run(state, LATER) is state
    assert open_run(evolve(state, run=None), LATER) != state
