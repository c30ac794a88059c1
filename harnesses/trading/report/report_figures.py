"""Computes the figures of a report from recorded steps: equity, trades, drawdown, turnover, fees, trading restrictions."""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence
from datetime import datetime
from decimal import Decimal, localcontext
from typing import Any, Protocol

import msgspec
from attrs import define, field, frozen

from harnesses.errors import HarnessMisuse
from harnesses.trading.account import with_splits
from harnesses.trading.account_model import TradingOutput
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.instruments import EXACT
from harnesses.trading.market.orders import ZERO, Fill, Source
from harnesses.trading.position_book import Book, Position
from harnesses.trading.risk import RiskState

YEAR_S = 365.25 * 86_400


class Recorded(Protocol):
    """A step, or its record; input and output may be objects or the plain data read from disk."""

    @property
    def input(self) -> Any: ...

    @property
    def output(self) -> Any: ...


@frozen
class Point:
    """The account after one step."""

    time: datetime
    equity: float
    drawdown: float
    """Loss from the highest equity so far, as a fraction."""


@frozen
class TradeRow:
    """One fill."""

    fill: Fill
    wanted_by: Source | None
    """Who wanted the order; None if it was not ours."""
    reason: str
    """Why the order was wanted; empty if unknown."""
    gain: Decimal
    """Proceeds of a sale less the average cost of the units sold and the fee; for a purchase, minus the fee."""


@frozen
class Interval:
    """A period in which trading was restricted."""

    kind: str
    """`halted`, `reducing` or `latched`."""
    begin: datetime
    end: datetime
    """Time of the first step after it; of the last step if it has not ended."""
    why: str = ""
    is_over: bool = True


@frozen
class Figures:
    """Totals over all steps. Fractions are of 1."""

    steps: int
    begin: datetime | None
    end: datetime | None
    first_equity: Decimal
    last_equity: Decimal
    gain: Decimal
    """Change of the equity as a fraction of the first equity; negative for a loss."""
    yearly_gain: float | None
    """The gain compounded to a year; None for less than a month, which is too short to tell."""
    max_drawdown: float
    drawdown: float
    """Current loss from the highest equity, as a fraction."""
    turnover: Decimal
    """Units times price of all fills."""
    turns: float
    """Turnover divided by the mean equity."""
    fees: Decimal
    trades: int
    refused: int
    """Number of orders, or parts of orders, that were not placed."""


@frozen
class Account:
    """The contents of a report."""

    figures: Figures
    points: tuple[Point, ...]
    trades: tuple[TradeRow, ...]
    intervals: tuple[Interval, ...]


def account_of(steps: Iterable[Recorded]) -> Account:
    """Return the account computed from recorded steps, oldest first.

    Raises:
        HarnessMisuse: a step is not one of a trading harness.
    """
    reading = AccountReading()
    for step in steps:
        reading.read(*_typed(step, reading.steps + 1))
    return Account(reading.figures(), tuple(reading.points), tuple(reading.trades), reading.restrictions())


def _typed(step: Recorded, number: int) -> tuple[MarketSlice | None, TradingOutput]:
    given, said = step.input, step.output
    try:
        market = given if isinstance(given, MarketSlice) else msgspec.convert(given, _Given)
        return market, said if isinstance(said, TradingOutput) else msgspec.convert(said, TradingOutput)
    except msgspec.ValidationError as error:
        raise HarnessMisuse(
            f"report: step {number} is not one of a trading harness: {error}; name a harness that trades"
        ) from error


_Given: Any = MarketSlice | None


