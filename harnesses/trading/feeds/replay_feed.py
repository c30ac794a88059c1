"""A feed that replays recorded bars, as fast as it is asked or at a given speed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from copy import copy
from datetime import UTC, datetime, timedelta
from math import isfinite
from pathlib import Path
from typing import NamedTuple

import trio
from trio.lowlevel import checkpoint, current_clock

from harnesses.errors import HarnessMisuse
from harnesses.trading.feeds.bar_files import add_splits, existing, read_bars
from harnesses.trading.market.bars import BadMarketData, Bar, MarketSlice
from harnesses.trading.market.instruments import Instrument, lot_of

_NEVER = datetime(1, 1, 1, tzinfo=UTC)


class _Anchor(NamedTuple):
    """One moment on both clocks."""

    clock: trio.abc.Clock
    """Trio's clock of this run; another run has a different one."""
    trio_s: float
    time: datetime


class ReplayFeed:
    """Replays recorded slices in order. Each harness needs its own feed, because of `now`; `another` makes one.

    Args:
        bars: by symbol, then by time; times must have a zone. There is a slice at each time at which any symbol has a bar.
        endless: whether to wait for more data after the last slice, as a live feed would, instead of ending.
        speed: seconds of the recording for each second on Trio's clock: with 86400 a day passes in a second, and each slice
            becomes available at its time. The recording starts when it is first asked: at the first slice, or for a resumed
            harness at the last slice it has seen. None makes every slice available at once.
    """

    is_live = False
    """Its slices are old by nature: none is too old to be traded on unless a limit is set."""

    def __init__(
        self, bars: Mapping[str, Mapping[datetime, Bar]], *, endless: bool = False, speed: float | None = None
    ) -> None:
        if speed is not None and not (isfinite(speed) and speed > 0):
            raise HarnessMisuse(f"ReplayFeed: speed: expected a number of seconds above 0, or None, was {speed}")
        times = {time for series in bars.values() for time in series}
        if naive := [time for time in times if time.tzinfo is None]:
            raise BadMarketData(f"ReplayFeed: time of a bar: expected one with a zone, was {naive[0]}; add a zone")
        self.symbols: Sequence[str] = tuple(bars)
        self._times = sorted(times)
        self._slices = [
            MarketSlice(time.astimezone(UTC), {symbol: bars[symbol][time] for symbol in bars if time in bars[symbol]})
            for time in self._times
        ]
        self._instruments: Mapping[str, Instrument] | None = None
        self._last = 0
        """Index of the slice that was last asked for the next one of."""
        self._endless = endless
        self._speed = speed
        self._anchor: _Anchor | None = None
        self._played = self._first

    @classmethod
    def read(
        cls,
        files: Mapping[str, str | Path],
        *,
        splits: str | Path | None = None,
        limit: int | None = None,
        endless: bool = False,
        speed: float | None = None,
    ) -> ReplayFeed:
        """Read one file for each symbol, and optionally one with their splits.

        Args:
            files: by symbol; CSV, or Parquet if the name ends in `.parquet`. Columns `date,open,high,low,close,volume`, one
                line for each bar, oldest first; the date may have a time.
            splits: CSV, columns `symbol,date,units`. Other symbols in it are ignored.
            limit: maximum bars of each file; None reads all.

        Raises:
            BadMarketData: a line is invalid; names the file and the line.
            HarnessMisuse: there is no such file, or no file was given.
            OSError: a file cannot be read.
        """
        if not files:
            raise HarnessMisuse("ReplayFeed.read: expected a file for each symbol, was none; write {'SPY': 'spy.csv'}")
        if limit is not None and limit < 1:
            raise HarnessMisuse(f"ReplayFeed.read: limit: expected 1 or more, was {limit!r}; leave it out for all bars")
        bars = {symbol: read_bars(existing(path), limit=limit) for symbol, path in files.items()}
        if splits is not None:
            add_splits(existing(splits), bars, whole=limit is None)
        return cls(bars, endless=endless, speed=speed)

    def another(self) -> ReplayFeed:
        """Return a new feed over the same bars, for another harness. The bars are shared, not copied."""
        other = copy(self)
        other._anchor, other._played = None, self._first
        return other

    @property
    def times(self) -> Sequence[datetime]:
        """The times of its slices, oldest first."""
        return self._times

    def between(self, begin: datetime | None = None, end: datetime | None = None) -> ReplayFeed:
        """Return a new feed over a part of the same bars, all available at once, that ends with them.

        Lots are those of the whole recording.

        Args:
            begin: time of the first slice, if there is one then; None for the first of the recording.
            end: time before which it ends; None for the end of the recording.
        """
        first = 0 if begin is None else bisect_left(self._times, begin)
        last = len(self._times) if end is None else bisect_left(self._times, end)
        other = copy(self)
        other._times, other._slices = self._times[first:last], self._slices[first:last]
        other._instruments = self._derive()
        other._endless, other._speed, other._anchor = False, None, None
        other._played = other._first
        return other

    async def instruments(self) -> Mapping[str, Instrument]:
        """Return what the recording says about lots: 1 where all volumes are whole, else the decimals of the volumes."""
        await checkpoint()
        return self._derive()

    def _derive(self) -> Mapping[str, Instrument]:
        if self._instruments is None:
            volumes = {
                symbol: (bar.volume for slice in self._slices if (bar := slice.bars.get(symbol)) is not None)
                for symbol in self.symbols
            }
            self._instruments = {symbol: Instrument(symbol, lot=lot_of(found)) for symbol, found in volumes.items()}
        return self._instruments

    async def next_slice(self, after: datetime | None) -> MarketSlice | None:
        await checkpoint()
        return self.slice_after(after)

    def slice_after(self, after: datetime | None) -> MarketSlice | None:
        """Return what `next_slice` returns, without a checkpoint."""
        index = self._index(after)
        found = None if index == len(self._slices) else self._slices[index]
        if self._speed is None:
            if found is not None:
                self._played = found.time
            return found
        if self._anchor is None or self._anchor.clock is not current_clock():
            self._anchor = _Anchor(current_clock(), trio.current_time(), max(after or self._first, self._first))
        return found if found is not None and found.time <= self.now() else None

    def is_at_end(self, after: datetime | None) -> bool:
        return not self._endless and self._index(after) == len(self._times)

    def now(self) -> datetime:
        """Return the time in the recording; without a speed, the time of the last slice given."""
        if self._speed is None or self._anchor is None:
            return self._played
        passed_s = (trio.current_time() - self._anchor.trio_s) * self._speed
        return self._anchor.time + timedelta(seconds=passed_s)

    @property
    def _first(self) -> datetime:
        return self._slices[0].time if self._slices else _NEVER

    def _index(self, after: datetime | None) -> int:
        if after is None:
            return 0
        # Nearly always the slice after the last one that was asked for.
        last = self._last
        if last < len(self._times) and self._times[last] == after:
            return last + 1
        if last + 1 < len(self._times) and self._times[last + 1] == after:
            self._last = last + 1
            return last + 2
        index = bisect_right(self._times, after)
        self._last = max(index - 1, 0)
        return index
