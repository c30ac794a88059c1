"""Screening: what the state and the limits allow of each order, and that nothing is refused without a reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from harnesses.trading.exposure import Exposure
from harnesses.trading.market.instruments import Instrument
from harnesses.trading.market.orders import Order, OrderKind, Side, Source
from harnesses.trading.order_screening import Screening, Wanted, sale_of_all, screen, stop_loss_orders
from harnesses.trading.risk import Limits, Risk, RiskState, flatten, stop_entries

NOON = datetime(2024, 5, 6, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)


def risk(state: RiskState = RiskState.ACTIVE, equity: object = 1000) -> Risk:
    risk = Risk(Decimal(str(equity)), Decimal(str(equity)))
    match state:
        case RiskState.HALTED:
            return flatten(risk, "enough", NOON)
        case RiskState.REDUCING:
            return stop_entries(risk, "the weekend", NOON)
        case _:
            return risk


def held(units: object = 10, price: object = 10, **more: object) -> Exposure:
    return Exposure(
        Instrument("A", tick=Decimal("0.01")), Decimal(str(units)), None if price is None else Decimal(str(price)), **more
    )


def order(side: Side, units: object, symbol: str = "A", **more: object) -> Order:
    return Order(symbol, side, Decimal(str(units)), **more)


def run(*orders: Order, source: Source = Source.STRATEGY, cash: object = 500, **more: object) -> Screening:
    known = {"risk": risk(), "limits": Limits(), "exposures": {"A": held(), "B": held(0)}, "time": NOON, "age_s": 0.0}
    return screen([Wanted(one, source) for one in orders], cash=Decimal(str(cash)), **{**known, **more})


def units(screening: Screening) -> list[Decimal]:
    return [one.order.units for one in screening.allowed]


@pytest.mark.parametrize("source", [Source.STRATEGY, Source.RISK, Source.OPERATOR])
@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("state", RiskState)
def test_each_state_allows_what_the_table_says(state, side, source):
    halted_strategy = state is RiskState.HALTED and source is Source.STRATEGY
    entry_while_reducing = state is RiskState.REDUCING and side is Side.BUY and source is not Source.OPERATOR

    screening = run(order(side, 5), source=source, risk=risk(state))

    assert bool(screening.allowed) is not (halted_strategy or entry_while_reducing)
    assert [one.reason.split(":")[0] for one in screening.refused] == ([] if screening.allowed else [str(state)])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"age_s": 61.0, "limits": Limits(max_age_s=60.0)}, "stale data: 61 s old, 60 s allowed"),
        ({"exposures": {"A": held(price=None)}}, "no bar"),
        ({"exposures": {"A": held(price=None, why_not="price jumped")}}, "price jumped"),
    ],
)
def test_without_a_price_to_believe_only_a_person_sells(change, reason):
    assert [one.reason for one in run(order(Side.SELL, 5), **change).refused] == [reason]
    assert [one.reason for one in run(order(Side.SELL, 5), source=Source.RISK, **change).refused] == [reason]
    assert units(run(order(Side.SELL, 5), source=Source.OPERATOR, **change)) == [5]


def test_a_sale_is_cut_to_what_is_held_and_not_being_sold():
    screening = run(order(Side.SELL, 9), exposures={"A": held(10, selling=Decimal(4))})

    assert units(screening) == [6]
    assert [(one.order.units, one.by, one.reason) for one in screening.refused] == [
        (3, Source.RISK, "only 6 units available to sell")
    ]


def test_two_sales_do_not_sell_the_same_units():
    assert units(run(order(Side.SELL, 8), order(Side.SELL, 8))) == [8, 2]


def test_a_purchase_is_cut_to_the_whole_units_that_cash_allows():
    screening = run(order(Side.BUY, 50), cash=97)

    assert units(screening) == [9]
    assert [(one.order.units, one.reason) for one in screening.refused] == [(41, "cash for only 9.7 units")]


def test_what_a_sale_brings_in_can_be_spent_and_sales_come_first():
    screening = run(order(Side.BUY, 10, "B"), order(Side.SELL, 10), cash=0)

    assert [(one.order.symbol, one.order.units) for one in screening.allowed] == [("A", 10), ("B", 10)]


def test_a_sale_that_may_have_to_wait_brings_nothing_to_spend():
    screening = run(order(Side.BUY, 10, "B"), order(Side.SELL, 10, kind=OrderKind.LIMIT, limit_price=Decimal(11)), cash=0)

    assert [one.order.symbol for one in screening.allowed] == ["A"]


def test_a_margin_for_fees_is_left_in_cash():
    assert units(run(order(Side.BUY, 10), cash=100, limits=Limits(cash_margin=Decimal("0.01")))) == [9]


def test_a_position_is_bought_up_to_its_part_of_the_equity():
    limits = Limits(max_position=Decimal("0.25"))

    screening = run(order(Side.BUY, 50), limits=limits, exposures={"A": held(10, buying=Decimal(5))})

    assert units(screening) == [10]
    assert screening.refused[0].reason == "max_position: only 10 units within 0.25 of the equity"


@pytest.mark.parametrize("kind", [OrderKind.LIMIT, OrderKind.STOP])
def test_a_purchase_above_the_market_counts_at_its_own_price_for_its_part_of_the_equity(kind):
    wanted = order(Side.BUY, 50, kind=kind, **{f"{kind}_price": Decimal(20)})

    assert units(run(wanted, limits=Limits(max_position=Decimal("0.25")))) == [7]


def test_open_purchases_count_at_their_own_price_for_their_part_of_the_equity():
    limits, above = Limits(max_position=Decimal("0.25")), {"A": held(10, buying=Decimal(5), buying_cost=Decimal(100))}
    stop = order(Side.BUY, 5, kind=OrderKind.STOP, stop_price=Decimal(20))

    assert units(run(order(Side.BUY, 50), limits=limits, exposures=above)) == [5]
    assert units(run(stop, order(Side.BUY, 50), limits=limits)) == [5, 5]


def test_a_position_beyond_its_part_may_be_sold_but_not_bought():
    limits = Limits(max_position=Decimal("0.05"))

    assert units(run(order(Side.SELL, 1), limits=limits)) == [1]
    assert units(run(order(Side.BUY, 1), limits=limits)) == []


def test_a_symbol_that_cools_down_may_be_sold_but_not_bought():
    cooling = evolve(risk(), cooldowns={"A": LATER})

    assert units(run(order(Side.BUY, 1), order(Side.SELL, 1), risk=cooling)) == [1]
    assert units(run(order(Side.BUY, 1), risk=cooling, time=LATER)) == [1]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (order(Side.BUY, -1), "expected units above 0"),
        (order(Side.BUY, "NaN"), "expected units above 0"),
        (order(Side.SELL, "Infinity"), "expected units above 0"),
        (order(Side.BUY, 1, "Z"), "'Z' is not a symbol of the feed"),
        (order(Side.BUY, 1, kind=OrderKind.LIMIT), "a limit order needs a limit_price above 0, was None"),
        (order(Side.BUY, 1, kind=OrderKind.STOP, stop_price=Decimal("-1")), "a stop order needs a stop_price above 0"),
        (order(Side.BUY, "0.5"), "0.5 units are less than a lot of 1"),
    ],
)
def test_an_order_that_is_none_is_refused_with_a_reason(wrong, reason):
    screening = run(wrong)

    assert screening.allowed == ()
    assert screening.refused[0].reason.startswith(reason)


def test_what_the_venue_would_not_take_is_refused_before_it_is_sent():
    small = Instrument("A", lot=Decimal("0.001"), min_units=Decimal("0.01"), min_notional=Decimal(5))
    exposures = {"A": evolve(held(), instrument=small)}

    assert (
        run(order(Side.BUY, "0.009"), exposures=exposures)
        .refused[0]
        .reason.startswith("0.009 units are less than the minimum of 0.01")
    )
    assert run(order(Side.BUY, "0.4"), exposures=exposures).refused[0].reason == "4 is less than the minimum of 5"


@pytest.mark.parametrize(("side", "price"), [(Side.BUY, "9.12"), (Side.SELL, "9.13")])
def test_a_limit_is_rounded_to_the_tick_and_never_against_its_owner(side, price):
    (allowed,) = run(order(side, 1, kind=OrderKind.LIMIT, limit_price=Decimal("9.126"))).allowed

    assert allowed.order.limit_price == Decimal(price)


def test_cash_is_counted_at_the_limit_that_is_placed():
    assert units(run(order(Side.BUY, 2, kind=OrderKind.LIMIT, limit_price=Decimal("9.126")), cash="18.24")) == [2]


def test_a_limit_of_less_than_a_tick_is_refused():
    (refused,) = run(order(Side.BUY, 1, kind=OrderKind.LIMIT, limit_price=Decimal("0.001"))).refused

    assert refused.reason == "a limit order needs a limit_price above 0, was 0.00"
    assert refused.order.limit_price == Decimal("0.001")


def test_a_position_that_has_lost_too_much_is_sold_once():
    limits = Limits(stop_loss=Decimal("0.1"))
    exposures = {"A": held(10, "8.99"), "B": held(10, 9), "C": held(10, 1, selling=Decimal(10)), "D": held(10, None)}

    orders = stop_loss_orders(limits, exposures, dict.fromkeys("ABCD", Decimal(10)))

    assert [(one.order.symbol, one.order.units, one.source) for one in orders] == [("A", 10, Source.RISK)]


def test_a_sale_of_all_leaves_only_what_is_less_than_a_lot():
    exposures = {"A": held("10.5"), "B": held("0.5"), "C": held(0), "D": held(5, selling=Decimal(2))}

    orders = sale_of_all(exposures, Source.OPERATOR, "enough")

    assert [(one.order.symbol, one.order.units) for one in orders] == [("A", 10), ("D", 3)]


ORDERS = st.lists(
    st.builds(
        lambda symbol, side, units: order(side, units, symbol),
        st.sampled_from("AB"),
        st.sampled_from(Side),
        st.integers(1, 200),
    ),
    max_size=12,
)


@given(ORDERS, st.integers(0, 3000), st.integers(0, 50), st.decimals("0.05", 1, places=2))
def test_whatever_is_wanted_no_unit_and_no_cash_is_promised_twice(orders, cash, units_held, part):
    exposures = {"A": held(units_held, 10), "B": held(units_held, 7)}

    screening = run(*orders, cash=cash, limits=Limits(max_position=part), exposures=exposures)

    allowed = [(one.order.symbol, one.order.side, one.order.units) for one in screening.allowed]
    sold = {symbol: sum(units for of, side, units in allowed if of == symbol and side is Side.SELL) for symbol in "AB"}
    bought = {symbol: sum(units for of, side, units in allowed if of == symbol and side is Side.BUY) for symbol in "AB"}
    assert all(count <= units_held for count in sold.values())
    assert bought["A"] * 10 + bought["B"] * 7 <= cash + sold["A"] * 10 + sold["B"] * 7
    assert (
        all(
            not bought[symbol] or (bought[symbol] + units_held) * price <= 1000 * part
            for symbol, price in (("A", 10), ("B", 7))
        )
        or part == 1
    )


@given(ORDERS, st.integers(0, 3000), st.sampled_from(RiskState))
def test_whatever_is_wanted_is_allowed_or_refused_unit_by_unit(orders, cash, state):
    screening = run(*orders, cash=cash, risk=risk(state))

    wanted = sum(one.units for one in orders)
    assert sum(units(screening)) + sum(one.order.units for one in screening.refused) == wanted
    assert all(one.reason for one in screening.refused)
