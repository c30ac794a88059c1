"""Figures as people read them: never more digits than tell something, and never an exponent where a sign is enough."""

from __future__ import annotations

import pytest

from orchestrator.analysis.answers.answer import cell, share


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0 %"),
        (0.0005, "<0.1 %"),
        (0.012, "1.2 %"),
        (0.5, "50 %"),
        (1.0, "100 %"),
        (12.34, "1234 %"),
    ],
)
def test_a_share_is_percent_and_a_negative_one_is_the_same_with_a_sign(value: float, said: str) -> None:
    assert share(value) == said
    assert share(-value) == {"0 %": "0 %", "<0.1 %": ">-0.1 %"}.get(said, f"-{said}")


def test_a_cell_of_shares_is_told_like_one() -> None:
    assert cell("change_share", -1.0) == "-100 %"


def test_amounts_are_rounded_where_they_are_shown_as_text() -> None:
    exact = ("84968.20456", "-12.3456", "9.5", "0.0123456789", "0", "NaN", None)

    assert [cell("equity", one) for one in exact] == ["84968.20", "-12.35", "9.5", "0.0123457", "0", "NaN", "-"]
    assert cell("note", "84968.20456") == "84968.20456"
