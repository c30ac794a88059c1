"""Laws of what is agreed on: the first state is whole, and only the owner's own change of the list changes it."""

from __future__ import annotations

import pytest
from attrs import evolve

from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import FeatureStatus
from harnesses.features.feature_record import DEFAULT_PLAN, InitializerRequest, InitPlan, ProgressEntry
from harnesses.features.planning.feature_list import amend, check_locks, check_request, initialise, initializer_result, lock
from tests.harnesses.features.played import FAIL, NOW, PASS, begun, feature, played, statuses, unlimited

REQUEST = InitializerRequest(current_objective="a clock", feature_list=(feature("a"), feature("b")))
PENDING, PASSED, BLOCKED = FeatureStatus.PENDING, FeatureStatus.PASSED, FeatureStatus.BLOCKED


def test_the_first_state_has_manifest_features_and_progress() -> None:
    state = initialise(REQUEST, "clock", "c0", NOW)

    assert state.manifest is not None
    assert (state.manifest.session_id, state.manifest.current_objective) == ("clock", "a clock")
    assert (state.manifest.schema_version, state.manifest.harness_version) == (1, "v0")
    assert (state.manifest.active_branch, state.manifest.last_known_good_commit) == ("feature/initializer", "c0")
    assert state.manifest.locks == tuple(map(lock, state.features))
    assert state.features == REQUEST.feature_list
    assert statuses(state) == [PENDING, PENDING]
    assert state.progress == (ProgressEntry(run=0, summary="Initializer scaffold created", created_at=NOW),)
    assert state.run is None


@pytest.mark.parametrize("objective", ["", " \n\t"])
def test_work_without_an_objective_is_refused(objective: str) -> None:
    with pytest.raises(InvalidRequest, match="no objective"):
        check_request(evolve(REQUEST, current_objective=objective))


def test_an_empty_list_stands_for_the_starter_skeleton() -> None:
    assert len(check_request(evolve(REQUEST, feature_list=()))) == 6


def test_a_blank_summary_is_made_from_the_objective() -> None:
    state = initialise(evolve(REQUEST, progress_summary="  "), "clock", None, NOW)

    assert state.progress[0].summary == "Initializer scaffold created for objective: a clock"


def test_an_empty_plan_is_not_the_default_plan() -> None:
    without = initialise(REQUEST, "clock", None, NOW).manifest
    empty = initialise(evolve(REQUEST, init_plan=InitPlan()), "clock", None, NOW).manifest

    assert without is not None
    assert empty is not None
    assert (without.init_plan, empty.init_plan) == (DEFAULT_PLAN, InitPlan())


def test_the_result_tells_what_there_is() -> None:
    result = initializer_result(begun("a", "b"), created=False)

    assert (result.session_id, result.created, result.feature_count) == ("clock", False, 2)
    assert (result.schema_version, result.harness_version) == (1, "v0")


def test_an_amended_list_has_new_features_pending_and_leaves_the_others_as_they_are() -> None:
    state, _ = played(begun("a", "b"), unlimited(), [PASS, FAIL])

    after = amend(state, [feature("c"), feature("a"), feature("b")], NOW)

    assert [one.id for one in after.features] == ["c", "a", "b"]
    assert statuses(after) == [PENDING, PASSED, BLOCKED]
    assert after.standings[1:] == state.standings
    assert after.features[1].passes
    assert after.progress[-1].summary == "feature list amended: 3 features, 1 of them new or changed"


def test_a_changed_feature_is_pending_again_whatever_it_was_and_its_tries_are_numbered_on() -> None:
    state, _ = played(begun("a", "b"), unlimited(), [PASS, FAIL])

    after = amend(state, [feature("a", description="other"), feature("b", steps=("listen",))], NOW)

    assert statuses(after) == [PENDING, PENDING]
    assert not after.features[0].passes
    assert [(one.turns, one.tries, one.evidence) for one in after.standings] == [(0, 1, None)] * 2
    assert after.manifest is not None
    check_locks(after.manifest, after.features)


def test_features_that_are_gone_from_the_list_given_are_kept_at_its_end() -> None:
    state, _ = played(begun("a", "b"), unlimited(), [PASS])

    after = amend(state, [feature("c"), feature("b")], NOW)

    assert [one.id for one in after.features] == ["c", "b", "a"]
    assert statuses(after) == [PENDING, PENDING, PASSED]


def test_a_list_that_was_taken_brings_nothing_new_the_next_time() -> None:
    once = amend(begun("a", "b"), [feature("c"), feature("b", priority=1)], NOW)

    twice = amend(once, [feature("c"), feature("b", priority=1)], NOW)

    assert (twice.manifest, twice.features, twice.standings) == (once.manifest, once.features, once.standings)


def test_an_amendment_that_closes_a_ring_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="'b -> a -> b'"):
        amend(begun(feature("a", depends_on="b"), "b"), [feature("b", depends_on="a")], NOW)
