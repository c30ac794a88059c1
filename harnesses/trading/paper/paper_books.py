"""A simulated venue's books (cash, positions, open orders, the last prices), and how it deals. Pure values, and storable.

The law: what open orders need is reserved, and it is there: reserved cash is never more than the cash, units to be sold never
more than the units.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import ROUND_UP, Decimal, localcontext
from typing import Literal, cast

from attrs import field, frozen

from harnesses.errors import HarnessMisuse
from harnesses.trading.market.instruments import EXACT, Instrument, to_grain
from harnesses.trading.market.orders import ONE, ZERO, Fill, OrderReport, OrderStatus, PlacedOrder, Side, make_exact

_BASIS_POINTS = Decimal(10_000)


@frozen
class Fees:
    """What an order costs beside its price: the minimum, or what the other two come to, over all of its fills together.

    A sale never costs more than it brings in: what one fill cannot pay of the minimum is left to the next one.
    """

    rate: Decimal = ZERO
    """The part of units times price."""
    minimum: Decimal = ZERO
    """The least for an order of which anything was filled."""
    per_unit: Decimal = ZERO

    def __attrs_post_init__(self) -> None:
        make_exact(self, "rate", "minimum", "per_unit")
        for name, value in (("rate", self.rate), ("minimum", self.minimum), ("per_unit", self.per_unit)):
            if not (value.is_finite() and value >= 0):
                raise HarnessMisuse(f"Fees: {name}: expected a number from 0 up, was {value}")

    def of(self, notional: Decimal, units: Decimal) -> Decimal:
        """Return the fee for an order of which so much has been filled, within `EXACT`."""
        fee = max(self.minimum, notional * self.rate + units * self.per_unit)
        return to_grain(fee, ROUND_UP) if units else ZERO


@frozen
class Rules:
    """How a simulated venue deals."""

    instruments: Mapping[str, Instrument] | None = None
    """By symbol, all there are; None for any symbol, in lots of 1, at prices as they come."""
    fees: Fees = Fees()
    slippage_bps: Decimal = ZERO
    """How much worse than the market a taker gets it, in parts of 10,000; then rounded to the tick, against the taker."""
    max_share: Decimal | None = None
    """The part of a bar's volume that may be filled in it; None for any number of units."""
    fill_at: Literal["close", "next_open"] = "close"
    """What a market order is filled at: the last close, at once; or the open of the next bar."""

    def __attrs_post_init__(self) -> None:
        fees = cast(object, self.fees)
        if not isinstance(fees, Fees):
            raise HarnessMisuse(f"Rules: fees: expected Fees, was {fees!r:.80}; write Fees(rate=Decimal('0.001'))")
        make_exact(self, "slippage_bps")
        make_exact(self, "max_share", optional=True)
        if not 0 <= self.slippage_bps < _BASIS_POINTS:
            raise HarnessMisuse(f"Rules: slippage_bps: expected at least 0 and below 10000, was {self.slippage_bps}")
        if self.max_share is not None and not 0 < self.max_share <= 1:
            raise HarnessMisuse(f"Rules: max_share: expected a part above 0 and at most 1, was {self.max_share}")
        if self.fill_at not in ("close", "next_open"):
            raise HarnessMisuse(f"Rules: fill_at: expected 'close' or 'next_open', was {self.fill_at!r}")

    def has(self, symbol: str) -> bool:
        """Return whether the symbol is traded here."""
        return self.instruments is None or symbol in self.instruments

    def instrument(self, symbol: str) -> Instrument:
        """Return the rules for a symbol."""
        known = None if self.instruments is None else self.instruments.get(symbol)
        return known or Instrument(symbol)

    def taker_price(self, symbol: str, side: Side, price: Decimal) -> Decimal:
        """Return what a taker gets when the market is at `price`, within `EXACT`."""
        slip = self.slippage_bps / _BASIS_POINTS
        if side is Side.BUY:
            return self.instrument(symbol).price_up(price * (ONE + slip))
        return self.instrument(symbol).price_down(price * (ONE - slip))


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
