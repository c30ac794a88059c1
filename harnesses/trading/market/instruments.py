"""Instruments: the lot and tick sizes of what may be traded, and exact rounding to them. No I/O.

Invariant: sums of money and units are exact. `Decimal` rounds silently to 28 digits by default, so all sums of money are
computed within `localcontext(EXACT)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_UP, Context, Decimal, localcontext

from attrs import frozen

from harnesses.errors import HarnessMisuse
from harnesses.trading.market.orders import ONE, ZERO, make_exact

EXACT = Context(prec=80)
"""Enough digits for every sum and product: prices, units and fees have at most 20 digits before and after the point."""
_CENTS = Decimal("0.00")
GRAIN = Decimal("1E-18")
"""Smallest fraction of a unit or of money: the smallest that any venue counts (wei)."""


@frozen
class Charges:
    """What an order costs in cash beside its price: the larger of the minimum and the other two parts, plus slippage."""

    rate: Decimal = ZERO
    """As a fraction of units times price."""
    minimum: Decimal = ZERO
    per_unit: Decimal = ZERO
    slippage: Decimal = ZERO
    """Of an order that is filled at the market price, as a fraction of it."""

    def of(self, units: Decimal, price: Decimal) -> Decimal:
        """Return the charges of an order, without slippage, within `EXACT`."""
        return to_grain(max(self.minimum, units * price * self.rate + units * self.per_unit), ROUND_UP) if units else ZERO


@frozen
class Instrument:
    """The rules of a venue for one symbol."""

    symbol: str
    lot: Decimal = Decimal(1)
    """Lot size: units are multiples of it."""
    tick: Decimal | None = None
    """Tick size: prices are multiples of it; None leaves prices unrounded down to `GRAIN`. None is usual, because a cent is
    small for the price of a share and large for that of a currency."""
    min_units: Decimal = ZERO
    min_notional: Decimal = ZERO
    """Minimum of units times price."""
    charges: Charges = Charges()
    """What the venue takes in cash beside the price, as far as it is known in advance."""

    def __attrs_post_init__(self) -> None:
        make_exact(self, "lot", "min_units", "min_notional")
        make_exact(self, "tick", optional=True)
        for name, grain in (("lot", self.lot), ("tick", self.tick)):
            if grain is not None and not (grain.is_finite() and grain > 0):
                raise HarnessMisuse(f"Instrument {self.symbol!r}: {name}: expected a number above 0, was {grain}")

    @property
    def least_price(self) -> Decimal:
        """The smallest price difference, which is also the lowest price."""
        return GRAIN if self.tick is None else self.tick

    def round_units(self, units: Decimal) -> Decimal:
        """Return the largest multiple of the lot that is not above `units`."""
        return _multiple(units, self.lot, ROUND_DOWN)

    def round_price(self, price: Decimal) -> Decimal:
        """Return the nearest multiple of the tick."""
        return self._price(price, ROUND_HALF_EVEN)

    def price_up(self, price: Decimal) -> Decimal:
        """Return the smallest multiple of the tick that is not below `price`."""
        return self._price(price, ROUND_CEILING)

    def price_down(self, price: Decimal) -> Decimal:
        """Return the largest multiple of the tick that is not above `price`."""
        return self._price(price, ROUND_FLOOR)

    def taker_price(self, price: Decimal, *, buys: bool) -> Decimal:
        """Return the price at which an order is expected to be filled when the market is at `price`, within `EXACT`."""
        slip = self.charges.slippage
        return self.price_up(price * (ONE + slip)) if buys else self.price_down(price * (ONE - slip))

    def cost(self, units: Decimal, price: Decimal) -> Decimal:
        """Return the cash that a purchase at `price` takes, with its charges."""
        with localcontext(EXACT):
            return units * price + self.charges.of(units, price)

    def affordable(self, cash: Decimal, price: Decimal) -> Decimal:
        """Return the most units, in whole lots, that `cash` pays for at `price`, with their charges."""
        charges = self.charges
        with localcontext(EXACT):
            most = min(cash / (price * (ONE + charges.rate) + charges.per_unit), (cash - charges.minimum) / price)
            units = max(self.round_units(most), ZERO)
            # Only the rounding of the charges can miss the bounds, by one lot.
            return max(units - self.lot, ZERO) if units and self.cost(units, price) > cash else units

    @property
    def least_units(self) -> Decimal:
        """The smallest order, in units."""
        return max(self.lot, self.min_units)

    def _price(self, price: Decimal, rounding: str) -> Decimal:
        if self.tick is not None:
            return _multiple(price, self.tick, rounding)
        price = to_grain(price, rounding)
        # At least two decimals, as for money.
        return EXACT.add(price, _CENTS) if price.is_finite() else price


def lot_of(volumes: Iterable[Decimal]) -> Decimal:
    """Return the lot in which units were traded, from recorded volumes: 1 for whole ones, else their smallest decimal."""
    parts = (Decimal(volume) for volume in volumes if volume % 1)
    smallest = min((int(part.as_tuple().exponent) for part in parts), default=0)
    return max(ONE.scaleb(smallest), GRAIN)


def split_units(units: Decimal, ratio: Decimal) -> Decimal:
    """Return the units after a split of `ratio` for one; fractions are kept down to the grain."""
    return to_grain(EXACT.multiply(units, ratio), ROUND_DOWN)


def to_grain(number: Decimal, rounding: str) -> Decimal:
    """Return a number rounded to the grain."""
    return number if number == (rounded := number.quantize(GRAIN, rounding, EXACT)) else rounded


def _multiple(number: Decimal, grain: Decimal, rounding: str) -> Decimal:
    # A zero with the digits of the grain, so that a hundred becomes 100.00 and not 1E+2.
    zero = grain - grain
    return EXACT.divide(number, grain).to_integral_value(rounding).fma(grain, zero, EXACT)
