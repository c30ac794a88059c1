"""Laws of the survey: every feature is seen in exactly one place."""

from __future__ import annotations

from harnesses.features import FeatureHarness, FeatureState
from harnesses.features.planning.next_move import count_progress
from tests.harnesses.features.played import FAIL, PASS, begun, feature, played, unlimited


def test_every_feature_is_seen_in_its_place() -> None:
    state = begun("a", "b", "c", feature("d", depends_on="b"), feature("e", depends_on="a"))
    state, _ = played(state, unlimited(recheck_sample=0), [PASS, FAIL, PASS])

    seen = count_progress(state)

    assert list(seen.workable) == ["e"]
    assert seen.waiting == ("d",)
    assert seen.blocked == ("b",)
    assert [standing.feature_id for standing in seen.stale] == ["a"]
    assert (seen.pending, seen.gate, seen.stuck, seen.all_pass) == (2, False, False, False)


def test_a_list_is_stuck_when_what_is_left_is_blocked_or_waits_for_it() -> None:
    state, _ = played(begun("a", feature("b", depends_on="a")), unlimited(), [FAIL])

    assert count_progress(state).stuck


def test_a_list_whose_required_features_pass_is_not_stuck() -> None:
    state, _ = played(begun("a", feature("nice", required=False)), unlimited(recheck_sample=0), [PASS, FAIL])

    seen = count_progress(state)

    assert (seen.gate, seen.stuck, seen.blocked) == (True, False, ("nice",))


def test_the_numbers_for_dashboards_count_every_feature_once() -> None:
    class Told(FeatureHarness):
        def __init__(self, state: FeatureState) -> None:
            self._at = state

        @property
        def state(self) -> FeatureState:
            return self._at

    state, _ = played(begun("a", "b", "c"), unlimited(recheck_sample=0), [PASS, FAIL])

    told = Told(state).gauges

    assert (told["features"], told["features_passed"], told["features_blocked"], told["features_pending"]) == (3, 1, 1, 1)
    assert (told["tries"], told["set_backs"]) == (2, 0)
