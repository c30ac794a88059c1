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
from harnesses.trading.account_model import TradingOutput, bars_of
from harnesses.trading.market.bars import MarketSlice, SliceRun
from harnesses.trading.market.instruments import EXACT
from harnesses.trading.market.orders import ZERO, Fill, OrderStatus, Source
from harnesses.trading.position_book import Book, Position
from harnesses.trading.report.closing_fills import ClosingFills
from harnesses.trading.report.performance import YEAR_S, BuyAndHold, DailyCloses, Month, MonthlyCloses
from harnesses.trading.risk import RiskState


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
    benchmark: float | None = None
    """What the first equity would be worth, had it been held; see `BuyAndHold`."""


@frozen
class TradeRow:
    """One fill."""

    fill: Fill
    wanted_by: Source | None
    """Who wanted the order; None if it was not ours."""
    reason: str
    """Why the order was wanted; empty if unknown."""
    gain: Decimal
    """What closed units brought less what they had cost on average, and the fee; for a fill that only opens, minus the fee."""
    direction: str = "long"
    """Of the position that it closes or opens: `long`, `short`, or `long to short` and `short to long` if it does both."""


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
    """Number of orders, or parts of orders, that were not placed, and of cancellations that were refused."""
    expired: int = 0
    """Number of orders whose time in force was over before they were filled whole."""
    sharpe: float | None = None
    """Mean over standard deviation of the daily returns, for a year; None for less than a month or 20 days."""
    sortino: float | None = None
    """The same over the root of the mean square of the losses of all days; a day without one counts as 0."""
    calmar: float | None = None
    """Yearly gain over the largest drawdown; None without one."""
    sales: int = 0
    """Fills that close a position, at least in part: sales, and purchases that cover a short position."""
    won: int = 0
    """Sales that brought more than their units had cost on average, fees included; and covering purchases that cost less."""
    exposure: float = 0.0
    """Mean worth of all positions, long and short added up, as a share of the equity."""
    benchmark: float = 0.0
    """Gain of buy and hold, as a fraction; see `BuyAndHold`."""
    financing: Decimal = ZERO
    """What borrowed units and money have cost."""

    @property
    def win_rate(self) -> float | None:
        """Fraction of the sales that won; None without sales."""
        return self.won / self.sales if self.sales else None


_DIRECTIONS = {(1, 1): "long", (-1, -1): "short", (1, -1): "long to short", (-1, 1): "short to long"}
"""By the sign of the units before and after a fill; 0 counts as the other."""


@frozen
class Account:
    """The contents of a report."""

    figures: Figures
    points: tuple[Point, ...]
    trades: tuple[TradeRow, ...]
    intervals: tuple[Interval, ...]
    months: tuple[Month, ...] = ()


def account_of(steps: Iterable[Recorded], since: datetime | None = None) -> Account:
    """Return the account computed from recorded steps, oldest first.

    Args:
        since: steps before it only warm up the strategy; nothing is traded in them, and they are in no figure.

    Raises:
        HarnessMisuse: a step is not one of a trading harness.
    """
    reading = AccountReading(since=since)
    for number, step in enumerate(steps, 1):
        reading.read(*_typed(step, number))
    return reading.account()


def _typed(step: Recorded, number: int) -> tuple[MarketSlice | None, TradingOutput]:
    given, said = step.input, step.output
    try:
        market = given if isinstance(given, MarketSlice) else msgspec.convert(given, _Given)
        return market, said if isinstance(said, TradingOutput) else msgspec.convert(said, TradingOutput)
    except msgspec.ValidationError as error:
        raise HarnessMisuse(
            f"report: step {number} is not one of a trading harness: {error}; name a harness that trades"
        ) from error


_Given: Any = SliceRun | None


