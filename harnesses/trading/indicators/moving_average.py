"""The exponential moving average. Pure.

It needs one number to go on where a plain average needs the whole window, so the state of a harness stays small.
It begins with the plain mean of the first `window` prices; each later one is before + (price - before) * 2 / (window + 1).
"""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import ge

from harnesses.trading.indicators.indicator import Standing


@frozen
class Ema:
    """The average over about `window` prices; None before `window` of them."""

    window: int = field(validator=ge(1))

    def after(self, standing: Standing, price: float, before: float | None) -> Standing:
        (mean,) = standing.values or (0.0,)
        if standing.seen < self.window:
            return Standing(standing.seen + 1, (mean + price / self.window,))
        return Standing(self.window, (mean + (price - mean) * 2.0 / (self.window + 1),))

    def after_split(self, standing: Standing, units: float) -> Standing:
        return Standing(standing.seen, tuple(value / units for value in standing.values))

    def value(self, standing: Standing) -> float | None:
        return standing.values[0] if standing.seen >= self.window else None
