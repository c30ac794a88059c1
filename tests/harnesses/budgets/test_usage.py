"""Usage: sums, differences of totals, and reports of programs that are not trusted."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesses.budgets.usage import UNUSED, Usage, count_of, money_of, used_in, with_usage
from harnesses.errors import HarnessMisuse

usages = st.builds(
    Usage,
    turns=st.integers(0, 3),
    tool_calls=st.integers(0, 9),
    input_tokens=st.integers(0, 10**6),
    output_tokens=st.integers(0, 10**6),
    money=st.decimals(0, 10, places=6),
)


@given(usages, usages)
def test_a_total_is_what_was_before_and_what_it_has_grown(before: Usage, more: Usage) -> None:
    assert (before + more).since(before) == more


@given(usages)
def test_a_total_that_is_told_again_has_not_grown(total: Usage) -> None:
    assert total.since(total) == UNUSED


def test_a_total_that_is_less_has_begun_anew() -> None:
    assert Usage(tokens=30).since(Usage(tokens=100)) == Usage(tokens=30)


@pytest.mark.parametrize("value", [True, -1, "9", None, 2.5, [1], float("nan")])
def test_what_is_no_count_is_none(value: Any) -> None:
    assert count_of(value) == 0


@pytest.mark.parametrize(
    ("value", "amount"),
    [(0.1, "0.1"), (3, "3"), (-1, "0"), ("1", "0"), (True, "0"), (float("inf"), "0"), (float("nan"), "0"), (1e-30, "1e-12")],
)
def test_money_is_what_a_program_says_rounded_up_and_nothing_else_is(value: Any, amount: str) -> None:
    assert money_of(value) == Decimal(amount)


def test_money_beyond_all_measure_can_be_charged() -> None:
    assert Usage(money=money_of(1e300)).spend().money == Decimal(10) ** 12


@pytest.mark.parametrize("wrong", [{"tokens": -1}, {"tokens": 1.5}, {"money": 1.5}, {"turns": True}, {"turns": Decimal(1)}])
def test_what_is_no_usage_cannot_be_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(HarnessMisuse, match="Usage: "):
        Usage(**wrong)


@dataclass
class _Plain:
    usage: Usage | None = None
    tokens: int = 0


@attrs.frozen
class _Computed:
    @property
    def usage(self) -> Usage:
        return UNUSED


@attrs.frozen
class _Counted:
    usage: Usage | None = None
    tokens: int = attrs.field(default=0, init=False)


@pytest.mark.parametrize("answer", [_Plain(), _Computed(), SimpleNamespace(usage=None)])
def test_an_answer_that_cannot_say_what_was_charged_is_returned_unchanged(answer: Any) -> None:
    assert with_usage(answer, Usage(tokens=5)) is answer


def test_an_answer_says_what_was_charged_where_it_can() -> None:
    assert with_usage(_Counted(), Usage(tokens=5)).usage == Usage(tokens=5)


@pytest.mark.parametrize(
    ("answer", "used"),
    [
        (None, None),
        ("text", None),
        ({"usage": {"tokens": 3}}, None),
        (SimpleNamespace(tokens=3), None),
        (SimpleNamespace(usage="3 tokens", tokens=3), None),
        (SimpleNamespace(usage=None), UNUSED),
        (SimpleNamespace(usage=None, tokens="many"), UNUSED),
        (SimpleNamespace(usage=None, tokens=3), Usage(tokens=3)),
    ],
)
def test_an_answer_of_any_class_tells_its_usage_or_nothing(answer: Any, used: Usage | None) -> None:
    assert used_in(answer) == used
