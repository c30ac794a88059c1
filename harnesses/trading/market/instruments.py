"""What may be traded, and in what grain. Pure.

The law: sums of money and units are exact. `Decimal` keeps 28 digits unless it is told otherwise, and rounds what has more
without a word; whoever adds up money does it within `localcontext(EXACT)`.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

from attrs import frozen

from harnesses.errors import HarnessMisuse
from harnesses.trading.market.orders import ZERO, make_exact

EXACT = Context(prec=80)
"""Room for every sum and product that comes up: prices, units and fees have 20 digits before and after the point at most."""
_CENTS = Decimal("0.00")
GRAIN = Decimal("1E-18")
"""The finest part of a unit that is held, or of money that is charged: the finest that any venue counts (wei)."""


@frozen
class Instrument:
    """The rules of a venue for one symbol."""

    symbol: str
    lot: Decimal = Decimal(1)
    """Units are multiples of it."""
    tick: Decimal | None = None
    """Prices are multiples of it; None where they are as they come, down to `GRAIN`. None is usual: a cent is little in the
    price of a share, and a lot in that of a currency."""
    min_units: Decimal = ZERO
    min_notional: Decimal = ZERO
    """Least units times price."""

    def __attrs_post_init__(self) -> None:
        make_exact(self, "lot", "min_units", "min_notional")
        make_exact(self, "tick", optional=True)
        for name, grain in (("lot", self.lot), ("tick", self.tick)):
            if grain is not None and not (grain.is_finite() and grain > 0):
                raise HarnessMisuse(f"Instrument {self.symbol!r}: {name}: expected a number above 0, was {grain}")

    @property
    def least_price(self) -> Decimal:
        """What prices differ by at least, and the lowest there is."""
        return GRAIN if self.tick is None else self.tick

    def round_units(self, units: Decimal) -> Decimal:
        """Return the largest multiple of the lot that is not above `units`."""
        return _multiple(units, self.lot, ROUND_DOWN)

    def round_price(self, price: Decimal) -> Decimal:
        """Return the nearest multiple of the tick."""
        return self._price(price, ROUND_HALF_EVEN)

    def price_up(self, price: Decimal) -> Decimal:
        """Return the least multiple of the tick that is not below `price`."""
        return self._price(price, ROUND_CEILING)

    def price_down(self, price: Decimal) -> Decimal:
        """Return the largest multiple of the tick that is not above `price`."""
        return self._price(price, ROUND_FLOOR)

    def _price(self, price: Decimal, rounding: str) -> Decimal:
        if self.tick is not None:
            return _multiple(price, self.tick, rounding)
        price = to_grain(price, rounding)
        # Written with cents at least, as money is.
        return EXACT.add(price, _CENTS) if price.is_finite() else price


def split_units(units: Decimal, ratio: Decimal) -> Decimal:
    """Return what `units` have become by a split of `ratio` for one; a fraction stays, down to the grain."""
    return to_grain(EXACT.multiply(units, ratio), ROUND_DOWN)


def to_grain(number: Decimal, rounding: str) -> Decimal:
    """Return a number without anything finer than the grain."""
    return number if number == (rounded := number.quantize(GRAIN, rounding, EXACT)) else rounded


def _multiple(number: Decimal, grain: Decimal, rounding: str) -> Decimal:
    # The zero has the digits of the grain, so that a hundred is 100.00 and not 1E+2.
    zero = grain - grain
    return EXACT.divide(number, grain).to_integral_value(rounding).fma(grain, zero, EXACT)
