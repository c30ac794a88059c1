"""Slices out of bars that come symbol by symbol. Pure.

The laws: slices come in the order of time, each bar is in one of them, once; a slice that was given never changes.

A slice is whole when every symbol has a bar of its time or a later one. One that is not whole is given when it has been
waited for long enough: the symbol may not have been traded. A bar that comes after its slice was given is late, and left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from harnesses.trading.feeds.bars_in_body import TimedBar
from harnesses.trading.market.bars import Bar, MarketSlice


class Gathering:
    """The bars since `after` that were not given yet.

    Args:
        after: nothing at or before it is of interest.
        wait_s: how long a slice that is not whole is waited for, since its first bar came.
    """

    def __init__(self, symbols: Sequence[str], after: datetime | None, wait_s: float) -> None:
        self._newest: dict[str, datetime | None] = dict.fromkeys(symbols, after)
        self._bars: dict[datetime, dict[str, Bar]] = {}
        self._seen_s: dict[datetime, float] = {}
        self._given = self.after = after
        self._wait_s = wait_s

    def add(self, symbol: str, bars: Iterable[TimedBar], now_s: float) -> int:
        """Take the bars of one symbol, in the order of time, and return how many were late. Known ones are passed over."""
        late = 0
        for time, bar in bars:
            newest = self._newest[symbol]
            if newest is not None and time <= newest:
                continue
            self._newest[symbol] = time
            if self._given is not None and time <= self._given:
                late += 1
            else:
                self._bars.setdefault(time, {})[symbol] = bar
                self._seen_s.setdefault(time, now_s)
        return late

    def first(self, after: datetime | None, now_s: float) -> MarketSlice | None:
        """Return the first slice later than `after`, and forget all until then; None if it is not there yet."""
        self._forget(after)
        if not self._bars:
            return None
        time = min(self._bars)
        if not self._is_whole(time) and now_s - self._seen_s[time] < self._wait_s:
            return None
        self._given = time
        return MarketSlice(time, {symbol: self._bars[time][symbol] for symbol in self._newest if symbol in self._bars[time]})

    def _is_whole(self, time: datetime) -> bool:
        return all(newest is not None and newest >= time for newest in self._newest.values())

    def _forget(self, after: datetime | None) -> None:
        if after is None:
            return
        self.after = after
        for time in [time for time in self._bars if time <= after]:
            del self._bars[time], self._seen_s[time]
