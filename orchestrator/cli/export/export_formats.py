"""What is recorded, in the forms that rows are written in, page by page, so that memory does not grow: JSON lines, CSV,
Parquet.

    jsonl     a row a line: exact, but for secrets, which no form has
    csv       flat; what is nested is JSON; text that others may have written is inert, on one line, and no formula: where it
              begins with = + - or @ it gets a ' in front. JSON begins with none of these but as a number
    parquet   the same columns with types; needs pyarrow

A file comes to its name when it is whole: it is written beside it under another name first.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any, TextIO

from attrs import evolve

from harnesses.diagnostics.extras import install_command
from harnesses.files.safe_files import draft_of
from orchestrator.cli.export.export_sheets import SHEETS, Column, Row, Sheet, step_line, step_row
from orchestrator.cli.output_targets import check_target
from orchestrator.codec import decode
from orchestrator.errors import UsageError
from orchestrator.history.past_reader import pages
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.text.value_lines import harmless, json_line, stamp

FORMATS = ("jsonl", "csv", "parquet")


def write_text(sheet: Sheet, format: str, pages: Iterable[Sequence[Any]], file: TextIO) -> int:
    """Write items as JSON lines or CSV; return how many."""
    count = 0
    writer = csv.writer(file, lineterminator="\n")
    if format == "csv":
        writer.writerow([column.name for column in sheet.columns])
    for page in pages:
        if format == "csv":
            writer.writerows(cells(sheet.columns, sheet.row(item)) for item in page)
        else:
            file.writelines(f"{sheet.line(item)}\n" for item in page)
        count += len(page)
    return count


def write_parquet(sheet: Sheet, pages: Iterable[Sequence[Any]], file: IO[bytes]) -> int:
    """Write items as Parquet, a row group for each page; return how many."""
    arrow, parquet = load_arrow()
    schema = _schema(arrow, sheet.columns)
    count = 0
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for page in pages:
            if page:
                writer.write_table(_table(arrow, schema, [sheet.row(item) for item in page]))
                count += len(page)
    return count


def cells(columns: Sequence[Column], row: Row) -> Iterator[object]:
    """Yield the cells of a row of CSV."""
    for column, value in zip(columns, row, strict=True):
        if value is None:
            yield ""
        elif column.type == "json":
            yield json_line(decode(value))
        elif column.type == "names":
            yield json_line(value)
        elif column.type == "time":
            yield stamp(value)
        elif column.type == "text":
            yield harmless(value)
        else:
            yield str(value).lower() if column.type == "bool" else value


def load_arrow() -> tuple[Any, Any]:
    """Return pyarrow and what of it writes Parquet.

    Raises:
        UsageError: it is not installed.
    """
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise UsageError(
            "parquet needs pyarrow, which is not installed: expected the extra `parquet`; "
            f"run `{install_command('parquet')}`, or export jsonl or csv"
        ) from None


def _schema(arrow: Any, columns: Sequence[Column]) -> Any:
    types = {
        "int64": arrow.int64(),
        "int32": arrow.int32(),
        "bool": arrow.bool_(),
        "time": arrow.timestamp("us", tz="UTC"),
        "names": arrow.list_(arrow.string()),
    }
    return arrow.schema([(column.name, types.get(column.type, arrow.string())) for column in columns])


def _table(arrow: Any, schema: Any, rows: list[Row]) -> Any:
    arrays = [arrow.array(values, type=field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
    return arrow.Table.from_arrays(arrays, schema=schema)


@contextmanager
def whole_file(path: Path) -> Generator[IO[bytes], None, None]:
    """Give a file that gets its name when the block has ended well. What is no plain file, say a pipe, is written to."""
    target = Path(os.path.realpath(path))
    with ExitStack() as opened:
        whole = not target.exists() or target.is_file()
        yield _open_named(path, lambda: opened.enter_context(draft_of(target, is_synced=True) if whole else target.open("wb")))


def _open_named(path: Path, open_it: Callable[[], IO[bytes]]) -> IO[bytes]:
    try:
        return open_it()
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}; check its folder and permissions") from error


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
