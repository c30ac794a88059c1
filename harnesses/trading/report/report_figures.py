"""Computes the figures of a report from recorded steps: equity, trades, drawdown, turnover, fees, trading restrictions."""

from __future__ import annotations

from collections.abc import Iterable
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


@define
class _Reading:
    """What has been read so far."""

    steps: int = 0
    first: Decimal | None = None
    last: Decimal = ZERO
    peak: float = 0.0
    total: float = 0.0
    turnover: Decimal = ZERO
    fees: Decimal = ZERO
    refused: int = 0
    book: Book = field(factory=lambda: Book(ZERO))
    reasons: dict[str, str] = field(factory=dict[str, str])
    points: list[Point] = field(factory=list[Point])
    trades: list[TradeRow] = field(factory=list[TradeRow])
    intervals: list[Interval] = field(factory=list[Interval])
    held: dict[str, tuple[datetime, str]] = field(factory=dict[str, tuple[datetime, str]])
    """Start and reason of each current restriction, by kind."""


def account_of(steps: Iterable[Recorded]) -> Account:
    """Return the account computed from recorded steps, oldest first.

    Raises:
        HarnessMisuse: a step is not one of a trading harness.
    """
    reading = _Reading()
    with localcontext(EXACT):
        for step in steps:
            _read(reading, *_typed(step, reading.steps + 1))
        _close(reading)
        return Account(_figures(reading), tuple(reading.points), tuple(reading.trades), tuple(reading.intervals))


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


def _read(reading: _Reading, market: MarketSlice | None, output: TradingOutput) -> None:
    equity = float(output.equity)
    reading.steps += 1
    reading.first = output.equity if reading.first is None else reading.first
    reading.last = output.equity
    reading.peak = max(reading.peak, equity)
    reading.total += equity
    reading.refused += len(output.refused)
    reading.points.append(Point(output.time, equity, 1 - equity / reading.peak if reading.peak > 0 else 0.0))
    reading.book = with_splits(reading.book, market)
    if output.adopted is not None:
        reading.book = Book(output.cash, {symbol: Position(units) for symbol, units in output.positions.items()})
    reading.reasons.update((placed.client_id, placed.order.reason) for placed in output.placed)
    for one in output.fills:
        _read_fill(reading, one.fill, one.wanted_by)
    _hold(reading, output)


def _read_fill(reading: _Reading, fill: Fill, wanted_by: Source | None) -> None:
    after = reading.book.after(fill)
    gain = after.realised - reading.book.realised - fill.fee
    reading.turnover += fill.units * fill.price
    reading.fees += fill.fee
    reading.trades.append(TradeRow(fill, wanted_by, reading.reasons.get(fill.client_id, ""), gain))
    reading.book = after


def _hold(reading: _Reading, output: TradingOutput) -> None:
    """Update the current restrictions. The latch counts as released once anything could be done."""
    now: dict[str, str] = {}
    if output.latched:
        now["latched"] = output.latched
    elif "latched" in reading.held and not (output.placed or output.cancelled):
        now["latched"] = reading.held["latched"][1]
    if output.risk is not RiskState.ACTIVE:
        now[output.risk.value] = output.why
    for kind in [kind for kind in reading.held if kind not in now]:
        begin, why = reading.held.pop(kind)
        reading.intervals.append(Interval(kind, begin, output.time, why))
    for kind, why in now.items():
        reading.held.setdefault(kind, (output.time, why))


def _close(reading: _Reading) -> None:
    last = reading.points[-1].time if reading.points else None
    for kind, (begin, why) in reading.held.items():
        reading.intervals.append(Interval(kind, begin, last or begin, why, is_over=False))
    reading.intervals.sort(key=lambda one: (one.begin, one.kind))


def _figures(reading: _Reading) -> Figures:
    points, first = reading.points, reading.first or ZERO
    begin, end = (points[0].time, points[-1].time) if points else (None, None)
    gain = reading.last / first - 1 if first else ZERO
    mean = reading.total / reading.steps if reading.steps else 0.0
    return Figures(
        steps=reading.steps,
        begin=begin,
        end=end,
        first_equity=first,
        last_equity=reading.last,
        gain=gain,
        yearly_gain=yearly(float(gain), (end - begin).total_seconds()) if begin and end else None,
        max_drawdown=max((point.drawdown for point in points), default=0.0),
        drawdown=points[-1].drawdown if points else 0.0,
        turnover=reading.turnover,
        turns=float(reading.turnover) / mean if mean else 0.0,
        fees=reading.fees,
        trades=len(reading.trades),
        refused=reading.refused,
    )


def yearly(gain: float, seconds: float) -> float | None:
    """Return a gain compounded to a year; None for less than a month, which is too short to tell."""
    if seconds < YEAR_S / 12 or gain <= -1:
        return None
    return float((1 + gain) ** (YEAR_S / seconds) - 1)
