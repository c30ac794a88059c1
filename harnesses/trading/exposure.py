"""What the account holds of one symbol and may still come to hold, and what one more order of it costs. No I/O."""

from __future__ import annotations

from decimal import Decimal, localcontext

from attrs import frozen

from harnesses.trading.market.instruments import EXACT, Instrument
from harnesses.trading.market.orders import ZERO, Order, OrderKind, Side


@frozen
class Exposure:
    """Current and possible holdings of one symbol."""

    instrument: Instrument
    units: Decimal = ZERO
    price: Decimal | None = None
    """The price to trade at now; None if there is none."""
    why_not: str = "no bar"
    """Why there is no price."""
    buying: Decimal = ZERO
    """Units that open orders may still buy."""
    buying_cost: Decimal | None = None
    """Maximum cost of these, each at its order's price; None to use the current price."""
    selling: Decimal = ZERO
    """Units that open orders may still sell."""

    @property
    def free(self) -> Decimal:
        """Units that may be sold."""
        return max(self.units - self.selling, ZERO)

    @property
    def lends(self) -> bool:
        """Whether it is traded on margin, so that the position may be short."""
        return self.instrument.margin is not None

    def closable(self, side: Side) -> Decimal:
        """Return the units of the position that one more order of a side can close."""
        if side is Side.SELL:
            return self.free
        return max(-self.units - self.buying, ZERO) if self.units < 0 else ZERO

    def opens(self, order: Order) -> bool:
        """Return whether an order closes nothing: a purchase or, with margin, a short sale, unless it closes the other."""
        return (self.lends or order.side is Side.BUY) and not self.closable(order.side)


def cost_of(order: Order, exposure: Exposure) -> Decimal:
    """Return the expected price of a unit, including slippage and fees."""
    return order.worst_price or exposure.price or ZERO


def filled_at(order: Order, exposure: Exposure) -> Decimal:
    """Return the expected price of a unit, with slippage unless it is limited."""
    price = cost_of(order, exposure)
    if order.kind is OrderKind.LIMIT:
        return price
    with localcontext(EXACT):
        return exposure.instrument.taker_price(price, buys=order.side is Side.BUY)


def tradable(order: Order, exposure: Exposure, rounded: Decimal, nothing: str, reason: str) -> tuple[Decimal, str]:
    """Return the units if the instrument may be traded in so few, and why they are fewer than wanted.

    Args:
        nothing: the reason if there are none.
    """
    instrument = exposure.instrument
    if not rounded:
        return ZERO, nothing
    if rounded < instrument.min_units:
        return ZERO, f"{rounded:f} units are less than the minimum of {instrument.min_units:f}"
    worth = rounded * cost_of(order, exposure)
    if worth and worth < instrument.min_notional:
        return ZERO, f"{text_of(worth)} is less than the minimum of {instrument.min_notional:f}"
    return rounded, reason


def text_of(number: Decimal) -> str:
    return f"{round(number, 8).normalize():f}"
