"""The common indicators beside `Ema` and `Rsi`, each a fold over bars. No I/O.

    indicator        line without a name                     other lines
    Sma              mean of the last closes
    RateOfChange     change of the close, in percent
    Macd             fast less slow exponential average      signal, histogram
    Bollinger        mean of the last closes                 upper, lower
    Atr              average true range
    Donchian         middle of the channel                   upper, lower
    Stochastic       %K, 0 to 100                            d
    Vwap             mean price, weighted with the volume
    Obv              on-balance volume

Invariant: a standing is bounded by the setting. Indicators of a window keep the window, and sum it anew at each bar: no
rounding accumulates, and a recorded step stores only the new entries.

Sources: J. Welles Wilder, New Concepts in Technical Trading Systems (1978), for `Atr`; John Bollinger, Bollinger on Bollinger
Bands (2001), with the deviation of the population; Gerald Appel's averages of 12, 26 and 9 closes for `Macd`. Where
definitions differ, the numbers are those of TA-Lib, once `Macd` has forgotten where its averages began.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum, sqrt

from attrs import field, frozen
from attrs.validators import ge

from harnesses.trading.indicators import Prices, Standing, averaged

Lines = Mapping[str, float | None]


def _slid(standing: Standing, window: int, *entry: float) -> Standing:
    """Return the standing of the last `window` entries, each of as many values as `entry`."""
    kept = standing.values[len(entry) :] if standing.seen >= window else standing.values
    return Standing(min(standing.seen + 1, window), (*kept, *entry))


def _divided(standing: Standing, units: float) -> Standing:
    """Return a standing of nothing but prices, adjusted for a split."""
    return Standing(standing.seen, tuple(value / units for value in standing.values))


@frozen
class Sma:
    """Simple moving average of the last `window` closes."""

    window: int = field(validator=ge(1))

    def after(self, standing: Standing, price: float, before: float | None) -> Standing:
        return _slid(standing, self.window, price)

    def after_split(self, standing: Standing, units: float) -> Standing:
        return _divided(standing, units)

    def value(self, standing: Standing) -> float | None:
        return fsum(standing.values) / self.window if standing.seen == self.window else None


@frozen
class RateOfChange:
    """Change of the close over `period` bars, in percent."""

    period: int = field(default=10, validator=ge(1))

    def after(self, standing: Standing, price: float, before: float | None) -> Standing:
        return _slid(standing, self.period + 1, price)

    def after_split(self, standing: Standing, units: float) -> Standing:
        return _divided(standing, units)

    def value(self, standing: Standing) -> float | None:
        return (standing.values[-1] / standing.values[0] - 1.0) * 100.0 if standing.seen > self.period else None


@frozen
class Macd:
    """Fast less slow exponential average of the closes; `signal` is the average of that, `histogram` the difference of both.

    The line without a name is known from `slow` closes on, the others from `slow + signal - 1` on.
    """

    fast: int = field(default=12, validator=ge(1))
    slow: int = field(default=26, validator=ge(2))
    signal: int = field(default=9, validator=ge(1))

    def __attrs_post_init__(self) -> None:
        if self.fast >= self.slow:
            raise ValueError(f"Macd: windows: expected fast < slow, was fast {self.fast}, slow {self.slow}")

    def after_bar(self, standing: Standing, bar: Prices, before: float | None) -> Standing:
        fast, slow, signal = standing.values or (0.0, 0.0, 0.0)
        seen = standing.seen
        fast = averaged(fast, seen, self.fast, bar.close)
        slow = averaged(slow, seen, self.slow, bar.close)
        if seen >= self.slow - 1:
            signal = averaged(signal, seen - self.slow + 1, self.signal, fast - slow)
        return Standing(min(seen + 1, self.slow + self.signal - 1), (fast, slow, signal))

    def after_split(self, standing: Standing, units: float) -> Standing:
        return _divided(standing, units)

    def lines(self, standing: Standing) -> Lines:
        if standing.seen < self.slow:
            return {"": None, "signal": None, "histogram": None}
        fast, slow, signal = standing.values
        if standing.seen < self.slow + self.signal - 1:
            return {"": fast - slow, "signal": None, "histogram": None}
        return {"": fast - slow, "signal": signal, "histogram": fast - slow - signal}


@frozen
class Bollinger:
    """Mean of the last `window` closes; `upper` and `lower` are `width` standard deviations (of the population) from it."""

    window: int = field(default=20, validator=ge(1))
    width: float = field(default=2.0, validator=ge(0), converter=float)

    def after_bar(self, standing: Standing, bar: Prices, before: float | None) -> Standing:
        return _slid(standing, self.window, bar.close)

    def after_split(self, standing: Standing, units: float) -> Standing:
        return _divided(standing, units)

    def lines(self, standing: Standing) -> Lines:
        if standing.seen < self.window:
            return {"": None, "upper": None, "lower": None}
        mean = fsum(standing.values) / self.window
        band = self.width * sqrt(fsum([(value - mean) ** 2 for value in standing.values]) / self.window)
        return {"": mean, "upper": mean + band, "lower": mean - band}


@frozen
class Atr:
    """Average true range over `period` bars, in the price's unit; the first bar has no range, as it has no close before it."""

    period: int = field(default=14, validator=ge(1))

    def after_bar(self, standing: Standing, bar: Prices, before: float | None) -> Standing:
        if before is None:
            return standing
        (average,) = standing.values or (0.0,)
        reach = max(bar.high, before) - min(bar.low, before)
        if standing.seen < self.period:
            return Standing(standing.seen + 1, (average + reach / self.period,))
        return Standing(self.period, ((average * (self.period - 1) + reach) / self.period,))

    def after_split(self, standing: Standing, units: float) -> Standing:
        return _divided(standing, units)

    def lines(self, standing: Standing) -> Lines:
        return {"": standing.values[0] if standing.seen == self.period else None}


