"""Screening with margin: how many units of an order the buying power and the limits allow. No I/O.

Invariant: what closes a position is always allowed; what opens one is allowed as far as the venue's own rule is kept.
"""

from __future__ import annotations

from decimal import Decimal, localcontext

from harnesses.trading.exposure import Exposure, cost_of, filled_at, text_of, tradable
from harnesses.trading.market.buying_power import most_units
from harnesses.trading.market.instruments import EXACT
from harnesses.trading.market.orders import ONE, ZERO, Order, OrderKind, Side
from harnesses.trading.risk import Limits


def possible_on_margin(
    order: Order, limits: Limits, exposure: Exposure, power: Decimal, equity: Decimal, no_entry: str
) -> tuple[Decimal, str]:
    """Return the units that may be traded with margin, rounded to the instrument, and why they are fewer than wanted.

    Args:
        power: buying power that no order needs.
        no_entry: why nothing may be opened; empty if it may.
    """
    instrument, closable = exposure.instrument, exposure.closable(order.side)
    wanted = instrument.round_units(order.units)
    units, reason = wanted, ""
    closing = min(units, closable)
    if units > closing and (no_entry or order.only_closes):
        units, reason = closing, no_entry or f"only {text_of(closable)} units available to close"
    if units > closing and limits.max_position < ONE:
        room = _room(order, limits, exposure, equity)
        if units - closing > room:
            units = closing + room
            reason = f"max_position: only {text_of(room)} units within {limits.max_position} of the equity"
    units = instrument.round_units(units)
    if units > closing:
        least = power / (ONE + limits.cash_margin)
        fitting = most_units(units, closing, instrument.lot, lambda some: need_on_margin(order, some, exposure) <= least)
        if fitting < units:
            units, reason = fitting, f"buying power for only {text_of(max(fitting - closing, ZERO))} units"
    nothing = reason or f"{order.units:f} units are less than a lot of {instrument.lot:f}"
    return tradable(order, exposure, units, nothing, reason)


def need_on_margin(order: Order, units: Decimal, exposure: Exposure) -> Decimal:
    """Return the buying power that so many units of an order take; a waiting order frees none."""
    margin = exposure.instrument.margin
    if margin is None or not units:
        return ZERO
    closing = min(units, exposure.closable(order.side))
    if order.kind is not OrderKind.MARKET and (closing == units or order.only_closes):
        return ZERO
    price = filled_at(order, exposure)
    with localcontext(EXACT):
        fee = exposure.instrument.charges.of(units, price)
        need = margin.need(units - closing, closing, mark=cost_of(order, exposure), price=price, fee=fee)
    return need if order.kind is OrderKind.MARKET else max(need, ZERO)


def _room(order: Order, limits: Limits, exposure: Exposure, equity: Decimal) -> Decimal:
    """Return the units of one side that the limit of a position leaves, with open orders of that side counted as filled."""
    now = exposure.price or ZERO
    if order.side is Side.BUY:
        held, ordered, closed = max(exposure.units, ZERO), exposure.buying, max(-exposure.units, ZERO)
    else:
        held, ordered, closed = max(-exposure.units, ZERO), exposure.selling, max(exposure.units, ZERO)
    taken = (held + max(ordered - closed, ZERO)) * now
    return max(equity * limits.max_position - taken, ZERO) / (max(now, cost_of(order, exposure)) or ONE)
