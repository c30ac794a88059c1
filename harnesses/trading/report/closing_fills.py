"""Which fills close a position, and which of these have won; fees of opening are charged to those that close. No I/O."""

from __future__ import annotations

from decimal import Decimal, localcontext

from attrs import define, field, frozen

from harnesses.trading.market.buying_power import held_against
from harnesses.trading.market.instruments import EXACT
from harnesses.trading.market.orders import ZERO, Fill, Side
from harnesses.trading.position_book import Book


@frozen
class BookedFill:
    """What a fill has done to a book."""

    book: Book
    """The book after it."""
    gain: Decimal
    """What closed units brought less what they had cost on average, and the fee; for a fill that only opens, minus the fee."""
    closes: bool
    """Whether it closes a position, at least in part."""
    has_won: bool
    """Whether it closes one, and brought more than its units had cost, the fees of opening them included."""


@define
class ClosingFills:
    """The fees of the fills that opened what is still held."""

    _unspent: dict[str, Decimal] = field(factory=dict[str, Decimal], init=False)
    """By symbol."""

    def book(self, book: Book, fill: Fill) -> BookedFill:
        """Return what a fill does to a book. Fills are in the order in which they happened."""
        after = book.after(fill)
        held, left = book.units(fill.symbol), after.units(fill.symbol)
        with localcontext(EXACT):
            gain = after.realised - book.realised - fill.fee
            is_against = bool(held_against(held, fill.side))
            opening = fill.fee if not is_against else fill.fee * abs(left) / fill.units if held * left < 0 else ZERO
            charged = self._fees_of_opening(fill.symbol, opening, held, left)
            closes = is_against or (fill.side is Side.SELL and not held and not left)
            return BookedFill(after, gain, closes, closes and gain + opening > charged)

    def forget(self) -> None:
        """Forget the fees: the account was replaced."""
        self._unspent.clear()

    def _fees_of_opening(self, symbol: str, opening: Decimal, held: Decimal, left: Decimal) -> Decimal:
        """Return the part of the opening fees that the fill which closes units is charged.

        Args:
            opening: the part of the fill's own fee that opens units, which is charged to those that close them.
        """
        unspent = self._unspent.get(symbol, ZERO)
        part = ZERO
        if abs(left) < abs(held) or held * left < 0:
            part = unspent * (held - left) / held if held * left > 0 else unspent
        self._unspent[symbol] = unspent - part + opening
        return part
