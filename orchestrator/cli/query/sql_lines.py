"""What a query gives, as text for people, as JSON lines and as CSV; page by page, so that memory does not grow with it.

The law: what agents wrote is inert and without secrets in each. Nothing is rounded: of a long cell people see the beginning.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from attrs import define

from orchestrator.analysis.answers.answer import Table
from orchestrator.analysis.sql.sql_room import End, Head, Page
from orchestrator.cli.query.answer_tables import csv_lines
from orchestrator.cli.value_lines import brief, json_line

CELL = 60
"""Characters of a cell that people see."""
_LOOK = 200
"""Rows that are looked at before the columns get their widths."""
Said: TypeAlias = Iterable[Head | Page | End]


@define
class Tally:
    """What is known when all lines are written."""

    rows: int = 0
    more: bool = False
    """Whether a limit has kept rows back."""
    cut: bool = False
    """Whether a cell was longer than is shown."""


def json_rows(said: Said, tally: Tally) -> Iterator[str]:
    """Yield each row as an object. What SQL calls JSON is in it as what it is."""
    for head, rows in _pages(said, tally):
        names = _apart(head.columns)
        for row in rows:
            yield json_line({name: _opened(cell, type) for name, cell, type in zip(names, row, head.types, strict=True)})


def csv_rows(said: Said, tally: Tally) -> Iterator[str]:
    """Yield the names of the columns, then each row, as CSV. Nothing in it is a formula for a spreadsheet."""
    first = True
    for head, rows in _pages(said, tally):
        lines = csv_lines(Table("rows", head.columns, rows))
        if not first:
            next(lines)
        yield from lines
        first = False


def text_rows(said: Said, tally: Tally) -> Iterator[str]:
    """Yield a table for people. The first rows say how wide its columns are."""
    widths: list[int] = []
    for head, rows in _gathered(_pages(said, tally)):
        right = [_is_number(type) for type in head.types]
        cells = [[_shown(cell, tally) for cell in row] for row in rows]
        if not widths:
            names = [brief(name, CELL) for name in head.columns]
            widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
            yield _line(names, widths, right)
            yield "  ".join("-" * width for width in widths)
        for line in cells:
            yield _line(line, widths, right)


MODES: dict[str, Callable[[Said, Tally], Iterator[str]]] = {"table": text_rows, "json": json_rows, "csv": csv_rows}


def remarks(tally: Tally, mode: str) -> list[str]:
    """Return what is to be said about an answer besides."""
    said: list[str] = []
    if not tally.rows and mode == "table":
        said.append("no rows")
    if tally.more:
        said.append(f"the first {tally.rows:,} rows: there are more")
    if tally.cut:
        said.append("long cells are cut: JSON has them whole")
    return said


def _pages(said: Said, tally: Tally) -> Iterator[tuple[Head, list[tuple[Any, ...]]]]:
    """Yield the rows page by page, each with the head; an empty page at first."""
    head = Head((), ())
    for one in said:
        if isinstance(one, Head):
            head = one
            yield head, []
        elif isinstance(one, Page):
            yield head, [tuple(row) for row in one.rows]
        else:
            tally.rows, tally.more = one.rows, one.more


def _gathered(
    pages: Iterator[tuple[Head, list[tuple[Any, ...]]]],
) -> Generator[tuple[Head, list[tuple[Any, ...]]], None, None]:
    """Yield the same with the first pages put together, up to `_LOOK` rows."""
    gathered: list[tuple[Any, ...]] | None = []
    head = Head((), ())
    for head, rows in pages:
        if gathered is None:
            yield head, rows
            continue
        gathered += rows
        if len(gathered) >= _LOOK:
            yield head, gathered
            gathered = None
    if gathered is not None and head.columns:
        yield head, gathered


def _shown(cell: Any, tally: Tally) -> str:
    if cell is None:
        return "NULL"
    if isinstance(cell, bool):
        return "true" if cell else "false"
    text = str(cell) if isinstance(cell, int | float) else brief(cell, CELL)
    tally.cut = tally.cut or text.endswith("…")
    return text


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    placed = (
        cell.rjust(width) if is_right else cell.ljust(width)
        for cell, width, is_right in zip(cells, widths, right, strict=True)
    )
    return "  ".join(placed).rstrip()


def _is_number(type: str) -> bool:
    return type.startswith("DECIMAL") or type in ("DOUBLE", "FLOAT") or (type.endswith("INT") or type == "INTEGER")


def _opened(cell: Any, type: str) -> Any:
    """Return what a cell of JSON says."""
    if type != "JSON" or not isinstance(cell, str):
        return cell
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return cell


def _apart(names: Sequence[str]) -> list[str]:
    """Return the names of columns with those told apart that are the same."""
    seen: dict[str, int] = {}
    apart: list[str] = []
    for name in names:
        count = seen[name] = seen.get(name, 0) + 1
        apart.append(name if count == 1 else f"{name}_{count}")
    return apart
