"""The harness's own book: cash and positions, computed from its fills alone. No I/O.

Invariants: a fill counts once. Money is conserved exactly: cash is the initial cash, plus `realised`, less `fees` and
`financing`, less the `cost` of all positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Decimal, localcontext

from attrs import evolve, field, frozen

from harnesses.data.frozen_dict import freeze
from harnesses.trading.market.broker import VenueAccount
from harnesses.trading.market.instruments import EXACT, split_units, to_grain
from harnesses.trading.market.orders import ONE, ZERO, Fill, Side


@frozen
class Position:
    """The holding of one symbol."""

    units: Decimal = ZERO
    """Negative for a short position."""
    cost: Decimal = ZERO
    """Average purchase cost of these units, without fees; of a short position minus what they were sold for."""


@frozen
class Book:
    """Cash and positions, with the totals that explain them."""

    cash: Decimal
    positions: Mapping[str, Position] = field(factory=dict[str, Position])
    """Positions by symbol; an emptied position is kept."""
    fees: Decimal = ZERO
    """Total fees paid in cash."""
    turnover: Decimal = ZERO
    """Units times price of all fills."""
    realised: Decimal = ZERO
    """Gains of the units that were sold again, or bought back, before fees."""
    last_fill: Mapping[str, str] = field(factory=dict[str, str])
    """The id of the last fill by symbol."""
    financing: Decimal = ZERO
    """What borrowed units and money have cost so far."""

    def __attrs_post_init__(self) -> None:
        freeze(self, "positions", "last_fill")

    def units(self, symbol: str) -> Decimal:
        """Return how many units are held."""
        position = self.positions.get(symbol)
        return ZERO if position is None else position.units

    def after(self, fill: Fill) -> Book:
        """Return the book with a fill applied; the unchanged book if it has that fill already."""
        if not _newer(fill.fill_id, self.last_fill.get(fill.symbol)):
            return self
        with localcontext(EXACT):
            notional = fill.units * fill.price
            paid = notional if fill.side is Side.BUY else -notional
            position, gain = _moved(self.positions.get(fill.symbol, Position()), fill, notional)
            return Book(
                cash=self.cash - paid - fill.fee,
                positions={**self.positions, fill.symbol: position},
                fees=self.fees + fill.fee,
                turnover=self.turnover + notional,
                realised=self.realised + gain,
                last_fill={**self.last_fill, fill.symbol: fill.fill_id},
                financing=self.financing,
            )

    def after_financing(self, total: Decimal) -> Book:
        """Return the book after the venue's loans have cost so much in total."""
        if total == self.financing:
            return self
        return evolve(self, cash=EXACT.subtract(self.cash, EXACT.subtract(total, self.financing)), financing=total)

    def after_split(self, symbol: str, ratio: Decimal) -> Book:
        """Return the book after every unit of a symbol has become `ratio` units; their cost is unchanged."""
        if symbol not in self.positions:
            return self
        position = self.positions[symbol]
        return evolve(self, positions={**self.positions, symbol: evolve(position, units=split_units(position.units, ratio))})


def differences(book: Book, account: VenueAccount) -> tuple[str, ...]:
    """Describe the differences between a book and the venue's account; empty if they are exactly equal."""
    found = [] if book.cash == account.cash else [f"cash: expected {book.cash:f}, was {account.cash:f}"]
    for symbol in sorted({*book.positions, *account.positions}):
        ours, theirs = book.units(symbol), account.positions.get(symbol, ZERO)
        if ours != theirs:
            found.append(f"{symbol}: expected {ours:f} units, was {theirs:f}")
    return tuple(found)


def _moved(before: Position, fill: Fill, notional: Decimal) -> tuple[Position, Decimal]:
    """Return a position after a fill, and the realised gain. A fill of more than is held opens one of the other side."""
    sign = ONE if fill.side is Side.BUY else -ONE
    change = sign * fill.units - fill.fee_units
    units, paid = before.units + change, sign * notional
    if before.units * change >= 0:
        cost, gain = before.cost + paid, ZERO
    elif units * before.units >= 0:
        part = to_grain(before.cost * -change / before.units, ROUND_HALF_EVEN)
        cost, gain = before.cost - part, -paid - part
    else:
        closed = -before.units * fill.price
        return Position(units, paid - closed), -closed - before.cost
    # No units are left to carry a cost: the rest is realised.
    return (Position(units, cost), gain) if units else (Position(units, ZERO), gain - cost)


def _newer(fill_id: str, last: str | None) -> bool:
    """Return whether a fill is later than the last known one. Ids that are not numbers are later unless they are equal."""
    if last is None:
        return True
    if fill_id.isdecimal() and last.isdecimal():
        return int(fill_id) > int(last)
    return fill_id != last
