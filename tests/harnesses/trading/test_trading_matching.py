"""A simulated venue fills what the market allows, at prices no better than it was, and never what cannot be paid."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal as Dec

import pytest
from hypothesis import example, given, settings

from harnesses.trading.market.bars import Bar, MarketSlice
from harnesses.trading.market.broker import OrderRefused, VenueAccount
from harnesses.trading.market.instruments import Instrument
from harnesses.trading.market.orders import Fill, Order, OrderKind, OrderStatus, PlacedOrder, Side, Source
from harnesses.trading.paper.order_matching import accept, cancel, match
from harnesses.trading.paper.paper_books import Books, Fees, Matched, Rules, reserved_cash, reserved_units
from harnesses.trading.position_book import Book, differences
from tests.harnesses.trading.paper_flows import (
    CASH,
    SYMBOLS,
    Action,
    Cancel,
    Submit,
    after_slice,
    assert_money_is_conserved,
    flows,
    market,
    placed,
    rules,
)

START = datetime(2024, 1, 1, tzinfo=UTC)
BUY, SELL = Side.BUY, Side.SELL
PLAIN, NEXT_OPEN = Rules(), Rules(fill_at="next_open")
CENTS = {"A": Instrument("A", tick=Dec("0.01"))}


def bar(open_: str, high: str, low: str, close: str, *, volume: str = "1000", split: str = "1") -> Bar:
    return Bar(Dec(open_), Dec(high), Dec(low), Dec(close), Dec(volume), Dec(split))


def flat(price: str, *, volume: str = "1000", split: str = "1") -> Bar:
    return bar(price, price, price, price, volume=volume, split=split)


def show(books: Books, what: Bar, rules: Rules = PLAIN) -> Matched:
    """Show the venue the next day of A."""
    after = START if books.time is None else books.time
    return match(books, MarketSlice(after + timedelta(days=1), {"A": what}), rules)


def seen(price: str = "100", *, cash: str = "10000", held: str = "0", rules: Rules = PLAIN) -> Books:
    """Return the books of a venue that has seen A at a price."""
    return show(Books(Dec(cash), {"A": Dec(held)}), flat(price), rules).books


def order(
    side: Side, units: str, *, limit: str | None = None, stop: str | None = None, id: str = "a", symbol: str = "A"
) -> PlacedOrder:
    kind = OrderKind.LIMIT if limit else OrderKind.STOP if stop else OrderKind.MARKET
    prices = (Dec(limit) if limit else None, Dec(stop) if stop else None)
    return PlacedOrder(id, Order(symbol, side, Dec(units), kind, *prices), Source.STRATEGY, START)


def prices(matched: Matched) -> list[tuple[Dec, Dec]]:
    return [(fill.units, fill.price) for fill in matched.fills]


def test_a_market_order_is_filled_at_once_at_the_last_close() -> None:
    after = accept(seen("100"), order(BUY, "10"), PLAIN)

    assert prices(after) == [(Dec(10), Dec(100))]
    assert after.books.cash == Dec(9000)
    assert after.books.positions["A"] == Dec(10)
    assert after.reports[0].status is OrderStatus.FILLED
    assert not after.books.orders


def test_a_market_order_may_have_to_wait_for_the_next_open() -> None:
    waiting = accept(seen("100", rules=NEXT_OPEN), order(BUY, "10"), NEXT_OPEN)
    after = show(waiting.books, bar("103", "104", "99", "100"), NEXT_OPEN)

    assert waiting.reports[0].status is OrderStatus.OPEN
    assert not waiting.fills
    assert prices(after) == [(Dec(10), Dec(103))]


def test_a_market_order_waits_for_a_symbol_that_the_last_slice_has_no_bar_of() -> None:
    books = match(seen("100"), MarketSlice(START + timedelta(days=5), {"B": flat("7")}), PLAIN).books
    waiting = accept(books, order(BUY, "10"), PLAIN)

    assert not waiting.fills
    assert prices(show(waiting.books, flat("101"))) == [(Dec(10), Dec(101))]


@pytest.mark.parametrize(
    ("side", "limit", "what", "filled_at"),
    [
        (BUY, "95", bar("100", "101", "95.01", "99"), None),
        (BUY, "95", bar("100", "101", "95", "99"), "95"),
        (BUY, "95", bar("90", "99", "89", "92"), "90"),
        (SELL, "105", bar("100", "104.99", "99", "100"), None),
        (SELL, "105", bar("100", "105", "99", "100"), "105"),
        (SELL, "105", bar("110", "111", "104", "106"), "110"),
    ],
)
def test_a_limit_is_filled_at_the_better_of_limit_and_open(side: Side, limit: str, what: Bar, filled_at: str | None) -> None:
    books = accept(seen("100", held="10"), order(side, "10", limit=limit), PLAIN).books

    assert prices(show(books, what)) == ([(Dec(10), Dec(filled_at))] if filled_at else [])


@pytest.mark.parametrize(
    ("side", "stop", "what", "filled_at"),
    [
        (BUY, "105", bar("100", "104.99", "99", "100"), None),
        (BUY, "105", bar("100", "105", "99", "100"), "105"),
        (BUY, "105", bar("110", "111", "104", "106"), "110"),
        (SELL, "95", bar("100", "101", "95.01", "99"), None),
        (SELL, "95", bar("100", "101", "95", "99"), "95"),
        (SELL, "95", bar("90", "99", "89", "92"), "90"),
    ],
)
def test_a_stop_is_filled_at_the_worse_of_stop_and_open(side: Side, stop: str, what: Bar, filled_at: str | None) -> None:
    books = accept(seen("100", held="10", cash="20000"), order(side, "10", stop=stop), PLAIN).books

    assert prices(show(books, what)) == ([(Dec(10), Dec(filled_at))] if filled_at else [])


@pytest.mark.parametrize(
    ("placed", "filled_at"),
    [
        (order(BUY, "10", limit="100"), "100"),
        (order(BUY, "10", limit="110"), "100"),
        (order(BUY, "10", limit="99.99"), None),
        (order(SELL, "10", limit="90"), "100"),
        (order(SELL, "10", limit="100.01"), None),
        (order(BUY, "10", stop="99"), "100"),
        (order(BUY, "10", stop="101"), None),
        (order(SELL, "10", stop="101"), "100"),
        (order(SELL, "10", stop="99"), None),
    ],
)
def test_an_order_that_the_market_has_reached_already_is_filled_at_the_market(
    placed: PlacedOrder, filled_at: str | None
) -> None:
    after = accept(seen("100", held="10"), placed, PLAIN)

    assert prices(after) == ([(Dec(10), Dec(filled_at))] if filled_at else [])


@pytest.mark.parametrize(
    ("placed", "filled_at"),
    [
        (order(BUY, "10"), "100.04"),
        (order(SELL, "10"), "99.96"),
        (order(BUY, "10", limit="100.02"), "100.02"),
        (order(SELL, "10", limit="99.99"), "99.99"),
        (order(SELL, "10", stop="100"), "99.96"),
    ],
)
def test_slippage_is_rounded_against_the_taker_and_a_limit_is_kept_to(placed: PlacedOrder, filled_at: str) -> None:
    rules = Rules(CENTS, slippage_bps=Dec("3.1"))

    assert prices(accept(seen("100", held="10"), placed, rules)) == [(Dec(10), Dec(filled_at))]


def test_a_price_between_two_ticks_is_rounded_against_the_order() -> None:
    cents = Rules(CENTS)
    books = seen("100", held="10")
    buying = accept(books, order(BUY, "10", limit="99"), cents).books
    selling = accept(books, order(SELL, "10", limit="101"), cents).books

    assert prices(show(buying, flat("98.123"), cents)) == [(Dec(10), Dec("98.13"))]
    assert prices(show(selling, flat("102.129"), cents)) == [(Dec(10), Dec("102.12"))]


@pytest.mark.parametrize("price", ["1.09876", "151.238", "0.00000873", "64123.17", "8.73E-15"])
@pytest.mark.parametrize("rules", [PLAIN, Rules({"A": Instrument("A")})], ids=["any symbol", "an instrument"])
def test_without_a_tick_a_price_of_any_scale_is_what_it_is(price: str, rules: Rules) -> None:
    """Of currencies, of yen, of a coin of many zeros, of one of few."""
    books = seen(price, cash="1000000", rules=rules)

    assert prices(accept(books, order(BUY, "10"), rules)) == [(Dec(10), Dec(price))]
    assert prices(accept(seen(price, held="10", rules=rules), order(SELL, "10"), rules)) == [(Dec(10), Dec(price))]


@pytest.mark.parametrize("price", ["1.09876", "0.00000873"])
def test_without_a_tick_slippage_costs_what_it_says_and_a_limit_is_kept_to(price: str) -> None:
    rules = Rules(slippage_bps=Dec("5"))

    assert prices(accept(seen(price), order(BUY, "10"), rules)) == [(Dec(10), Dec(price) * Dec("1.0005"))]
    assert prices(accept(seen(price), order(BUY, "10", limit=price), rules)) == [(Dec(10), Dec(price))]


def test_no_more_is_filled_in_a_bar_than_its_share_of_the_volume() -> None:
    rules = Rules(max_share=Dec("0.1"))

    first = accept(seen("10", rules=rules), order(BUY, "110"), rules)
    second = show(first.books, flat("11", volume="55"), rules)
    third = show(second.books, flat("12", volume="0"), rules)

    assert prices(first) == [(Dec(100), Dec(10))]
    assert prices(second) == [(Dec(5), Dec(11))]
    assert prices(third) == []
    assert third.books.orders["a"].left == Dec(5)


def test_orders_share_the_volume_of_a_bar_in_the_order_of_their_coming() -> None:
    rules = Rules(max_share=Dec("0.01"))
    books = accept(seen("100", held="10"), order(SELL, "6", limit="101", id="z"), rules).books
    books = accept(books, order(BUY, "6", limit="99", id="a"), rules).books

    after = show(books, bar("100", "102", "98", "100"), rules)

    assert [(fill.client_id, fill.units) for fill in after.fills] == [("z", Dec(6)), ("a", Dec(4))]


def test_a_stop_that_was_reached_goes_on_as_a_market_order() -> None:
    rules = Rules(max_share=Dec("0.01"))
    books = accept(seen("100", held="15"), order(SELL, "15", stop="95"), rules).books
    first = show(books, bar("100", "101", "94", "99"), rules)
    second = show(first.books, bar("120", "121", "119", "120"), rules)

    assert prices(first) == [(Dec(10), Dec(95))]
    assert prices(second) == [(Dec(5), Dec(120))]


def test_a_slice_that_is_not_newer_changes_nothing() -> None:
    books = accept(seen("100"), order(BUY, "10", limit="90"), PLAIN).books
    assert books.time is not None
    same = MarketSlice(books.time, {"A": flat("80", split="2")})

    assert match(books, same, PLAIN).books is books


def test_cash_that_an_open_order_needs_is_reserved_with_its_fee() -> None:
    rules = Rules(fees=Fees(rate=Dec("0.01"), minimum=Dec(5)))
    books = accept(seen("100"), order(BUY, "90", limit="90"), rules).books

    assert reserved_cash(books) == Dec("8181.00")
    with pytest.raises(OrderRefused, match=r"order b was refused: cash: expected at most 1819\.00, which is not reserved"):
        accept(books, order(BUY, "19", id="b"), rules)
    assert accept(books, order(BUY, "18", id="b"), rules).fills
    assert reserved_cash(cancel(books, "a").books) == 0


def test_units_that_an_open_order_is_to_sell_are_reserved() -> None:
    books = accept(seen("100", held="10"), order(SELL, "7", limit="110"), PLAIN).books

    assert reserved_units(books, "A") == Dec(7)
    with pytest.raises(OrderRefused, match="A to sell: expected at most 3, which is not reserved, was 4"):
        accept(books, order(SELL, "4", id="b"), PLAIN)
    assert accept(books, order(SELL, "3", id="b"), PLAIN).fills


def test_a_gap_that_cash_does_not_cover_is_bought_in_part_and_the_rest_cancelled() -> None:
    rules = Rules(fees=Fees(rate=Dec("0.01")))
    books = accept(seen("100"), order(BUY, "50", stop="110"), rules).books
    books = accept(books, order(BUY, "40", limit="90", id="b"), rules).books

    after = show(books, flat("200"), rules)

    assert prices(after) == [(Dec(31), Dec(200))]
    assert (after.reports[0].status, after.reports[0].filled) == (OrderStatus.CANCELLED, Dec(31))
    assert after.books.cash == Dec(10000) - 31 * Dec(202)
    assert prices(show(after.books, flat("90"), rules)) == [(Dec(40), Dec(90))]


def test_a_fee_that_is_rounded_up_is_not_paid_with_cash_that_is_not_there() -> None:
    rules = Rules(fees=Fees(rate=Dec("3E-22")))
    books = accept(seen("40", cash="200.00000000000000000006"), order(BUY, "2", stop="50"), rules).books

    after = show(books, flat("100"), rules)

    assert prices(after) == [(Dec(1), Dec(100))]
    assert after.books.cash == Dec("99.99999999999999999906")


def test_sums_of_more_digits_than_a_decimal_usually_keeps_are_exact() -> None:
    coins = {"A": Instrument("A", lot=Dec("1E-8"), tick=Dec("1E-8"))}
    rules = Rules(coins, Fees(rate=Dec("0.001234567")))
    books = show(Books(Dec("987654321987654321.12345678")), flat("45678.12345678"), rules).books

    bought = accept(books, order(BUY, "1234567.87654321"), rules)
    sold = show(accept(bought.books, order(SELL, "0.00000001", limit="50000"), rules).books, flat("50000.00000001"), rules)

    fills = [*bought.fills, *sold.fills]
    assert_money_is_conserved(VenueAccount(sold.books.cash, sold.books.positions), fills, books.cash)
    book = Book(books.cash).after(fills[0]).after(fills[1])
    assert differences(book, VenueAccount(sold.books.cash, sold.books.positions)) == ()


def test_the_fee_of_nothing_is_nothing_and_no_fee_is_finer_than_money() -> None:
    fees = Fees(rate=Dec("0.0000000000000000003"), minimum=Dec("0.1"))

    assert fees.of(Dec(0), Dec(0)) == 0
    assert fees.of(Dec(1), Dec(1)) == Dec("0.1")
    assert Fees(rate=Dec("3E-19")).of(Dec(1), Dec(1)) == Dec("1E-18")


def test_the_least_fee_is_paid_once_however_many_fills_there_are() -> None:
    rules = Rules(fees=Fees(rate=Dec("0.001"), minimum=Dec(2)), max_share=Dec("0.01"))
    first = accept(seen("100", rules=rules), order(BUY, "30"), rules)
    second = show(first.books, flat("100"), rules)
    third = show(second.books, flat("100"), rules)

    assert [fill.fee for one in (first, second, third) for fill in one.fills] == [Dec(2), Dec(0), Dec(1)]


def test_a_sale_never_costs_more_than_it_brings_in() -> None:
    rules = Rules(fees=Fees(minimum=Dec(5)), max_share=Dec("0.01"))
    books = seen("0.40", held="15", cash="0", rules=rules)
    first = accept(books, order(SELL, "15"), rules)
    second = show(first.books, flat("0.40"), rules)

    assert [fill.fee for one in (first, second) for fill in one.fills] == [Dec(4), Dec(1)]
    assert second.books.cash == Dec(1)


def test_a_split_multiplies_units_and_divides_prices_of_open_orders() -> None:
    books = accept(seen("100", held="15"), order(SELL, "15", limit="120"), PLAIN).books
    books = accept(books, order(BUY, "5", limit="90", id="b"), PLAIN).books

    after = show(books, flat("66", split="1.5"))

    assert after.books.positions["A"] == Dec("22.5")
    assert [(one.left, one.price) for one in after.books.orders.values()] == [(Dec(22), Dec(80)), (Dec(7), Dec(60))]
    assert reserved_cash(after.books) == Dec(450)


def test_a_split_that_leaves_less_than_a_lot_of_an_order_cancels_it() -> None:
    books = accept(seen("1", held="9"), order(SELL, "9", limit="2"), PLAIN).books

    after = show(books, flat("10", split="0.1"))

    assert after.reports[0].status is OrderStatus.CANCELLED
    assert after.books.positions["A"] == Dec("0.9")
    assert not after.books.orders


def test_what_was_filled_before_a_split_stays_as_it_was_filled() -> None:
    rules = Rules(max_share=Dec("0.01"))
    books = accept(seen("100", rules=rules), order(BUY, "30"), rules).books

    after = show(books, flat("50", volume="0", split="2"), rules)

    assert (after.reports[0].units, after.reports[0].filled) == (Dec(50), Dec(10))
    assert after.books.orders["a"].left == Dec(40)


def test_cancelling_releases_what_was_left_and_keeps_what_was_filled() -> None:
    rules = Rules(max_share=Dec("0.01"))
    books = accept(seen("100", rules=rules), order(BUY, "30"), rules).books

    after = cancel(books, "a")

    assert (after.reports[0].status, after.reports[0].filled) == (OrderStatus.CANCELLED, Dec(10))
    assert (after.books.positions["A"], reserved_cash(after.books)) == (Dec(10), Dec(0))
    assert cancel(after.books, "a").books is after.books


def test_an_order_that_is_open_already_is_not_placed_again() -> None:
    first = accept(seen("100"), order(BUY, "10", limit="90"), PLAIN)

    again = accept(first.books, order(BUY, "10", limit="90"), PLAIN)

    assert again.books is first.books
    assert again.reports == first.reports


@pytest.mark.parametrize(
    ("placed", "why"),
    [
        (order(BUY, "0"), r"units: expected a multiple of 5 above 0, was 0"),
        (order(BUY, "-5"), r"units: expected a multiple of 5 above 0, was -5"),
        (order(BUY, "12"), r"units: expected a multiple of 5 above 0, was 12"),
        (order(BUY, "NaN"), r"units: expected a multiple of 5 above 0, was NaN"),
        (order(BUY, "5"), r"units: expected 10 or more, was 5"),
        (order(BUY, "10", limit="10.03"), r"limit_price: expected a multiple of 0\.05 above 0, was 10\.03"),
        (order(BUY, "10", stop="-1"), r"stop_price: expected a multiple of 0\.05 above 0, was -1"),
        (order(BUY, "10", limit="40"), r"units times price: expected 500 or more, was 400"),
        (order(BUY, "200"), r"cash: expected at most 10000, which is not reserved, was 20000\.00; order less"),
        (order(SELL, "20"), r"A to sell: expected at most 10, which is not reserved, was 20; order less"),
        (order(BUY, "10", symbol="C"), r"symbol: expected one of the venue's, was 'C'"),
        (order(BUY, "10", symbol="B"), r"price: expected a known price of B, but none has been seen yet"),
    ],
)
def test_what_the_venue_does_not_take_is_refused_with_the_reason(placed: PlacedOrder, why: str) -> None:
    coarse = {
        name: Instrument(name, lot=Dec(5), tick=Dec("0.05"), min_units=Dec(10), min_notional=Dec(500)) for name in ("A", "B")
    }

    with pytest.raises(OrderRefused, match=f"^order a was refused: {why}"):
        accept(seen("100", held="10"), placed, Rules(coarse))


def test_an_order_has_the_prices_of_its_kind_and_no_others() -> None:
    for kind, limit, stop in [
        (OrderKind.MARKET, Dec(1), None),
        (OrderKind.LIMIT, None, None),
        (OrderKind.LIMIT, Dec(1), Dec(1)),
        (OrderKind.STOP, None, None),
    ]:
        placed = PlacedOrder("a", Order("A", BUY, Dec(1), kind, limit, stop), Source.STRATEGY, START)
        with pytest.raises(OrderRefused, match=f"_price of a {kind} order: expected (one|none), was"):
            accept(seen("100"), placed, PLAIN)


@settings(max_examples=100)
@given(flows, rules)
@example([{"A": flat("100")}, Submit(1, "A", BUY, OrderKind.MARKET, 20, 0), {"A": flat("50", split="2")}], PLAIN)
def test_money_and_units_are_conserved_and_what_is_reserved_is_there(flow: list[Action], rules: Rules) -> None:
    books, book = Books(CASH), Book(CASH)
    fills: list[Fill] = []
    for number, action in enumerate(flow):
        matched = play(books, number, action, rules)
        books = matched.books
        fills += matched.fills
        if isinstance(action, dict):
            book = after_slice(book, market(number, action), matched.fills)
        else:
            book = after_slice(book, market(-1, {}), matched.fills)

        account = VenueAccount(books.cash, books.positions)
        assert_money_is_conserved(account, fills)
        assert differences(book, account) == ()
        assert reserved_cash(books) <= books.cash
        assert all(reserved_units(books, symbol) <= books.positions.get(symbol, 0) for symbol in SYMBOLS)
        assert_orders_add_up(books, matched, fills, rules)


def play(books: Books, number: int, action: Action, rules: Rules) -> Matched:
    """Do an action; an order that is refused changes nothing."""
    if isinstance(action, Submit):
        try:
            return accept(books, placed(action, START), rules)
        except OrderRefused:
            return Matched(books)
    if isinstance(action, Cancel):
        return cancel(books, f"order-{action.number}")
    return match(books, market(number, action), rules)


def assert_orders_add_up(books: Books, matched: Matched, fills: list[Fill], rules: Rules) -> None:
    """Hold each open order against its fills: what was filled, what was paid, and never beyond its limit."""
    for venue_id, order in ((one.venue_id, one) for one in books.orders.values()):
        assert order.left > 0 or order.placed.entry_id in books.orders
        assert order.left == rules.instrument(order.placed.order.symbol).round_units(order.left)
        assert int(venue_id.removeprefix("paper-").removesuffix("-exit")) <= books.accepted
    for report in {report.client_id: report for report in matched.reports}.values():
        assert report.filled <= report.units
        assert (report.status is OrderStatus.OPEN) == (report.client_id in books.orders)
        # A split may leave less than a lot of an order: the rest is cancelled, so that there is nothing more to be filled.
        is_cut = report.status is OrderStatus.CANCELLED and "a split" in report.reason
        is_waiting = not report.units and report.client_id.startswith("exit-")
        assert (report.status is OrderStatus.FILLED or is_cut or is_waiting) == (report.filled == report.units)
    for fill in matched.fills:
        assert fill.units > 0 < fill.price
        assert fill.fee >= 0
        assert fill.time == books.time
