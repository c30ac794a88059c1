"""Indicators: numbers computed from the prices of one symbol, one bar at a time. No I/O.

Invariant: the standing after n bars depends only on the standing after n - 1 bars and the new bar, so that a resumed harness
continues exactly where it was.

An `Indicator` is computed from closes and gives one number; a `BarIndicator` is computed from whole bars, or gives several
numbers. Either is a setting (kind and number of bars), part of the program. A `Standing` is its intermediate result, part of
the state of the harness, by symbol and by the name that the strategy gives the indicator. All indicators share one `Standing`
class, so that a state read back from disk equals the state that was written, whatever the strategy.

Sources: the average (`Ema`) begins with the plain mean of the first `window` prices; each later one is before + (price -
before) * 2 / (window + 1). It needs one stored number where a plain average needs the whole window. The index (`Rsi`) is that
of J. Welles Wilder, New Concepts in Technical Trading Systems (1978): the first averages are plain means of the first `period`
changes, each later one is (before * (period - 1) + now) / period.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeAlias, cast

from attrs import field, frozen
from attrs.validators import ge

from harnesses.trading.market.bars import Bar


def _floats(values: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(map(float, values))


@frozen
class Standing:
    """The intermediate result of an indicator. Floats suffice, because these are not money; JSON stores them exactly."""

    seen: int = 0
    """Number of prices seen, counted up to the number that the indicator needs."""
    values: tuple[float, ...] = field(default=(), converter=_floats)
    """Values whose meaning only the indicator knows."""


NEW = Standing()


class Indicator(Protocol):
    """Computes one number from prices. Equal settings give equal numbers; a changed setting needs a new name."""

    def after(self, standing: Standing, price: float, before: float | None) -> Standing:
        """Return the standing after `price`.

        Args:
            standing: the standing before; `NEW` for the first price.
            before: the previous price, adjusted for splits; None for the first.
        """
        ...

    def after_split(self, standing: Standing, units: float) -> Standing:
        """Return the standing adjusted for a split: later prices are `units` times smaller."""
        ...

    def value(self, standing: Standing) -> float | None:
        """Return the number; None until enough prices have been seen."""
        ...


class Prices(NamedTuple):
    """The prices and the volume of a bar, as floats."""

    open: float
    high: float
    low: float
    close: float
    volume: float


class BarIndicator(Protocol):
    """Computes one or several numbers from bars. Equal settings give equal numbers; a changed setting needs a new name."""

    def after_bar(self, standing: Standing, bar: Prices, before: float | None) -> Standing:
        """Return the standing after `bar`. Other arguments as for `Indicator.after`."""
        ...

    def after_split(self, standing: Standing, units: float) -> Standing:
        """Return the standing adjusted for a split: later prices are `units` times smaller, and volumes as much larger."""
        ...

    def lines(self, standing: Standing) -> Mapping[str, float | None]:
        """Return the numbers: the one without a name is called as the indicator, the others `indicator.line`.

        A number is None until enough bars have been seen.
        """
        ...


AnyIndicator: TypeAlias = Indicator | BarIndicator
Indicators = Mapping[str, AnyIndicator]
"""Indicators by name. Do not reuse a name for another setting: a resumed harness would mix the two."""
Standings = Mapping[str, Standing]
"""Standings of one symbol, by the names of `Indicators`. A missing one has seen no price."""


def after_bar(indicators: Indicators, standings: Standings, bar: Bar, before: float | None) -> dict[str, Standing]:
    """Return the standings after a bar; see `Indicator.after`. Standings of removed indicators are dropped."""
    if not indicators:
        return {}
    prices = Prices(float(bar.open), float(bar.high), float(bar.low), float(bar.close), float(bar.volume))
    return {name: _after(one, standings.get(name, NEW), prices, before) for name, one in indicators.items()}


def after_price(indicators: Indicators, standings: Standings, price: float, before: float | None) -> dict[str, Standing]:
    """Return the standings after a bar of which only the close is known; see `after_bar`."""
    prices = Prices(price, price, price, price, 0.0)
    return {name: _after(one, standings.get(name, NEW), prices, before) for name, one in indicators.items()}


def _after(one: AnyIndicator, standing: Standing, prices: Prices, before: float | None) -> Standing:
    take: Callable[[Standing, Prices, float | None], Standing] | None = getattr(one, "after_bar", None)
    if take is not None:
        return take(standing, prices, before)
    return cast(Indicator, one).after(standing, prices.close, before)


def after_split(indicators: Indicators, standings: Standings, units: float) -> dict[str, Standing]:
    """Return the standings adjusted for a split; see `Indicator.after_split`."""
    return {name: one.after_split(standings.get(name, NEW), units) for name, one in indicators.items()}


def values(indicators: Indicators, standings: Standings) -> dict[str, float | None]:
    """Return the numbers by name, for `Quote.indicators`: `name`, and `name.line` of those with several."""
    found: dict[str, float | None] = {}
    for name, one in indicators.items():
        standing = standings.get(name, NEW)
        lines: Callable[[Standing], Mapping[str, float | None]] | None = getattr(one, "lines", None)
        if lines is None:
            found[name] = cast(Indicator, one).value(standing)
        else:
            found |= {f"{name}.{line}" if line else name: number for line, number in lines(standing).items()}
    return found


def averaged(mean: float, seen: int, window: int, price: float) -> float:
    """Return an exponential average after a price, of which `seen` were seen before: the plain mean of the first `window`."""
    return mean + price / window if seen < window else mean + (price - mean) * 2.0 / (window + 1)


@frozen
class Ema:
    """Exponential moving average over about `window` prices; None before `window` prices."""

    window: int = field(validator=ge(1))

    def after(self, standing: Standing, price: float, before: float | None) -> Standing:
        (mean,) = standing.values or (0.0,)
        seen = standing.seen
        return Standing(min(seen + 1, self.window), (averaged(mean, seen, self.window, price),))

    def after_split(self, standing: Standing, units: float) -> Standing:
        return Standing(standing.seen, tuple(value / units for value in standing.values))

    def value(self, standing: Standing) -> float | None:
        return standing.values[0] if standing.seen >= self.window else None


@frozen
class Rsi:
    """Relative strength index over `period` changes, 0 to 100; 50 if the price never moved; None before `period` changes."""

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