@define
class AccountReading:
    """The account after the steps that were read so far, oldest first.

    Args:
        book: the book before the first step.
        points: where points are put; trades and intervals likewise. They are only appended to, so a `deque` can limit them.
    """

    book: Book = field(factory=lambda: Book(ZERO))
    points: MutableSequence[Point] = field(factory=list[Point])
    trades: MutableSequence[TradeRow] = field(factory=list[TradeRow])
    intervals: MutableSequence[Interval] = field(factory=list[Interval])
    """Restrictions that are over."""
    reasons: dict[str, str] = field(factory=dict[str, str])
    """Why orders were wanted, by client id."""
    held: dict[str, tuple[datetime, str]] = field(factory=dict[str, tuple[datetime, str]])
    """Start and reason of each current restriction, by kind."""
    steps: int = field(default=0, init=False)
    _begin: datetime | None = field(default=None, init=False)
    _end: datetime | None = field(default=None, init=False)
    _first: Decimal = field(default=ZERO, init=False)
    _last: Decimal = field(default=ZERO, init=False)
    _peak: float = field(default=0.0, init=False)
    _total: float = field(default=0.0, init=False)
    _drawdown: float = field(default=0.0, init=False)
    _max_drawdown: float = field(default=0.0, init=False)
    _turnover: Decimal = field(default=ZERO, init=False)
    _fees: Decimal = field(default=ZERO, init=False)
    _fills: int = field(default=0, init=False)
    _refused: int = field(default=0, init=False)

    def read(self, market: MarketSlice | None, output: TradingOutput) -> None:
        """Read the next step."""
        if not self.steps:
            self._begin, self._first = output.time, output.equity
        self.steps, self._end, self._last = self.steps + 1, output.time, output.equity
        equity = float(output.equity)
        self._peak = max(self._peak, equity)
        self._total += equity
        self._drawdown = 1 - equity / self._peak if self._peak > 0 else 0.0
        self._max_drawdown = max(self._max_drawdown, self._drawdown)
        self._refused += len(output.refused)
        self.points.append(Point(output.time, equity, self._drawdown))
        self.book = with_splits(self.book, market)
        if output.adopted is not None:
            self.book = Book(output.cash, {symbol: Position(units) for symbol, units in output.positions.items()})
        self.reasons.update((placed.client_id, placed.order.reason) for placed in output.placed)
        for one in output.fills:
            self._read_fill(one.fill, one.wanted_by)
        self._hold(output)

    def _read_fill(self, fill: Fill, wanted_by: Source | None) -> None:
        after = self.book.after(fill)
        with localcontext(EXACT):
            gain = after.realised - self.book.realised - fill.fee
            self._turnover += fill.units * fill.price
            self._fees += fill.fee
        self._fills += 1
        self.trades.append(TradeRow(fill, wanted_by, self.reasons.get(fill.client_id, ""), gain))
        self.book = after

    def _hold(self, output: TradingOutput) -> None:
        """Update the current restrictions. The latch counts as released once anything could be done."""
        now: dict[str, str] = {}
        if output.latched:
            now["latched"] = output.latched
        elif "latched" in self.held and not (output.placed or output.cancelled):
            now["latched"] = self.held["latched"][1]
        if output.risk is not RiskState.ACTIVE:
            now[output.risk.value] = output.why
        for kind in [kind for kind in self.held if kind not in now]:
            begin, why = self.held.pop(kind)
            self.intervals.append(Interval(kind, begin, output.time, why))
        for kind, why in now.items():
            self.held.setdefault(kind, (output.time, why))

    def restrictions(self) -> tuple[Interval, ...]:
        """Return the periods in which trading was restricted, by their begin."""
        still = (Interval(kind, begin, self._end or begin, why, is_over=False) for kind, (begin, why) in self.held.items())
        return tuple(sorted((*self.intervals, *still), key=lambda one: (one.begin, one.kind)))

    def figures(self) -> Figures:
        """Return the totals."""
        begin, end = self._begin, self._end
        with localcontext(EXACT):
            gain = self._last / self._first - 1 if self._first else ZERO
        mean = self._total / self.steps if self.steps else 0.0
        return Figures(
            steps=self.steps,
            begin=begin,
            end=end,
            first_equity=self._first,
            last_equity=self._last,
            gain=gain,
            yearly_gain=yearly(float(gain), (end - begin).total_seconds()) if begin and end else None,
            max_drawdown=self._max_drawdown,
            drawdown=self._drawdown,
            turnover=self._turnover,
            turns=float(self._turnover) / mean if mean else 0.0,
            fees=self._fees,
            trades=self._fills,
            refused=self._refused,
        )


def yearly(gain: float, seconds: float) -> float | None:
    """Return a gain compounded to a year; None for less than a month, which is too short to tell."""
    if seconds < YEAR_S / 12 or gain <= -1:
        return None
    return float((1 + gain) ** (YEAR_S / seconds) - 1)
