"""The answer to a question: sentences and tables as plain data, and their formatting. Pure.

The unit of a figure is the suffix of its column's name: `_s` seconds, `_share` 0 to 1, `_bytes`; a moment is text in ISO 8601.
Text by agents has its control characters escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import TypeAlias

from attrs import field, frozen

from orchestrator.codec import encode
from orchestrator.text.terminal_text import one_line

Cell: TypeAlias = "str | int | float | bool | list[Cell] | dict[str, Cell] | None"
"""A cell of a table: JSON only. Money and times are text, durations seconds."""


def _names(columns: str | Iterable[str]) -> tuple[str, ...]:
    return tuple(columns.split() if isinstance(columns, str) else columns)


@frozen
class Table:
    """Rows under named columns."""

    name: str
    """Subject of the table in one word: `harnesses`, `attempts`."""
    columns: tuple[str, ...] = field(converter=_names)
    """Names of the columns, from a text separated by blanks. They end with the unit: `_s`, `_bytes`, `_share` (0 to 1)."""
    rows: tuple[tuple[Cell, ...], ...] = field(converter=tuple[tuple[Cell, ...], ...])
    note: str = ""
    """Remarks for the reader: what is left out, where a figure comes from."""

    def dicts(self) -> list[dict[str, Cell]]:
        """Return the rows as dicts."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@frozen
class Answer:
    """The answer to one question about one run."""

    question: str
    tables: tuple[Table, ...] = field(converter=tuple[Table, ...])
    sentences: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    """Sentences in order; each is independent, and names harness and step where possible."""


WHOLE = "in all"
"""Instead of a name, in the row for all harnesses."""
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?")
_AMOUNTS = frozenset(("equity", "first_equity", "last_equity", "fees", "financing", "turnover"))
"""Columns of exact amounts, which may have many decimals; they are rounded where they are shown, and exact in JSON."""
_SMALL = ((1e6, "µs"), (1e3, "ms"))
_LARGE = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
_SIZES = ("bytes", "kB", "MB", "GB", "TB")


def cell(column: str, value: Cell, width: int = 60) -> str:
    """Return a cell of a table formatted as text, at most `width` characters wide."""
    if value is None:
        return WHOLE if column == "harness" else "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _figure(column, value)
    if column in _AMOUNTS and isinstance(value, str):
        return amount(value)
    if isinstance(value, str):
        return one_line(value.replace("T", " ")[:23] if _MOMENT.fullmatch(value) else value, width)
    return one_line(encode(value), width)


def amount(exact: str) -> str:
    """Return an exact amount with two decimals, a small one with six digits; any other text as it is."""
    try:
        value = Decimal(exact)
    except InvalidOperation:
        return one_line(exact)
    if not value or not value.is_finite():
        return one_line(exact)
    if value.adjusted() >= 1:
        return f"{round(value, 2):f}"
    return f"{round(value, 5 - value.adjusted()):f}".rstrip("0").rstrip(".")


def is_figure(value: Cell) -> bool:
    """Return whether a cell is right-aligned."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _figure(column: str, value: int | float) -> str:
    if column.endswith("_per_s"):
        return number(value)
    if column.endswith("_s"):
        return seconds(value)
    if column.endswith("_share"):
        return share(value)
    if column.endswith("_bytes"):
        return size(value)
    return number(value)


def number(value: int | float) -> str:
    """Return a number with thousands separators and few significant digits."""
    if isinstance(value, int):
        return f"{value:,}"
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def seconds(value: float) -> str:
    """Return a duration, such as `250 µs`, `1.25 s`, `2 h 5 min`."""
    if value < 0:
        return f"-{seconds(-value)}"
    for unit_s, unit, part_s, part in _LARGE:
        if round(value) >= unit_s:
            # Rounded first, so that it is never "1 min 60 s".
            whole = round(value / part_s) * part_s
            rest = int(whole % unit_s // part_s)
            return f"{int(whole // unit_s)} {unit}" + (f" {rest} {part}" if rest else "")
    for factor, unit in _SMALL:
        # Rounded first, as above: 999.9 ms is 1 s.
        if 0 < float(f"{value * factor:.3g}") < 1000:
            return f"{value * factor:.3g} {unit}"
    return f"{value:.3g} s"


def share(value: float) -> str:
    """Return a share as a percentage."""
    percent = abs(value) * 100
    if 0 < percent < 0.1:
        return "<0.1 %" if value > 0 else ">-0.1 %"
    if value < 0:
        return f"-{share(-value)}"
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.2g} %"


def size(value: float) -> str:
    """Return a number of bytes with its unit."""
    step = 0
    while abs(value) >= 1000 and step < len(_SIZES) - 1:
        value, step = value / 1000, step + 1
    return f"{value:.3g} {_SIZES[step]}" if step else f"{value:.0f} {_SIZES[0]}"


def times(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: `1 restart`, `3 restarts`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(words: Iterable[str], most: int = 5) -> str:
    """Return words joined as `a, b and c`; beyond `most` only the number of the rest is given."""
    shown = list(words)
    if len(shown) > most:
        shown = [*shown[: most - 1], f"{len(shown) - most + 1} more"]
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


@lru_cache(1024)
def shown(name: str) -> str:
    """Return a name made safe to show. The same few names are in many rows."""
    return one_line(name)


def money(amount: Decimal | None) -> str | None:
    """Return an amount as exact text, without trailing zeros; None if it is unknown."""
    if amount is None:
        return None
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def moment(value: datetime | None) -> str | None:
    """Return a moment as text, in UTC."""
    return None if value is None else f"{value.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
