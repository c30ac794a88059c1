"""What a question returns: sentences and tables, as plain data. Pure."""

from __future__ import annotations

from typing import TypeAlias

from attrs import field, frozen

Cell: TypeAlias = "str | int | float | bool | list[Cell] | dict[str, Cell] | None"
"""What a table holds: JSON, and nothing else. Money and times are text, durations seconds."""


@frozen
class Table:
    """Rows under named columns."""

    name: str
    """What it is of, one word: `harnesses`, `attempts`."""
    columns: tuple[str, ...]
    """Their names end with the unit: `_s`, `_bytes`, `_share` (0 to 1)."""
    rows: tuple[tuple[Cell, ...], ...] = field(converter=tuple)
    note: str = ""
    """What a reader should know of it: what is left out, where a figure comes from."""

    def dicts(self) -> list[dict[str, Cell]]:
        """Return the rows as objects."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@frozen
class Answer:
    """What is to be said to one question about one run."""

    question: str
    tables: tuple[Table, ...] = field(converter=tuple)
    sentences: tuple[str, ...] = field(default=(), converter=tuple)
    """In order; each stands by itself, and names harness and step where it can."""
