"""A trailing stop follows the best price and never falls back; what it has reached is on record."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from harnesses.trading import Limits, Order, OrderKind, PaperBroker, Side, TradingHarness
from harnesses.trading.exchange.held_orders import HeldOrders
from harnesses.trading.market.bars import Bar, MarketSlice
from harnesses.trading.market.orders import PlacedOrder, Source
from tests.harnesses.trading.test_trading_brackets import BOUGHT, CALM, FIRST, Prices, entry, feed, fills, plan

TRAIL = Decimal(5)
STOP = Order("A", Side.SELL, Decimal(10), OrderKind.STOP, stop_price=Decimal(95), trail=TRAIL)
RISE: Prices = (100, 110, 100, 109)


@pytest.mark.parametrize(
    ("bars", "sold_at"),
    [
        ([RISE, (109, 109, 106, 107), (107, 107, 105, 106)], 105),
        ([(100, 110, 95, 109)], 95),  # the low may have been before the high
        ([RISE, (104, 104, 103, 103)], 104),
        ([RISE, (109, 120, 106, 118), (118, 118, 100, 100)], 115),
    ],
)
@pytest.mark.parametrize("is_exit", [False, True])
async def test_a_trailing_stop_is_reached_at_its_distance_from_the_best_price_before(autojump_clock, bars, sold_at, is_exit):
    bought = Order("A", Side.BUY, Decimal(10))
    days = [[], [entry(take=None, stop=95, trail=TRAIL)]] if is_exit else [[bought], [STOP]]
    harness = TradingHarness(feed(CALM, CALM, *bars, CALM), PaperBroker(), plan(*days), period_s=1)
    await harness.run()

    assert fills(harness) == [BOUGHT, ("sell", 10, sold_at)]
    assert harness.state.open == {}


async def test_where_a_trailing_stop_is_now_is_reported_and_adjusted_at_a_split(autojump_clock):
    bars = feed(CALM, RISE, (54, 60, 53, 59), (59, 59, 57, 57), split=2)
    bracket = entry(take=200, stop=95, trail=TRAIL)
    harness = TradingHarness(bars, strategy=plan([bracket]), limits=Limits(max_jump=Decimal("0.9")), period_s=1)
    await harness.run()

    stops = [one.stop_price for step in harness.step_history for one in step.output.reports if one.side is Side.SELL]
    assert list(dict.fromkeys(stops)) == [95, 105, Decimal("57.5")]
    assert [(side, units) for side, units, _ in fills(harness)] == [("buy", 10), ("sell", 20)]
    assert harness.step_history[-1].output.fills[0].fill.price == Decimal("57.5")


def test_a_held_stop_trails_and_goes_on_where_it_was_reported() -> None:
    def shown(day: int, prices: Prices) -> MarketSlice:
        return MarketSlice(FIRST + timedelta(day), {"A": Bar(*map(Decimal, prices), Decimal(1))})

    first, second = HeldOrders(), HeldOrders()
    placed = PlacedOrder("a", STOP, Source.STRATEGY, FIRST)
    first.hold(placed)
    seen = [first.observe(shown(day, RISE)) for day in (1, 1)]
    reported = first.hold(placed).stop_price
    assert reported is not None
    second.hold(
        PlacedOrder(
            "a", Order("A", Side.SELL, Decimal(10), OrderKind.STOP, None, reported, trail=TRAIL), Source.STRATEGY, FIRST
        )
    )

    assert (seen[0], seen[1], reported) == ((), (), 105)
    assert [one.client_id for one in second.observe(shown(3, (106, 106, 105, 105)))] == ["a"]


def test_a_held_stop_trails_also_where_another_harness_of_the_account_sees_other_symbols_or_older_bars() -> None:
    held, placed = HeldOrders(), PlacedOrder("a", STOP, Source.STRATEGY, FIRST)
    held.hold(placed)
    for symbol, day, prices in (("A", 2, RISE), ("B", 2, RISE), ("B", 1, RISE), ("A", 1, (100, 100, 90, 90))):
        bar = Bar(*map(Decimal, prices), Decimal(1))
        assert held.observe(MarketSlice(FIRST + timedelta(day), {symbol: bar})) == ()

    assert [one.stop_price for one in held.reports(["A"])] == [105]
    after = MarketSlice(FIRST + timedelta(3), {"A": Bar(*map(Decimal, (106, 106, 105, 105)), Decimal(1))})
    assert [one.client_id for one in held.observe(after)] == ["a"]


@pytest.mark.parametrize(
    ("order", "why"),
    [
        (entry(trail=Decimal(-1)), "expected a trail above 0, was -1"),
        (entry(stop=None, trail=TRAIL), "trail: expected a stop_price, or the stop_loss of an exit, to begin with, was none"),
    ],
)
async def test_a_trail_that_makes_no_sense_is_refused_with_the_reason(autojump_clock, order, why):
    harness = TradingHarness(feed(CALM, CALM), strategy=plan([order]), period_s=1)
    await harness.run()

    assert [one.reason for one in harness.step_history[1].output.refused] == [why]
