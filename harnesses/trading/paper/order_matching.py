"""The matching of a simulated venue: how orders and bars change its books. Deterministic, no I/O.

Invariants: without margin, cash is never negative and no position is short, and what an open order needs is reserved for it;
the exit of an order closes as many units as the order has filled. `fill_prices` tells the prices, `margin_account` what may be
opened with margin, and what it costs.

    accept    a new order: refused, or open; filled at once as far as the market allows
    match     a slice of the market: costs of loans, splits, every open order in order of arrival, a margin call
    pass_by   several slices while no order is open
    cancel    the rest of an order

The price of a purchase may be unknown in advance (a stop, a market order at the next open). If the price exceeds what was
reserved, as much is bought as unreserved cash allows, and the rest is cancelled.

An order with the id of an open order is that order. The books do not know closed orders: the owner of the reports checks those
first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal, localcontext
from typing import NoReturn

from attrs import evolve

from harnesses.trading.market.bars import Bar, MarketSlice
from harnesses.trading.market.broker import OrderRefused
from harnesses.trading.market.instruments import EXACT, Instrument, split_units
from harnesses.trading.market.orders import (
    AT_ONCE,
    ONE,
    ZERO,
    Fill,
    OrderKind,
    OrderReport,
    OrderStatus,
    PlacedOrder,
    Side,
    TimeInForce,
    exit_of,
    wrong_exit,
)
from harnesses.trading.paper.fill_prices import after_bar, after_entry, expected_price, flat, is_stopped, price_in, price_now
from harnesses.trading.paper.margin_account import call, closes, financed, means, permitted
from harnesses.trading.paper.paper_books import (
    Books,
    Matched,
    OpenOrder,
    Quote,
    Rules,
    ended,
    reserved_cash,
    reserved_units,
    with_fill,
)

_PRICES = {
    OrderKind.MARKET: (False, False),
    OrderKind.LIMIT: (True, False),
    OrderKind.STOP: (False, True),
    OrderKind.OCO: (True, True),
}
"""Whether each kind of order has a limit price and a stop price."""
_SHORT_OF = {False: "not enough cash at the market price", True: "not enough buying power, or nothing left to close"}
"""Why the rest of an order is cancelled, by whether there is margin."""


def accept(books: Books, placed: PlacedOrder, rules: Rules) -> Matched:
    """Accept an order, and fill it as far as the market allows now.

    Raises:
        OrderRefused: the order is invalid at this venue, or there is not enough cash or not enough units for it.
    """
    if placed.client_id in books.orders:
        return Matched(books, (books.orders[placed.client_id].report(),))
    with localcontext(EXACT):
        instrument = _checked(placed, rules)
        want, last = placed.order, books.quotes.get(placed.order.symbol)
        price = expected_price(want, rules, last)
        if price is None:
            _refuse(placed, f"price: expected a known price of {want.symbol}, but none has been seen yet; wait for the first")
        if want.units * price < instrument.min_notional:
            _refuse(placed, f"units times price: expected {instrument.min_notional:f} or more, was {want.units * price:f}")
        order = OpenOrder(
            placed=placed,
            venue_id=f"paper-{books.accepted + 1}",
            units=want.units,
            price=want.limit_price or want.stop_price,
            market=want.kind is OrderKind.MARKET,
            stop=want.stop_price if want.kind is OrderKind.OCO else None,
            trail=None if want.has_exit else want.trail,
        )
        if want.side is Side.BUY and rules.margin is None:
            order = evolve(order, reserved=order.cost(order.units, price, rules.fees))
        _check_means(books, order, price, rules)
        orders = {**books.orders, placed.client_id: order, **_exit_orders(order)}
        books = evolve(books, orders=orders, accepted=books.accepted + 1)
        exits = (orders[placed.exit_id].report(),) if want.has_exit else ()
        is_seen = last is not None and last.time == books.time
        now = price_now(order, rules, last) if last is not None and is_seen else None
        if last is None or now is None:
            if is_seen and rules.fill_at == "close" and want.time_in_force in AT_ONCE:
                return ended(books, order, OrderStatus.CANCELLED, "not filled at once")
            return Matched(books, (*exits, order.report()))
        filled = _fill(books, _triggered(order, flat(last.close)), now, rules, closes(books))
        return evolve(filled, reports=(*exits, *filled.reports))


def match(books: Books, market: MarketSlice, rules: Rules) -> Matched:
    """Apply a slice of the market; a slice that is not newer than the last one has no effect."""
    if books.time is not None and market.time <= books.time:
        return Matched(books)
    is_owing = rules.margin is not None and books.is_owing()
    if not (books.orders or is_owing) and all(bar.split == ONE for bar in market.bars.values()):
        return Matched(_seen(books, market, rules))
    with localcontext(EXACT):
        if is_owing:
            books = financed(books, market.time, rules)
        reports: list[OrderReport] = []
        fills: list[Fill] = []
        for symbol, bar in market.bars.items():
            if bar.split != ONE:
                split = _split(books, symbol, bar.split, rules)
                books = split.books
                reports += split.reports
        marks = {} if rules.margin is None else {**closes(books), **{symbol: bar.open for symbol, bar in market.bars.items()}}
        books = _seen(books, market, rules)
        for id, order in tuple(books.orders.items()):
            if order.placed.order.is_over(order.placed.decided, market.time) and id in books.orders:
                expired = ended(books, order, OrderStatus.EXPIRED, "its time is over")
                books = expired.books
                reports += expired.reports
        entered: dict[str, Bar] = {}
        for id in books.orders:
            after = _matched(books, id, market, entered, rules, marks)
            books = after.books
            reports += after.reports
            fills += after.fills
        if rules.margin is not None and (called := call(books, market, rules)) is not None:
            return Matched(called.books, (*reports, *called.reports), (*fills, *called.fills))
        trailing = _trailing(books, market, entered)
        return Matched(trailing.books, (*reports, *trailing.reports), tuple(fills))


def _trailing(books: Books, market: MarketSlice, entered: Mapping[str, Bar]) -> Matched:
    """Let stop prices follow the bars of a slice; that of an exit begins with the bar after its entry was filled in one."""
    moved = {
        id: after
        for id, order in books.orders.items()
        if order.trail is not None and id not in entered and order.placed.order.symbol in market.bars
        if (after := after_bar(order, market.bars[order.placed.order.symbol])) is not order
    }
    if not moved:
        return Matched(books)
    return Matched(evolve(books, orders={**books.orders, **moved}), tuple(order.report() for order in moved.values()))


def _matched(
    books: Books, id: str, market: MarketSlice, entered: dict[str, Bar], rules: Rules, marks: Mapping[str, Decimal]
) -> Matched:
    """Fill an order as far as a slice does.

    Args:
        entered: by client id of its exit, what was left of the bar when an entry was filled in it; updated. Only the stop
            price of such an exit is looked at: its limit price may have been reached before the entry. An entry that was
            filled at the open has the whole bar before it.
        marks: prices at which positions count with margin.
    """
    order = books.orders.get(id)
    bar = market.bars.get(order.placed.order.symbol) if order is not None else None
    if order is None or bar is None or not order.left:
        return Matched(books)
    price = price_in(order, entered.get(id, bar), rules, stops_only=id in entered)
    if price is None:
        at_once = order.placed.order.time_in_force in AT_ONCE
        return ended(books, order, OrderStatus.CANCELLED, "not filled at once") if at_once else Matched(books)
    entry = books.orders.get(order.placed.entry_id)
    closed = Matched(books) if entry is None else ended(books, entry, OrderStatus.CANCELLED, "its exit was reached")
    after = _fill(closed.books, _triggered(order, entered.get(id, bar)), price, rules, marks)
    if order.placed.exit_id and after.fills and not order.market:
        entered[order.placed.exit_id] = after_entry(bar, price)
    return evolve(after, reports=(*closed.reports, *after.reports))


def pass_by(books: Books, slices: Sequence[MarketSlice], rules: Rules) -> Books | None:
    """Return the books after slices in which nothing can happen, as `match` would; None if something could."""
    if books.time is not None:
        slices = [one for one in slices if one.time > books.time]
    if books.orders or books.is_owing():
        return None
    newest: dict[str, tuple[datetime, Bar]] = {}
    for market in slices:
        for symbol, bar in market.bars.items():
            if bar.split != ONE:
                return None
            newest[symbol] = market.time, bar
    seen = {symbol: Quote(bar.close, time, _share(symbol, bar, rules)) for symbol, (time, bar) in newest.items()}
    quotes, time = {**books.quotes, **seen}, slices[-1].time if slices else books.time
    return Books(books.cash, books.positions, books.orders, quotes, time, books.accepted, books.fills, books.financing)


def cancel(books: Books, client_id: str) -> Matched:
    """Cancel the rest of an order. Has no effect if the order is not open."""
    order = books.orders.get(client_id)
    return Matched(books) if order is None else ended(books, order, OrderStatus.CANCELLED, "on request")


def _checked(placed: PlacedOrder, rules: Rules) -> Instrument:
    """Return the instrument of a well-formed order; refuse any other."""
    order = placed.order
    instrument = rules.instrument(order.symbol)
    if not rules.has(order.symbol):
        _refuse(placed, f"symbol: expected one of the venue's, was {order.symbol!r}")
    _check_prices(placed, instrument)
    units = order.units
    if not (units.is_finite() and units > 0 and units == instrument.round_units(units)):
        _refuse(placed, f"units: expected a multiple of {instrument.lot} above 0, was {units}")
    if units < instrument.min_units:
        _refuse(placed, f"units: expected {instrument.min_units} or more, was {units}")
    if bool(placed.exit_id) != order.has_exit:
        _refuse(placed, f"exit_id: expected {'one, because it has an exit' if order.has_exit else 'none'}")
    if why := order.wrong_time or order.wrong_trail or wrong_exit(order):
        _refuse(placed, why)
    if (exit := exit_of(placed)) is not None:
        _check_prices(exit, instrument)
    return instrument


def _check_prices(placed: PlacedOrder, instrument: Instrument) -> None:
    order = placed.order
    for name, price, wanted in zip(("limit", "stop"), (order.limit_price, order.stop_price), _PRICES[order.kind], strict=True):
        if (price is not None) != wanted:
            _refuse(placed, f"{name}_price of a {order.kind} order: expected {'one' if wanted else 'none'}, was {price}")
        if price is not None and not (price.is_finite() and price > 0 and price == instrument.price_down(price)):
            _refuse(placed, f"{name}_price: expected a multiple of {instrument.least_price} above 0, was {price}")


def _exit_orders(entry: OpenOrder) -> dict[str, OpenOrder]:
    """Return the exit of a new order by its client id: it has no units until the order is filled."""
    exit = exit_of(entry.placed)
    if exit is None:
        return {}
    want = exit.order
    price, stop = want.limit_price or want.stop_price, want.stop_price if want.kind is OrderKind.OCO else None
    return {exit.client_id: OpenOrder(exit, f"{entry.venue_id}-exit", ZERO, price, market=False, stop=stop, trail=want.trail)}


def _check_means(books: Books, order: OpenOrder, price: Decimal, rules: Rules) -> None:
    """Refuse an order that needs more than the unreserved cash or units, or with margin than the unreserved buying power."""
    symbol = order.placed.order.symbol
    if rules.margin is not None:
        needed, free, of = means(books, order, price, rules)
    elif order.placed.order.side is Side.BUY:
        needed, free, of = order.reserved, books.cash - reserved_cash(books), "cash"
    else:
        needed, free, of = order.units, books.positions.get(symbol, ZERO) - reserved_units(books, symbol), f"{symbol} to sell"
    if needed > free:
        _refuse(order.placed, f"{of}: expected at most {free:f}, which is not reserved, was {needed:f}; order less")


def _fill(books: Books, order: OpenOrder, price: Decimal, rules: Rules, marks: Mapping[str, Decimal]) -> Matched:
    """Fill an order at a price, as far as the bar's volume and the account allow."""
    want = order.placed.order
    quote = books.quotes[want.symbol]
    units = order.left if quote.left is None else min(order.left, quote.left)
    if price <= 0:
        units = ZERO
    if rules.margin is not None:
        possible = permitted(books, order, units, price, rules, marks)
    else:
        possible = _affordable(books, order, units, price, rules) if want.side is Side.BUY else units
    if want.time_in_force is TimeInForce.FOK and possible < order.left:
        return ended(books, order, OrderStatus.CANCELLED, "not filled whole at once")
    cut = possible < units
    fills: tuple[Fill, ...] = ()
    reports: tuple[OrderReport, ...] = ()
    if possible:
        fills = (_executed(books, order, possible, price, rules),)
        books, order = with_fill(books, fills[0]), _after_fill(order, fills[0])
        if (exit := books.orders.get(order.placed.exit_id)) is not None:
            exit = evolve(exit, units=exit.units + possible)
            books = evolve(books, orders={**books.orders, order.placed.exit_id: exit})
            reports = (exit.report(),)
    if not order.left:
        after = ended(books, order, OrderStatus.FILLED, "")
    elif cut:
        after = ended(books, order, OrderStatus.CANCELLED, _SHORT_OF[rules.margin is not None])
    elif want.time_in_force is TimeInForce.IOC:
        after = ended(books, order, OrderStatus.CANCELLED, "the rest was not filled at once")
    else:
        after = Matched(evolve(books, orders={**books.orders, order.placed.client_id: order}), (order.report(),))
    return evolve(after, reports=(*reports, *after.reports), fills=fills)


