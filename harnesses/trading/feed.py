"""Where market data comes from: a protocol, and the feed that replays files.

The law: a feed is asked by date, never by position, so that a harness resumed a week later, over a file that has grown
since, goes on with the first day it has not seen.
"""

from __future__ import annotations

import csv
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Protocol

from attrs import evolve
from trio.lowlevel import checkpoint

from harnesses.trading.bars import COLUMNS, SPLIT_COLUMNS, BadMarketData, Bar, MarketDay, parse_bar, parse_split


class Feed(Protocol):
    """Something to poll for the days of a market."""

    @property
    def symbols(self) -> Sequence[str]:
        """The symbols that its days may have bars of."""
        ...

    async def next_day(self, after: date | None) -> MarketDay | None:
        """Return the first day later than `after`, or the first of all; None if it is not there yet."""
        ...

    def is_at_end(self, after: date | None) -> bool:
        """Return whether no day later than `after` will ever come. Always false for a feed that never ends."""
        ...


class ReplayFeed:
    """Plays recorded days, in order.

    Args:
        bars: by symbol, then by date. A date counts as a day of trading if any symbol has a bar for it.
        endless: whether to wait for more after the last day, as a live feed would, instead of being at its end.
    """

    def __init__(self, bars: Mapping[str, Mapping[date, Bar]], *, endless: bool = False) -> None:
        self.symbols: Sequence[str] = tuple(bars)
        self._endless = endless
        self._days = [
            MarketDay(day, {symbol: bars[symbol][day] for symbol in bars if day in bars[symbol]})
            for day in sorted({day for series in bars.values() for day in series})
        ]

    @classmethod
    def read(cls, files: Mapping[str, Path], *, splits: Path | None = None, limit: int | None = None) -> ReplayFeed:
        """Read a CSV file for each symbol, and one that names their splits.

        Args:
            files: by symbol. Columns `date,open,high,low,close,volume`, one line a day, oldest first.
            splits: columns `symbol,date,units`. Other symbols in it are passed over.
            limit: how many bars of each file to take; all without one.

        Raises:
            BadMarketData: a line is not what it should be; names the file and the line.
            OSError: a file can not be read.
        """
        bars = {symbol: read_bars(path, limit=limit) for symbol, path in files.items()}
        if splits is not None:
            _add_splits(splits, bars, whole=limit is None)
        return cls(bars)

    async def next_day(self, after: date | None) -> MarketDay | None:
        await checkpoint()
        index = self._index(after)
        return self._days[index] if index < len(self._days) else None

    def is_at_end(self, after: date | None) -> bool:
        return not self._endless and self._index(after) == len(self._days)

    def _index(self, after: date | None) -> int:
        return 0 if after is None else bisect_right(self._days, after, key=_day)


def read_bars(path: Path, *, limit: int | None = None) -> dict[date, Bar]:
    """Return the bars in a file by date, oldest first; the first `limit` of them. Raises as `ReplayFeed.read` does."""
    bars: dict[date, Bar] = {}
    last: date | None = None
    for number, fields in _lines(path, COLUMNS):
        if limit is not None and len(bars) >= limit:
            break
        try:
            day, bar = parse_bar(fields)
        except ValueError as error:
            raise _bad(path, number, str(error)) from error
        if last is not None and day <= last:
            raise _bad(path, number, f"date: expected one after {last}, was {day}")
        bars[day] = bar
        last = day
    return bars


def _add_splits(path: Path, bars: dict[str, dict[date, Bar]], *, whole: bool) -> None:
    """Note each split of a known symbol in the bar of its day; without that bar it would be missed, so it must be there."""
    for number, fields in _lines(path, SPLIT_COLUMNS):
        try:
            symbol, day, units = parse_split(fields)
        except ValueError as error:
            raise _bad(path, number, str(error)) from error
        if symbol not in bars:
            continue
        if day in bars[symbol]:
            bars[symbol][day] = evolve(bars[symbol][day], split=units)
        elif whole:
            raise _bad(path, number, f"split of {symbol} on {day}: expected a day with a bar, was one without")


def _lines(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and fields of each line below the header that is not empty."""
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        try:
            header = next(reader, None) or []
            if tuple(header) != tuple(columns):
                raise _bad(path, 1, f"header: expected {','.join(columns)}, was {','.join(header)!r:.200}")
            for fields in reader:
                if fields:
                    yield reader.line_num, fields
        except (csv.Error, UnicodeDecodeError) as error:
            raise _bad(path, reader.line_num + 1, f"expected comma-separated text in UTF-8: {error}") from error


def _bad(path: Path, number: int, what: str) -> BadMarketData:
    return BadMarketData(f"market data {path}, line {number}: {what}; correct the line, or leave it out")


def _day(day: MarketDay) -> date:
    return day.day
