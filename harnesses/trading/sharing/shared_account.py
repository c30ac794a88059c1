"""An account that several harnesses share: each trades through a broker of its own, which shows it only its sub-book.

    harness alpha ──► share ─┐                    ┌──► claims, fills, sub-books (a file)
                             ├──► SharedAccount ──┤
    harness beta  ──► share ─┘                    └──► one broker ──► venue

A share claims an order before it is sent. Fills are read from the venue for all members together, and attributed by the client
id of their order. A harness starts only if its own book is its sub-book, and the sum of all sub-books is the account.

On paper each share is a `PaperShare`, with a venue of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path

import trio

from harnesses.errors import HarnessMisuse
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.broker import Broker, BrokerUnavailable, VenueAccount
from harnesses.trading.market.instruments import Instrument
from harnesses.trading.market.orders import ONE, ZERO, Fill, OrderReport, PlacedOrder, exact
from harnesses.trading.paper.paper_broker import PaperBroker
from harnesses.trading.position_book import Book
from harnesses.trading.sharing.account_ledger import AccountLedger
from harnesses.trading.sharing.paper_share import PaperShare
from harnesses.trading.sharing.shared_books import SharedBooks

_TRIES = 5
"""Maximum times the account is read while fills arrive."""


class SharedAccount:
    """One account at one broker, for several harnesses.

    Args:
        name: of the account.
        broker: a `PaperBroker` says the cash and the rules of the account; each harness trades at a venue like it, of its own.
        path: the file of its sub-books, created if missing. Harnesses in other processes share the account if they have a
            broker of the same account and the same path. Without it, and with a paper broker without a file, the sub-books
            end with the program.
    """

    def __init__(self, name: str, broker: Broker, *, path: str | Path | None = None) -> None:
        if not name:
            raise HarnessMisuse("SharedAccount: name: expected one, was ''; name the account, for messages and analyses")
        if isinstance(broker, PaperBroker) and broker.rules.margin is not None:
            raise HarnessMisuse(
                f"SharedAccount {name!r}: expected a broker without margin, because a sub-book has no loans, was "
                f"{broker.name} with it; leave margin out, or give each harness a broker of its own"
            )
        self.name, self.broker = name, broker
        if isinstance(broker, PaperBroker) and broker.path is None:
            path = None
        self.ledger = AccountLedger(None if path is None else Path(path))
        self._venues: dict[str, PaperBroker] = {}
        self._reading = trio.Lock()

    def share(self, member: str, cash: Decimal) -> Share | PaperShare:
        """Return the broker of one harness.

        Args:
            member: a name that no other harness of the account has; the same one after each restart.
            cash: cash of the account that is the harness's own. An existing sub-book keeps its own.

        Raises:
            HarnessMisuse: an argument is invalid.
        """
        cash = exact("SharedAccount: cash", cash)
        if not member or not (cash.is_finite() and cash >= 0):
            raise HarnessMisuse(f"SharedAccount: expected a name, and cash from 0 up, was {member!r} with {cash}")
        if not isinstance(self.broker, PaperBroker):
            return Share(self, member, cash)
        venue = self._venues.setdefault(member, self.broker.part(member, cash))
        return PaperShare(self.name, self.ledger, venue, member, cash, join=partial(self.join, member, cash))

    def books(self) -> SharedBooks:
        """Return the sub-books as of the last fill that was read.

        Raises:
            HarnessMisuse: no harness has joined yet.
        """
        books = self.ledger.books()
        if books is None:
            raise HarnessMisuse(f"account {self.name!r}: expected a harness that has joined, was none; start one first")
        return books

    async def join(self, member: str, cash: Decimal, symbols: Sequence[str]) -> SharedBooks:
        """Add a member and its symbols, unless they are known; return the books."""
        books = self.ledger.books()
        if books is not None and books.venue != self.broker.name:
            raise HarnessMisuse(
                f"account {self.name!r} is at {books.venue}: expected the same broker for all of its harnesses, was "
                f"{self.broker.name} for {member!r}; give them one broker, or this one another account"
            )
        if books is None or member not in books.members or not set(symbols) <= set(books.symbols):
            last, held = await self._read_account(symbols)

            def add(known: SharedBooks | None) -> SharedBooks:
                known = known or SharedBooks(self.name, self.broker.name, Book(held.cash))
                return known.with_symbols(symbols, held, last).with_member(member, cash)

            self.ledger.change(add)
        return self.books()

    async def advance(self, symbols: Sequence[str]) -> None:
        """Book the new fills in symbols."""
        async with self._reading:
            known = self.books().last_fill
            fills = await self.broker.fills(symbols, {symbol: known[symbol] for symbol in symbols if symbol in known})
            if fills:
                self.ledger.take(fills)

    async def observe(self, market: MarketSlice) -> None:
        """Pass a slice to the broker; a split in it changes the units of every sub-book."""
        splits = {symbol: bar.split for symbol, bar in market.bars.items() if bar.split != ONE}
        if not splits:
            await self.broker.observe(market)
            return
        await self.advance([symbol for symbol in splits if symbol in self.books().symbols])
        async with self._reading:
            await self.broker.observe(market)
            for symbol, ratio in splits.items():
                self.ledger.change(lambda books: books and books.after_split(symbol, market.time, ratio))  # noqa: B023

    async def settled(self) -> tuple[SharedBooks, VenueAccount]:
        """Return the books and the venue's account at a moment between two fills.

        Raises:
            BrokerUnavailable: fills arrive faster than the account can be read.
        """
        symbols = self.books().symbols
        await self.advance(symbols)
        for _ in range(_TRIES):
            before = self.books()
            held = await self.broker.account(symbols)
            await self.advance(symbols)
            if self.books() == before:
                return before, held
        raise BrokerUnavailable(f"account {self.name!r}: fills arrive faster than the account can be read; try again")

    async def _read_account(self, symbols: Sequence[str]) -> tuple[Mapping[str, str], VenueAccount]:
        """Return the last fill of each symbol, and the venue's account after it."""
        last: dict[str, str] = {}
        for _ in range(_TRIES):
            last |= {fill.symbol: fill.fill_id for fill in await self.broker.fills(symbols, last)}
            held = await self.broker.account(symbols)
            if not await self.broker.fills(symbols, last):
                return last, held
        raise BrokerUnavailable(f"account {self.name!r}: fills arrive faster than the account can be read; try again")


