"""The account of a simulated venue that lends units and money: costs, buying power and margin calls. Deterministic, no I/O.

    financed    each slice first charges what was owed since the last one, at the closes of then
    means       a new order may open as much as the buying power allows that open orders do not need
    permitted   so may a fill, at its own price and the opens of the bar; what an order closes is always permitted
    call        after the orders of a slice: the worst prices of its bars, all at once, leave less equity than maintenance

A bar does not say in which order its prices came. A margin call assumes that all prices go from the open to the worst of the
bar together, longs to the low and shorts to the high, and closes every position where the equity falls to maintenance: at the
open if it is below there. Nothing later than that bar is looked at, and no price is better than this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal

from attrs import evolve, frozen

from harnesses.trading.market.bars import Bar, MarketSlice
from harnesses.trading.market.buying_power import Pending, held_against, most_units, power, reserved
from harnesses.trading.market.orders import ZERO, Fill, OrderKind, OrderReport, OrderStatus, Side
from harnesses.trading.paper.fill_prices import expected_price
from harnesses.trading.paper.paper_books import Books, Matched, OpenOrder, Rules, ended, with_fill


def closes(books: Books) -> dict[str, Decimal]:
    """Return the last price of each symbol."""
    return {symbol: quote.close for symbol, quote in books.quotes.items()}


def financed(books: Books, time: datetime, rules: Rules) -> Books:
    """Return the books after what they owed until a time is charged, within `EXACT`."""
    if rules.margin is None or books.time is None:
        return books
    short = sum((-units * books.quotes[symbol].close for symbol, units in books.positions.items() if units < 0), ZERO)
    cost = rules.margin.cost(books.cash, short, time - books.time)
    return evolve(books, cash=books.cash - cost, financing=books.financing + cost)


def means(books: Books, order: OpenOrder, price: Decimal, rules: Rules) -> tuple[Decimal, Decimal, str]:
    """Return what a new order needs, what there is for it, and of what.

    Args:
        price: at which it is expected to be filled.
    """
    assert rules.margin is not None, "the venue lends"
    want = order.placed.order
    closing = min(order.units, _closable(books, order))
    opening = order.units - closing
    if order.placed.only_closes:
        return order.units, closing, f"{want.symbol} to close"
    if not opening:
        return ZERO, ZERO, "buying power"
    mark = order.price or books.quotes[want.symbol].close
    need = rules.margin.need(opening, closing, mark=mark, price=price, fee=rules.fees.of(order.units * price, order.units))
    return need, _power(books, rules, closes(books)), "buying power"


def permitted(
    books: Books, order: OpenOrder, units: Decimal, price: Decimal, rules: Rules, marks: Mapping[str, Decimal]
) -> Decimal:
    """Return how many of the units may be filled at a price.

    Args:
        marks: prices at which the other positions count.
    """
    margin, symbol = rules.margin, order.placed.order.symbol
    assert margin is not None, "the venue lends"
    closing = min(units, held_against(books.positions.get(symbol, ZERO), order.placed.order.side))
    if closing == units or order.placed.only_closes:
        return closing
    available = _power(books, rules, {**marks, symbol: price}, without=order)

    def fits(some: Decimal) -> bool:
        fee = rules.fees.of(order.notional + some * price, order.filled + some) - order.charged
        return margin.need(some - closing, closing, mark=price, price=price, fee=fee) <= available

    return most_units(units, closing, rules.instrument(symbol).lot, fits)


def call(books: Books, market: MarketSlice, rules: Rules) -> Matched | None:
    """Close every position whose symbol has a bar, if the worst prices of the bars leave less equity than maintenance.

    Every order is cancelled first. A position without a bar is closed in its next one if there is still too little equity, and
    so is the rest of one that is larger than the bar's volume allows.
    """
    if rules.margin is None or not books.is_owing():
        return None
    paths = [*_paths(books, market)]
    first, last = (_spare(books.cash, paths, rules.margin.maintenance, at_worst=at_worst) for at_worst in (False, True))
    if last >= 0:
        return None
    reports: list[OrderReport] = []
    fills: list[Fill] = []
    prices = {one.symbol: one.worst if first == last else one.between(max(first, ZERO), -last) for one in paths}
    why = _reason(books.cash, paths, prices, rules.margin.maintenance)
    for id in tuple(books.orders):
        if (order := books.orders.get(id)) is not None:
            after = ended(books, order, OrderStatus.CANCELLED, why)
            books, reports = after.books, [*reports, *after.reports]
    for one in paths:
        if one.symbol in market.bars and (fill := _closing(books, one, prices[one.symbol], why, rules)) is not None:
            books, fills = with_fill(books, fill), [*fills, fill]
    return Matched(books, tuple(reports), tuple(fills))


@frozen
class _Path:
    """The way of a position's price through a bar."""

    symbol: str
    units: Decimal
    first: Decimal
    worst: Decimal

    def between(self, before: Decimal, after: Decimal) -> Decimal:
        """Return the price at a part of the way: `before` of `before + after`."""
        return (self.first * after + self.worst * before) / (before + after)


