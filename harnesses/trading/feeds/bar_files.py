"""Reads bars from CSV files, or Parquet files with the same columns. Errors name the file and the line."""

from __future__ import annotations

import csv
from bisect import bisect_left
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path

from attrs import evolve

from harnesses.diagnostics.extras import load_extra
from harnesses.errors import HarnessMisuse
from harnesses.trading.market.bars import COLUMNS, SPLIT_COLUMNS, BadMarketData, Bar, parse_bar, parse_split

_ARROW = ("pyarrow", "pyarrow.parquet")

Series = dict[datetime, Bar]
"""The bars of one symbol by time, oldest first."""


def existing(path: str | Path) -> Path:
    """Return the path of an existing file.

    Raises:
        HarnessMisuse: there is no such file.
    """
    if Path(path).exists():
        return Path(path)
    where = Path(path).absolute().parent
    raise HarnessMisuse(f"market data {path}: expected a file, was none in {where}; correct the path, or start it with /")


def read_bars(path: Path, *, limit: int | None = None) -> Series:
    """Return the bars in a file, at most the first `limit`: Parquet if its name ends in `.parquet`, else CSV."""
    parquet = path.suffix.lower() in (".parquet", ".pq")
    bars: Series = {}
    last: datetime | None = None
    with closing(_rows(path) if parquet else _lines(path, COLUMNS)) as numbered:
        for number, fields in islice(numbered, limit):
            try:
                time, bar = parse_bar(fields)
                if last is not None and time <= last:
                    raise ValueError(f"date: expected one after {_brief(last)}, was {_brief(time)}")
            except ValueError as error:
                raise _bad(path, number, str(error), "row" if parquet else "line") from error
            bars[time] = bar
            last = time
    if not bars:
        raise _bad(path, 1, "expected bars below it, was none", "row" if parquet else "line")
    return bars


def add_splits(path: Path, bars: Mapping[str, Series], *, whole: bool) -> None:
    """Store each split of a known symbol in that day's first bar at or after the split.

    A day without such a bar is an error, because the split would be missed.

    Args:
        whole: whether `bars` is the complete file; if not, splits outside its range are ignored.
    """
    times = {symbol: list(series) for symbol, series in bars.items()}
    for number, fields in _lines(path, SPLIT_COLUMNS):
        try:
            symbol, moment, units = parse_split(fields)
        except ValueError as error:
            raise _bad(path, number, str(error)) from error
        if symbol not in bars:
            continue
        index = bisect_left(times[symbol], moment)
        if index < len(times[symbol]) and (time := times[symbol][index]).date() == moment.date():
            bars[symbol][time] = evolve(bars[symbol][time], split=units)
        elif whole:
            raise _bad(path, number, f"split of {symbol} on {fields[1]}: expected a day with a bar, was one without")


def _lines(path: Path, columns: Sequence[str]) -> Generator[tuple[int, list[str]], None, None]:
    """Yield the number and the fields of each non-empty line below the header."""
    with open(path, newline="", encoding="utf-8-sig") as file:
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


def _rows(path: Path) -> Generator[tuple[int, list[str]], None, None]:
    """Yield the number, from 1, and the fields of each row of a Parquet file, as text in the form of a CSV file."""
    arrow, parquet = (load_extra(name, "parquet", f"market data {path}: Parquet", "use CSV") for name in _ARROW)
    with open(path, "rb") as file:
        try:
            table = parquet.ParquetFile(file)
            names = table.schema_arrow.names
            if not set(COLUMNS) <= set(names):
                raise _bad(path, 0, f"columns: expected {','.join(COLUMNS)}, was {','.join(names)!r:.200}", "row")
            number = 0
            for batch in table.iter_batches(columns=list(COLUMNS)):
                columns = [[_text(value) for value in batch.column(name).to_pylist()] for name in COLUMNS]
                for fields in zip(*columns, strict=True):
                    number += 1
                    yield number, list(fields)
        except arrow.ArrowException as error:
            raise _bad(path, 0, f"expected a Parquet file: {error}", "row") from error


def _text(value: object) -> str:
    """Return a value in the form of a CSV file; a float with as many digits as are needed to restore it."""
    match value:
        case None:
            return ""
        case datetime(tzinfo=None, hour=0, minute=0, second=0, microsecond=0):
            return value.date().isoformat()
        case date():
            return value.isoformat()
        case float() | Decimal():
            return format(Decimal(str(value)), "f")
        case _:
            return str(value)


def _brief(time: datetime) -> str:
    return time.isoformat().removesuffix("+00:00").removesuffix("T00:00:00")


def _bad(path: Path, number: int, what: str, unit: str = "line") -> BadMarketData:
    return BadMarketData(f"market data {path}, {unit} {number}: {what}; correct the {unit}, or remove it")