class Share:
    """A broker that shows one harness its sub-book of a shared account. Made by `SharedAccount.share`."""

    def __init__(self, account: SharedAccount, member: str, cash: Decimal) -> None:
        self.name = f"{account.broker.name}, account {account.name}"
        self._account, self._broker, self._ledger = account, account.broker, account.ledger
        self._member, self._cash = member, cash
        self._kept = ""

    # what a broker may have beside the protocol

    @property
    def shared(self) -> str:
        """Name of the account."""
        return self._account.name

    @property
    def lacks(self) -> tuple[str, ...]:
        """What the venue cannot do, a line for each; and whether the sub-book has other cash than was asked for."""
        lines: Sequence[str] = getattr(self._broker, "lacks", ())
        return (*lines, *((self._kept,) if self._kept else ()))

    @property
    def is_lasting(self) -> bool:
        """Whether what the venue or the ledger know outlives the program."""
        return self._ledger.path is not None or bool(getattr(self._broker, "is_lasting", True))

    def shape_id(self, client_id: str) -> str:
        """Return the client id that the venue takes for one of ours."""
        shape = getattr(self._broker, "shape_id", None)
        return client_id if shape is None else str(shape(client_id))

    async def differences(self) -> tuple[str, ...]:
        """Describe where the account is not the sum of its sub-books; empty if it is."""
        books, held = await self._account.settled()
        return books.differences(held)

    async def take_over(self) -> None:
        """Make what the account has more or less than its sub-books this harness's own."""
        _, held = await self._account.settled()
        self._ledger.change(lambda books: books and books.taken_over(self._member, held))

    # the protocol

    async def connect(self, symbols: Sequence[str]) -> Mapping[str, Instrument]:
        instruments = await self._broker.connect(symbols)
        books = await self._account.join(self._member, self._cash, symbols)
        self._kept = books.kept(self._member, self._cash)
        return instruments

    async def observe(self, market: MarketSlice) -> None:
        await self._account.observe(market)

    async def submit(self, placed: PlacedOrder) -> OrderReport:
        for client_id in filter(None, (placed.client_id, placed.exit_id)):
            owner = self._ledger.claim(client_id, self._member)
            if owner != self._member:
                raise HarnessMisuse(
                    f"order {client_id}: expected one of {self._member!r}, was one of {owner!r}; "
                    "correct the initial state of one of the two"
                )
        return await self._broker.submit(placed)

    async def cancel(self, client_id: str, symbol: str) -> OrderReport | None:
        return await self._broker.cancel(client_id, symbol)

    async def find(self, placed: PlacedOrder) -> OrderReport | None:
        return await self._broker.find(placed)

    async def open_orders(self, symbols: Sequence[str]) -> Sequence[OrderReport]:
        """Return the open orders of this harness, and those of nobody; not those of other members."""
        reports = await self._broker.open_orders(symbols)
        return [one for one in reports if self._ledger.owner(one.client_id) in (None, self._member)]

    async def fills(self, symbols: Sequence[str], after: Mapping[str, str]) -> Sequence[Fill]:
        await self._account.advance(symbols)
        return self._ledger.fills(self._member, {symbol: after.get(symbol) for symbol in symbols})

    async def account(self, symbols: Sequence[str]) -> VenueAccount:
        """Return the sub-book of this harness."""
        await self._account.advance(symbols)
        own = self._account.books().members[self._member]
        held = {symbol: own.units(symbol) for symbol in symbols}
        return VenueAccount(own.cash, {symbol: units for symbol, units in held.items() if units != ZERO}, self.shared)
