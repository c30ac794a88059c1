"""Laws of risk: what was most likely broken is judged anew first, and nothing is passed over for ever."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from harnesses.features.feature import FeatureStatus, Standing, TurnResult
from harnesses.features.feature_record import FeatureState
from harnesses.features.planning.feature_selectors import MOST_OVERLAP, most_at_risk


def passed(id: str, verified_at: int, *, set_backs: int = 0, touched: tuple[str, ...] = (), accepted_at: int = 0) -> Standing:
    return Standing(
        feature_id=id,
        status=FeatureStatus.PASSED,
        verified_at=verified_at,
        set_backs=set_backs,
        accepted=TurnResult(touched=touched),
        accepted_at=accepted_at or verified_at,
    )


def state(version: int, *standings: Standing) -> FeatureState:
    return FeatureState(version=version, standings=standings)


def test_those_seen_to_pass_at_this_version_and_those_that_do_not_pass_are_not_at_risk() -> None:
    pending = Standing(feature_id="b")

    assert most_at_risk(state(3, passed("a", 3), pending), 9) == ()


def test_who_was_not_judged_for_longest_comes_first() -> None:
    assert most_at_risk(state(5, passed("a", 3), passed("b", 1), passed("c", 2)), 3) == ("b", "c", "a")


def test_who_was_set_back_before_comes_first() -> None:
    assert most_at_risk(state(5, passed("a", 2), passed("b", 2, set_backs=1)), 1) == ("b",)


def test_whose_paths_were_touched_since_comes_first() -> None:
    first = passed("a", 1, touched=("a.py",))
    second = passed("b", 2, touched=("b.py", "b2.py"))
    third = passed("c", 3, touched=("b.py", "b2.py"))

    assert most_at_risk(state(3, first, second, third), 2) == ("b", "a")


def test_paths_touched_before_it_was_judged_last_do_not_count() -> None:
    early = passed("b", 2, touched=("a.py",))
    judged = passed("a", 2, touched=("a.py",), accepted_at=1)

    assert most_at_risk(state(3, early, judged, passed("c", 3, touched=("c.py",))), 1) == ("b",)


def test_each_reason_makes_the_time_since_weigh_more() -> None:
    long_ago, shaky = passed("a", 2), passed("b", 8, set_backs=2)

    assert most_at_risk(state(12, long_ago, shaky)) == ("b",)
    assert most_at_risk(state(12, long_ago, evolve(shaky, set_backs=1))) == ("a",)


def test_more_paths_in_common_than_a_handful_make_no_difference() -> None:
    paths = tuple(map(str, range(20)))
    fewer, all_of_them = passed("a", 1, touched=paths[:MOST_OVERLAP]), passed("b", 1, touched=paths)

    assert most_at_risk(state(2, fewer, all_of_them, passed("c", 2, touched=paths))) == ("a",)


def test_among_equals_the_order_of_the_list_decides() -> None:
    assert most_at_risk(state(2, passed("b", 1), passed("a", 1)), 2) == ("b", "a")


def test_no_more_are_named_than_were_asked_for() -> None:
    stale = state(2, passed("b", 1), passed("a", 1))

    assert [len(most_at_risk(stale, count)) for count in (-1, 0, 1, 2, 3)] == [0, 0, 1, 2, 2]


@given(st.lists(st.tuples(st.integers(0, 3), st.sets(st.sampled_from("abcd"))), min_size=1, max_size=6))
def test_whoever_is_never_the_first_becomes_it_in_the_end(features: list[tuple[int, set[str]]]) -> None:
    standings = [
        passed(str(number), 1, set_backs=backs, touched=tuple(sorted(paths))) for number, (backs, paths) in enumerate(features)
    ]
    seen: set[str] = set()

    for version in range(2, 200):
        chosen = most_at_risk(state(version, *standings), 1)[0]
        seen.add(chosen)
        standings = [evolve(one, verified_at=version) if one.feature_id == chosen else one for one in standings]

    assert len(seen) == len(features)
