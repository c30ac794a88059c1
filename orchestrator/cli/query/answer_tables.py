"""Answers, and what a query gives, as text for people, as JSON lines and as CSV; rows of a query page by page, so that memory
does not grow with them.

Invariant: in each format, text by agents is inert and without secrets. Figures of answers are rounded in text for people only.
Results of a query are never rounded; in text for people, a long cell is cut.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from attrs import define, evolve

from harnesses.errors import one_of
from orchestrator.analysis.answers.answer import Answer, Cell, Table, cell, is_figure
from orchestrator.analysis.sql.sql_room import End, Head, Page
from orchestrator.errors import UsageError
from orchestrator.text.terminal_text import one_line
from orchestrator.text.value_lines import brief, harmless, json_line

_CELL = 60
_LEAST = 12
"""A column is not made narrower than this, in characters."""
_MOMENT = 23
"""Characters of a moment, which says nothing when it is cut."""
_SENTENCE = 1000
_GAP = 2


def text_lines(answer: Answer, *, width: int | None = None, limit: int | None = None) -> Iterator[str]:
    """Yield an answer for people: the sentences, then each table that has rows.

    Args:
        width: of the terminal, if there is one: the widest columns are cut until a line fits.
        limit: rows of each table that are shown.
    """
    for sentence in answer.sentences:
        yield one_line(sentence, _SENTENCE)
    shown = [table for table in answer.tables if table.rows]
    for place, table in enumerate(shown):
        if place or answer.sentences:
            yield ""
        if len(answer.tables) > 1:
            yield f"{table.name}:"
        yield from _table(table, width, limit)
        if table.note:
            yield f"({one_line(table.note, _SENTENCE)})"


def _table(table: Table, width: int | None, limit: int | None) -> Iterator[str]:
    rows = table.rows if limit is None else table.rows[:limit]
    body = [[cell(name, value, _CELL) for name, value in zip(table.columns, row, strict=True)] for row in rows]
    head = [_title(name) for name in table.columns]
    right = [any(is_figure(row[place]) for row in rows) for place in range(len(head))]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    shown = len(widths)
    if width is not None:
        widths = _fit(widths, right, width)
        while shown > 1 and _whole(widths[:shown]) > width:
            shown -= 1
    for line in (head[:shown], *(cells[:shown] for cells in body)):
        yield (" " * _GAP).join(map(_align, line, widths, right)).rstrip()
    if len(rows) < len(table.rows):
        yield f"… and {len(table.rows) - len(rows):,} more"
    if shown < len(head):
        yield f"… and besides: {', '.join(name.lower() for name in head[shown:])}"


def _title(column: str) -> str:
    """Return what stands above a column; the units stand in the cells."""
    for ending in ("_s", "_share", "_bytes"):
        if column.endswith(ending) and not column.endswith("_per_s"):
            column = column.removesuffix(ending)
    return column.replace("_", " ").upper()


def _fit(widths: Sequence[int], right: Sequence[bool], most: int) -> list[int]:
    """Return the widths with the widest columns of text made narrower until all fit, as far as that goes; not the names."""
    fitted = list(widths)
    texts = [place for place, is_right in enumerate(right) if place and not is_right and fitted[place] != _MOMENT]
    while _whole(fitted) > most:
        widest = max(texts, key=lambda place: fitted[place], default=None)
        if widest is None or fitted[widest] <= _LEAST:
            break
        fitted[widest] -= 1
    return fitted


def _whole(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _align(text: str, width: int, right: bool) -> str:
    cut = text if len(text) <= width else text[: width - 1] + "…"
    return cut.rjust(width) if right else cut.ljust(width)


def json_lines(answer: Answer, *, limit: int | None = None) -> Iterator[str]:
    """Yield each sentence, row and note as an object with the name of its table in `table`."""
    for sentence in answer.sentences:
        yield json_line({"table": "sentences", "text": sentence})
    for table in answer.tables:
        for row in table.dicts()[:limit]:
            yield json_line({"table": table.name, **row})
        if table.note:
            yield json_line({"table": "notes", "of": table.name, "text": table.note})


def csv_lines(table: Table, *, limit: int | None = None) -> Iterator[str]:
    """Yield one table as CSV: numbers exact, lists as JSON, nothing that a spreadsheet takes for a formula."""
    for row in (table.columns, *table.rows[:limit]):
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="").writerow([_csv_cell(value) for value in row])
        yield buffer.getvalue()


def _csv_cell(value: Cell) -> str | int | float:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else json_line(value)
    return text if _is_number(text) else harmless(text)


def _is_number(text: str) -> bool:
    """Return whether text is a number, such as money: it may begin with a minus."""
    return text.removeprefix("-").replace(".", "", 1).isdecimal() and text.isascii()


def only(answers: Sequence[Answer], name: str) -> Answer:
    """Return the answer that has a table of this name, with nothing else in it.

    Raises:
        UsageError: none has one.
    """
    for answer in answers:
        for table in answer.tables:
            if table.name == name:
                return evolve(answer, tables=[table], sentences=())
    known = one_of((table.name for answer in answers for table in answer.tables), "it has none; ask without --table")
    raise UsageError(f"{answers[0].question} has no table {name!r}: {known}")


CELL = 60
"""Characters of a cell that people see."""
_MONEY = ",18)"
"""End of the type of money, which has more places than people read."""
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
        right = [_is_number_type(type) for type in head.types]
        cells = [[_shown(cell, type, tally) for cell, type in zip(row, head.types, strict=True)] for row in rows]
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


def _shown(cell: Any, type: str, tally: Tally) -> str:
    if cell is None:
        return "NULL"
    if type.endswith(_MONEY) and "." in str(cell):
        return str(cell).rstrip("0").rstrip(".")
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


def _is_number_type(type: str) -> bool:
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