@define
class AccountReading:
    """The account after the steps that were read so far, oldest first.

    Args:
        book: the book before the first step.
        points: where points are put; trades and intervals likewise. They are only appended to, so a `deque` can limit them.
        since: steps before it are in no figure; see `account_of`.
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
    since: datetime | None = None
    steps: int = field(default=0, init=False)
    _begin: datetime | None = field(default=None, init=False)
    _warm: tuple[datetime, Decimal] | None = field(default=None, init=False)
    """Time and equity of the last step that was left out."""
    _end: datetime | None = field(default=None, init=False)
    _first: Decimal = field(default=ZERO, init=False)
    _last: Decimal = field(default=ZERO, init=False)
    _peak: float = field(default=0.0, init=False)
    _total: float = field(default=0.0, init=False)
    _drawdown: float = field(default=0.0, init=False)
    _max_drawdown: float = field(default=0.0, init=False)
    _turnover: Decimal = field(default=ZERO, init=False)
    _fees: Decimal = field(default=ZERO, init=False)
    _closing: ClosingFills = field(factory=ClosingFills, init=False)
    _financing: Decimal = field(default=ZERO, init=False)
    _fills: int = field(default=0, init=False)
    _refused: int = field(default=0, init=False)
    _expired: int = field(default=0, init=False)
    _sales: int = field(default=0, init=False)
    _won: int = field(default=0, init=False)
    _exposure: float = field(default=0.0, init=False)
    _daily: DailyCloses = field(factory=DailyCloses, init=False)
    _benchmark: BuyAndHold = field(factory=BuyAndHold, init=False)
    _months: MonthlyCloses = field(factory=MonthlyCloses, init=False)

    def read(self, market: MarketSlice | None, output: TradingOutput) -> None:
        """Read the next step; one of several bars as if each had a step of its own."""
        for one, said in bars_of(market, output):
            self._read(one, said)

    def _read(self, market: MarketSlice | None, output: TradingOutput) -> None:
        if self.since is not None and output.time < self.since:
            self._follow(market, output)
            self._warm = output.time, output.equity
            return
        if not self.steps:
            self._start(output)
        self._measure(market, output)
        self._follow(market, output)
        for one in output.fills:
            self._read_fill(one.fill, one.wanted_by)
        self._restrict(output)

    def _start(self, output: TradingOutput) -> None:
        """Begin with the account as it is before the first step: the first step itself if none was left out."""
        time, self._first = self._warm or (output.time, output.equity)
        self._begin, self._peak = output.time, float(self._first)
        self._daily.take(time, self._peak)

    def _measure(self, market: MarketSlice | None, output: TradingOutput) -> None:
        """Add the account after a step to the figures."""
        self.steps, self._end, self._last = self.steps + 1, output.time, output.equity
        equity = float(output.equity)
        self._peak = max(self._peak, equity)
        self._total += equity
        self._drawdown = 1 - equity / self._peak if self._peak > 0 else 0.0
        self._max_drawdown = max(self._max_drawdown, self._drawdown)
        self._refused += output.refusals
        self._expired += sum(one.status is OrderStatus.EXPIRED for one in output.reports)
        self._benchmark.take(market)
        self._financing += output.financing
        if equity > 0:
            short = sum(self._benchmark.worth(symbol, -units) for symbol, units in output.positions.items() if units < 0)
            self._exposure += 1 - float(output.cash) / equity + 2 * short / equity
        self._daily.take(output.time, equity)
        self._months.take(output.time, equity, self._benchmark.growth)
        self.points.append(Point(output.time, equity, self._drawdown, float(self._first) * self._benchmark.growth))

    def _follow(self, market: MarketSlice | None, output: TradingOutput) -> None:
        """Update the book before the fills of a step, and the reasons of its orders."""
        self.book = with_splits(self.book, market)
        if output.adopted is not None:
            self.book = Book(output.cash, {symbol: Position(units) for symbol, units in output.positions.items()})
            self._closing.forget()
        self.reasons.update((placed.client_id, placed.order.reason) for placed in output.placed)

    def _read_fill(self, fill: Fill, wanted_by: Source | None) -> None:
        held, booked = self.book.units(fill.symbol), self._closing.book(self.book, fill)
        left = booked.book.units(fill.symbol)
        with localcontext(EXACT):
            self._turnover += fill.units * fill.price
            self._fees += fill.fee
        self._fills += 1
        self._sales += booked.closes
        self._won += booked.has_won
        reason = fill.reason or self.reasons.get(fill.client_id, "")
        direction = _DIRECTIONS[_sign(held) or _sign(left) or 1, _sign(left) or _sign(held) or 1]
        self.trades.append(TradeRow(fill, wanted_by, reason, booked.gain, direction))
        self.book = booked.book

    def _restrict(self, output: TradingOutput) -> None:
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

    def account(self) -> Account:
        """Return all that was read."""
        months = tuple(self._months.months(float(self._first)))
        return Account(self.figures(), tuple(self.points), tuple(self.trades), self.restrictions(), months)

    def figures(self) -> Figures:
        """Return the totals."""
        begin, end = self._begin, self._end
        with localcontext(EXACT):
            gain = self._last / self._first - 1 if self._first else ZERO
        mean = self._total / self.steps if self.steps else 0.0
        span_s = (end - begin).total_seconds() if begin and end else 0.0
        yearly_gain, daily = yearly(float(gain), span_s), self._daily.returns()
        return Figures(
            steps=self.steps,
            begin=begin,
            end=end,
            first_equity=self._first,
            last_equity=self._last,
            gain=gain,
            yearly_gain=yearly_gain,
            max_drawdown=self._max_drawdown,
            drawdown=self._drawdown,
            turnover=self._turnover,
            turns=float(self._turnover) / mean if mean else 0.0,
            fees=self._fees,
            trades=self._fills,
            refused=self._refused,
            expired=self._expired,
            sharpe=daily.sharpe(span_s),
            sortino=daily.sortino(span_s),
            calmar=yearly_gain / self._max_drawdown if yearly_gain is not None and self._max_drawdown else None,
            sales=self._sales,
            won=self._won,
            exposure=self._exposure / self.steps if self.steps else 0.0,
            benchmark=self._benchmark.growth - 1,
            financing=self._financing,
        )


def _sign(units: Decimal) -> int:
    return (units > 0) - (units < 0)


def yearly(gain: float, seconds: float) -> float | None:
    """Return a gain compounded to a year; None for less than a month, which is too short to tell."""
    if seconds < YEAR_S / 12 or gain <= -1:
        return None
    return float((1 + gain) ** (YEAR_S / seconds) - 1)
