"""The averages are what the formula says, exactly resumable; the strategy holds what rises, whatever came between."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import msgspec
import pytest

from harnesses import HarnessMisuse
from harnesses.trading.indicators import NEW, Ema, Standing, after_price, after_split, values
from harnesses.trading.market.orders import Order, Side
from harnesses.trading.strategies import Market, Quote, cross_orders, cross_strategy, trend

PRICES = [10.0, 11.0, 12.5, 11.25, 9.0, 8.5, 14.0, 15.5, 15.0, 3.0]


def standing(ema: Ema, prices: list[float], start: Standing = NEW) -> Standing:
    for price in prices:
        start = ema.after(start, price, None)
    return start


def by_definition(window: int, prices: list[float]) -> Fraction | None:
    if len(prices) < window:
        return None
    mean = sum(map(Fraction, prices[:window])) / window
    for price in prices[window:]:
        mean += (Fraction(price) - mean) * Fraction(2, window + 1)
    return mean


@pytest.mark.parametrize("window", [1, 2, 3, 5, 10, 11])
@pytest.mark.parametrize("seen", range(len(PRICES) + 1))
def test_an_average_is_what_the_definition_says(window, seen):
    value = Ema(window).value(standing(Ema(window), PRICES[:seen]))

    expected = by_definition(window, PRICES[:seen]) if seen else None
    assert value == (None if expected is None else pytest.approx(float(expected), rel=1e-14))


@pytest.mark.parametrize("seen", [0, 1, 2, 3, 7])
def test_an_average_read_back_from_disk_goes_on_exactly(seen):
    stood = standing(Ema(3), PRICES[:seen])

    again = msgspec.json.decode(msgspec.json.encode(stood), type=Standing)

    assert standing(Ema(3), PRICES[seen:], again) == standing(Ema(3), PRICES)


@pytest.mark.parametrize("seen", [2, 3, 7])
def test_an_average_goes_on_over_a_split_as_if_all_prices_had_been_adjusted(seen):
    split = Ema(3).after_split(standing(Ema(3), PRICES[:seen]), 4.0)

    rest = [price / 4 for price in PRICES[seen:]]
    assert standing(Ema(3), rest, split) == standing(Ema(3), [price / 4 for price in PRICES])


def test_an_indicator_that_is_new_to_a_stored_state_begins_and_one_that_is_gone_is_dropped():
    indicators = {"ema1": Ema(1), "ema2": Ema(2)}

    standings = after_price(indicators, {"ema2": Standing(1, (5.0,)), "ema9": Standing(3, (1.0,))}, 10.0, None)

    assert standings == {"ema1": Standing(1, (10.0,)), "ema2": Standing(2, (10.0,))}
    assert values(indicators, after_split(indicators, standings, 2.0)) == {"ema1": 5.0, "ema2": 5.0}


@pytest.mark.parametrize(
    ("fast", "slow", "expected"), [(None, None, 0), (1.0, None, 0), (2.0, 1.0, 1), (1.0, 2.0, -1), (1.0, 1.0, 0)]
)
def test_the_trend_is_the_sign_of_fast_less_slow(fast, slow, expected):
    assert trend(fast, slow) == expected


def quote(fast: float | None, slow: float | None, units: int = 0, pending: int = 0) -> Quote:
    return Quote(Decimal(10), Decimal(units), {"fast": fast, "slow": slow}, Decimal(pending))


def market(cash: int = 1000, **quotes: Quote) -> Market:
    equity = Decimal(cash) + sum(quote.units * quote.close for quote in quotes.values())
    return Market(datetime(2000, 3, 1, tzinfo=UTC), quotes, Decimal(cash), equity)


@pytest.mark.parametrize(
    ("quote", "orders"),
    [
        (quote(None, None), []),
        (quote(2.0, 1.0), [(Side.BUY, 50)]),
        (quote(2.0, 1.0, units=3), []),
        (quote(2.0, 1.0, pending=3), []),
        (quote(1.0, 1.0), []),
        (quote(1.0, 1.0, units=3), []),
        (quote(1.0, 2.0), []),
        (quote(1.0, 2.0, units=3), [(Side.SELL, 3)]),
        (quote(1.0, 2.0, units=3, pending=-2), [(Side.SELL, 1)]),
        (quote(1.0, 2.0, units=3, pending=-3), []),
    ],
)
def test_what_rises_is_held_and_what_falls_is_not(quote, orders):
    made = cross_orders(market(A=quote), "fast", "slow", Decimal("0.5"))

    assert [(order.side, order.units) for order in made] == orders


def test_sales_come_first_and_purchases_share_the_cash_there_is():
    asked = market(cash=70, A=quote(2.0, 1.0), B=quote(1.0, 2.0, units=3), C=quote(2.0, 1.0))

    orders = cross_orders(asked, "fast", "slow", Decimal("0.5"))

    assert orders == [
        Order("B", Side.SELL, Decimal(3), reason="fast below slow"),
        Order("A", Side.BUY, Decimal(5), reason="fast above slow"),
        Order("C", Side.BUY, Decimal(2), reason="fast above slow"),
    ]


@pytest.mark.parametrize("windows", [(0, 5), (5, 5), (6, 5)])
def test_windows_that_can_not_cross_are_refused(windows):
    with pytest.raises(HarnessMisuse, match="windows: expected 0 < fast < slow"):
        cross_strategy(*windows)


def test_the_strategy_names_each_average_by_its_window():
    assert cross_strategy(5, 20).indicators == {"ema5": Ema(5), "ema20": Ema(20)}