@frozen
class Donchian:
    """The highest high (`upper`) and lowest low (`lower`) of the last `window` bars with the current one, and their middle."""

    window: int = field(default=20, validator=ge(1))

    def after_bar(self, standing: Standing, bar: Prices, before: float | None) -> Standing:
        return _slid(standing, self.window, bar.high, bar.low)

    def after_split(self, standing: Standing, units: float) -> Standing:
        return _divided(standing, units)

    def lines(self, standing: Standing) -> Lines:
        if standing.seen < self.window:
            return {"": None, "upper": None, "lower": None}
        upper, lower = max(standing.values[::2]), min(standing.values[1::2])
        return {"": (upper + lower) / 2.0, "upper": upper, "lower": lower}


@frozen
class Stochastic:
    """Where the close is between the lowest low and the highest high of `window` bars (%K), in percent; 50 if they are equal.

    %K is the mean of the last `smooth` ones; `d` is the mean of the last `signal` values of %K, and known that much later.
    """

    window: int = field(default=14, validator=ge(1))
    smooth: int = field(default=3, validator=ge(1))
    signal: int = field(default=3, validator=ge(1))

    @property
    def _bars(self) -> int:
        return self.window + self.smooth + self.signal - 2

    def after_bar(self, standing: Standing, bar: Prices, before: float | None) -> Standing:
        return _slid(standing, self._bars, bar.high, bar.low, bar.close)

    def after_split(self, standing: Standing, units: float) -> Standing:
        return _divided(standing, units)

    def lines(self, standing: Standing) -> Lines:
        highs, lows, closes = (standing.values[part::3] for part in range(3))
        ends = range(self.window, standing.seen + 1)
        raw = [_place(closes[end - 1], highs[end - self.window : end], lows[end - self.window : end]) for end in ends]
        smooth = [fsum(raw[end - self.smooth : end]) / self.smooth for end in range(self.smooth, len(raw) + 1)]
        signal = fsum(smooth) / self.signal if standing.seen == self._bars else None
        return {"": smooth[-1] if smooth else None, "d": signal}


def _place(close: float, highs: tuple[float, ...], lows: tuple[float, ...]) -> float:
    high, low = max(highs), min(lows)
    return 100.0 * (close - low) / (high - low) if high > low else 50.0


@frozen
class Vwap:
    """Mean of the typical prices (of high, low and close) of the last `window` bars, weighted with their volumes.

    None while nothing was traded in the window.
    """

    window: int = field(default=20, validator=ge(1))

    def after_bar(self, standing: Standing, bar: Prices, before: float | None) -> Standing:
        return _slid(standing, self.window, (bar.high + bar.low + bar.close) / 3.0, bar.volume)

    def after_split(self, standing: Standing, units: float) -> Standing:
        values = standing.values
        return Standing(standing.seen, tuple(one * units if at % 2 else one / units for at, one in enumerate(values)))

    def lines(self, standing: Standing) -> Lines:
        prices, volumes = standing.values[::2], standing.values[1::2]
        if standing.seen < self.window or not (volume := fsum(volumes)):
            return {"": None}
        return {"": fsum([price * part for price, part in zip(prices, volumes, strict=True)]) / volume}


@frozen
class Obv:
    """On-balance volume: the first volume, plus that of each bar with a higher close, less that of each with a lower one."""

    def after_bar(self, standing: Standing, bar: Prices, before: float | None) -> Standing:
        (balance,) = standing.values or (0.0,)
        sign = 1 if before is None else (bar.close > before) - (bar.close < before)
        return Standing(1, (balance + sign * bar.volume,))

    def after_split(self, standing: Standing, units: float) -> Standing:
        return Standing(standing.seen, tuple(value * units for value in standing.values))

    def lines(self, standing: Standing) -> Lines:
        return {"": standing.values[0] if standing.values else None}
