"""The account: splits and jumps change prices, not wealth; fills count once; what is asked and screened is what there is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from attrs import evolve

from harnesses.trading import (
    Bar,
    Book,
    Fill,
    Instrument,
    Limits,
    MarketSlice,
    Order,
    OrderKind,
    OrderReport,
    OrderStatus,
    PlacedOrder,
    Position,
    Side,
    Source,
    TradingState,
    VenueAccount,
    rsi_strategy,
)
from harnesses.trading.account import adopt, ask, average_costs, exposures, free_cash, take_fills, take_slice, with_report
from harnesses.trading.indicators import Rsi

FIRST = datetime(2000, 3, 1, tzinfo=UTC)
HALF = Limits(max_drawdown=Decimal("0.5"))
INDICATORS = {"rsi": Rsi()}


def bar(close: object, split: object = 1) -> Bar:
    price = Decimal(str(close))
    return Bar(price, price, price, price, 100, Decimal(str(split)))


def slices(**closes: list[object]) -> Iterator[MarketSlice]:
    """Yield a slice for each position of the lists; None is a slice without a bar."""
    for index, row in enumerate(zip(*closes.values(), strict=True)):
        bars = {
            symbol: close if isinstance(close, Bar) else bar(close)
            for symbol, close in zip(closes, row, strict=True)
            if close is not None
        }
        yield MarketSlice(FIRST + timedelta(index), bars)


def holding(units: int = 100, cash: object = 0) -> TradingState:
    return TradingState(Book(Decimal(str(cash)), {"A": Position(Decimal(units), Decimal(units * 10))}))


def after(state: TradingState, *markets: MarketSlice) -> TradingState:
    for market in markets:
        state = take_slice(state, market, INDICATORS, HALF)
    return state


def known(state: TradingState, market: MarketSlice | None, *symbols: str):
    return exposures(state, {symbol: Instrument(symbol) for symbol in symbols or ("A",)}, market)


def fill(id: str, side: Side, units: object, price: object, *, fee: object = 0, client_id: str = "x-1-1") -> Fill:
    return Fill(id, client_id, "A", side, Decimal(str(units)), Decimal(str(price)), Decimal(str(fee)), FIRST)


def placed(side: Side, units: int, **more: object) -> PlacedOrder:
    return PlacedOrder("x-1-1", Order("A", side, Decimal(units), **more), Source.STRATEGY, FIRST)


def opened(state: TradingState, order: PlacedOrder, filled: int = 0) -> TradingState:
    want = order.order
    report = OrderReport("x-1-1", "1", "A", want.side, want.kind, want.units, Decimal(filled), OrderStatus.OPEN)
    return with_report(state, order, report)


def test_a_close_that_jumps_is_neither_valued_nor_traded_at_nor_counted():
    first, second = slices(A=[10, "5.99"])

    state = after(holding(), first, second)

    assert state.equity == 1000
    assert (known(state, second)["A"].price, known(state, second)["A"].why_not) == (None, "price jumped")
    assert state.standings == after(holding(), first).standings


def test_a_close_at_the_edge_of_a_jump_is_believed():
    first, second = slices(A=[10, 6])

    assert known(after(holding(), first, second), second)["A"].price == 6


def test_a_true_fall_is_believed_with_the_next_close():
    first, second, third = slices(A=[10, 4, "4.1"])

    assert after(holding(), first, second).equity == 1000
    assert after(holding(), first, second, third).equity == 410


def test_a_wrong_tick_is_forgotten_with_the_next_close():
    first, second, third = slices(A=[10, 1000, 11])

    state = after(holding(), first, second, third)

    assert state.equity == 1100
    assert state.standings["A"]["rsi"].seen == after(holding(), *slices(A=[10, 11])).standings["A"]["rsi"].seen


def test_a_known_split_changes_units_and_price_but_not_the_equity():
    first, second = slices(A=[90, bar("45.5", split=2)])

    state = after(holding(10), first, second)

    assert (state.book.units("A"), state.equity, known(state, second)["A"].price) == (20, 910, Decimal("45.5"))
    assert average_costs(state.book) == {"A": 5}


def test_a_symbol_without_a_bar_is_held_at_its_last_price():
    first, second = slices(A=[10, None], B=[10, 11])

    state = after(holding(), first, second)

    assert state.equity == 1000
    assert (known(state, second)["A"].price, known(state, second)["A"].why_not) == (None, "no bar")
    assert known(state, None)["A"].price == 10


def test_a_position_without_a_price_yet_counts_nothing():
    assert holding(cash=7).equity == 7


def test_a_fill_counts_once_and_says_whose_order_it_was():
    state, executions = take_fills(holding(cash=50), [fill("1", Side.BUY, 2, 10)] * 2, {"x-1-1": Source.RISK}, HALF)

    assert (state.cash, state.book.units("A")) == (30, 102)
    assert [(one.source, one.wanted_by) for one in executions] == [(Source.VENUE, Source.RISK)]


def test_a_fill_of_an_order_that_is_not_ours_counts_too():
    state, (execution,) = take_fills(holding(), [fill("1", Side.SELL, 1, 10, client_id="")], {}, HALF)

    assert (state.cash, execution.wanted_by) == (10, None)


@pytest.mark.parametrize(("price", "fee", "cools"), [(9, 0, True), (10, 0, False), (10, 1, True), (11, 1, False)])
def test_a_sale_that_brings_less_than_it_cost_cools_the_symbol_down(price, fee, cools):
    limits = Limits(cooldown_s=60.0)

    state, _ = take_fills(holding(), [fill("1", Side.SELL, 1, price, fee=fee)], {}, limits)

    assert state.risk.cooldowns == ({"A": FIRST + timedelta(seconds=60)} if cools else {})


def test_an_account_that_is_adopted_counts_as_bought_at_the_price_there_is():
    state = after(holding(), *slices(A=[20]))

    state = adopt(state, VenueAccount(Decimal(5), {"A": Decimal(3)}), {"A": "7"})

    assert (state.cash, state.book.positions, state.book.last_fill) == (
        5,
        {"A": Position(Decimal(3), Decimal(60))},
        {"A": "7"},
    )


def test_the_first_account_that_is_adopted_sets_the_high_water_mark_and_a_later_one_does_not():
    state = adopt(TradingState(), VenueAccount(Decimal(100), {}), {})

    assert state.risk.high_water == 100
    assert adopt(state, VenueAccount(Decimal(40), {}), {}).risk.high_water == 100


def test_open_orders_reserve_cash_and_units():
    (market,) = slices(A=[10])
    buying = opened(after(holding(cash=100), market), placed(Side.BUY, 5, kind=OrderKind.LIMIT, limit_price=Decimal(9)), 1)
    selling = opened(after(holding(), market), placed(Side.SELL, 5), 1)

    assert (free_cash(buying), known(buying, market)["A"].buying, known(buying, market)["A"].buying_cost) == (55, 5, 45)
    buying, _ = take_fills(buying, [fill("1", Side.BUY, 1, 9)], {}, HALF)
    assert (free_cash(buying), known(buying, market)["A"].buying, known(buying, market)["A"].buying_cost) == (55, 4, 36)
    assert known(selling, market)["A"].free == 95


def test_an_order_is_kept_as_long_as_it_may_be_filled():
    order = placed(Side.SELL, 5)
    state = opened(holding(), order)

    report = evolve(state.open["x-1-1"].report, status=OrderStatus.CANCELLED)

    assert with_report(state, order, report).open == {}


def test_an_order_that_is_over_is_kept_until_its_fills_are_told_and_no_longer_than_is_sensible():
    order = placed(Side.BUY, 5)
    state = opened(holding(), order)
    filled = with_report(state, order, evolve(state.open["x-1-1"].report, status=OrderStatus.FILLED, filled=Decimal(5)))

    partly, _ = take_fills(filled, [fill("1", Side.BUY, 2, 10)], {}, HALF)
    told, _ = take_fills(partly, [fill("2", Side.BUY, 3, 10)], {}, HALF)

    assert (filled.open["x-1-1"].left, partly.open["x-1-1"].left, told.open) == (5, 3, {})
    assert after(partly, *slices(A=[10] * 10)).open["x-1-1"].late == 10
    assert after(partly, *slices(A=[10] * 11)).open == {}


def test_an_account_that_is_adopted_has_all_that_was_told_before():
    order = placed(Side.BUY, 5)
    open_ = opened(holding(), order, 2)
    over = with_report(open_, order, evolve(open_.open["x-1-1"].report, status=OrderStatus.FILLED, filled=Decimal(5)))

    adopted = [adopt(state, VenueAccount(Decimal(0), {}), {}).open for state in (open_, over)]

    assert [{id: one.left for id, one in orders.items()} for orders in adopted] == [{"x-1-1": 3}, {}]


def test_what_was_taken_over_without_a_price_counts_as_bought_at_the_first_one_and_is_no_gain():
    state = adopt(TradingState(), VenueAccount(Decimal(50), {"A": Decimal(10)}), {})
    first, second = slices(A=[20, 12])

    priced = after(state, first)

    assert (state.equity, priced.equity, priced.book.positions["A"].cost) == (50, 250, 200)
    assert (priced.risk.high_water, priced.risk.equity, priced.risk.day_start_equity) == (250, 250, 200)
    assert after(priced, second).risk.high_water == 250


def test_a_strategy_is_asked_about_what_may_be_traded():
    first, second = slices(A=[10, 10], B=[10, 99], C=[10, None])
    state = opened(after(holding(cash=5), first, second), placed(Side.SELL, 5))

    strategy, exposed = evolve(rsi_strategy(), indicators=INDICATORS), known(state, second, "A", "B", "C")
    market = ask(state, second, strategy, exposed, equity=state.equity, previous=first.time)

    assert (market.time, market.cash, market.equity, market.previous) == (second.time, 5, 1005, first.time)
    assert {symbol: (quote.units, quote.pending) for symbol, quote in market.quotes.items()} == {"A": (100, -5)}
