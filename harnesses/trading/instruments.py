"""What may be traded, and in what grain. Pure."""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Decimal

from attrs import frozen

from harnesses.trading.orders import ZERO


@frozen
class Instrument:
    """The rules of a venue for one symbol."""

    symbol: str
    lot: Decimal = Decimal(1)
    """Units are multiples of it."""
    tick: Decimal = Decimal("0.01")
    """Prices are multiples of it."""
    min_units: Decimal = ZERO
    min_notional: Decimal = ZERO
    """Least units times price."""

    def round_units(self, units: Decimal) -> Decimal:
        """Return the largest multiple of the lot that is not above `units`."""
        return (units / self.lot).to_integral_value(ROUND_DOWN) * self.lot

    def round_price(self, price: Decimal) -> Decimal:
        """Return the nearest multiple of the tick."""
        return (price / self.tick).to_integral_value(ROUND_HALF_EVEN) * self.tick
