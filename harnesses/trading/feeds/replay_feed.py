"""The feed that replays recorded bars, as fast as it is asked or at a pace of its own."""

from __future__ import annotations

from bisect import bisect_right
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

_NEVER = datetime(1, 1, 1, tzinfo=UTC)


class _Anchor(NamedTuple):
    """A moment by both clocks."""

    clock: trio.abc.Clock
    """Trio's, of this run; the seconds of another run are others."""
    trio_s: float
    time: datetime


class ReplayFeed:
    """Plays recorded slices, in order. Each harness needs one of its own, for the sake of `now`; `another` makes it.

    Args:
        bars: by symbol, then by time, aware. A time counts as a slice if any symbol has a bar for it.
        endless: whether to wait for more after the last slice, as a live feed would, instead of being at its end.
        speed: seconds of the recording for each second on Trio's clock: with 86400 a day passes in a second, and a slice is
            there when its time has come. The recording starts when it is first asked: at the first slice, or for a harness
            that is resumed, at the one that it has seen last. None has each slice there when it is asked for.
    """

    is_live = False
    """Its slices are as old as they were meant to be: unless a limit is set, none is too old to be traded on."""

    def __init__(
        self, bars: Mapping[str, Mapping[datetime, Bar]], *, endless: bool = False, speed: float | None = None
    ) -> None:
        if speed is not None and not (isfinite(speed) and speed > 0):
            raise HarnessMisuse(f"ReplayFeed: speed: expected a number of seconds above 0, or None, was {speed}")
        times = {time for series in bars.values() for time in series}
        if naive := [time for time in times if time.tzinfo is None]:
            raise BadMarketData(f"ReplayFeed: time of a bar: expected one with a zone, was {naive[0]}; say which")
        self.symbols: Sequence[str] = tuple(bars)
        self._times = sorted(times)
        self._slices = [
            MarketSlice(time.astimezone(UTC), {symbol: bars[symbol][time] for symbol in bars if time in bars[symbol]})
            for time in self._times
        ]
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
        """Read a file for each symbol, and one that names their splits.

        Args:
            files: by symbol; CSV, or Parquet if the name ends in `.parquet`. Columns `date,open,high,low,close,volume`, one
                line a bar, oldest first; the date may have a time.
            splits: CSV, columns `symbol,date,units`. Other symbols in it are passed over.
            limit: how many bars of each file to take; all without one.

        Raises:
            BadMarketData: a line is not what it should be; names the file and the line.
            HarnessMisuse: there is no such file, or nothing to read.
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
        """Return a feed over the same bars that has not been asked yet, for another harness. Costs next to nothing."""
        other = copy(self)
        other._anchor, other._played = None, self._first
        return other

    async def next_slice(self, after: datetime | None) -> MarketSlice | None:
        await checkpoint()
        index = self._index(after)
        if self._anchor is None or self._anchor.clock is not current_clock():
            self._anchor = _Anchor(current_clock(), trio.current_time(), max(after or self._first, self._first))
        if index == len(self._slices):
            return None
        found = self._slices[index]
        if self._speed is None:
            self._played = found.time
        return found if found.time <= self.now() else None

    def is_at_end(self, after: datetime | None) -> bool:
        return not self._endless and self._index(after) == len(self._times)

    def now(self) -> datetime:
        """Return the time in the recording. Without a speed it is the time of the slice that was given last."""
        if self._speed is None or self._anchor is None:
            return self._played
        passed_s = (trio.current_time() - self._anchor.trio_s) * self._speed
        return self._anchor.time + timedelta(seconds=passed_s)

    @property
    def _first(self) -> datetime:
        return self._slices[0].time if self._slices else _NEVER

    def _index(self, after: datetime | None) -> int:
        return 0 if after is None else bisect_right(self._times, after)
