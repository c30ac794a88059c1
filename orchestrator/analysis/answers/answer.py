"""What a question returns: sentences and tables, as plain data. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from attrs import field, frozen

Cell: TypeAlias = "str | int | float | bool | list[Cell] | dict[str, Cell] | None"
"""What a table holds: JSON, and nothing else. Money and times are text, durations seconds."""


def _rows(rows: Iterable[tuple[Cell, ...]]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(rows)


@frozen
class Table:
    """Rows under named columns."""

    name: str
    """What it is of, one word: `harnesses`, `attempts`."""
    columns: tuple[str, ...]
    """Their names end with the unit: `_s`, `_bytes`, `_share` (0 to 1)."""
    rows: tuple[tuple[Cell, ...], ...] = field(converter=_rows)
    note: str = ""
    """What a reader should know of it: what is left out, where a figure comes from."""

    def dicts(self) -> list[dict[str, Cell]]:
        """Return the rows as objects."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def _tables(tables: Iterable[Table]) -> tuple[Table, ...]:
    return tuple(tables)


def _sentences(sentences: Iterable[str]) -> tuple[str, ...]:
    return tuple(sentences)


@frozen
class Answer:
    """What is to be said to one question about one run."""

    question: str
    tables: tuple[Table, ...] = field(converter=_tables)
    sentences: tuple[str, ...] = field(default=(), converter=_sentences)
    """In order; each stands by itself, and names harness and step where it can."""
