"""What a dialect of the venue is, and what all of them do the same way at the counter. Pure but for the venue's clock."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qsl

from attrs import frozen

from ..books import ZERO, Books, Order, Trade, VenueError
from ..market import SYMBOLS, Symbol

if TYPE_CHECKING:
    from ..hostility import Lot
    from ..server import Venue

Json = dict[str, Any]
Asks: TypeAlias = "Mapping[str, Callable[[Counter], Any]]"
"""Public requests by path."""
Acts: TypeAlias = "Mapping[str, Callable[[Counter, Json], Any]]"
"""Signed requests by path."""
TYPES = {"market": "MARKET", "limit": "LIMIT", "stop": "STOP_LOSS"}


@frozen
class Request:
    """What came over the wire."""

    method: str
    path: str
    query: bytes
    body: bytes
    headers: Mapping[str, str]

    @property
    def fields(self) -> dict[str, Any]:
        """What is asked with it, from the query, a form or JSON."""
        asked: dict[str, Any] = dict(parse_qsl(self.query.decode()))
        if self.body[:1] in (b"{", b"["):
            told: Any = json.loads(self.body)
            entry: dict[str, Any] = told[0] if self.body.startswith(b"[") else told
            return asked | entry
        return asked | dict(parse_qsl(self.body.decode()))


@frozen
class Tongue:
    """A dialect."""

    prefixes: tuple[str, ...]
    """Of its paths."""
    orders: tuple[str, str]
    """Method and path of a new order."""
    name_of: Callable[[Json], str]
    """The client id in the fields of a new order."""
    answer: Callable[[Counter, Request], object]
    failure: Callable[[VenueError], tuple[int, bytes]]
    fees_in_quote: bool = False

    def client_id(self, request: Request) -> str | None:
        """Return the client id of a new order; None if it is none."""
        return str(self.name_of(request.fields)) if (request.method, request.path) == self.orders else None


@frozen
class Counter:
    """Where a request is dealt with."""

    venue: Venue
    lot: Lot

    @property
    def books(self) -> Books:
        """The venue's."""
        return self.venue.books

    @property
    def now_ms(self) -> float:
        """The venue's time."""
        return self.venue.now_ms()

    def place(self, client_id: str, symbol: Symbol, side: str, kind: str, units: str, price: str | None) -> Order:
        """Take an order.

        Args:
            kind: market, limit or stop.
            price: the limit or the stop.
        """
        now_ms, market = int(self.now_ms), self.venue.price(symbol)
        amount, limit = number(units, symbol.step), ZERO if kind == "market" else number(price, symbol.tick)
        if amount * (limit or market) < symbol.min_notional:
            raise VenueError(-1013, "too small")
        order = Order(
            0,
            client_id,
            symbol,
            side.upper(),
            TYPES[kind],
            amount,
            limit if kind == "limit" else ZERO,
            limit if kind == "stop" else ZERO,
            now_ms,
            self.lot.parts,
            self.lot.pace_ms,
            updated_ms=now_ms,
        )
        return self.books.place(order, market)

    def cancel(self, order: Order) -> None:
        """Cancel what is left of it."""
        self.books.cancel(order, int(self.now_ms))

    def orders(self, symbol: Symbol | None = None, *, open: bool | None = None) -> list[Order]:
        """Return orders, latest first."""
        every = reversed(self.books.orders.values())
        return [one for one in every if symbol in (None, one.symbol) and open in (None, one.is_open)]

    def trades(self, symbol: Symbol | None = None) -> list[Trade]:
        """Return executions, latest first."""
        names = SYMBOLS if symbol is None else [symbol.name]
        return sorted((one for name in names for one in self.books.trades[name]), key=lambda one: -one.id)

    def order_of(self, trade: Trade) -> Order:
        """Return whose execution it is."""
        return self.books.orders[trade.order_id]


def number(text: object, grain: Decimal) -> Decimal:
    """Return a number above 0 in that grain."""
    try:
        found = Decimal(str(text))
    except InvalidOperation:
        found = ZERO
    if found <= 0 or found % grain:
        raise VenueError(-1013, f"expected a multiple of {grain}, was {text!r}")
    return found


def symbol_of(base: str, quote: str = "USDT") -> Symbol:
    """Return the symbol of a pair."""
    found = next((one for one in SYMBOLS.values() if (one.base, one.quote) == (base, quote)), None)
    if found is None:
        raise VenueError(-1121, "Invalid symbol.")
    return found


def scrambled(number: int) -> str:
    """Return digits for a number that do not increase with it."""
    return str(int.from_bytes(blake2b(str(number).encode(), digest_size=6).digest()))


def find(orders: Iterable[Order], client_id: str) -> list[Order]:
    """Return those of that client id."""
    return [one for one in orders if one.client_id == client_id]