def _triggered(order: OpenOrder, bar: Bar) -> OpenOrder:
    """Return an order that fills at any price from now on, if a bar has reached its stop price."""
    return evolve(order, market=True) if not order.market and is_stopped(order, bar) else order


def _affordable(books: Books, order: OpenOrder, units: Decimal, price: Decimal, rules: Rules) -> Decimal:
    """Return how many of the units the unreserved cash can pay for."""
    free, fees = books.cash - reserved_cash(books) + order.reserved, rules.fees
    if order.cost(units, price, fees) <= free:
        return units
    # The fee is at least each of its parts. This gives two bounds, which only the rounding of fees can miss by one lot.
    instrument, means = rules.instrument(order.placed.order.symbol), free + order.charged
    by_parts = means - order.notional * fees.rate - order.filled * fees.per_unit
    most = min(by_parts / (price * (ONE + fees.rate) + fees.per_unit), (means - fees.minimum) / price)
    units = max(instrument.round_units(min(units, most)), ZERO)
    while units and order.cost(units, price, fees) > free:
        units -= instrument.lot
    return units


def _executed(books: Books, order: OpenOrder, units: Decimal, price: Decimal, rules: Rules) -> Fill:
    want, notional = order.placed.order, units * price
    fee = rules.fees.of(order.notional + notional, order.filled + units) - order.charged
    if want.side is Side.SELL:
        fee = min(fee, notional)
    assert books.time is not None, "nothing is filled before the market was seen"
    return Fill(str(books.fills + 1), order.placed.client_id, want.symbol, want.side, units, price, fee, books.time)


