"""Buying power: what an account on margin may still open, with its open orders counted. Exact within `EXACT`, no I/O.

    buying power  =  leverage * equity  -  worth of all positions, long and short added up  -  need of the open orders

Invariant: an order that only closes a position needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import ROUND_FLOOR, Decimal, localcontext

from attrs import frozen

from harnesses.trading.market.instruments import EXACT, Margin
from harnesses.trading.market.orders import ZERO, Side


@frozen
class Pending:
    """The rest of an open order."""

    symbol: str
    side: Side
    units: Decimal
    mark: Decimal
    """Price at which the units count once they are filled: the order's own, or that of the market."""
    price: Decimal
    """At which it is expected to be filled."""
    fee: Decimal
    only_closes: bool = False
    """Whether it never opens a position: an exit."""


def power(margin: Margin, cash: Decimal, held: Mapping[str, Decimal], marks: Mapping[str, Decimal]) -> Decimal:
    """Return the buying power of an account without open orders; negative if it may open nothing.

    Args:
        held: units by symbol; negative if short.
        marks: prices by symbol; units without one count as 0.
    """
    worths = [units * marks[symbol] for symbol, units in held.items() if units and symbol in marks]
    return margin.leverage * (cash + sum(worths, ZERO)) - sum(map(abs, worths), ZERO)


def reserved(margin: Margin, held: Mapping[str, Decimal], orders: Iterable[Pending]) -> Decimal:
    """Return the buying power that open orders need, in order of arrival: the first ones close what is held."""
    left: dict[tuple[str, Side], Decimal] = {}
    total = ZERO
    for one in orders:
        key = one.symbol, one.side
        closable = left[key] if key in left else held_against(held.get(one.symbol, ZERO), one.side)
        closing = min(one.units, closable)
        left[key] = closable - closing
        if not one.only_closes:
            opening = one.units - closing
            total += max(margin.need(opening, closing, mark=one.mark, price=one.price, fee=one.fee), ZERO) if opening else ZERO
    return total


def held_against(units: Decimal, side: Side) -> Decimal:
    """Return the units of a position that an order of a side can close."""
    return max(units if side is Side.SELL else -units, ZERO)


def most_units(units: Decimal, least: Decimal, lot: Decimal, fits: Callable[[Decimal], bool]) -> Decimal:
    """Return the most units that fit: all of them, or fewer in whole lots, and at least `least` in whole lots.

    Args:
        fits: true of so many units and of all fewer ones above `least`, or of none.
    """
    if fits(units):
        return units
    with localcontext(EXACT):
        low, high = (int((one / lot).to_integral_value(ROUND_FLOOR)) for one in (min(least, units), units))
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(middle * lot) else (low, middle - 1)
        return low * lot
