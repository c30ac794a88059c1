"""The books of a simulated venue (cash, positions, open orders, last prices) and its rules, as storable values.

Invariant without margin: what open orders need is reserved and available: reserved cash never exceeds the cash, nor units to
be sold the units held. With margin, `margin_account` computes what they need.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import ROUND_UP, Decimal, localcontext
from typing import Literal, cast

from attrs import evolve, field, frozen

from harnesses.errors import HarnessMisuse
from harnesses.trading.market.instruments import EXACT, Charges, Instrument, Margin, to_grain
from harnesses.trading.market.orders import ONE, ZERO, Fill, OrderReport, OrderStatus, PlacedOrder, Side, make_exact

_BASIS_POINTS = Decimal(10_000)


@frozen
class Fees:
    """The fees of an order: the larger of the minimum and the other two parts, over all of its fills together.

    The fee of a sale never exceeds its proceeds: what one fill cannot pay of the minimum is charged to the next one.
    """

    rate: Decimal = ZERO
    """Fee as a fraction of units times price."""
    minimum: Decimal = ZERO
    """Minimum fee of an order that was filled at least in part."""
    per_unit: Decimal = ZERO

    def __attrs_post_init__(self) -> None:
        make_exact(self, "rate", "minimum", "per_unit")
        for name, value in (("rate", self.rate), ("minimum", self.minimum), ("per_unit", self.per_unit)):
            if not (value.is_finite() and value >= 0):
                raise HarnessMisuse(f"Fees: {name}: expected a number from 0 up, was {value}")

    def of(self, notional: Decimal, units: Decimal) -> Decimal:
        """Return the fee of an order with these amounts filled, within `EXACT`."""
        fee = max(self.minimum, notional * self.rate + units * self.per_unit)
        return to_grain(fee, ROUND_UP) if units else ZERO


@frozen
class Rules:
    """The trading rules of a simulated venue."""

    instruments: Mapping[str, Instrument] | None = None
    """All instruments by symbol; None allows any symbol, with the rules in `derived`, else in lots of 1, without a tick."""
    fees: Fees = Fees()
    slippage_bps: Decimal = ZERO
    """Slippage of a taker, in basis points (1/10,000); then rounded to the tick, against the taker."""
    max_share: Decimal | None = None
    """Maximum fraction of a bar's volume that may be filled in it; None for no limit."""
    fill_at: Literal["close", "next_open"] = "close"
    """Fill price of a market order: the last close, at once, or the open of the next bar."""
    derived: Mapping[str, Instrument] = field(factory=dict[str, Instrument])
    """By symbol, what the data say about lot and tick; used without instruments."""
    margin: Margin | None = None
    """Terms at which units and money are lent; None: neither is."""

    def __attrs_post_init__(self) -> None:
        fees = cast(object, self.fees)
        if not isinstance(fees, Fees):
            raise HarnessMisuse(f"Rules: fees: expected Fees, was {fees!r:.80}; write Fees(rate=Decimal('0.001'))")
        margin = cast(object, self.margin)
        if not isinstance(margin, Margin | None):
            raise HarnessMisuse(f"Rules: margin: expected Margin, was {margin!r:.80}; write Margin(Decimal('0.05'))")
        make_exact(self, "slippage_bps")
        make_exact(self, "max_share", optional=True)
        if not 0 <= self.slippage_bps < _BASIS_POINTS:
            raise HarnessMisuse(f"Rules: slippage_bps: expected at least 0 and below 10000, was {self.slippage_bps}")
        if self.max_share is not None and not 0 < self.max_share <= 1:
            raise HarnessMisuse(f"Rules: max_share: expected a part above 0 and at most 1, was {self.max_share}")
        if self.fill_at not in ("close", "next_open"):
            raise HarnessMisuse(f"Rules: fill_at: expected 'close' or 'next_open', was {self.fill_at!r}")

    def has(self, symbol: str) -> bool:
        """Return whether the venue has the symbol."""
        return self.instruments is None or symbol in self.instruments

    def instrument(self, symbol: str) -> Instrument:
        """Return the rules for a symbol."""
        known = self.derived if self.instruments is None else self.instruments
        return known.get(symbol) or Instrument(symbol)

    @property
    def charges(self) -> Charges:
        """What an order costs in cash beside its price."""
        fees = self.fees
        return Charges(fees.rate, fees.minimum, fees.per_unit, self.slippage_bps / _BASIS_POINTS)

    def taker_price(self, symbol: str, side: Side, price: Decimal) -> Decimal:
        """Return the price a taker gets when the market is at `price`, within `EXACT`."""
        slip = self.slippage_bps / _BASIS_POINTS
        if side is Side.BUY:
            return self.instrument(symbol).price_up(price * (ONE + slip))
        return self.instrument(symbol).price_down(price * (ONE - slip))