def _after_fill(order: OpenOrder, fill: Fill) -> OpenOrder:
    notional = fill.units * fill.price
    return evolve(
        order,
        reserved=max(order.reserved - notional - fill.fee, ZERO),
        filled=order.filled + fill.units,
        notional=order.notional + notional,
        charged=order.charged + fill.fee,
    )


def _split(books: Books, symbol: str, ratio: Decimal, rules: Rules) -> Matched:
    """Multiply the units of a symbol, held and ordered, and divide the prices."""
    instrument = rules.instrument(symbol)
    held = split_units(books.positions.get(symbol, ZERO), ratio)
    after = Matched(evolve(books, positions={**books.positions, symbol: held}))
    reports: list[OrderReport] = []
    for id, order in books.orders.items():
        if order.placed.order.symbol != symbol or id not in after.books.orders:
            continue
        # Rounded so that it needs no more than is reserved; a remainder below one lot is no longer ordered.
        left = instrument.round_units(order.left * ratio)
        price, stop = (
            None if one is None else max(instrument.price_down(one / ratio), instrument.least_price)
            for one in (order.price, order.stop)
        )
        trail = None if order.trail is None else order.trail / ratio
        waits = not order.left
        order = evolve(order, units=order.filled + left, price=price, stop=stop, trail=trail)
        if left or waits:
            after = Matched(evolve(after.books, orders={**after.books.orders, id: order}))
            reports.append(order.report())
        else:
            after = ended(after.books, order, OrderStatus.CANCELLED, "less than one lot is left of it after a split")
            reports += after.reports
    return Matched(after.books, tuple(reports))


def _seen(books: Books, market: MarketSlice, rules: Rules) -> Books:
    """Return the books with the prices of a slice."""
    quotes = dict(books.quotes)
    for symbol, bar in market.bars.items():
        quotes[symbol] = Quote(bar.close, market.time, _share(symbol, bar, rules))
    # Not by `evolve`, which takes three times as long: this is made for every bar.
    fills, financing = books.fills, books.financing
    return Books(books.cash, books.positions, books.orders, quotes, market.time, books.accepted, fills, financing)


def _share(symbol: str, bar: Bar, rules: Rules) -> Decimal | None:
    if rules.max_share is None:
        return None
    return rules.instrument(symbol).round_units(bar.volume * rules.max_share)


def _refuse(placed: PlacedOrder, what: str) -> NoReturn:
    raise OrderRefused(f"order {placed.client_id} was refused: {what}")
