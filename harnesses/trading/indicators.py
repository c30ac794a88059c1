"""Indicators: numbers about the prices of one symbol, one price at a time. Pure.

The law: where an indicator stands after n prices depends on where it stood after n - 1 and the new price alone, so that a
harness that is resumed goes on exactly where it was.

An `Indicator` is a setting (which index, over how many prices) and lives in the program; a `Standing` is what it has come to
and lives in the state of the harness, by symbol and by the name that the strategy gives it. All kinds share the one class,
so that a state read back from disk is the state that was written, whatever the strategy.

Sources: the average (`Ema`) begins with the plain mean of the first `window` prices; each later one is before + (price -
before) * 2 / (window + 1). It needs one number to go on where a plain average needs the whole window. The index (`Rsi`) is
that of J. Welles Wilder, New Concepts in Technical Trading Systems (1978): the first averages are plain means of the first
`period` changes, each later one is (before * (period - 1) + now) / period.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from attrs import field, frozen
from attrs.validators import ge


def _floats(values: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(map(float, values))


@frozen
class Standing:
    """Where an indicator stands. Numbers about prices, not money: floats will do, and JSON carries them exactly."""

    seen: int = 0
    """How much it has seen, counted up to what it needs."""
    values: tuple[float, ...] = field(default=(), converter=_floats)
    """Its own; what they mean is known to the indicator alone."""


NEW = Standing()


class Indicator(Protocol):
    """How one number comes of prices. Equal settings give equal numbers; another setting needs another name."""

    def after(self, standing: Standing, price: float, before: float | None) -> Standing:
        """Return where it stands after `price`.

        Args:
            standing: where it stood; `NEW` before the first price.
            before: the price to compare with, in units of the same split; None for the first.
        """
        ...

    def after_split(self, standing: Standing, units: float) -> Standing:
        """Return the same standing in the prices that follow a split: they are `units` times smaller."""
        ...

    def value(self, standing: Standing) -> float | None:
        """Return the number; None as long as it has not seen enough."""
        ...


Indicators = Mapping[str, Indicator]
"""By name. The name of one is never used for another setting, or a resumed harness would mix the two."""
Standings = Mapping[str, Standing]
"""Of one symbol, by the names of `Indicators`. One that is missing has seen nothing yet."""


def after_price(indicators: Indicators, standings: Standings, price: float, before: float | None) -> dict[str, Standing]:
    """Return the standings after a price; see `Indicator.after`. Those of indicators that are no more are dropped."""
    return {name: one.after(standings.get(name, NEW), price, before) for name, one in indicators.items()}


def after_split(indicators: Indicators, standings: Standings, units: float) -> dict[str, Standing]:
    """Return the standings in the prices that follow a split; see `Indicator.after_split`."""
    return {name: one.after_split(standings.get(name, NEW), units) for name, one in indicators.items()}


def values(indicators: Indicators, standings: Standings) -> dict[str, float | None]:
    """Return the numbers by name, for `Quote.indicators`."""
    return {name: one.value(standings.get(name, NEW)) for name, one in indicators.items()}


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
