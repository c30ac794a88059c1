"""An exit closes what its entry has filled: one order with two prices, of which the second ends with the first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from harnesses import Agent
from harnesses.trading import (
    Bar,
    Cancel,
    Fees,
    Limits,
    Market,
    Order,
    OrderKind,
    OrderStatus,
    PaperBroker,
    ReplayFeed,
    Side,
    Strategy,
    TradingHarness,
)

FIRST = datetime(2024, 1, 1, tzinfo=UTC)
BUY, SELL = Side.BUY, Side.SELL
Prices = tuple[int, int, int, int]
CALM: Prices = (100, 101, 99, 100)


def feed(*bars: Prices, volume: int = 1000, split: int | None = None) -> ReplayFeed:
    """Return a feed of daily bars.

    Args:
        split: the day on which one unit becomes two.
    """
    days = {
        FIRST + timedelta(day): Bar(*map(Decimal, bar), Decimal(volume), Decimal(2 if day == split else 1))
        for day, bar in enumerate(bars)
    }
    return ReplayFeed({"A": days})


def plan(*days: Any) -> Strategy:
    async def run(run: Any) -> list[Any]:
        day = (run.input.time - FIRST).days
        wishes = days[day] if day < len(days) else []
        return wishes(run.input) if callable(wishes) else wishes

    return Strategy(Agent(run))


def entry(units: int = 10, *, take: int | None = 110, stop: int | None = 90, **how: Any) -> Order:
    prices: dict[str, Any] = {"take_profit": take and Decimal(take), "stop_loss": stop and Decimal(stop)}
    return Order("A", BUY, Decimal(units), **how, **prices)


def fills(harness: TradingHarness) -> list[tuple[str, int, int]]:
    found = [one.fill for step in harness.step_history for one in step.output.fills]
    return [(str(fill.side), int(fill.units), int(fill.price)) for fill in found]


BOUGHT = ("buy", 10, 100)


@pytest.mark.parametrize(
    ("how", "bars", "sold"),
    [
        ({}, [(100, 110, 99, 105)], ("sell", 10, 110)),
        ({}, [(112, 113, 99, 105)], ("sell", 10, 112)),
        ({}, [(100, 101, 90, 100)], ("sell", 10, 90)),
        ({}, [(85, 101, 80, 100)], ("sell", 10, 85)),
        ({}, [(100, 120, 80, 100)], ("sell", 10, 90)),  # both in one bar: the stop counts
        ({}, [CALM, CALM, (100, 111, 99, 100)], ("sell", 10, 110)),
        ({"take": None}, [(100, 120, 99, 100), (100, 100, 90, 95)], ("sell", 10, 90)),
        ({"stop": None}, [(100, 101, 10, 100), (100, 110, 99, 105)], ("sell", 10, 110)),
    ],
)
async def test_an_entry_is_closed_at_the_first_of_its_two_prices_and_nothing_stays_open(autojump_clock, how, bars, sold):
    harness = TradingHarness(feed(CALM, *bars, CALM, (100, 200, 10, 100)), strategy=plan([entry(**how)]), period_s=1)
    await harness.run()

    assert fills(harness) == [BOUGHT, sold]
    assert harness.state.open == {}
    assert [one.wanted_by for step in harness.step_history for one in step.output.fills] == ["strategy"] * 2


LIMITED: dict[str, Any] = {"kind": OrderKind.LIMIT, "limit_price": Decimal(95)}
MARKETABLE: dict[str, Any] = {"kind": OrderKind.LIMIT, "limit_price": Decimal(105)}
STOPPED: dict[str, Any] = {"kind": OrderKind.STOP, "stop_price": Decimal(105)}


@pytest.mark.parametrize(
    ("how", "fill_at", "bars", "expected"),
    [
        # filled at the open: the whole bar is after it
        ({}, "next_open", [(101, 111, 99, 100)], [("buy", 10, 101), ("sell", 10, 110)]),
        ({}, "next_open", [(101, 111, 90, 100)], [("buy", 10, 101), ("sell", 10, 90)]),
        ({}, "next_open", [(89, 111, 88, 100)], [("buy", 10, 89), ("sell", 10, 89)]),
        # filled within the bar: what was before and what after it is unknown, so that only the stop counts
        (LIMITED, "close", [(100, 111, 94, 100), (112, 112, 112, 112)], [("buy", 10, 95), ("sell", 10, 112)]),
        (LIMITED, "close", [(100, 111, 89, 100)], [("buy", 10, 95), ("sell", 10, 90)]),
        (LIMITED, "close", [(80, 111, 80, 100)], [("buy", 10, 80), ("sell", 10, 80)]),
        (STOPPED, "close", [(100, 111, 91, 100), (111, 111, 111, 111)], [("buy", 10, 105), ("sell", 10, 111)]),
        (STOPPED, "close", [(100, 106, 90, 100)], [("buy", 10, 105), ("sell", 10, 90)]),
        (STOPPED, "close", [(100, 104, 80, 100), (100, 120, 80, 100)], [("buy", 10, 105), ("sell", 10, 90)]),
    ],
)
async def test_the_bar_of_the_entry_is_looked_at_from_the_entry_on(autojump_clock, how, fill_at, bars, expected):
    broker = PaperBroker(fill_at=fill_at)
    harness = TradingHarness(feed(CALM, *bars), broker, plan([entry(**how)]), period_s=1)
    await harness.run()

    assert fills(harness) == expected
    assert harness.state.open == {}


async def test_the_exit_of_a_partial_entry_grows_with_it_and_ends_its_rest(autojump_clock):
    how: dict[str, Any] = {"kind": OrderKind.LIMIT, "limit_price": Decimal(100)}
    rising: Prices = (100, 110, 100, 105)
    seen = list[Any]()

    def look(market: Market) -> list[Any]:
        seen.append([(str(one.placed.order.side), one.report.units, one.report.filled) for one in market.orders])
        return []

    calm: Prices = (100, 100, 100, 100)
    bars = feed(calm, calm, calm, *[rising] * 7, (120, 120, 80, 80), volume=8)
    broker = PaperBroker(max_share=Decimal("0.5"))
    harness = TradingHarness(bars, broker, plan([entry(20, **how)], look, look, look, look, look, look), period_s=1)
    await harness.run()

    # In the bar of its growth, the exit's limit waits; in the next one it ends the rest of the entry.
    assert seen[:3] == [[("buy", 20, n), ("sell", n, 0)] for n in (8, 12, 16)]
    assert fills(harness) == [("buy", 4, 100)] * 5 + [("sell", 4, 110)] * 5
    assert harness.state.book is not None
    assert (harness.state.book.units("A"), harness.state.open) == (0, {})


async def test_what_is_left_of_an_entry_is_cancelled_when_its_exit_is_reached(autojump_clock):
    how: dict[str, Any] = {"kind": OrderKind.LIMIT, "limit_price": Decimal(100)}
    bars = feed((100, 100, 100, 100), (120, 120, 119, 119), CALM, (90, 90, 80, 80), volume=8)
    harness = TradingHarness(bars, PaperBroker(max_share=Decimal("0.5")), plan([entry(20, **how)]), period_s=1)
    await harness.run()

    assert fills(harness) == [("buy", 4, 100), ("sell", 4, 120)]
    reasons = [(one.side, one.status, one.reason) for step in harness.step_history for one in step.output.reports]
    assert (BUY, OrderStatus.CANCELLED, "the venue no longer has such an order") not in reasons
    assert (BUY, OrderStatus.CANCELLED, "its exit was reached") in reasons
    assert harness.state.open == {}


@pytest.mark.parametrize("filled", [True, False])
async def test_a_cancelled_entry_keeps_the_exit_of_what_it_has_filled(autojump_clock, filled):
    how: dict[str, Any] = {"kind": OrderKind.LIMIT, "limit_price": Decimal(100 if filled else 98)}

    def give_up(market: Market) -> list[Any]:
        return [Cancel(market.orders[0].placed.client_id)]

    bars = feed((100, 100, 100, 100), (100, 101, 99, 100), (100, 110, 99, 100), (100, 110, 99, 100), volume=8)
    harness = TradingHarness(bars, PaperBroker(max_share=Decimal("0.5")), plan([entry(20, **how)], give_up), period_s=1)
    await harness.run()

    assert fills(harness) == ([("buy", 4, 100), ("buy", 4, 100), ("sell", 4, 110), ("sell", 4, 110)] if filled else [])
    assert harness.state.open == {}


async def test_an_exit_is_adjusted_at_a_split(autojump_clock):
    bars = feed(CALM, (50, 51, 49, 50), (50, 56, 49, 55), split=1)
    harness = TradingHarness(bars, strategy=plan([entry()]), limits=Limits(max_jump=Decimal("0.9")), period_s=1)
    await harness.run()

    assert fills(harness) == [BOUGHT, ("sell", 20, 55)]
    assert harness.state.open == {}


async def test_an_order_with_two_prices_is_an_exit_of_what_is_held(autojump_clock):
    exit = Order("A", SELL, Decimal(10), OrderKind.OCO, limit_price=Decimal(110), stop_price=Decimal(90))
    bars = feed(CALM, CALM, (100, 105, 95, 100), (100, 111, 99, 100), (100, 100, 80, 80))
    broker = PaperBroker(fees=Fees(Decimal("0.001")))
    harness = TradingHarness(bars, broker, plan([Order("A", BUY, Decimal(10))], [exit]), period_s=1)
    await harness.run()

    assert fills(harness) == [BOUGHT, ("sell", 10, 110)]
    assert harness.state.cash == 10_000 - 1_000 - 1 + 1_100 - Decimal("1.1")


@pytest.mark.parametrize(
    "order",
    [entry(take=101, stop=99, **MARKETABLE), entry(take=96, stop=94, **LIMITED), entry(take=106, stop=104, **STOPPED)],
)
async def test_an_exit_on_the_right_side_of_the_price_of_its_entry_is_placed(autojump_clock, order):
    harness = TradingHarness(feed(CALM, CALM), strategy=plan([order]), period_s=1)
    await harness.run()

    assert [one.order for one in harness.step_history[1].output.placed] == [order]


@pytest.mark.parametrize(
    ("order", "why"),
    [
        (entry(take=90, stop=110), "expected a take_profit above the stop_loss, were 90 and 110"),
        (entry(stop=-1), "expected a stop_loss above 0, was -1"),
        (Order("A", SELL, Decimal(1), take_profit=Decimal(1)), "only a purchase can have an exit: no position becomes short"),
        (
            Order("A", SELL, Decimal(1), OrderKind.OCO, limit_price=Decimal(90), stop_price=Decimal(100)),
            "expected a limit_price above the stop_price, were 90 and 100",
        ),
        (
            Order("A", SELL, Decimal(1), OrderKind.OCO, limit_price=Decimal(1)),
            "a oco order needs a stop_price above 0, was None",
        ),
        (entry(stop=150, take=None), "expected a stop_loss below the last close, 100, was 150"),
        (entry(stop=100), "expected a stop_loss below the last close, 100, was 100"),
        (entry(take=50, stop=None), "expected a take_profit above the last close, 100, was 50"),
        (entry(stop=96, **LIMITED), "expected a stop_loss below the limit_price, 95, was 96"),
        (entry(stop=101, **MARKETABLE), "expected a stop_loss below the last close, 100, was 101"),
        (entry(take=104, **STOPPED), "expected a take_profit above the stop_price, 105, was 104"),
        (entry(trail=Decimal(100)), "expected a trail below the last close, 100, was 100: its stop would be at 0 or below"),
    ],
)
async def test_an_exit_that_makes_no_sense_is_refused_with_the_reason(autojump_clock, order, why):
    harness = TradingHarness(feed(CALM, CALM), strategy=plan([order]), period_s=1)
    await harness.run()

    assert [one.reason for one in harness.step_history[1].output.refused] == [why]
