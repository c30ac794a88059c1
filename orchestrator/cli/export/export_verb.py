"""The verb `export` into one file: what is recorded as JSON lines, CSV or Parquet, page by page, so memory does not grow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from attrs import evolve

from orchestrator.cli.export.export_formats import harmless, whole_file, write_parquet, write_text
from orchestrator.cli.export.export_sheets import SHEETS, Sheet, step_line, step_row
from orchestrator.cli.output_targets import check_target
from orchestrator.cli.step_pages import pages
from orchestrator.errors import UsageError
from orchestrator.store.sqlite.sqlite_reader import SqliteReader

__all__ = ["COLUMNS", "export", "export_sheet", "harmless"]

_BY_NUMBER = evolve(SHEETS["steps"], row=step_row, line=step_line)
"""Steps that are read of one harness by their numbers."""
COLUMNS = tuple(column.name for column in _BY_NUMBER.columns)


def export(reader: SqliteReader, name: str, format: str, output: Path | None, stdout: TextIO, *, after: int = 0) -> int:
    """Write the steps of a harness from number `after + 1` to `output`, or to `stdout`; return how many.

    Raises:
        UsageError: the format or the file cannot be had.
        UnknownHarness: there is no such harness.
    """
    return _write(reader, _BY_NUMBER, pages(reader, name, after=after), format, output, stdout)


def export_sheet(
    reader: SqliteReader, what: str, name: str | None, format: str, output: Path | None, stdout: TextIO, *, after_seq: int = 0
) -> int:
    """Write all that is recorded of something, by one harness or by all, after a number; return how many rows."""
    sheet = SHEETS[what]
    found = sheet.pages(reader, name, after_seq, reader.last_seq())
    return _write(reader, sheet, (items for _, items in found), format, output, stdout)


def _write(
    reader: SqliteReader, sheet: Sheet, found: Iterable[Sequence[Any]], format: str, output: Path | None, stdout: TextIO
) -> int:
    if output is not None:
        check_target(output, reader.path)
    if format == "parquet":
        if output is None:
            raise UsageError("parquet cannot be written to standard output: expected --output FILE; give one")
        with whole_file(output) as file:
            return write_parquet(sheet, found, file)
    if output is None:
        return write_text(sheet, format, found, stdout)
    with whole_file(output) as file, open(file.fileno(), "w", encoding="utf-8", newline="", closefd=False) as text:
        return write_text(sheet, format, found, text)
