"""A curve of limited length: what an account and its prices did, in stretches that get longer as the steps get more. No I/O.

    steps      1  2  3  4  5  6  7  8  9 …      at most `MOST` stretches; when there would be more, each two become one
    stretches  └──┴──┘  └──┴──┘  └──┴──┘ …      equity and prices: first, highest, lowest and last; drawdown: the deepest

Invariants: the times of stretches ascend; no extreme is lost. Prices and units before a split are those after it, so that a
split makes no step in a curve.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TypeAlias

from attrs import define, field

from harnesses.trading.account_model import TradingOutput
from harnesses.trading.market.bars import Bar, MarketSlice
from harnesses.trading.market.orders import ONE, Side
from harnesses.trading.risk import RiskState

MOST = 2_000
"""Limit on the stretches of a curve."""
MOST_SYMBOLS = 50
"""Symbols whose prices are kept: the first that had any."""
_GRAVITY = {state: gravity for gravity, state in enumerate(RiskState)}
Range: TypeAlias = list[float]
"""First, highest, lowest and last."""


@define
class Stretch:
    """Some steps that follow each other."""

    step: int
    """The number of the first."""
    time: datetime
    """The time of the first."""
    equity: Range
    drawdown: float
    gravity: int
    """The gravest risk state: 0 active, 1 reducing, 2 halted."""
    prices: dict[str, Range] = field(factory=dict[str, Range])
    traded: dict[str, list[float]] = field(factory=dict[str, list[float]])
    """By symbol, the units that were bought and sold."""

    def join(self, later: Stretch) -> None:
        """Add a stretch that follows."""
        _join(self.equity, later.equity)
        self.drawdown, self.gravity = max(self.drawdown, later.drawdown), max(self.gravity, later.gravity)
        for symbol, prices in later.prices.items():
            if symbol in self.prices:
                _join(self.prices[symbol], prices)
            else:
                self.prices[symbol] = [*prices]
        for symbol, (bought, sold) in later.traded.items():
            before = self.traded.get(symbol, [0.0, 0.0])
            self.traded[symbol] = [before[0] + bought, before[1] + sold]


@define(eq=False)
class Curve:
    """The stretches so far."""

    most: int = MOST
    stretches: list[Stretch] = field(factory=list[Stretch], init=False)
    width: int = field(default=1, init=False)
    """Times that a stretch has."""
    revision: int = field(default=0, init=False)
    """Changes when earlier stretches have changed, and not only the last one."""
    symbols: dict[str, None] = field(factory=dict[str, None], init=False)
    """The symbols with prices, in order of appearance."""
    _in_last: int = field(default=0, init=False)
    _time: datetime | None = field(default=None, init=False)

    def add(self, step: int, market: MarketSlice | None, output: TradingOutput, drawdown: float) -> None:
        """Add a step. One that is not later than the one before belongs to its stretch.

        Args:
            drawdown: loss from the highest equity so far, as a fraction; that of the output starts anew with each reset.
        """
        for symbol, bar in market.bars.items() if market else ():
            if bar.split != ONE:
                self._split(symbol, float(bar.split))
        one = self._stretch(step, market, output, drawdown)
        is_later = self._time is None or output.time > self._time
        if self.stretches and (not is_later or self._in_last < self.width):
            self.stretches[-1].join(one)
            self._in_last += is_later
        else:
            self.stretches.append(one)
            self._in_last = 1
        if is_later:
            self._time = output.time
        if len(self.stretches) > self.most:
            self._halve()

    def _stretch(self, step: int, market: MarketSlice | None, output: TradingOutput, drawdown: float) -> Stretch:
        equity, gravity = float(output.equity), _GRAVITY[RiskState.HALTED if output.latched else output.risk]
        one = Stretch(step, output.time, [equity] * 4, drawdown, gravity)
        for symbol, bar in market.bars.items() if market else ():
            if symbol in self.symbols or len(self.symbols) < MOST_SYMBOLS:
                self.symbols[symbol] = None
                one.prices[symbol] = _range(bar)
        for made in output.fills:
            units = one.traded.setdefault(made.fill.symbol, [0.0, 0.0])
            units[made.fill.side is Side.SELL] += float(made.fill.units)
        return one

    def _halve(self) -> None:
        """Make each two stretches one; an odd last one stays, half full."""
        for first, second in zip(self.stretches[::2], self.stretches[1::2], strict=False):
            first.join(second)
        if len(self.stretches) % 2 == 0:
            self._in_last += self.width
        self.stretches = self.stretches[::2]
        self.width *= 2
        self.revision += 1

    def _split(self, symbol: str, ratio: float) -> None:
        for stretch in self.stretches:
            if symbol in stretch.prices:
                stretch.prices[symbol] = [price / ratio for price in stretch.prices[symbol]]
            if symbol in stretch.traded:
                stretch.traded[symbol] = [units * ratio for units in stretch.traded[symbol]]
        self.revision += 1

    def rows(self, symbol: str, first: int = 0) -> Iterator[list[float | None]]:
        """Yield the stretches from a place on, each as numbers.

        Those are: time, seconds since 1970; equity, its highest and its lowest; drawdown; gravity; then first, highest, lowest
        and last price of a symbol, and its units that were bought and sold; None where it had no price.
        """
        for one in self.stretches[first:]:
            _, high, low, last = one.equity
            prices = one.prices.get(symbol, [None] * 4)
            traded = one.traded.get(symbol, [0.0, 0.0])
            yield [one.time.timestamp(), last, high, low, one.drawdown, one.gravity, *prices, *traded]


def _range(bar: Bar) -> Range:
    return [float(bar.open), float(bar.high), float(bar.low), float(bar.close)]


def _join(before: Range, after: Range) -> None:
    before[1], before[2], before[3] = max(before[1], after[1]), min(before[2], after[2]), after[3]
