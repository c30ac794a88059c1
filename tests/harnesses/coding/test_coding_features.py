"""What an attempt makes of the state: passed by a verdict alone, blocked when the attempts are used up."""

from __future__ import annotations

import pytest

from harnesses import HarnessMisuse
from harnesses.coding import Attempt, CodingState, Feature, Verdict
from harnesses.coding.features import MAX_TEXT, after_attempt, check_features, last_part, next_attempt, next_feature

A, B, C = (Feature(id, f"Write {id}.") for id in "abc")
PASSED, FAILED = Verdict(passed=True, evidence="fine"), Verdict(passed=False, evidence="broken")


@pytest.mark.parametrize(
    ("state", "feature"),
    [
        (CodingState(), A),
        (CodingState(passed=("a",)), B),
        (CodingState(passed=("b",)), A),
        (CodingState(passed=("b",), blocked=("a",)), C),
        (CodingState(passed=("a", "b"), blocked=("c",)), None),
        (CodingState(passed=("a", "b", "gone", "c")), None),
    ],
)
def test_the_next_feature_is_the_first_that_is_neither_passed_nor_blocked(state, feature):
    assert next_feature((A, B, C), state) == feature


def test_the_first_attempt_knows_no_failure():
    assert next_attempt(B, CodingState(feature_id="a", failures=2, last_failure="broken")) == Attempt("b", 1, None)


def test_a_later_attempt_is_told_why_the_last_one_failed():
    assert next_attempt(A, CodingState(feature_id="a", failures=2, last_failure="broken")) == Attempt("a", 3, "broken")


@pytest.mark.parametrize(
    ("attempt", "verdict", "state"),
    [
        (1, PASSED, CodingState(passed=("x", "a"))),
        (3, PASSED, CodingState(passed=("x", "a"))),
        (1, FAILED, CodingState(passed=("x",), feature_id="a", failures=1, last_failure="broken")),
        (2, FAILED, CodingState(passed=("x",), feature_id="a", failures=2, last_failure="broken")),
        (3, FAILED, CodingState(passed=("x",), blocked=("a",))),
        (4, FAILED, CodingState(passed=("x",), blocked=("a",))),
    ],
)
def test_a_verdict_settles_the_attempt(attempt, verdict, state):
    assert after_attempt(CodingState(passed=("x",)), Attempt("a", attempt, None), verdict, 3) == state


def test_of_a_long_text_the_last_part_is_kept():
    kept = last_part("begin" + "x" * MAX_TEXT + "end")

    assert len(kept) == MAX_TEXT
    assert (kept[0], kept[-3:]) == ("…", "end")
    assert last_part("x" * MAX_TEXT) == "x" * MAX_TEXT


def test_two_features_with_one_id_are_refused():
    with pytest.raises(HarnessMisuse, match="feature 3: expected an id of its own, was 'a' again"):
        check_features([A, B, A])
