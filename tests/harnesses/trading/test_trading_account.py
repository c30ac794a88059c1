"""Money and positions: no negative cash, no short position, no trade at a price that jumped, and a halt is for ever."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesses import HarnessMisuse
from harnesses.trading import Action, Bar, Limits, MarketDay, Order, Rsi, TradingOutput, TradingState
from harnesses.trading.account import close_day, market, open_account, open_day

FIRST = date(2000, 3, 1)
USUAL = Limits()
HALF = Limits(max_drawdown=Decimal("0.5"))


def bar(close: object, split: object = 1) -> Bar:
    price = Decimal(str(close))
    return Bar(price, price, price, price, 100, Decimal(str(split)))


def days(**closes: list[object]) -> Iterator[MarketDay]:
    """Yield a day for each position of the lists; None is a day without a bar."""
    for index, row in enumerate(zip(*closes.values(), strict=True)):
        bars = {
            symbol: close if isinstance(close, Bar) else bar(close)
            for symbol, close in zip(closes, row, strict=True)
            if close is not None
        }
        yield MarketDay(FIRST + timedelta(index), bars)


def buy(amount: object) -> Order:
    return Order(Action.BUY, Decimal(str(amount)))


def sell(amount: object) -> Order:
    return Order(Action.SELL, Decimal(str(amount)))


def trade(state: TradingState, day: MarketDay, limits: Limits = USUAL, **orders: Order) -> tuple[TradingState, TradingOutput]:
    return close_day(open_day(state, day, limits), day, orders)


def account(cash: object = 1000, *symbols: str) -> TradingState:
    return open_account(Decimal(str(cash)), symbols or ("A",))


def test_a_purchase_and_a_sale_move_money_and_units_exactly():
    first, second = days(A=["10.01", "10.03"])

    state, bought = trade(account(), first, A=buy(7))
    state, sold = trade(state, second, A=sell(7))

    assert (bought.trades["A"].amount, bought.cash, bought.equity) == (7, Decimal("929.93"), 1000)
    assert (sold.trades["A"].amount, state.cash, state.holdings["A"].units) == (7, Decimal("1000.14"), 0)


def test_a_purchase_is_cut_to_the_whole_units_that_cash_allows():
    (day,) = days(A=[30])

    state, output = trade(account(100), day, A=buy(50))

    assert output.trades["A"].amount == 3
    assert state.cash == 10


def test_a_sale_is_cut_to_what_is_held():
    first, second = days(A=[10, 11])

    state, _ = trade(account(), first, A=buy(5))
    state, output = trade(state, second, A=sell(9))

    assert output.trades["A"].amount == 5
    assert state.holdings["A"].units == 0


def test_what_a_sale_brings_in_can_be_spent_the_same_day():
    first, second = days(A=[10, 10], B=[10, 10])

    state, _ = trade(account(100, "A", "B"), first, B=buy(10))
    state, output = trade(state, second, A=buy(10), B=sell(10))

    assert {symbol: one.action for symbol, one in output.trades.items()} == {"A": Action.BUY, "B": Action.SELL}
    assert [holding.units for holding in state.holdings.values()] == [10, 0]


@given(
    st.lists(
        st.tuples(
            st.decimals("0.01", "500", places=2),
            st.sampled_from(Action),
            st.decimals(0, 1000, places=1),
        ),
        max_size=30,
    )
)
def test_whatever_is_ordered_cash_and_positions_are_never_negative(history):
    state = account("333.33")

    for day, (_, action, amount) in zip(days(A=[price for price, _, _ in history]), history, strict=True):
        state, output = trade(state, day, A=Order(action, amount))

        assert state.cash >= 0
        assert state.holdings["A"].units >= 0
        assert output.equity == state.cash + state.holdings["A"].units * state.holdings["A"].mark


@pytest.mark.parametrize("amount", ["-1", "NaN", "Infinity"])
def test_an_amount_that_is_no_number_of_units_is_refused(amount):
    (day,) = days(A=[10])

    with pytest.raises(HarnessMisuse, match=r"order for 'A': expected an amount from 0 up"):
        trade(account(), day, A=buy(amount))


def test_an_order_for_an_unknown_symbol_is_refused():
    (day,) = days(A=[10])

    with pytest.raises(HarnessMisuse, match="order for 'Z': expected one of A"):
        trade(account(), day, Z=buy(1))


def test_a_drawdown_at_the_limit_does_not_halt():
    first, second = days(A=[10, 8])
    limits = Limits(max_drawdown=Decimal("0.2"))

    state, _ = trade(account(), first, limits, A=buy(100))
    state, output = trade(state, second, limits)

    assert (output.equity, output.halted) == (800, False)


def test_a_drawdown_past_the_limit_sells_everything_and_halts():
    first, second = days(A=[10, "7.99"])
    limits = Limits(max_drawdown=Decimal("0.2"))

    state, _ = trade(account(), first, limits, A=buy(100))
    state, output = trade(state, second, limits, A=buy(5))

    assert state.halted
    assert (output.trades["A"].action, output.trades["A"].amount) == (Action.SELL, 100)
    assert (state.cash, state.holdings["A"].units) == (799, 0)


def test_the_drawdown_is_measured_from_the_highest_equity():
    first, second, third = days(A=[10, 13, "10.3"])
    limits = Limits(max_drawdown=Decimal("0.2"))

    state, _ = trade(account(), first, limits, A=buy(100))
    state, _ = trade(state, second, limits)
    state, output = trade(state, third, limits)

    assert state.high_water == 1300
    assert output.halted


def test_a_halted_account_never_trades_again():
    first, second, *later = days(A=[10, 7, 7, 8, 9, 12, 15])
    limits = Limits(max_drawdown=Decimal("0.2"))
    state, _ = trade(account(), first, limits, A=buy(100))
    state, _ = trade(state, second, limits)

    for day in later:
        state, output = trade(state, day, limits, A=buy(1))

        assert (output.trades["A"].action, output.trades["A"].reason) == (Action.HOLD, "halted")
        assert (output.halted, output.equity) == (True, 700)


def test_a_halted_account_sells_what_jumped_as_soon_as_the_price_is_believed():
    first, second, third = days(A=[10, 3, 3], B=[10, 7, 7])
    limits = Limits(max_drawdown=Decimal("0.1"))
    state, _ = trade(account(1000, "A", "B"), first, limits, A=buy(50), B=buy(50))

    state, halted = trade(state, second, limits)
    state, after = trade(state, third, limits)

    assert [halted.trades["A"].amount, halted.trades["B"].amount, halted.halted] == [0, 50, True]
    assert [after.trades["A"].amount, after.trades["B"].amount] == [50, 0]
    assert after.equity == after.cash == 500


def test_a_close_that_jumps_is_not_traded_at_and_not_counted():
    first, second = days(A=[10, "5.99"])

    state, _ = trade(account(), first, HALF, A=buy(100))
    opened = open_day(state, second, HALF)
    state, output = close_day(opened, second, {"A": sell(100)})

    assert market(opened, second).signals == {}
    assert (output.trades["A"].action, output.trades["A"].reason) == (Action.HOLD, "price jumped")
    assert output.equity == 1000


def test_a_close_at_the_edge_of_a_jump_is_traded_at():
    first, second = days(A=[10, 6])

    state, _ = trade(account(), first, HALF, A=buy(100))
    _, output = trade(state, second, HALF, A=sell(100))

    assert output.trades["A"].amount == 100


def test_a_true_fall_is_believed_with_the_next_close_and_halts_then():
    first, second, third = days(A=[10, 4, "4.1"])

    state, _ = trade(account(), first, HALF, A=buy(100))
    state, jumped = trade(state, second, HALF)
    state, believed = trade(state, third, HALF)

    assert (jumped.halted, believed.halted) == (False, True)
    assert state.cash == 410


def test_a_wrong_tick_is_forgotten_with_the_next_close():
    first, second, third = days(A=[10, 1000, 11])

    state, _ = trade(account(), first, A=buy(10))
    state, _ = trade(state, second, A=sell(10))
    state, output = trade(state, third, A=sell(10))

    assert (output.trades["A"].amount, output.equity) == (10, 1010)
    assert state.high_water == 1010
    assert state.holdings["A"].rsi == Rsi().after(1.0)


def test_a_known_split_changes_units_and_price_but_not_the_equity():
    first, second = days(A=[90, bar("45.5", split=2)])

    state, _ = trade(account(), first, A=buy(10))
    state, output = trade(state, second, A=sell(1))

    assert output.trades["A"].amount == 1
    assert state.holdings["A"].units == 19
    assert output.equity == 1010
    assert state.holdings["A"].rsi == Rsi().after(0.5)


def test_a_symbol_without_a_bar_is_held_at_its_last_price():
    first, second = days(A=[10, None], B=[10, 11])

    state, _ = trade(account(1000, "A", "B"), first, A=buy(10))
    state, output = trade(state, second, A=sell(10))

    assert (output.trades["A"].action, output.trades["A"].reason) == (Action.HOLD, "no bar")
    assert output.equity == 1000


def test_a_symbol_that_appears_later_is_taken_up():
    first, second = days(A=[10, 10], B=[None, 20])

    state, _ = trade(account(), first)
    state, output = trade(state, second, B=buy(2))

    assert state.holdings["B"].units == 2
    assert list(output.trades) == ["A", "B"]