@frozen
class Quote:
    """The last known market of a symbol."""

    close: Decimal
    time: datetime
    left: Decimal | None = None
    """Units of that bar's volume that may still be filled; None without a limit."""


@frozen
class OpenOrder:
    """An order that may still be filled."""

    placed: PlacedOrder
    venue_id: str
    units: Decimal
    """Units in total, filled and unfilled, adjusted for splits."""
    price: Decimal | None
    """The limit price, or the stop price of a stop order; None for a market order."""
    market: bool
    """Whether it fills at any price: a market order, or a stop that was reached."""
    reserved: Decimal = ZERO
    """Cash reserved for a purchase."""
    filled: Decimal = ZERO
    notional: Decimal = ZERO
    """Units times price of the fills so far."""
    charged: Decimal = ZERO
    """Fees so far."""
    stop: Decimal | None = None
    """The stop price of an order that has a limit price too."""
    trail: Decimal | None = None
    """Distance at which its stop price follows the market."""

    @property
    def left(self) -> Decimal:
        """Units not filled yet."""
        return self.units - self.filled

    def report(self, status: OrderStatus = OrderStatus.OPEN, reason: str = "") -> OrderReport:
        """Return the venue's report on the order."""
        want, id = self.placed.order, self.placed.client_id
        trailing = None if self.trail is None else self.price if self.stop is None else self.stop
        return OrderReport(
            id, self.venue_id, want.symbol, want.side, want.kind, self.units, self.filled, status, reason, trailing
        )

    def cost(self, units: Decimal, price: Decimal, fees: Fees) -> Decimal:
        """Return the cash needed to buy so many more units, including fees."""
        return units * price + fees.of(self.notional + units * price, self.filled + units) - self.charged


@frozen
class Books:
    """The state of a simulated venue, except for closed orders and fills."""

    cash: Decimal
    positions: Mapping[str, Decimal] = field(factory=dict[str, Decimal])
    """Units by symbol."""
    orders: Mapping[str, OpenOrder] = field(factory=dict[str, OpenOrder])
    """Open orders by client id, in order of arrival."""
    quotes: Mapping[str, Quote] = field(factory=dict[str, Quote])
    time: datetime | None = None
    """Time of the last slice."""
    accepted: int = 0
    """Number of orders accepted so far."""
    fills: int = 0
    """Number of fills so far; fills are numbered from 1."""
    financing: Decimal = ZERO
    """What borrowed units and money have cost so far."""

    def is_owing(self) -> bool:
        """Return whether units or money are borrowed, so that a bar costs something and may end in a margin call."""
        return self.cash < 0 or any(units < 0 for units in self.positions.values())


@frozen
class Matched:
    """The result of a call: the new books, and the new fills and reports."""

    books: Books
    reports: tuple[OrderReport, ...] = ()
    """Reports on changed orders; the last report on an order has its current state."""
    fills: tuple[Fill, ...] = ()


def with_fill(books: Books, fill: Fill) -> Books:
    """Return the books after a fill, within `EXACT`."""
    sign = ONE if fill.side is Side.BUY else -ONE
    quote = books.quotes[fill.symbol]
    left = None if quote.left is None else quote.left - fill.units
    return evolve(
        books,
        cash=books.cash - sign * fill.units * fill.price - fill.fee,
        positions={**books.positions, fill.symbol: books.positions.get(fill.symbol, ZERO) + sign * fill.units},
        quotes={**books.quotes, fill.symbol: evolve(quote, left=left)},
        fills=books.fills + 1,
    )


def ended(books: Books, order: OpenOrder, status: OrderStatus, reason: str) -> Matched:
    """End an order, and its exit if it has nothing to close."""
    closed = {order.placed.client_id: order.report(status, reason)}
    exit = books.orders.get(order.placed.exit_id)
    if exit is not None and not exit.left:
        closed = {order.placed.exit_id: exit.report(OrderStatus.CANCELLED, "its entry was not filled")} | closed
    orders = {id: one for id, one in books.orders.items() if id not in closed}
    return Matched(evolve(books, orders=orders), tuple(closed.values()))


def reserved_cash(books: Books) -> Decimal:
    """Return the cash reserved for open orders."""
    with localcontext(EXACT):
        return sum((order.reserved for order in books.orders.values()), ZERO)


def reserved_units(books: Books, symbol: str) -> Decimal:
    """Return the units of a symbol that open orders are to sell."""
    with localcontext(EXACT):
        orders = ((one, one.placed.order) for one in books.orders.values())
        return sum((one.left for one, order in orders if order.symbol == symbol and order.side is Side.SELL), ZERO)
