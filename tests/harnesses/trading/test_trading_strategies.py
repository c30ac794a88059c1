"""Strategies decide at exact bounds, never spend what is not there, and sell before they buy; also over recorded data."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from math import inf, nextafter

import msgspec
import pytest
from attrs import evolve, field, frozen
from hypothesis import given
from hypothesis import strategies as st

from harnesses import HarnessMisuse, LoadedContext
from harnesses.trading.feeds.replay_feed import ReplayFeed
from harnesses.trading.indicators import Standing, after_price, after_split, values
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.orders import ZERO, Order, Side
from harnesses.trading.strategies import (
    Market,
    Plan,
    Quote,
    Strategy,
    cross_strategy,
    decide,
    due,
    equal_weights,
    portfolio_orders,
    portfolio_strategy,
    rsi_orders,
    rsi_strategy,
)
from tests import ROOT

DATA = ROOT / "examples" / "data"
FILES = {symbol: DATA / f"{symbol.lower()}.csv" for symbol in ("AAPL", "MSFT")}
RECORDED = ReplayFeed.read(FILES, splits=DATA / "splits.csv")
NOW = datetime(2000, 3, 1, tzinfo=UTC)


def ask(cash: int | Decimal, previous: datetime | None = None, **quotes: Quote) -> Market:
    equity = Decimal(cash) + sum(quote.units * quote.close for quote in quotes.values())
    return Market(NOW, quotes, Decimal(cash), equity, previous)


def quote(close: int, units: int = 0, **more: object) -> Quote:
    return Quote(Decimal(close), Decimal(units), **more)


async def answer(strategy: Strategy, market: Market) -> list[Order]:
    return list(await strategy.agent.run(input=market, context=LoadedContext(None), step_number=1))


def brief(orders: list[Order]) -> list[tuple[str, str, Decimal]]:
    return [(order.side.value, order.symbol, order.units) for order in orders]


# --- the relative strength index


@pytest.mark.parametrize(
    ("rsi", "side"),
    [
        (None, None),
        (0.0, Side.BUY),
        (nextafter(30.0, 0), Side.BUY),
        (30.0, None),
        (50.0, None),
        (70.0, None),
        (nextafter(70.0, inf), Side.SELL),
        (100.0, Side.SELL),
    ],
)
def test_below_30_is_bought_above_70_is_sold_and_the_bounds_are_held(rsi, side):
    assert decide(rsi) is side


async def test_the_index_buys_for_its_stake_and_sells_all_it_has():
    low, high = quote(30, indicators={"rsi14": 20.0}), quote(10, 50, indicators={"rsi14": 80.0})

    orders = await answer(rsi_strategy(Decimal("0.1")), ask(500, LOW=low, HIGH=high))

    assert orders == [
        Order("HIGH", Side.SELL, Decimal(50), reason="RSI 80.0"),
        Order("LOW", Side.BUY, Decimal(3), reason="RSI 20.0"),
    ]


@pytest.mark.parametrize(
    ("cash", "quote", "units"),
    [
        (1000, quote(30), 16),
        (1000, quote(30, lot=Decimal("0.001")), Decimal("16.666")),
        (1000, quote(30, lot=Decimal(5)), 15),
        (0, quote(30), None),
        (29, quote(30), None),
        (1000, quote(30, pending=Decimal(30)), 3),
        (1000, quote(30, pending=Decimal(40)), None),
        (-5, quote(30, 1), None),
    ],
)
def test_a_purchase_is_in_whole_lots_of_cash_that_is_free(cash, quote, units):
    orders = rsi_orders(ask(cash, A=evolve(quote, indicators={"rsi": 10.0})), Decimal("0.5"))

    assert [order.units for order in orders] == ([] if units is None else [units])


@pytest.mark.parametrize("stake", ["0", "-0.1", "1.01", "NaN"])
@pytest.mark.parametrize("make", [rsi_strategy, lambda stake: cross_strategy(2, 3, stake)])
def test_a_stake_that_is_no_part_of_the_equity_is_refused(make, stake):
    with pytest.raises(HarnessMisuse, match="stake: expected a part of the equity"):
        make(Decimal(stake))


# --- the portfolio


HALVES = Plan({"A": Decimal("0.5"), "B": Decimal("0.5")}, reserve=ZERO, band=Decimal("0.05"), every_days=None)


@pytest.mark.parametrize(
    ("market", "orders"),
    [
        (ask(1000, A=quote(10), B=quote(20)), [("buy", "A", 50), ("buy", "B", 25)]),
        (ask(0, A=quote(10, 50), B=quote(20, 25)), []),
        (ask(0, A=quote(10, 55), B=quote(10, 45)), []),
        (ask(0, A=quote(10, 56), B=quote(10, 44)), [("sell", "A", 6), ("buy", "B", 6)]),
        (ask(0, B=quote(10, 44), A=quote(10, 56)), [("sell", "A", 6), ("buy", "B", 6)]),
        (ask(1000, A=quote(10), C=quote(20, 25)), [("buy", "A", 75)]),
        (ask(0, A=quote(10, 56, pending=Decimal(-6)), B=quote(10, 44, pending=Decimal(6))), []),
        (ask(100, A=quote(7), B=quote(9)), [("buy", "A", 7), ("buy", "B", 5)]),
        (ask(1000), []),
        (ask(0, A=quote(10), B=quote(10)), []),
    ],
)
def test_a_portfolio_that_has_drifted_beyond_its_band_is_set_right_sales_first(market, orders):
    assert brief(portfolio_orders(market, HALVES)) == orders


def test_a_reserve_stays_in_cash():
    orders = portfolio_orders(ask(1000, A=quote(1), B=quote(1)), evolve(HALVES, reserve=Decimal("0.1")))

    assert brief(orders) == [("buy", "A", 450), ("buy", "B", 450)]


def test_what_is_held_makes_way_for_the_reserve():
    orders = portfolio_orders(ask(0, A=quote(1, 1000), B=quote(1)), evolve(HALVES, reserve=Decimal("0.1")))

    assert brief(orders) == [("sell", "A", 550), ("buy", "B", 450)]


@pytest.mark.parametrize(("previous", "orders"), [(NOW, 0), (NOW - timedelta(7), 2), (None, 2)])
async def test_a_portfolio_is_left_alone_until_its_period_is_over(previous, orders):
    strategy = portfolio_strategy(["A", "B"], every_days=7)

    assert len(await answer(strategy, ask(1000, previous, A=quote(10), B=quote(10)))) == orders


@pytest.mark.parametrize("cash", [-100, -200])
def test_an_account_without_equity_trades_nothing(cash):
    assert portfolio_orders(ask(cash, A=quote(10, 10), B=quote(10)), HALVES) == []


def test_a_symbol_of_weight_0_is_sold():
    plan = evolve(HALVES, weights={"A": ZERO, "B": Decimal("0.5")})

    assert brief(portfolio_orders(ask(0, A=quote(10, 10), B=quote(10, 10)), plan)) == [("sell", "A", 10)]


@pytest.mark.parametrize(
    ("previous", "every_days", "expected"),
    [(None, 7, True), (timedelta(1), None, True), (timedelta(7), 7, True), (timedelta(8), 7, True), (timedelta(0), 7, False)],
)
def test_a_portfolio_is_looked_at_when_a_new_period_has_begun(previous, every_days, expected):
    assert due(None if previous is None else NOW - previous, NOW, every_days) is expected


def test_in_any_run_of_days_each_period_is_looked_at_once():
    days = [NOW + timedelta(number) for number in range(70)]

    looks = [due(before, day, 7) for before, day in pairwise(days)]

    assert sum(looks) in (9, 10)
    assert all(sum(looks[start : start + 7]) == 1 for start in range(len(looks) - 6))


lots = st.sampled_from([Decimal(1), Decimal("0.01"), Decimal(100)])
quotes = st.builds(
    Quote,
    close=st.decimals(Decimal("0.01"), 5000, places=2),
    units=st.integers(0, 5000).map(Decimal),
    lot=lots,
)


@given(
    st.dictionaries(st.sampled_from("ABCD"), quotes), st.decimals(0, 100_000, places=2), st.sampled_from(["0", "0.02", "0.5"])
)
def test_a_portfolio_never_spends_more_than_there_is_nor_sells_more_than_it_has(quotes, cash, reserve):
    plan = Plan(dict.fromkeys("ABC", Decimal("0.333")), Decimal(reserve), Decimal("0.01"), None)

    orders = portfolio_orders(ask(cash, **quotes), plan)

    value = {order.symbol: order.units * quotes[order.symbol].close for order in orders}
    left = cash - sum(value[order.symbol] * (1 if order.side is Side.BUY else -1) for order in orders)
    assert left >= 0
    assert all(order.units > 0 and order.units % quotes[order.symbol].lot == 0 for order in orders)
    assert all(order.units <= quotes[order.symbol].units for order in orders if order.side is Side.SELL)
    assert [order.side for order in orders] == sorted((order.side for order in orders), reverse=True)


@pytest.mark.parametrize("count", range(1, 30))
def test_symbols_alone_share_equally_and_never_exceed_the_whole(count):
    weights = equal_weights([f"S{number}" for number in range(count)])

    assert len(weights) == count
    assert len(set(weights.values())) == 1
    assert Decimal("0.999") < sum(weights.values()) <= 1


@pytest.mark.parametrize(
    ("weights", "options", "what"),
    [
        ([], {}, "expected a list of symbols"),
        ("AAPL", {}, "expected a list of symbols, was 'AAPL'"),
        ({}, {}, "expected a sum above 0"),
        ({"A": Decimal("0.6"), "B": Decimal("0.5")}, {}, "expected a sum above 0 and at most 1, was 1.1"),
        ({"A": Decimal("-0.1")}, {}, "weight of A: expected a part of the equity, from 0 up"),
        (["A"], {"band": Decimal(2)}, "band: expected a part"),
        (["A"], {"reserve": Decimal(-1)}, "reserve: expected a part"),
        (["A"], {"every_days": 0}, "every_days: expected 1 or more"),
    ],
)
def test_a_portfolio_that_can_not_be_is_refused(weights, options, what):
    with pytest.raises(HarnessMisuse, match=what):
        portfolio_strategy(weights, **options)


# --- all of them over recorded data


@frozen
class Account:
    """As much of a harness's state as a strategy needs."""

    cash: Decimal
    units: Mapping[str, Decimal] = field(factory=dict)
    closes: Mapping[str, Decimal] = field(factory=dict)
    standings: Mapping[str, Mapping[str, Standing]] = field(factory=dict)
    time: datetime | None = None

    @property
    def equity(self) -> Decimal:
        return self.cash + sum((units * self.closes[symbol] for symbol, units in self.units.items()), ZERO)


