"""Measures of an account's course, step by step: daily returns, buy and hold, gains by month. Pure.

Invariant: each takes the steps in order and keeps only what the next one needs, so memory grows with months, not with steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from math import sqrt

from attrs import define, evolve, field, frozen

from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.orders import ONE

YEAR_S = 365.25 * 86_400
_LEAST_DAYS = 20
"""Returns of fewer days say nothing about risk."""


@define
class DailyReturns:
    """Daily returns, from one day's last equity to the next one's: their number, mean and variance."""

    count: int = 0
    mean: float = 0.0
    _squares: float = 0.0
    """Sum of the squared distances from the mean."""
    _losses: float = 0.0
    """Sum of the squared negative returns."""

    def take(self, before: float, close: float) -> None:
        """Add the return of a day."""
        if before > 0:
            one = close / before - 1
            self.count += 1
            off = one - self.mean
            self.mean += off / self.count
            self._squares += off * (one - self.mean)
            self._losses += min(one, 0.0) ** 2

    @property
    def deviation(self) -> float:
        """Standard deviation of a sample."""
        return sqrt(self._squares / (self.count - 1)) if self.count > 1 else 0.0

    @property
    def downside(self) -> float:
        """Root of the mean square of the losses; days with a gain count as 0."""
        return sqrt(self._losses / self.count) if self.count else 0.0

    def sharpe(self, span_s: float) -> float | None:
        """Return mean over standard deviation, annualised by the observed days per year; no risk-free rate.

        Args:
            span_s: seconds from the first step to the last.
        """
        return self._annualised(self.deviation, span_s)

    def sortino(self, span_s: float) -> float | None:
        """Return the same over the downside deviation, with 0 as the least return that is wanted."""
        return self._annualised(self.downside, span_s)

    def _annualised(self, deviation: float, span_s: float) -> float | None:
        if self.count < _LEAST_DAYS or span_s < YEAR_S / 12 or not deviation:
            return None
        return self.mean / deviation * sqrt(self.count / (span_s / YEAR_S))


@define
class DailyCloses:
    """Makes daily returns from an equity at any times; a day is one in UTC."""

    _returns: DailyReturns = field(factory=DailyReturns)
    _day: date | None = None
    _close: float = 0.0
    _before: float | None = None
    """The last equity of the day before."""

    def take(self, time: datetime, equity: float) -> None:
        """Add the equity after a step."""
        day = time.date()
        if self._day is not None and day != self._day:
            if self._before is not None:
                self._returns.take(self._before, self._close)
            self._before = self._close
        self._day, self._close = day, equity

    def returns(self) -> DailyReturns:
        """Return those of all days so far, today included."""
        found = evolve(self._returns)
        if self._before is not None:
            found.take(self._before, self._close)
        return found


@define
class BuyAndHold:
    """What the first equity would be worth, had it been spread evenly over the symbols of the first slice, and held.

    Without costs, and in fractions of lots. Symbols that begin later are left out.
    """

    _shares: dict[str, float] = field(factory=dict[str, float])
    """Units for each unit of the first equity, by symbol."""
    _closes: dict[str, float] = field(factory=dict[str, float])
    growth: float = 1.0
    """Worth of each unit of the first equity."""

    def worth(self, symbol: str, units: Decimal) -> float:
        """Return what units are worth at the last close; 0 for a symbol without one."""
        return float(units) * self._closes.get(symbol, 0.0)

    def take(self, market: MarketSlice | None) -> None:
        """Add a slice."""
        if market is None or not market.bars:
            return
        if not self._shares:
            self._shares = {symbol: 1 / (float(bar.close) * len(market.bars)) for symbol, bar in market.bars.items()}
        elif any(bar.split != ONE for bar in market.bars.values()):
            for symbol, bar in market.bars.items():
                if symbol in self._shares:
                    self._shares[symbol] *= float(bar.split)
        for symbol, bar in market.bars.items():
            self._closes[symbol] = float(bar.close)
        self.growth = sum(units * self._closes[symbol] for symbol, units in self._shares.items())


@frozen
class Month:
    """What a month brought."""

    year: int
    month: int
    gain: float
    """Change of the equity, as a fraction of the last one of the month before."""
    benchmark: float
    """The same of buy and hold."""


@define
class MonthlyCloses:
    """The last equity of each month, and the last worth of buy and hold."""

    _closes: dict[tuple[int, int], tuple[float, float]] = field(factory=dict[tuple[int, int], tuple[float, float]])

    def take(self, time: datetime, equity: float, growth: float) -> None:
        """Add a step."""
        self._closes[time.year, time.month] = equity, growth

    def months(self, first: float) -> Iterator[Month]:
        """Yield the months so far, oldest first.

        Args:
            first: the equity at the start.
        """
        before, held = first, 1.0
        for (year, month), (equity, growth) in self._closes.items():
            yield Month(year, month, equity / before - 1 if before > 0 else 0.0, growth / held - 1 if held > 0 else 0.0)
            before, held = equity, growth
