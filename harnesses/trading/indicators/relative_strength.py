"""The relative strength index. Pure.

Source: J. Welles Wilder, New Concepts in Technical Trading Systems (1978): the first averages are plain means of the first
`period` changes, each later one is (before * (period - 1) + now) / period.
"""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import ge

from harnesses.trading.indicators.indicator import Standing


@frozen
class Rsi:
    """The index over `period` changes, 0 to 100; 50 for a price that never moved; None before `period` changes."""

    period: int = field(default=14, validator=ge(1))

    def after(self, standing: Standing, price: float, before: float | None) -> Standing:
        if before is None:
            return standing
        average_gain, average_loss = standing.values or (0.0, 0.0)
        change = price - before
        gain, loss = max(change, 0.0), max(-change, 0.0)
        if standing.seen < self.period:
            return Standing(standing.seen + 1, (average_gain + gain / self.period, average_loss + loss / self.period))
        keep = self.period - 1
        gain, loss = (average_gain * keep + gain) / self.period, (average_loss * keep + loss) / self.period
        return Standing(self.period, (gain, loss))

    def after_split(self, standing: Standing, units: float) -> Standing:
        return Standing(standing.seen, tuple(value / units for value in standing.values))

    def value(self, standing: Standing) -> float | None:
        if standing.seen < self.period:
            return None
        average_gain, average_loss = standing.values
        moved = average_gain + average_loss
        return 100.0 * average_gain / moved if moved else 50.0