def take(account: Account, strategy: Strategy, slice_: MarketSlice) -> Account:
    """Return the account at the closes of a slice: splits, then indicators."""
    units, standings = dict(account.units), dict(account.standings)
    for symbol, bar in slice_.bars.items():
        before = account.closes.get(symbol)
        split = after_split(strategy.indicators, standings.get(symbol, {}), float(bar.split))
        was = None if before is None else float(before / bar.split)
        standings[symbol] = after_price(strategy.indicators, split, float(bar.close), was)
        units[symbol] = units.get(symbol, ZERO) * bar.split
    closes = {**account.closes, **{symbol: bar.close for symbol, bar in slice_.bars.items()}}
    return evolve(account, units=units, closes=closes, standings=standings)


def look(account: Account, strategy: Strategy, slice_: MarketSlice) -> Market:
    quotes = {
        symbol: Quote(bar.close, account.units[symbol], values(strategy.indicators, account.standings[symbol]))
        for symbol, bar in slice_.bars.items()
    }
    return Market(slice_.time, quotes, account.cash, account.equity, account.time)


def fill(account: Account, order: Order) -> Account:
    change = order.units if order.side is Side.BUY else -order.units
    units = {**account.units, order.symbol: account.units[order.symbol] + change}
    return evolve(account, units=units, cash=account.cash - change * account.closes[order.symbol])