def _paths(books: Books, market: MarketSlice) -> Iterator[_Path]:
    for symbol, units in books.positions.items():
        if units:
            bar: Bar | None = market.bars.get(symbol)
            close = books.quotes[symbol].close
            first, worst = (close, close) if bar is None else (bar.open, bar.low if units > 0 else bar.high)
            yield _Path(symbol, units, first, worst)


def _spare(cash: Decimal, paths: list[_Path], maintenance: Decimal, *, at_worst: bool) -> Decimal:
    """Return the equity above maintenance at one end of the paths."""
    worths = [one.units * (one.worst if at_worst else one.first) for one in paths]
    return cash + sum(worths, ZERO) - maintenance * sum(map(abs, worths), ZERO)


def _reason(cash: Decimal, paths: list[_Path], prices: Mapping[str, Decimal], maintenance: Decimal) -> str:
    worths = [one.units * prices[one.symbol] for one in paths]
    equity, least = cash + sum(worths, ZERO), maintenance * sum(map(abs, worths), ZERO)
    return f"margin call: equity of {equity:.2f}, {least:.2f} required"


def _closing(books: Books, path: _Path, price: Decimal, why: str, rules: Rules) -> Fill | None:
    """Return the fill that closes a position, as far as the volume of its bar allows."""
    side, quote = Side.SELL if path.units > 0 else Side.BUY, books.quotes[path.symbol]
    units = abs(path.units) if quote.left is None else min(abs(path.units), quote.left)
    price = rules.taker_price(path.symbol, side, price)
    if not units or price <= 0:
        return None
    fee = rules.fees.of(units * price, units)
    fee = min(fee, units * price) if side is Side.SELL else fee
    assert books.time is not None, "a slice was seen"
    return Fill(str(books.fills + 1), "", path.symbol, side, units, price, fee, books.time, reason=why)


def _closable(books: Books, order: OpenOrder) -> Decimal:
    """Return the units of the position that a new order can close, less those that open orders close."""
    want = order.placed.order
    orders = (one for one in books.orders.values() if one.placed.order.symbol == want.symbol)
    taken = sum((one.left for one in orders if one.placed.order.side is want.side), ZERO)
    return max(held_against(books.positions.get(want.symbol, ZERO), want.side) - taken, ZERO)


def _power(books: Books, rules: Rules, marks: Mapping[str, Decimal], *, without: OpenOrder | None = None) -> Decimal:
    """Return the buying power that open orders do not need."""
    assert rules.margin is not None, "the venue lends"
    id = None if without is None else without.placed.client_id
    orders = (_pending(one, books, rules) for one in books.orders.values() if one.placed.client_id != id)
    return power(rules.margin, books.cash, books.positions, marks) - reserved(rules.margin, books.positions, orders)


def _pending(order: OpenOrder, books: Books, rules: Rules) -> Pending:
    want, last = order.placed.order, books.quotes.get(order.placed.order.symbol)
    if order.price is not None:
        is_stop = want.kind is OrderKind.STOP
        want = evolve(want, stop_price=order.price) if is_stop else evolve(want, limit_price=order.price)
    price = ZERO if order.market and last is None else expected_price(want, rules, last) or ZERO
    mark = order.price or (ZERO if last is None else last.close)
    fee = rules.fees.of(order.notional + order.left * price, order.filled + order.left) - order.charged
    return Pending(want.symbol, want.side, order.left, mark, price, fee, order.placed.only_closes)
