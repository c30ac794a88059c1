"""Measures of a course: against the textbook, computed over whole lists."""

from __future__ import annotations

import statistics
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from math import sqrt

import pytest

from harnesses.trading import Bar, MarketSlice
from harnesses.trading.report.performance import YEAR_S, BuyAndHold, DailyCloses, MonthlyCloses

FIRST = datetime(2020, 1, 30, tzinfo=UTC)
EQUITIES = [100.0 + (day * 7 % 11) - (day * 5 % 13) for day in range(60)]


def test_ratios_are_those_of_the_textbook_over_the_last_equity_of_each_day() -> None:
    closes = DailyCloses()
    for day, equity in enumerate(EQUITIES):
        closes.take(FIRST + timedelta(day), equity - 50)
        closes.take(FIRST + timedelta(day, hours=5), equity)
    span_s = 59 * 86_400.0

    found, returns = closes.returns(), [after / before - 1 for before, after in pairwise(EQUITIES)]
    yearly = sqrt(len(returns) / (span_s / YEAR_S))

    assert found.count == 59
    assert found.sharpe(span_s) == pytest.approx(statistics.mean(returns) / statistics.stdev(returns) * yearly)
    downside = sqrt(sum(min(one, 0) ** 2 for one in returns) / len(returns))
    assert found.sortino(span_s) == pytest.approx(statistics.mean(returns) / downside * yearly)
    assert found.sharpe(86_400.0 * 20) is None
    assert closes.returns() == found, "asking changes nothing"


def slice_of(day: int, **closes: object) -> MarketSlice:
    return MarketSlice(FIRST + timedelta(day), {symbol: bar(str(close)) for symbol, close in closes.items()})


def bar(text: str, split: int = 1) -> Bar:
    close = Decimal(text)
    return Bar(close, close, close, close, 1, Decimal(split))


def test_what_is_held_is_bought_in_equal_parts_at_the_first_slice() -> None:
    held = BuyAndHold()
    growths = []
    slices = [
        slice_of(0, A=100, B=10),
        slice_of(1, A=110, B=10, C=5),
        slice_of(2, B=5, C=50),
        MarketSlice(FIRST + timedelta(3), {"A": bar("60", 2)}),
    ]
    for market in (None, *slices):
        held.take(market)
        growths.append(held.growth)

    assert growths == pytest.approx([1, 1, 1.05, 0.8, 0.85])


def test_months_are_compounded_from_close_to_close() -> None:
    months = MonthlyCloses()
    for day, (equity, growth) in enumerate([(110.0, 1.1), (121.0, 1.0), (90.0, 1.0), (60.5, 2.0)]):
        months.take(FIRST + timedelta(day), equity, growth)

    january, february = months.months(100.0)

    assert [(one.year, one.month) for one in (january, february)] == [(2020, 1), (2020, 2)]
    assert [january.gain, january.benchmark, february.gain, february.benchmark] == pytest.approx([0.21, 0.0, -0.5, 1.0])
