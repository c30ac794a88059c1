"""The bounds of the index are exact, and an order never spends more than its stake."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from math import inf, nextafter

import pytest

from harnesses import HarnessMisuse, LoadedContext
from harnesses.trading import Action, Market, Order, Rsi, Signal, rsi_agent
from harnesses.trading.account import open_account
from harnesses.trading.strategy import decide


@pytest.mark.parametrize(
    ("rsi", "action"),
    [
        (None, Action.HOLD),
        (0.0, Action.BUY),
        (nextafter(30.0, 0), Action.BUY),
        (30.0, Action.HOLD),
        (50.0, Action.HOLD),
        (70.0, Action.HOLD),
        (nextafter(70.0, inf), Action.SELL),
        (100.0, Action.SELL),
    ],
)
def test_below_30_is_bought_above_70_is_sold_and_the_bounds_are_held(rsi, action):
    assert decide(rsi) is action


@pytest.mark.parametrize(("gain", "loss"), [(3.0, 7.0), (7.0, 3.0)])
def test_averages_of_three_to_seven_give_the_bounds_exactly(gain, loss):
    value = Rsi(14, gain, loss).value

    assert value in (30.0, 70.0)
    assert decide(value) is Action.HOLD


async def test_the_agent_buys_for_its_stake_and_sells_all_it_has():
    signals = {"LOW": Signal(Decimal(30), 20.0, Decimal(0)), "HIGH": Signal(Decimal(10), 80.0, Decimal(7))}
    market = Market(date(2000, 3, 1), signals, Decimal(500), Decimal(1000))
    context = LoadedContext(open_account(Decimal(500), ("LOW", "HIGH")))

    orders = await rsi_agent(Decimal("0.1")).run(input=market, context=context, step_number=1)

    assert orders == {
        "LOW": Order(Action.BUY, Decimal(3), "RSI 20.0"),
        "HIGH": Order(Action.SELL, Decimal(7), "RSI 80.0"),
    }


@pytest.mark.parametrize("stake", ["0", "-0.1", "1.01"])
def test_a_stake_that_is_no_part_of_the_equity_is_refused(stake):
    with pytest.raises(HarnessMisuse, match="stake: expected a part of the equity"):
        rsi_agent(Decimal(stake))
