"""Laws of feature lists: what was accepted can be worked to its end, and what was agreed on cannot be changed unseen."""

from __future__ import annotations

from itertools import pairwise

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from harnesses.features.errors import InvalidRequest, MemoryFailed
from harnesses.features.feature import Feature
from harnesses.features.planning.feature_list import check_features, check_locks, differences, lock, starter_features
from tests.harnesses.features.played import begun, feature

CHANGES = [
    {"id": "b"},
    {"category": "quality"},
    {"description": "another"},
    {"steps": ("look", "listen")},
    {"priority": 1},
    {"depends_on": ("b",)},
    {"required": False},
]


def test_a_list_that_can_be_worked_is_taken_as_it_is() -> None:
    listed = [feature("a", depends_on=["b"]), feature("b"), feature("c", priority=-1, required=False)]

    assert check_features(iter(listed)) == tuple(listed)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (feature(""), "invalid id"),
        (feature(" \t"), "invalid id"),
        (feature("a\nb"), "invalid id"),
        (feature("a\x1b[31m"), "invalid id"),
        (feature("a\u202eb"), "invalid id"),
        (feature("a\ud800"), "invalid id"),
        (feature("a" * 501), "invalid id"),
        (feature(7), "invalid id"),  # type: ignore[arg-type]
        (feature("a", description=" "), "invalid description"),
        (feature("a", description="\ud800"), "invalid description"),
        (feature("a", description="a\0"), "invalid description"),
        (feature("a", steps=()), "invalid steps"),
        (feature("a", steps=("look", "\udfff")), "invalid steps"),
        (feature("a", steps=("look", "  ")), "invalid steps"),
        (feature("a", passes=True), "invalid passes"),
        (feature("a", passes=1), "invalid passes"),
        (feature("a", priority="high"), "invalid priority"),
        (feature("a", priority=True), "invalid priority"),
        (feature("a", priority=2**70), "invalid priority"),
        (feature("a", required="no"), "invalid required"),
        (feature("a", category=None), "invalid category"),
        (feature("a", category="\ud800"), "invalid category"),
        ({"id": "a"}, "is not a Feature"),
    ],
)
def test_what_can_not_be_worked_is_refused_by_its_number(bad: object, said: str) -> None:
    with pytest.raises(InvalidRequest, match=f"InvalidRequest: feature 2.*{said}"):
        check_features([feature("first"), bad])


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="empty"):
        check_features([])


def test_two_features_of_one_id_are_refused_and_both_are_named() -> None:
    with pytest.raises(InvalidRequest, match=r"feature 3 has the id of feature 1: .* 'a'"):
        check_features([feature("a"), feature("b"), feature("a")])


def test_a_dependency_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidRequest, match=r"feature 'a' depends on a missing feature: .* 'z'"):
        check_features([feature("a", depends_on="z")])


@pytest.mark.parametrize(
    ("needs", "spelt"),
    [
        ({"a": "a"}, "a -> a"),
        ({"a": "b", "b": "a"}, "a -> b -> a"),
        ({"x": "a", "a": "b", "b": "c", "c": "a"}, "a -> b -> c -> a"),
        ({"a": "", "b": "a", "c": "bd", "d": "ac"}, "c -> d -> c"),
    ],
)
def test_a_cycle_is_spelt_out(needs: dict[str, str], spelt: str) -> None:
    with pytest.raises(InvalidRequest, match=f"was '{spelt}'"):
        check_features([feature(id, depends_on=list(others)) for id, others in needs.items()])


def test_a_long_chain_of_dependencies_is_no_cycle() -> None:
    listed = [feature("0"), *(feature(str(n), depends_on=str(n - 1)) for n in range(1, 5000))]

    assert len(check_features(reversed(listed))) == 5000


@given(st.lists(st.lists(st.integers(0, 7), max_size=4), min_size=1, max_size=8))
def test_a_list_is_refused_exactly_if_it_can_not_be_worked_to_its_end(needs: list[list[int]]) -> None:
    needs = [[other for other in others if other < len(needs)] for others in needs]
    done: set[int] = set()
    while ready := {n for n, others in enumerate(needs) if n not in done and done.issuperset(others)}:
        done |= ready

    try:
        check_features([feature(str(n), depends_on=list(map(str, others))) for n, others in enumerate(needs)])
    except InvalidRequest as error:
        spelt = str(error).split("was '")[1].split("'")[0].split(" -> ")
        assert len(done) < len(needs)
        assert spelt[0] == spelt[-1]
        assert all(int(other) in needs[int(one)] for one, other in pairwise(spelt))
    else:
        assert len(done) == len(needs)


def test_the_starter_skeleton_has_six_features_of_three_steps() -> None:
    starters = check_features(starter_features())

    assert [one.id for one in starters] == [
        "initializer.artifacts",
        "harness.baseline",
        "chat.turn",
        "chat.streaming",
        "tool.loop",
        "quality.regression",
    ]
    assert {len(one.steps) for one in starters} == {3}
    assert [one.category for one in starters] == ["functional"] * 5 + ["quality"]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_a_lock_holds_every_part_of_the_specification(change: dict[str, object]) -> None:
    assert lock(evolve(feature("a"), **change)) != lock(feature("a"))  # type: ignore[arg-type]


def test_a_lock_leaves_alone_whether_the_feature_passes() -> None:
    assert lock(feature("a", passes=True)) == lock(feature("a"))


def test_a_lock_is_the_same_in_every_process_and_version() -> None:
    locked = lock(Feature("a", "b", category="c", steps=("d", "é\ud800"), priority=1, depends_on=("e",), required=False))

    assert locked == "e9e2e3f90fd386dc5243bd2dca73657e5b1b7d24615d0b625178bae3c11bff5c"


def test_parts_of_a_specification_do_not_run_together() -> None:
    assert lock(feature("a", steps=("b", "c"))) != lock(feature("a", steps=("b,c",)))
    assert lock(feature("a", steps=('b","c',))) != lock(feature("a", steps=("b", "c")))


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_a_feature_that_is_not_the_one_agreed_on_is_named(change: dict[str, object]) -> None:
    state = begun("first", "a")
    assert state.manifest is not None
    changed = (state.features[0], evolve(state.features[1], **change))  # type: ignore[arg-type]

    with pytest.raises(MemoryFailed, match=f"Memory: feature '{change.get('id', 'a')}' has changed since"):
        check_locks(state.manifest, changed)


def test_a_feature_that_is_missing_is_noticed() -> None:
    state = begun("first", "a")
    assert state.manifest is not None

    check_locks(state.manifest, state.features)
    with pytest.raises(MemoryFailed, match="expected 2 features, was 1"):
        check_locks(state.manifest, state.features[:1])


def test_differences_are_told_in_words() -> None:
    stored = [feature("a"), feature("b"), feature("c")]

    said = differences(stored, [feature("d"), feature("c"), feature("a", description="other")])

    assert said == "new: d; gone: b; changed: a"
    assert differences(stored, [stored[1], stored[0], stored[2]]) == "the order"
    assert differences(stored, [evolve(one, passes=True) for one in stored]) == ""
