"""Laws of the default selector: priority, then the order of the list, and never what waits for others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harnesses.features.feature import Feature, FeatureStatus, Standing
from harnesses.features.planning.feature_selectors import FirstPending
from tests.harnesses.features.played import feature


def selected(features: list[Feature], **statuses: str) -> str | None:
    standings = [Standing(feature_id=one.id, status=FeatureStatus(statuses.get(one.id, "pending"))) for one in features]
    chosen = FirstPending().select(features, standings)
    return None if chosen is None else chosen.id


def test_the_first_pending_one_is_chosen() -> None:
    assert selected([feature("a", passes=True), feature("b"), feature("c")], a="passed") == "b"


def test_blocked_ones_are_passed_over() -> None:
    assert selected([feature("a"), feature("b")], a="blocked") == "b"


def test_a_higher_priority_goes_before_the_order_of_the_list() -> None:
    assert selected([feature("a"), feature("b", priority=1), feature("c", priority=1), feature("d", priority=-1)]) == "b"


def test_what_depends_on_others_waits_until_all_of_them_pass() -> None:
    needs = feature("c", depends_on=("a", "b"), priority=9)

    assert selected([needs, feature("a", passes=True), feature("b")], a="passed") == "b"
    assert selected([needs, feature("a", passes=True), feature("b", passes=True)], a="passed", b="passed") == "c"


def test_what_an_important_feature_waits_for_is_as_important() -> None:
    goal = feature("goal", depends_on="half", priority=9)
    half = feature("half", depends_on="start")

    assert selected([feature("other", priority=5), goal, half, feature("start")]) == "start"
    assert selected([feature("other", priority=5), goal, half, feature("start")], goal="blocked") == "other"


def test_what_an_unimportant_feature_waits_for_is_none_the_less_important() -> None:
    listed = [feature("other", priority=3), feature("goal", depends_on="start", priority=-1), feature("start", priority=5)]

    assert selected(listed) == "start"


def test_none_is_chosen_if_none_can_be_worked() -> None:
    assert selected([]) is None
    assert selected([feature("a", passes=True)], a="passed") is None
    assert selected([feature("a"), feature("b", depends_on="a")], a="blocked") is None


@given(st.lists(st.tuples(st.integers(-2, 2), st.sampled_from(["pending", "passed", "blocked"])), max_size=8))
def test_no_pending_feature_goes_before_the_chosen_one(given: list[tuple[int, str]]) -> None:
    features = [feature(f"f{n}", priority=priority, passes=status == "passed") for n, (priority, status) in enumerate(given)]

    chosen = selected(features, **{f"f{n}": status for n, (_, status) in enumerate(given)})

    ranks = sorted((-priority, n) for n, (priority, status) in enumerate(given) if status == "pending")
    assert chosen == (f"f{ranks[0][1]}" if ranks else None)
