"""A simulated venue's books: cash, positions, open orders and the last prices. Pure values, and storable.

The law: what open orders need is reserved, and it is there: reserved cash is never more than the cash, units to be sold never
more than the units.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, localcontext

from attrs import field, frozen

from harnesses.trading.market.instruments import EXACT
from harnesses.trading.market.orders import ZERO, Fill, OrderReport, OrderStatus, PlacedOrder, Side
from harnesses.trading.paper.paper_rules import Fees


@frozen
class Quote:
    """The last that was seen of a symbol."""

    close: Decimal
    time: datetime
    left: Decimal | None = None
    """Units of that bar's share which have not been filled yet; None without a limit."""


@frozen
class OpenOrder:
    """An order of which something may still be filled."""

    placed: PlacedOrder
    venue_id: str
    units: Decimal
    """What was filled, and what is left; as it is after splits."""
    price: Decimal | None
    """The limit, or the stop; None of a market order."""
    market: bool
    """Whether it takes whatever the market gives: a market order, or a stop that was reached."""
    reserved: Decimal = ZERO
    """Cash that no other order may use; of a buy."""
    filled: Decimal = ZERO
    notional: Decimal = ZERO
    """Units times price of what was filled."""
    charged: Decimal = ZERO
    """Fees so far."""

    @property
    def left(self) -> Decimal:
        """Units that are still to be filled."""
        return self.units - self.filled

    def report(self, status: OrderStatus = OrderStatus.OPEN, reason: str = "") -> OrderReport:
        """Return what the venue says of the order."""
        want, id = self.placed.order, self.placed.client_id
        return OrderReport(id, self.venue_id, want.symbol, want.side, want.kind, self.units, self.filled, status, reason)

    def cost(self, units: Decimal, price: Decimal, fees: Fees) -> Decimal:
        """Return the cash that buying so many more units takes, fees included."""
        return units * price + fees.of(self.notional + units * price, self.filled + units) - self.charged


@frozen
class Books:
    """Everything a simulated venue knows but for what is over: closed orders, and fills."""

    cash: Decimal
    positions: Mapping[str, Decimal] = field(factory=dict[str, Decimal])
    """Units by symbol."""
    orders: Mapping[str, OpenOrder] = field(factory=dict[str, OpenOrder])
    """The open ones by client id, in the order of their coming."""
    quotes: Mapping[str, Quote] = field(factory=dict[str, Quote])
    time: datetime | None = None
    """Of the last slice."""
    accepted: int = 0
    """How many orders there have been."""
    fills: int = 0
    """How many fills there have been; they are numbered from 1."""


@frozen
class Matched:
    """What has come of a call: the books after it, and what is new."""

    books: Books
    reports: tuple[OrderReport, ...] = ()
    """Of the orders that have changed; the last one of an order is what it has come to."""
    fills: tuple[Fill, ...] = ()


def reserved_cash(books: Books) -> Decimal:
    """Return the cash that open orders need."""
    with localcontext(EXACT):
        return sum((order.reserved for order in books.orders.values()), ZERO)


def reserved_units(books: Books, symbol: str) -> Decimal:
    """Return the units of a symbol that open orders are to sell."""
    with localcontext(EXACT):
        orders = ((one, one.placed.order) for one in books.orders.values())
        return sum((one.left for one, order in orders if order.symbol == symbol and order.side is Side.SELL), ZERO)
