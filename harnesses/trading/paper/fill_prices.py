"""The prices at which a simulated venue fills orders. Deterministic, no I/O.

Invariant: a price is never better than the market was. Slippage and rounding go against the taker, a limit is respected, a
stop may fill past a gap. A bar does not say in which order its prices came: if it reaches both prices of an order, the stop
counts.
"""

from __future__ import annotations

from decimal import Decimal

from attrs import evolve

from harnesses.trading.market.bars import Bar
from harnesses.trading.market.orders import ZERO, Order, OrderKind, Side, trailed
from harnesses.trading.paper.paper_books import OpenOrder, Quote, Rules


def expected_price(order: Order, rules: Rules, last: Quote | None) -> Decimal | None:
    """Return the worst price at which an order is expected to be filled; None while its symbol has none."""
    if order.kind is OrderKind.LIMIT:
        return order.limit_price
    if order.stop_price is not None:
        taken = rules.taker_price(order.symbol, order.side, order.stop_price)
        return taken if order.limit_price is None else max(taken, order.limit_price)
    return None if last is None else rules.taker_price(order.symbol, order.side, last.close)


def price_now(order: OpenOrder, rules: Rules, last: Quote) -> Decimal | None:
    """Return the price at which a new order is filled at once; None if it must wait."""
    return None if rules.fill_at == "next_open" else price_in(order, flat(last.close), rules, taking=True)


def price_in(order: OpenOrder, bar: Bar, rules: Rules, *, taking: bool = False, stops_only: bool = False) -> Decimal | None:
    """Return the price at which a bar fills an order; None if it does not reach the order's prices.

    Args:
        taking: whether the order is the taker: then a limit order suffers slippage too.
        stops_only: whether its limit price is not looked at.
    """
    want, limit, stop = order.placed.order, _limit(order), _stop(order)
    buys, grain = want.side is Side.BUY, rules.instrument(want.symbol)
    if order.market:
        return rules.taker_price(want.symbol, want.side, bar.open)
    if stop is not None and is_stopped(order, bar):
        worse = max(stop, bar.open) if buys else min(stop, bar.open)
        return rules.taker_price(want.symbol, want.side, bar.open if taking else worse)
    if limit is None or stops_only or not (bar.low <= limit if buys else bar.high >= limit):
        return None
    first = grain.price_up(bar.open) if buys else grain.price_down(bar.open)
    if taking:
        first = rules.taker_price(want.symbol, want.side, bar.open)
    return min(limit, first) if buys else max(limit, first)


def is_stopped(order: OpenOrder, bar: Bar) -> bool:
    """Return whether a bar reaches an order's stop price."""
    stop = _stop(order)
    return stop is not None and (bar.high >= stop if order.placed.order.side is Side.BUY else bar.low <= stop)


def after_bar(order: OpenOrder, bar: Bar) -> OpenOrder:
    """Return an open order after a bar that has not closed it: its stop price has followed, if it does."""
    stop = _stop(order)
    if order.trail is None or stop is None or order.market or not order.left:
        return order
    moved = trailed(stop, order.trail, order.placed.order.side, high=bar.high, low=bar.low)
    if moved == stop:
        return order
    return evolve(order, price=moved) if order.stop is None else evolve(order, stop=moved)


def flat(price: Decimal) -> Bar:
    """Return a bar of one price."""
    return Bar(price, price, price, price, ZERO)


def after_entry(bar: Bar, price: Decimal) -> Bar:
    """Return what may be left of a bar after an order was filled in it at a price."""
    return evolve(bar, open=price)


def _limit(order: OpenOrder) -> Decimal | None:
    return None if order.placed.order.kind is OrderKind.STOP else order.price


def _stop(order: OpenOrder) -> Decimal | None:
    return order.price if order.placed.order.kind is OrderKind.STOP else order.stop
