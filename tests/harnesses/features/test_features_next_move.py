"""Laws of what is next: limits hold, what is begun is gone on with, and a selector can name only what can be worked."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve, frozen

from harnesses.features.errors import NotReady, ValidationFailed
from harnesses.features.feature import Feature, Standing
from harnesses.features.feature_record import FeatureState, RunStatus
from harnesses.features.planning import feature_list
from harnesses.features.planning import state_changes as changes
from harnesses.features.planning.feature_selectors import FirstPending
from harnesses.features.planning.next_move import (
    Close,
    Done,
    Recheck,
    Turn,
    Wait,
    ending,
    is_complete,
    next_move,
    next_run,
    stuck,
)
from harnesses.features.run_policy import RunPolicy
from tests.harnesses.features.played import CUT, ERROR, FAIL, LENIENT, NOW, PASS, begun, feature, played, unlimited, verdict

STRICT = RunPolicy()


@frozen
class Picky:
    """Chooses one feature, whatever it is like."""

    chosen: Feature | None

    def select(self, features: Sequence[Feature], standings: Sequence[Standing]) -> Feature | None:
        return self.chosen


@frozen
class Breaking:
    def select(self, features: Sequence[Feature], standings: Sequence[Standing]) -> Feature | None:
        raise ZeroDivisionError("oh")


def test_there_is_nothing_to_decide_before_the_list_is_initialised() -> None:
    with pytest.raises(NotReady, match="initialise it first"):
        next_move(FeatureState(), STRICT, FirstPending())


def test_a_run_begins_with_the_first_pending_feature() -> None:
    assert next_move(begun("a", "b"), STRICT, FirstPending()) == Turn("a", turn=1, attempt=1, opens=True)


def test_a_feature_that_failed_is_tried_again_before_another_one_is() -> None:
    _, moves = played(begun("a", "b"), unlimited(3), [FAIL, ERROR])

    assert moves == [Turn("a", 1, 1, opens=True), Turn("a", 2, 2), Turn("a", 3, 3)]


def test_a_feature_whose_tries_are_used_up_does_not_keep_others_from_being_worked() -> None:
    state, moves = played(begun("a", "b"), unlimited(2), lambda move: FAIL if move == Turn("a", 2, 2) else _only("b", move))

    assert [move.feature_id for move in moves if isinstance(move, Turn)] == ["a", "a", "b"]
    assert isinstance(moves[-1], Wait)
    assert moves[-1].feature_ids == ("a",)
    assert state.runs[-1].status is RunStatus.FAILED


def test_a_blocked_feature_is_judged_anew_once_when_the_work_has_changed() -> None:
    state, moves = played(begun("a", "b", "c"), unlimited(recheck_sample=0), lambda move: _only("b", move))
    assert moves[:4] == [Turn("a", 1, 1, opens=True), Turn("b", 1, 1), Turn("c", 1, 1), Recheck("a")]
    assert len(moves) == 5
    assert isinstance(moves[-1], Wait)
    assert '{"unblock": "*"}' in moves[-1].reason

    state = changes.unblock(state, "a", NOW)
    state, moves = played(state, unlimited(recheck_sample=0), lambda move: PASS)
    assert Recheck("c") in moves
    assert isinstance(moves[-1], Done)
    assert all(one.passes for one in state.features)


@pytest.mark.parametrize("how", ["by a person", "by an earlier version", "without a repository"])
def test_a_blocked_feature_is_left_alone(how: str) -> None:
    state, _ = played(begun("a", "b"), unlimited(), [FAIL])
    if how == "by a person":
        state = changes.block(changes.unblock(state, "a", NOW), unlimited(), "a", "not now", NOW)
    elif how == "by an earlier version":
        state = evolve(state, standings=(evolve(state.standings[0], blocked_at=None), state.standings[1]))
    else:
        assert state.manifest is not None
        state = evolve(state, manifest=evolve(state.manifest, last_known_good_commit=None))
    _, moves = played(state, unlimited(recheck_all_at_end=False), lambda move: PASS)
    assert not [move for move in moves if isinstance(move, Recheck) and move.feature_id == "a"]
    assert isinstance(moves[-1], Wait)


def test_a_feature_is_judged_anew_before_each_new_one_and_all_are_at_the_end() -> None:
    _, moves = played(begun("a", "b", "c"), unlimited(), lambda move: PASS)

    assert moves == [
        Turn("a", 1, 1, opens=True),
        Turn("b", 1, 1),
        Recheck("a"),
        Turn("c", 1, 1),
        Recheck("a"),
        Recheck("b"),
        Done(),
    ]


@pytest.mark.parametrize(("sample", "times"), [(0, 0), (1, 2), (2, 3), (9, 3)])
def test_as_many_are_judged_anew_before_a_new_feature_as_the_policy_says(sample: int, times: int) -> None:
    policy = unlimited(recheck_sample=sample, recheck_all_at_end=False)

    _, moves = played(begun("a", "b", "c", "d"), policy, lambda move: PASS)

    assert sum(isinstance(move, Recheck) for move in moves) == times


def test_nothing_is_judged_anew_before_a_feature_is_tried_again() -> None:
    _, moves = played(begun("a", "b"), unlimited(2), [PASS, FAIL])

    assert moves[1:] == [Turn("b", 1, 1), Turn("b", 2, 2)]


def test_a_strict_run_works_one_feature() -> None:
    state, moves = played(begun("a", "b"), STRICT, [PASS])

    assert [run.note for run in state.runs] == [
        "validated 1 feature, 1 remaining pending; the run is at its limit of 1 feature"
    ]
    assert moves[1] == Recheck("a", opens=True) or moves[1] == Turn("b", 1, 1, opens=True)


def test_a_strict_run_that_proves_the_last_feature_judges_the_others_anew_and_completes_the_list() -> None:
    state, moves = played(begun("a", "b"), STRICT, lambda move: PASS)

    assert moves[-2:] == [Recheck("a"), Done()]
    assert [run.status for run in state.runs] == [RunStatus.SUCCEEDED] * 2
    assert state.runs[-1].note == "completion gate satisfied"
    assert is_complete(state, STRICT)


def test_a_bounded_run_works_so_many_features() -> None:
    policy = RunPolicy(mode="bounded_batch", max_features_per_run=2)

    state, _ = played(begun("a", "b", "c"), policy, [PASS, PASS, PASS])

    assert state.runs[0].processed_feature_ids == ("a", "b")
    assert state.runs[0].note == "validated 2 features, 1 remaining pending; the run is at its limit of 2 features"


def test_a_turn_limit_of_one_leaves_no_room_for_retries() -> None:
    policy = RunPolicy(max_turns_per_run=1, max_turns_per_feature=9, max_retries_per_feature=3, fail_fast=LENIENT)

    state, _ = played(begun("a"), policy, [FAIL])

    assert (state.runs[0].turns, state.runs[0].retries, state.runs[0].status) == (1, 0, RunStatus.FAILED)


def test_three_turns_and_two_retries_are_three_tries() -> None:
    policy = RunPolicy(max_turns_per_feature=3, max_retries_per_feature=2, fail_fast=LENIENT)

    state, _ = played(begun("a"), policy, [FAIL, ERROR, PASS])

    assert (state.runs[0].turns, state.runs[0].retries, state.runs[0].status) == (3, 2, RunStatus.SUCCEEDED)


def test_a_spent_retry_budget_ends_the_run_and_the_next_one_has_its_own() -> None:
    policy = unlimited(5, retry_budget_per_run=1)

    state, moves = played(begun("a", "b"), policy, [FAIL, FAIL, FAIL])

    assert "its budget of 1 retries is spent" in state.runs[0].note
    assert moves[2:] == [Turn("a", 3, 3, opens=True), Turn("a", 4, 4)]


def test_a_run_goes_on_with_the_counts_of_one_that_was_interrupted() -> None:
    state, _ = played(begun("a", "b"), unlimited(9), [PASS, FAIL, FAIL, CUT])

    run = next_run(state)

    assert (run.number, run.turns, run.retries, run.features, run.validated) == (2, 3, 1, ("a", "b"), ("a",))


def test_a_run_that_goes_on_does_not_count_what_does_not_pass_any_more() -> None:
    state, _ = played(begun("a", "b"), unlimited(), [PASS])
    state = changes.interrupt_run(state, None, NOW)

    amended = feature_list.amend(state, [feature("a", description="another one"), feature("b")], NOW)

    assert next_run(state).validated == ("a",)
    assert next_run(amended).validated == ()


def test_a_run_that_would_go_on_and_may_do_nothing_is_handed_off() -> None:
    state, _ = played(begun("a", "b"), unlimited(), [PASS, CUT])

    move = next_move(state, RunPolicy(max_turns_per_run=1), FirstPending())

    assert move == Close(RunStatus.SUCCEEDED, "validated 1 feature, 1 remaining pending; the run is at its limit of 1 turn")


def test_a_feature_waits_for_those_it_depends_on() -> None:
    state = begun(feature("a", depends_on="b", priority=9), feature("b"))

    _, moves = played(state, unlimited(recheck_sample=0), lambda move: PASS)

    assert [move.feature_id for move in moves if isinstance(move, Turn)] == ["b", "a"]


def test_those_that_depend_on_a_blocked_one_are_named_with_it() -> None:
    state, moves = played(begun("a", feature("b", depends_on="a")), unlimited(), [FAIL])

    assert moves[-1] == stuck(state)
    assert isinstance(moves[-1], Wait)
    assert moves[-1].feature_ids == ("a",)
    assert "and b cannot be worked before they pass" in moves[-1].reason
    assert '{"unblock": "a"}' in moves[-1].reason


def test_a_feature_that_is_tried_waits_if_what_it_depends_on_is_set_back() -> None:
    state = begun("a", feature("b", depends_on="a"), "c")
    state, _ = played(state, unlimited(2, recheck_sample=0), [PASS, FAIL])
    state = changes.finish_recheck(state, unlimited(2), "a", verdict(False), NOW)

    assert next_move(state, unlimited(2, recheck_sample=0), FirstPending()) == Turn("a", 1, 2)


def test_a_list_is_complete_by_its_required_features_but_others_are_worked_while_the_run_may() -> None:
    listed = begun("a", feature("nice", required=False))

    worked, _ = played(listed, unlimited(), lambda move: PASS if move.feature_id == "a" else FAIL)  # type: ignore[union-attr]
    left, moves = played(listed, STRICT, lambda move: PASS)

    assert is_complete(worked, unlimited())
    assert "nice" in worked.runs[-1].processed_feature_ids
    assert is_complete(left, STRICT)
    assert moves == [Turn("a", 1, 1, opens=True), Done()]


def test_a_list_without_required_features_ends_and_is_never_complete() -> None:
    policy = unlimited()

    state, moves = played(begun(feature("a", required=False), feature("b", required=False)), policy, lambda move: PASS)

    assert moves[-1] == Done()
    assert not is_complete(state, policy)


def test_an_empty_list_is_never_complete() -> None:
    assert not is_complete(FeatureState(), STRICT)


def test_a_pass_without_evidence_does_not_complete_a_list() -> None:
    state, _ = played(begun("a"), STRICT, [PASS])
    unproven = evolve(state, standings=(evolve(state.standings[0], evidence=None),))

    assert is_complete(state, STRICT)
    assert not is_complete(unproven, STRICT)


def test_a_list_is_not_complete_before_the_run_is_handed_off() -> None:
    state, _ = played(begun("a"), STRICT, [PASS])

    assert not is_complete(changes.open_run(state, NOW), STRICT)


def test_a_list_is_complete_once_each_was_seen_to_pass_at_the_last_version() -> None:
    policy = unlimited(recheck_sample=0)
    state, _ = played(begun("a", "b"), policy, [PASS, PASS])

    assert ending(state, policy) is None
    assert next_move(state, policy, FirstPending()) == Recheck("a")
    assert ending(state, evolve(policy, recheck_all_at_end=False)) == Close(RunStatus.SUCCEEDED, "completion gate satisfied")


@pytest.mark.parametrize("id", [None, "stranger", "passes", "blocked", "waits"])
def test_a_selector_can_not_choose_what_can_not_be_worked(id: str | None) -> None:
    state = begun("passes", "blocked", "b", feature("waits", depends_on="b"))
    state, _ = played(state, unlimited(), [PASS])
    state = changes.block(state, unlimited(), "blocked", "", NOW)

    with pytest.raises(
        ValidationFailed, match=r"Validation: selector Picky chose a feature that cannot be worked.* such as 'b', was"
    ):
        next_move(state, unlimited(), Picky(None if id is None else feature(id)))


def test_what_breaks_a_selector_is_the_cause_of_the_failure() -> None:
    with pytest.raises(ValidationFailed, match="selector Breaking failed: ZeroDivisionError: oh") as caught:
        next_move(begun("a"), STRICT, Breaking())

    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_selector_goes_by_the_id_and_what_it_returns_is_not_believed_otherwise() -> None:
    state = begun("a", "b")

    move = next_move(state, STRICT, Picky(feature("b", description="something easier", passes=True)))

    assert move == Turn("b", 1, 1, opens=True)


def _only(id: str, move: object) -> str:
    return PASS if isinstance(move, Turn | Recheck) and move.feature_id == id else FAIL
