"""The bars that a strategy sees: the last ones of each symbol, and those of longer timeframes made from them. No I/O.

Invariant: nothing is seen before it is over. A bar of a longer timeframe is shown when the time has reached its end: with the
first bar after it, or with the last bar in it if the length of the feed's bars is known. What is still forming is kept, and is
not shown.

    period     forming ────────────────► complete
    12:00      12:00 12:15 12:30 12:45   at the bar of 12:45, if bars are known to take 15 minutes, else at that of 13:00

All that is kept here is adjusted for splits: prices before a split are divided by its ratio, volumes multiplied.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from attrs import evolve, field, frozen

from harnesses.data.frozen_dict import freeze
from harnesses.errors import HarnessMisuse
from harnesses.trading.indicators import AnyIndicator, Indicators, Standing, after_bar, after_split, values
from harnesses.trading.market.bars import Bar

_MONDAY = datetime(1970, 1, 5, tzinfo=UTC)
"""Periods are counted from here, so that a week begins on Monday and a day at midnight."""
_NONE = timedelta(0)


@frozen
class Candle:
    """Prices and volume of one symbol in a period that is over, adjusted for later splits."""

    time: datetime
    """When the period began; UTC, with zone."""
    open: Decimal
    high: Decimal
    low: Decimal
    close: Decimal
    volume: Decimal

    def joined(self, later: Candle) -> Candle:
        """Return the candle of this period and a later one."""
        high, low = max(self.high, later.high), min(self.low, later.low)
        return Candle(self.time, self.open, high, low, later.close, self.volume + later.volume)

    def after_split(self, ratio: Decimal) -> Candle:
        """Return the candle adjusted for a split of `ratio` for one."""
        open, high, low, close = (price / ratio for price in (self.open, self.high, self.low, self.close))
        return Candle(self.time, open, high, low, close, self.volume * ratio)


@frozen
class Timeframe:
    """A longer timeframe that a strategy sees: how long, and what of it."""

    period: timedelta
    """Length of its bars. Periods begin at midnight UTC and on Mondays, as far as they fit."""
    bars: int = 1
    """Number of complete bars to see."""
    indicators: Indicators = field(factory=dict[str, AnyIndicator])
    """Indicators by name, which advance with each complete bar."""
    base: timedelta | None = None
    """Length of the feed's bars: then a bar is seen with the last of the feed's bars in it. None if it is not known, or not
    always the same: then it is seen with the first bar after it."""
    offset: timedelta = _NONE
    """How much later than midnight UTC the periods begin, such as 22 hours for a market that begins its day at 22:00."""

    def __attrs_post_init__(self) -> None:
        if self.period <= _NONE:
            raise HarnessMisuse(f"Timeframe: period: expected more than nothing, was {self.period}; write timedelta(hours=1)")
        if self.bars < 1:
            raise HarnessMisuse(f"Timeframe: bars: expected 1 or more, was {self.bars}; leave it out for the last one")
        if self.base is not None and not _NONE < self.base <= self.period:
            raise HarnessMisuse(
                f"Timeframe: base: expected the length of the feed's bars, at most {self.period}, was {self.base}; leave it "
                "out if it is not known"
            )

    def start(self, time: datetime) -> datetime:
        """Return when the period began that a time is in."""
        return time - (time - _MONDAY - self.offset) % self.period


@frozen
class Forming:
    """What is kept of one timeframe of one symbol."""

    candles: tuple[Candle, ...] = ()
    """The complete ones, oldest first."""
    now: Candle | None = None
    """The one that is forming. Its time is that of the period."""
    standings: Mapping[str, Standing] = field(factory=dict[str, Standing])
    """The standings of its indicators, by name."""

    def __attrs_post_init__(self) -> None:
        freeze(self, "standings")


_NEW = Forming()


@frozen
class Series:
    """What is kept of the bars of one symbol."""

    candles: tuple[Candle, ...] = ()
    """The last bars of the feed, oldest first."""
    frames: Mapping[str, Forming] = field(factory=dict[str, Forming])
    """Longer timeframes by name."""

    def __attrs_post_init__(self) -> None:
        freeze(self, "frames")


@frozen
class FrameView:
    """A longer timeframe as a strategy sees it."""

    candles: tuple[Candle, ...] = ()
    """Its last complete bars, oldest first; at most as many as were asked for."""
    indicators: Mapping[str, float | None] = field(factory=dict[str, float | None])
    """Values of its indicators by name; None for one that has not seen enough bars."""


def after_candle(series: Series, time: datetime, bar: Bar, bars: int, frames: Mapping[str, Timeframe]) -> Series:
    """Return the series after a bar of its symbol.

    Args:
        bars: number of the feed's bars to keep.
        frames: the timeframes by name. What is kept of others is dropped.
    """
    candle = Candle(time, bar.open, bar.high, bar.low, bar.close, bar.volume)
    return Series(
        (*series.candles, candle)[-bars:] if bars else (),
        {name: _formed(series.frames.get(name, _NEW), frame, candle) for name, frame in frames.items()},
    )


def series_after_split(series: Series, ratio: Decimal, frames: Mapping[str, Timeframe]) -> Series:
    """Return the series adjusted for a split of `ratio` for one."""
    return Series(
        tuple(one.after_split(ratio) for one in series.candles),
        {name: _split(one, ratio, frames[name].indicators) for name, one in series.frames.items() if name in frames},
    )


def views(series: Series, frames: Mapping[str, Timeframe]) -> dict[str, FrameView]:
    """Return each timeframe as the strategy sees it."""
    return {name: _view(series.frames.get(name, _NEW), frame) for name, frame in frames.items()}


def _formed(forming: Forming, frame: Timeframe, candle: Candle) -> Forming:
    """Return a timeframe after one of the feed's bars."""
    start, now = frame.start(candle.time), forming.now
    if now is not None and now.time < start:
        forming, now = _completed(forming, now, frame), None
    end = None if frame.base is None else candle.time + frame.base
    candle = evolve(candle, time=start)
    now = candle if now is None else now.joined(candle)
    return _completed(forming, now, frame) if end is not None and end >= start + frame.period else evolve(forming, now=now)


def _completed(forming: Forming, now: Candle, frame: Timeframe) -> Forming:
    """Return a timeframe whose forming bar is over."""
    before = float(forming.candles[-1].close) if forming.candles else None
    bar = Bar(now.open, now.high, now.low, now.close, now.volume)
    standings = after_bar(frame.indicators, forming.standings, bar, before)
    return Forming((*forming.candles, now)[-frame.bars :], None, standings)


def _split(forming: Forming, ratio: Decimal, indicators: Indicators) -> Forming:
    return Forming(
        tuple(one.after_split(ratio) for one in forming.candles),
        forming.now and forming.now.after_split(ratio),
        after_split(indicators, forming.standings, float(ratio)),
    )


def _view(forming: Forming, frame: Timeframe) -> FrameView:
    return FrameView(forming.candles, values(frame.indicators, forming.standings))
