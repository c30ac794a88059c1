"""The books of an account that several harnesses share. No I/O.

    the account's cash and units  =  what nobody has been allotted  +  the sub-book of each member

Invariants: a fill changes the sub-book of the member that placed its order, and no other; a fill of nobody's order changes
none, so that the sum no longer equals the account. Cash is moved between the parts, never made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal, localcontext

from attrs import evolve, field, frozen

from harnesses.data.frozen_dict import freeze
from harnesses.errors import HarnessMisuse
from harnesses.trading.account import with_splits
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.broker import VenueAccount
from harnesses.trading.market.instruments import EXACT
from harnesses.trading.market.orders import ZERO, Fill
from harnesses.trading.position_book import Book, Position


@frozen
class SharedBooks:
    """The parts of an account."""

    account: str
    """Name of the account."""
    venue: str
    """Name of the broker at which it is."""
    spare: Book
    """What nobody has been allotted: its positions name every symbol that is traded through the account."""
    members: Mapping[str, Book] = field(factory=dict[str, Book])
    """The sub-books by member."""
    allotted: Mapping[str, Decimal] = field(factory=dict[str, Decimal])
    """By member, the cash that its sub-book began with."""
    last_fill: Mapping[str, str] = field(factory=dict[str, str])
    """The id of the last fill of anybody by symbol."""
    split_at: Mapping[str, datetime] = field(factory=dict[str, datetime])
    """Time of the last split by symbol."""

    def __attrs_post_init__(self) -> None:
        freeze(self, "members", "allotted", "last_fill", "split_at")

    @property
    def symbols(self) -> tuple[str, ...]:
        """All symbols that are traded through the account."""
        return tuple(self.spare.positions)

    def parts(self) -> list[tuple[str, Book]]:
        """Return the name and the book of each part."""
        return [*sorted(self.members.items()), ("not allotted", self.spare)]

    def kept(self, member: str, cash: Decimal) -> str:
        """Say that a member keeps a sub-book that began with other cash than is asked for; empty if it did not."""
        began = self.allotted[member]
        if began == cash:
            return ""
        return f"account {self.account}: {member} keeps the sub-book that it began with {began:f}, not {cash:f}"

    def with_symbols(self, symbols: Iterable[str], held: VenueAccount, last_fill: Mapping[str, str]) -> SharedBooks:
        """Return the books with more symbols; those that are new begin with the units at the venue, as nobody's.

        Args:
            last_fill: the last fill of each symbol that is in `held`.
        """
        new = [symbol for symbol in symbols if symbol not in self.spare.positions]
        if not new:
            return self
        positions = {symbol: Position(held.positions.get(symbol, ZERO)) for symbol in new}
        last = {symbol: last_fill[symbol] for symbol in new if symbol in last_fill}
        spare = evolve(self.spare, positions={**self.spare.positions, **positions})
        return evolve(self, spare=spare, last_fill={**self.last_fill, **last})

    def with_member(self, member: str, cash: Decimal) -> SharedBooks:
        """Return the books with a sub-book for a member, unless it has one.

        Raises:
            HarnessMisuse: it wants more cash than is left.
        """
        if member in self.members:
            return self
        if cash > self.spare.cash:
            raise HarnessMisuse(
                f"account {self.account!r} at {self.venue}: expected at most {self.spare.cash:f} in cash for {member!r}, got "
                f"{cash:f} ({_told((name, book.cash) for name, book in self.parts())}); allot less"
            )
        with localcontext(EXACT):
            spare = evolve(self.spare, cash=self.spare.cash - cash)
        members = {**self.members, member: Book(cash)}
        return evolve(self, spare=spare, members=members, allotted={**self.allotted, member: cash})

    def with_venue(self, member: str, fills: Sequence[Fill], held: VenueAccount, market: MarketSlice | None) -> SharedBooks:
        """Return the books after new fills at a venue where a member is alone, and has what it holds there.

        Args:
            market: a slice with splits that the venue has just seen; fills from its time on count units after them.
        """
        book = self.members[member]
        for fill in (one for one in fills if market and one.time < market.time):
            book = book.after(fill)
        book = with_splits(book, market)
        for fill in fills:
            book = book.after(fill)
        costs = {symbol: position.cost for symbol, position in book.positions.items()}
        units = {**dict.fromkeys(costs, ZERO), **held.positions}
        positions = {symbol: Position(count, costs.get(symbol, ZERO)) for symbol, count in units.items()}
        return evolve(self, members={**self.members, member: evolve(book, cash=held.cash, positions=positions)})

    def after_fill(self, fill: Fill, owner: str) -> SharedBooks:
        """Return the books after a fill of an order of `owner`; empty: of nobody."""
        members = {**self.members, owner: self.members[owner].after(fill)} if owner in self.members else self.members
        return evolve(self, members=members, last_fill={**self.last_fill, fill.symbol: fill.fill_id})

    def after_split(self, symbol: str, time: datetime, ratio: Decimal) -> SharedBooks:
        """Return the books after a split; the same books if they have had it."""
        known = self.split_at.get(symbol)
        if symbol not in self.spare.positions or (known is not None and known >= time):
            return self
        members = {name: book.after_split(symbol, ratio) for name, book in self.members.items()}
        spare = self.spare.after_split(symbol, ratio)
        return evolve(self, spare=spare, members=members, split_at={**self.split_at, symbol: time})

    def differences(self, held: VenueAccount) -> tuple[str, ...]:
        """Describe where the venue's account is not the sum of the parts, with each part; empty if it is."""
        found: list[str] = []
        for what, parts, unit, theirs in self._compared(held):
            with localcontext(EXACT):
                total = sum((amount for _, amount in parts), ZERO)
            if total != theirs:
                found.append(f"{what}: expected {total:f}{unit} ({_told(parts)}), was {theirs:f}")
        return tuple(found)

    def taken_over(self, member: str, held: VenueAccount) -> SharedBooks:
        """Return the books that agree with the venue's account: what it has more or less becomes a member's.

        So do the units of the member's symbols that nobody has been allotted.

        Raises:
            HarnessMisuse: the member would have less than no units of a symbol.
        """
        own, spare = self.members[member], dict(self.spare.positions)
        with localcontext(EXACT):
            others = {name: book for name, book in self.parts() if name != member}
            cash = held.cash - sum((book.cash for book in others.values()), ZERO)
            positions = dict(own.positions)
            for symbol in self.symbols:
                taken = sum((book.units(symbol) for name, book in self.members.items() if name != member), ZERO)
                units = held.positions.get(symbol, ZERO) - taken
                if units < min(own.units(symbol), ZERO):
                    raise HarnessMisuse(
                        f"account {self.account!r}: {member!r} cannot adopt it: {symbol}: expected at least {taken:f} units "
                        f"for the others, was {held.positions.get(symbol, ZERO):f}; adopt it with the harness that lost them"
                    )
                if units != own.units(symbol):
                    positions[symbol] = Position(units, own.positions.get(symbol, Position()).cost)
                spare[symbol] = Position()
        members = {**self.members, member: evolve(own, cash=cash, positions=positions)}
        return evolve(self, spare=evolve(self.spare, positions=spare), members=members)

    def _compared(self, held: VenueAccount) -> Iterable[tuple[str, list[tuple[str, Decimal]], str, Decimal]]:
        """Yield what is compared: a name, the amount of each part, its unit, and the amount at the venue."""
        yield "cash", [(name, book.cash) for name, book in self.parts()], "", held.cash
        for symbol in self.symbols:
            units = [(name, book.units(symbol)) for name, book in self.parts()]
            yield symbol, units, " units", held.positions.get(symbol, ZERO)


def _told(parts: Iterable[tuple[str, Decimal]]) -> str:
    return ", ".join(f"{name} {amount:f}" for name, amount in parts)
