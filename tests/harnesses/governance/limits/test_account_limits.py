"""No restart forgets a loss, and what cannot be looked at is not let pass."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses.governance import Guardrails
from harnesses.governance.limits.account_limits import AccountStatus, assess, numbers, reached

DAY = date(2026, 1, 31)
LIMITS = Guardrails(max_drawdown=Decimal("0.2"), max_daily_loss=Decimal("0.1"), max_position=Decimal("0.5"))


def found(*equities: Any, rails: Guardrails = LIMITS, days: int = 0) -> list[list[str]]:
    """Return the limits that are reached at each of these equities; each is `days` after the one before."""
    standing, names = AccountStatus(), []
    for place, equity in enumerate(equities):
        figures = numbers(equity if isinstance(equity, dict) else {"equity": equity})
        standing = msgspec.convert(assess(standing, rails, figures, DAY + timedelta(days * place)).plain(), AccountStatus)
        names.append([finding.limit_name for finding in reached(standing, rails, figures)])
    return names


def test_a_drawdown_is_held_against_the_highest_there_was() -> None:
    assert found(100, 200, 165, 160, 159, days=1) == [[], [], ["max_daily_loss"], [], ["max_drawdown"]]


def test_a_drawdown_holds_when_the_equity_has_come_back() -> None:
    assert found(100, 79, 100, 150, days=1)[-2:] == [["max_drawdown"], ["max_drawdown"]]


def test_the_loss_of_a_day_is_held_against_the_end_of_the_day_before() -> None:
    assert found(100, 91, 90, 89, 95) == [[], [], [], ["max_daily_loss"], ["max_daily_loss"]]
    assert found(100, 89, 88, days=1) == [[], ["max_daily_loss"], []]


@pytest.mark.parametrize(("position", "reaches"), [("0.5", False), ("0.51", True), ("-0.51", True), ("-0.5", False)])
@pytest.mark.parametrize("name", ["position", "position:BTC/EUR"])
def test_a_position_is_held_long_or_short(name: str, position: str, reaches: bool) -> None:
    assert found({"equity": 1, name: position})[0] == (["max_position"] if reaches else [])


def test_other_figures_are_no_positions() -> None:
    assert found({"equity": 100, "positions": 9, "exposure": 9}) == [[]]


def test_without_equity_it_stands_where_it_stood() -> None:
    assert found({}, {"equity": 100}, {}, {"equity": 79}) == [[], [], [], ["max_drawdown", "max_daily_loss"]]


def test_an_account_without_anything_has_no_drawdown() -> None:
    assert found(0, 0, -5) == [[], [], []]


@pytest.mark.parametrize("value", ["x", float("nan"), float("inf"), None, True, [], "NaN"])
def test_a_figure_is_a_finite_number(value: object) -> None:
    with pytest.raises(ValueError, match="figure 'equity': expected a finite number"):
        numbers({"equity": value})


def test_a_finding_says_what_was_and_what_may_be() -> None:
    standing = assess(assess(AccountStatus(), LIMITS, {"equity": Decimal(200)}, DAY), LIMITS, {"equity": Decimal(150)}, DAY)

    finding = next(reached(standing, LIMITS, {}))

    assert (finding.limit_name, finding.current_value, finding.limit_value) == ("max_drawdown", "0.2500", "0.2")
    assert finding.reason.startswith("equity 150 has fallen more than 0.2 below its highest, 200")


amounts = st.decimals(0, 1000, places=2)


@settings(max_examples=100, deadline=None)
@given(st.lists(amounts, min_size=1, max_size=15), st.integers(0, 1))
def test_it_is_reached_exactly_when_the_equity_falls_too_far(equities: list[Decimal], days: int) -> None:
    names = found(*equities, days=days)

    highs = [max(equities[: place + 1]) for place in range(len(equities))]
    fell = [equity < high * Decimal("0.8") for equity, high in zip(equities, highs, strict=True)]
    assert ["max_drawdown" in some for some in names] == [any(fell[: place + 1]) for place in range(len(fell))]
