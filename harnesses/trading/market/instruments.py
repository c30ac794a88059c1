"""Instruments: the lot and tick sizes of what may be traded, its charges and margin, and exact rounding to them. No I/O.

Invariant: sums of money and units are exact. `Decimal` rounds silently to 28 digits by default, so all sums of money are
computed within `localcontext(EXACT)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_UP, Context, Decimal, localcontext

from attrs import frozen

from harnesses.errors import HarnessMisuse
from harnesses.trading.market.orders import ONE, ZERO, make_exact

EXACT = Context(prec=80)
"""Enough digits for every sum and product: prices, units and fees have at most 20 digits before and after the point."""
_CENTS = Decimal("0.00")
_MICROSECOND = timedelta(microseconds=1)
_YEAR = timedelta(days=365) // _MICROSECOND
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
class Margin:
    """The terms at which a venue lends units to sell short, and money. Rates are for a year of 365 days."""

    borrow_rate: Decimal
    """Cost of borrowed units for a year, as a fraction of their value at the last close."""
    leverage: Decimal = ONE
    """Most that all positions, long and short added up, may be worth when an order opens one, as a multiple of the equity."""
    maintenance: Decimal = Decimal("0.25")
    """Least equity, as a fraction of what all positions are worth; below it the venue closes them."""
    interest_rate: Decimal | None = None
    """Cost of borrowed money for a year, as a fraction; None: `borrow_rate`."""

    def __attrs_post_init__(self) -> None:
        make_exact(self, "borrow_rate", "leverage", "maintenance")
        make_exact(self, "interest_rate", optional=True)
        for name in ("borrow_rate", "interest_rate", "maintenance"):
            rate: Decimal | None = getattr(self, name)
            if rate is not None and not (rate.is_finite() and rate >= 0):
                raise HarnessMisuse(f"Margin: {name}: expected a fraction from 0 up, such as 0.05, was {rate}")
        if not (self.leverage.is_finite() and self.leverage >= 1):
            raise HarnessMisuse(f"Margin: leverage: expected a multiple of the equity from 1 up, was {self.leverage}")
        if self.maintenance * self.leverage >= 1:
            raise HarnessMisuse(
                f"Margin: maintenance: expected less than 1/leverage, or a full account is closed at once, was "
                f"{self.maintenance} with leverage {self.leverage}; lower one of them"
            )

    def cost(self, cash: Decimal, short: Decimal, time: timedelta) -> Decimal:
        """Return what the loans of an account cost for a time, within `EXACT`.

        Args:
            cash: with the proceeds of short sales. They are the lender's security, so money is borrowed as far as the cash is
                less than `short`.
            short: what the borrowed units are worth.
        """
        interest = self.borrow_rate if self.interest_rate is None else self.interest_rate
        yearly = short * self.borrow_rate + max(short - cash, ZERO) * interest
        return to_grain(yearly * (time // _MICROSECOND) / _YEAR, ROUND_UP) if yearly else ZERO

    def need(self, opening: Decimal, closing: Decimal, *, mark: Decimal, price: Decimal, fee: Decimal) -> Decimal:
        """Return the buying power that an order takes, within `EXACT`; negative if it frees some.

        Args:
            opening: units that it adds to a position.
            closing: units that it takes from one of the other side first.
            mark: at which the units count once it is filled.
            price: at which it is filled.
        """
        return (opening - closing) * mark + self.leverage * ((opening + closing) * abs(price - mark) + fee)


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
    margin: Margin | None = None
    """Terms of the account that it is traded on; None: nothing is lent, so that no position is short."""

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
