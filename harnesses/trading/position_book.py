"""The harness's own book: what it owns, made of its fills alone. Pure.

The laws: a fill counts once. Money goes nowhere: cash is what there was at first, plus `realised`, less `fees`, less the
`cost` of all positions; exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Decimal, localcontext

from attrs import evolve, field, frozen

from harnesses.trading.market.broker import VenueAccount
from harnesses.trading.market.instruments import EXACT, split_units, to_grain
from harnesses.trading.market.orders import ZERO, Fill, Side


@frozen
class Position:
    """What is held of one symbol."""

    units: Decimal = ZERO
    cost: Decimal = ZERO
    """What these units were bought for, at their average, without fees."""


@frozen
class Book:
    """Cash and positions, and how they came about."""

    cash: Decimal
    positions: Mapping[str, Position] = field(factory=dict[str, Position])
    """By symbol; it stays when all has been sold."""
    fees: Decimal = ZERO
    """All that were paid in cash."""
    turnover: Decimal = ZERO
    """Units times price of all fills."""
    realised: Decimal = ZERO
    """What sales have brought in beyond what the sold units cost, before fees."""
    last_fill: Mapping[str, str] = field(factory=dict[str, str])
    """The id of the last fill by symbol."""

    def units(self, symbol: str) -> Decimal:
        """Return how many units are held."""
        return self.positions.get(symbol, Position()).units

    def after(self, fill: Fill) -> Book:
        """Return the book with a fill in it; the book itself if it has had that fill."""
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
            )

    def after_split(self, symbol: str, ratio: Decimal) -> Book:
        """Return the book after every unit of a symbol has become `ratio` units; what they cost stays."""
        if symbol not in self.positions:
            return self
        position = self.positions[symbol]
        return evolve(self, positions={**self.positions, symbol: evolve(position, units=split_units(position.units, ratio))})


def differences(book: Book, account: VenueAccount) -> tuple[str, ...]:
    """Return in words where a book and what the venue says are not the same; nothing if they are, to the last digit."""
    found = [] if book.cash == account.cash else [f"cash: expected {book.cash:f}, was {account.cash:f}"]
    for symbol in sorted({*book.positions, *account.positions}):
        ours, theirs = book.units(symbol), account.positions.get(symbol, ZERO)
        if ours != theirs:
            found.append(f"{symbol}: expected {ours:f} units, was {theirs:f}")
    return tuple(found)


def _moved(before: Position, fill: Fill, notional: Decimal) -> tuple[Position, Decimal]:
    """Return a position after a fill, and what was gained by it."""
    if fill.side is Side.BUY:
        units, cost, gain = before.units + fill.units - fill.fee_units, before.cost + notional, ZERO
    else:
        units = before.units - fill.units - fill.fee_units
        part = (before.cost * (before.units - units) / before.units) if before.units > 0 else before.cost
        part = to_grain(part, ROUND_HALF_EVEN)
        cost, gain = before.cost - part, notional - part
    # Nothing is left that could have cost anything: the rest of it is lost, or was owed.
    return (Position(units, cost), gain) if units > 0 else (Position(units, ZERO), gain - cost)


def _newer(fill_id: str, last: str | None) -> bool:
    """Return whether a fill comes after the last one known. Of ids that are no numbers, only that same one does not."""
    if last is None:
        return True
    if fill_id.isdecimal() and last.isdecimal():
        return int(fill_id) > int(last)
    return fill_id != last
