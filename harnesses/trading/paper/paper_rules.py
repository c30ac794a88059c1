"""How a simulated venue deals: what may be traded, what it costs, and at which price a market order is filled. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_UP, Decimal
from typing import Literal, cast

from attrs import frozen

from harnesses.errors import HarnessMisuse
from harnesses.trading.market.exact_numbers import make_exact
from harnesses.trading.market.instruments import Instrument, to_grain
from harnesses.trading.market.orders import ONE, ZERO, Side

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
