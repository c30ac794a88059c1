"""What may be spent, and what may not: the arithmetic and the judgement."""

from __future__ import annotations

from decimal import Decimal, localcontext
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesses.budgets.budget import (
    FIELDS,
    NOTHING,
    UNLIMITED,
    Budget,
    Denied,
    Granted,
    Later,
    Spend,
    budget_of,
    judge,
    spend_of,
)
from harnesses.errors import HarnessMisuse

amounts = st.builds(
    Spend,
    steps=st.integers(0, 5),
    turns=st.integers(0, 5),
    tool_calls=st.integers(0, 5),
    tokens=st.integers(0, 10**12),
    money=st.decimals(0, 10**6, places=8),
    working_time_s=st.floats(0, 1e5),
)
limits = st.builds(
    Budget,
    steps=st.none() | st.integers(0, 15),
    turns=st.none() | st.integers(0, 15),
    tool_calls=st.none() | st.integers(0, 15),
    tokens=st.none() | st.integers(0, 10**13),
    money=st.none() | st.decimals(0, 10**7, places=8),
    working_time_s=st.none() | st.floats(0, 1e6),
)


def used(name: str, amount: Any) -> Spend:
    return Spend(**{name: amount})


def allowed(name: str, amount: Any) -> Budget:
    return Budget(**{name: amount})


@pytest.mark.parametrize(
    ("name", "amount"),
    [
        ("steps", -1),
        ("steps", True),
        ("steps", 1.0),
        ("tokens", "3"),
        ("money", Decimal(-1)),
        ("money", Decimal("NaN")),
        ("money", Decimal("Infinity")),
        ("money", 0.5),
        ("money", Decimal("1E-19")),
        ("money", Decimal("1E+24")),
        ("working_time_s", -0.1),
        ("working_time_s", nan),
        ("working_time_s", inf),
        ("working_time_s", "1"),
        ("working_time_s", 10**400),
        ("working_time_s", True),
    ],
)
@pytest.mark.parametrize("make", [used, allowed])
def test_what_is_no_amount_is_refused_by_name(make: Any, name: str, amount: Any) -> None:
    with pytest.raises(HarnessMisuse, match=f"{name} cannot be .*: expected a "):
        make(name, amount)


def test_a_spend_is_never_without_an_amount() -> None:
    with pytest.raises(HarnessMisuse, match="tokens cannot be None"):
        used("tokens", None)


@given(amounts, amounts)
def test_what_is_added_can_be_taken_away_again(one: Spend, other: Spend) -> None:
    assert (one + other) - other == one
    assert one + other == other + one
    assert one + NOTHING == one


def test_a_hundred_thousand_slices_of_working_time_are_exact() -> None:
    slice_s = Spend(working_time_s=0.1)

    total = sum([slice_s] * 100_000, start=NOTHING)

    assert total.working_time_s == 10_000.0


def test_money_is_exact_in_whatever_context() -> None:
    with localcontext(prec=3):
        total = Spend(money=Decimal("123456789.123456789")) + Spend(money=Decimal("0.000000000000000001"))

    assert total.money == Decimal("123456789.123456789000000001")


def test_taking_more_than_there_is_names_the_field() -> None:
    with pytest.raises(HarnessMisuse, match="tokens would be below 0: expected to take at most 1, got 2"):
        _ = Spend(tokens=1) - Spend(tokens=2)


@given(amounts, amounts)
def test_the_smaller_of_two_exceeds_neither(one: Spend, other: Spend) -> None:
    smaller = one.min(other)

    assert smaller.exceeds(one) is None
    assert smaller.exceeds(other) is None


@given(limits, limits, amounts)
def test_the_tighter_of_two_budgets_allows_what_both_allow(one: Budget, other: Budget, spend: Spend) -> None:
    assert spend.fits(one.min(other)) == (spend.fits(one) and spend.fits(other))


@given(limits, amounts, amounts)
def test_what_is_left_is_what_may_still_be_spent(budget: Budget, spent: Spend, more: Spend) -> None:
    if spent.fits(budget):
        assert more.fits(budget.left(spent)) == (spent + more).fits(budget)


def test_nothing_is_left_of_what_was_lowered_below_the_spent() -> None:
    assert Budget(tokens=5).left(Spend(tokens=9)) == Budget(tokens=0)


@given(limits, amounts)
def test_amounts_are_the_same_after_json(budget: Budget, spend: Spend) -> None:
    assert budget_of(budget.plain()) == budget
    assert spend_of(spend.plain()) == spend


@given(limits, amounts, amounts, amounts)
def test_what_is_granted_fits_and_what_fits_is_granted(limit: Budget, spent: Spend, reserved: Spend, asked: Spend) -> None:
    verdict = judge(limit, spent, reserved, asked)

    wanted = {name: getattr(limit, name) for name in FIELDS if getattr(asked, name)}
    assert isinstance(verdict, Granted) == (spent + reserved + asked).fits(Budget(**wanted))


@pytest.mark.parametrize(
    ("spent", "reserved", "asked", "expected"),
    [
        (0, 0, 10, Granted()),
        (0, 0, 11, Denied("tokens", 10, 0, 0, 11)),
        (5, 4, 1, Granted()),
        (5, 4, 2, Later("tokens", 10, 5, 4, 2)),
        (5, 4, 6, Denied("tokens", 10, 5, 4, 6)),
        (10, 0, 1, Denied("tokens", 10, 10, 0, 1)),
        (12, 0, 0, Granted()),
    ],
)
def test_what_others_may_give_back_is_waited_for(spent: int, reserved: int, asked: int, expected: object) -> None:
    verdict = judge(Budget(tokens=10), Spend(tokens=spent), Spend(tokens=reserved), Spend(tokens=asked))

    assert verdict == expected


@given(amounts, amounts, amounts)
def test_without_limits_everything_is_granted(spent: Spend, reserved: Spend, asked: Spend) -> None:
    assert judge(UNLIMITED, spent, reserved, asked) == Granted()


def test_what_can_not_be_waited_for_is_named_before_what_can() -> None:
    limit, asked = Budget(steps=1, money=Decimal(1)), Spend(steps=1, money=Decimal(2))

    verdict = judge(limit, NOTHING, Spend(steps=1), asked, pool="all")

    assert str(verdict) == (
        "budget 'all' does not allow 2 more of money: limit 1, spent 0, reserved 0; "
        "raise the budget, then `orchestrator start NAME`, or `orchestrator run FILE`"
    )
