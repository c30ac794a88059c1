"""Parses bars from a response body, JSON or CSV, and builds slices from bars that arrive symbol by symbol. No I/O.

    JSON    a list of bars, each a list `[date, open, high, low, close, volume]` or an object with these keys
    CSV     the header `date,open,high,low,close,volume`, and a line for each bar

A date has the same form as in files; in JSON it may also be an integer, milliseconds since 1970.

Invariants of `SliceBuilder`: slices are given in the order of time; each bar is in exactly one slice; a slice never changes
after it was given. A slice is complete when every symbol has a bar at its time or later. An incomplete slice is given after
`wait_s`, because a symbol may not have traded. A bar that arrives after its slice was given is late and is dropped.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TypeAlias, TypeGuard

from harnesses.trading.market.bars import COLUMNS, Bar, MarketSlice, parse_bar

TimedBar: TypeAlias = tuple[datetime, Bar]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_bars(content_type: str, body: bytes) -> list[TimedBar]:
    """Return the bars in a response, oldest first as given. An empty body has none.

    Raises:
        ValueError: the body is invalid; the message names the bar and what was expected.
    """
    if not body.strip():
        return []
    text = body.decode("utf-8-sig")
    return _numbered(_csv_rows(text) if "csv" in content_type.lower() else _json_rows(text))


def in_order(bars: Iterable[TimedBar]) -> list[TimedBar]:
    """Return the bars unchanged. Raises `ValueError` unless each is later than the one before."""
    checked: list[TimedBar] = []
    for time, bar in bars:
        if checked and time <= checked[-1][0]:
            raise ValueError(f"time of a bar: expected one after {checked[-1][0].isoformat()}, was {time.isoformat()}")
        checked.append((time, bar))
    return checked


def _numbered(rows: Iterable[Sequence[str]]) -> list[TimedBar]:
    bars: list[TimedBar] = []
    for number, fields in enumerate(rows, start=1):
        try:
            bars.append(parse_bar(fields))
        except ValueError as error:
            raise ValueError(f"bar {number}: {error}") from error
    return bars


def _csv_rows(text: str) -> Iterable[Sequence[str]]:
    try:
        header, *rows = [fields for fields in csv.reader(text.splitlines()) if fields]
    except csv.Error as error:
        raise ValueError(f"expected CSV: {error}") from error
    if tuple(header) != COLUMNS:
        raise ValueError(f"header: expected {','.join(COLUMNS)}, was {','.join(header)!r:.200}")
    return rows


def _json_rows(text: str) -> Iterable[Sequence[str]]:
    try:
        found: object = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"expected a list of bars as JSON, was {text[:80]!r}: {error}") from error
    if _is_list(found):
        return map(_fields, found)
    raise ValueError(f"expected a list of bars as JSON, was {text[:80]!r}")


def _fields(row: object) -> list[str]:
    """Return the fields of a bar as text, as in a file. A row without such fields is left to `parse_bar`, which refuses it."""
    values = row if _is_list(row) else [row]
    if _is_mapping(row):
        values = [row[name] for name in COLUMNS if name in row]
    match values:
        case [int(number), *rest] if abs(number) < 10**15:
            values = [(_EPOCH + timedelta(milliseconds=number)).isoformat(), *rest]
        case _:
            pass
    return [format(value, "f") if isinstance(value, Decimal) else str(value) for value in values]


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def _is_mapping(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


class SliceBuilder:
    """Collects bars after `after` and gives them as slices.

    Args:
        after: bars at or before this time are ignored.
        wait_s: maximum seconds to wait for an incomplete slice, since its first bar arrived.
    """

    def __init__(self, symbols: Sequence[str], after: datetime | None, wait_s: float) -> None:
        self._newest: dict[str, datetime | None] = dict.fromkeys(symbols, after)
        self._bars: dict[datetime, dict[str, Bar]] = {}
        self._seen_s: dict[datetime, float] = {}
        self._given = self.after = after
        self._wait_s = wait_s

    def add(self, symbol: str, bars: Iterable[TimedBar], now_s: float) -> int:
        """Add the bars of one symbol, in the order of time; return how many were late. Known bars are ignored."""
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
        """Return the first slice later than `after`, and drop all earlier bars; None if it is not ready yet."""
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
