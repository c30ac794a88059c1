"""An order is filled as long as its time in force allows, and its end is reported."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from harnesses.trading import Order, OrderKind, PaperBroker, Side, TimeInForce, TradingHarness
from harnesses.trading.report.report_figures import account_of
from tests.harnesses.trading.test_trading_brackets import CALM, FIRST, entry, feed, fills, plan

IOC, FOK, DAY, GTD = TimeInForce.IOC, TimeInForce.FOK, TimeInForce.DAY, TimeInForce.GTD
LOW, DEEP = (100, 101, 95, 100), (96, 97, 90, 95)


def limit(units: int = 10, price: int = 96, **how: Any) -> Order:
    return Order("A", Side.BUY, Decimal(units), OrderKind.LIMIT, limit_price=Decimal(price), **how)


def till(days: float) -> dict[str, Any]:
    return {"time_in_force": GTD, "good_till": FIRST + timedelta(days)}


@pytest.mark.parametrize("fill_at", ["close", "next_open"])
@pytest.mark.parametrize(
    ("order", "bought", "status"),
    [
        (limit(time_in_force=IOC), 0, "cancelled"),
        (limit(price=105, time_in_force=IOC), 8, "cancelled"),
        (limit(price=105, units=8, time_in_force=FOK), 8, "filled"),
        (limit(price=105, time_in_force=FOK), 0, "cancelled"),
        (Order("A", Side.BUY, Decimal(10), time_in_force=IOC), 8, "cancelled"),
        (Order("A", Side.BUY, Decimal(10), time_in_force=FOK), 0, "cancelled"),
        (entry(time_in_force=IOC), 8, "cancelled"),
        (entry(time_in_force=FOK), 0, "cancelled"),
    ],
)
async def test_what_is_not_filled_at_once_is_cancelled(autojump_clock, order, bought, status, fill_at):
    broker = PaperBroker(max_share=Decimal("0.5"), fill_at=fill_at)
    harness = TradingHarness(feed(CALM, CALM, LOW, CALM, volume=16), broker, plan([order]), period_s=1)
    await harness.run()

    assert sum(units for _, units, _ in fills(harness)) == bought
    ends = [one.status for step in harness.step_history for one in step.output.reports if one.side is Side.BUY]
    assert ends[-1] == status
    assert len(harness.state.open) == (1 if order.has_exit and bought else 0)


@pytest.mark.parametrize(
    ("how", "bars", "bought"),
    [
        ({"time_in_force": DAY}, [LOW], 0),
        (till(1), [LOW], 0),
        (till(1.5), [LOW], 10),
        (till(2), [CALM, LOW], 0),
        (till(2.1), [CALM, LOW], 10),
        ({}, [CALM, CALM, LOW], 10),
    ],
)
async def test_an_order_expires_before_the_first_bar_after_its_time(autojump_clock, how, bars, bought):
    harness = TradingHarness(feed(CALM, *bars, DEEP), strategy=plan([limit(**how)]), period_s=1)
    await harness.run()

    assert sum(units for _, units, _ in fills(harness)) == bought
    ends = [one for step in harness.step_history for one in step.output.reports]
    assert (ends[-1].status, ends[-1].reason) == (("filled", "") if bought else ("expired", "its time is over"))
    assert account_of(harness.step_history).figures.expired == (0 if bought else 1)
    assert harness.state.open == {}


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"time_in_force": GTD}, "good_till: expected a time with time_in_force gtd"),
        ({"good_till": FIRST}, "good_till: expected none with time_in_force gtc"),
        (
            {"time_in_force": GTD, "good_till": FIRST.replace(tzinfo=None)},
            "good_till: expected a time with zone, was 2024-01-01 00:00:00",
        ),
        (till(0), "expected a good_till after the decision at 2024-01-01 00:00:00, was 2024-01-01 00:00:00"),
    ],
)
async def test_a_time_in_force_that_makes_no_sense_is_refused_with_the_reason(autojump_clock, how, why):
    harness = TradingHarness(feed(CALM, CALM), strategy=plan([limit(**how)]), period_s=1)
    await harness.run()

    assert [one.reason for one in harness.step_history[1].output.refused] == [why]
