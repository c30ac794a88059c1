"""What comes of asking, as values that can be stored; and what an earlier attempt at a step has left on record."""

from __future__ import annotations

import pytest

from harnesses import BudgetExhausted, Effect, EffectOutcome, HarnessMisuse, Latched, Waiting
from harnesses.features import TurnResult, Verdict
from harnesses.features.record import MAX_TEXT
from harnesses.features.turn import (
    Try,
    checked_result,
    checked_verdict,
    key_of,
    order_in,
    sole,
    try_on_record,
    words_of,
)


def effect(key: str, outcome: str) -> Effect:
    return Effect(key, ["a", 2], EffectOutcome(outcome), idempotent=True)


@pytest.mark.parametrize(
    ("effects", "found"),
    [
        ((), None),
        ((effect("merge a 2", "confirmed"),), None),
        ((effect("work a 2", "not_done"),), None),
        ((effect("work a 2", "begun"),), Try("a", 2, done=False)),
        ((effect("work a 2", "unknown"),), Try("a", 2, done=False)),
        ((effect("work a 2", "confirmed"),), Try("a", 2, done=True)),
        ((effect("work a 2", "confirmed"), effect("judge a 2", "begun")), Try("a", 2, done=True)),
        ((effect("work a 2", "begun"), effect("order 7", "confirmed")), Try("a", 2, done=True)),
    ],
)
def test_a_try_on_record_is_found_and_one_that_has_acted_counts_as_done(effects, found):
    assert try_on_record(effects) == found


@pytest.mark.parametrize("id", ["a", "x" * 500, "tests/x.py::test[é ]", "\ud800" * 200])
def test_a_key_is_short_enough_and_tells_features_and_tries_apart(id):
    keys = {key_of(verb, one, turn) for verb in ("work", "judge") for one in (id, f"{id}2") for turn in (1, 2)}

    assert len(keys) == 8
    assert max(map(len, keys)) <= 200


def test_what_is_handed_in_is_kept_as_it_can_be_stored():
    kept = checked_result(TurnResult(message="x" * 9_000, artifact="print('\ud800')"))

    assert len(kept.message) == MAX_TEXT
    assert kept.artifact == "print('\\ud800')"


def test_what_a_validator_says_is_kept_as_it_can_be_stored():
    assert len(checked_verdict(Verdict(passed=True, evidence="\ud800" * 9_000)).evidence) == MAX_TEXT


@pytest.mark.parametrize("check", [checked_result, checked_verdict])
def test_anything_else_is_refused(check):
    with pytest.raises(HarnessMisuse, match=r"expected a (TurnResult|Verdict)"):
        check("done")


def test_an_error_in_groups_of_one_is_named_by_itself():
    error = ExceptionGroup("outer", [ExceptionGroup("inner", [ValueError("odd")])])

    assert words_of(error) == "ValueError: odd"
    assert words_of(KeyError()) == "KeyError"


def test_a_group_of_several_is_left_whole():
    error = ExceptionGroup("two", [ValueError("odd"), KeyError("even")])

    assert sole(error) is error


@pytest.mark.parametrize("order", [Waiting("x"), Latched("x"), BudgetExhausted("x")])
def test_an_error_that_is_meant_for_the_harness_is_found_in_groups(order):
    assert order_in(order) is order
    assert order_in(ExceptionGroup("outer", [ValueError("odd"), ExceptionGroup("inner", [order])])) is order


def test_other_errors_are_the_trys_own():
    assert order_in(ValueError("odd")) is None
    assert order_in(ExceptionGroup("two", [ValueError("odd"), KeyError("even")])) is None