async def play(strategy: Strategy, account: Account, slices: int | None = None) -> tuple[Account, list[Order]]:
    """Trade at the closes from where `account` is, without fees; return the account at the end, and all orders."""
    feed, made = RECORDED.another(), []
    while (slice_ := await feed.next_slice(account.time)) is not None and slices != 0:
        account = take(account, strategy, slice_)
        orders = await answer(strategy, look(account, strategy, slice_))
        for order in orders:
            account = fill(account, order)
            assert account.units[order.symbol] >= 0
            assert account.cash >= 0
        account, slices = evolve(account, time=slice_.time), None if slices is None else slices - 1
        made += orders
    return account, made


MAKERS = {
    "rsi": lambda: rsi_strategy(Decimal("0.2")),
    "cross": lambda: cross_strategy(20, 100, Decimal("0.5")),
    "portfolio": lambda: portfolio_strategy(["AAPL", "MSFT"]),
    "monthly": lambda: portfolio_strategy({"AAPL": Decimal("0.7"), "MSFT": Decimal("0.3")}, every_days=30, band=ZERO),
}


@pytest.mark.parametrize("name", MAKERS)
async def test_over_recorded_data_a_strategy_trades_both_ways_and_the_same_way_twice(name):
    account, orders = await play(MAKERS[name](), Account(Decimal(10_000)))

    assert {order.side for order in orders} == {Side.BUY, Side.SELL}
    assert account.equity > 0
    assert await play(MAKERS[name](), Account(Decimal(10_000))) == (account, orders)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("slices", [1, 15, 99, 1000])
async def test_a_strategy_over_a_state_read_back_from_disk_goes_on_identically(name, slices):
    whole = await play(MAKERS[name](), Account(Decimal(10_000)))
    first, orders = await play(MAKERS[name](), Account(Decimal(10_000)), slices)

    stored = msgspec.json.decode(msgspec.json.encode(first), type=Account)
    second, more = await play(MAKERS[name](), stored)

    assert stored == first
    assert (second, orders + more) == whole


async def test_over_recorded_data_a_portfolio_stays_within_its_band():
    strategy = portfolio_strategy(["AAPL", "MSFT"], band=Decimal("0.03"))
    account, farthest = Account(Decimal(1_000_000)), ZERO
    for _ in range(500):
        account, _ = await play(strategy, account, 1)
        parts = [account.units[symbol] * account.closes[symbol] / account.equity for symbol in FILES]
        farthest = max(farthest, *(abs(part - Decimal("0.49")) for part in parts))

    assert Decimal("0.02") < farthest < Decimal("0.0301")
