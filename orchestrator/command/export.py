"""The steps of a harness as a file: JSON lines, CSV or Parquet, page by page, so memory does not grow with the run.

    jsonl     a step a line, as `steps --json` has it: exact, but for secrets, which no format has
    csv       flat; input, output and modified are JSON text; the summary, which agents may write, is made harmless for
              terminals and spreadsheets
    parquet   the same columns with types: a timestamp, a list of names; needs pyarrow

A file comes to its name when it is whole: it is written beside it under another name first.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, TextIO

from harnesses.secrets import redact_text
from orchestrator.command.lines import json_line, json_text, stamp, step_fields
from orchestrator.command.pages import pages
from orchestrator.errors import UsageError
from orchestrator.records import StepRecord
from orchestrator.store.sqlite_reader import SqliteReader
from orchestrator.text import one_line

COLUMNS = ("step_number", "timestamp", "harness", "attempt", "seq", "input", "output", "modified", "summary")
_FORMULA = ("=", "+", "-", "@")
"""What a spreadsheet takes for a formula at the beginning of a cell. Source: OWASP, CSV Injection."""


def export(reader: SqliteReader, name: str, format: str, output: Path | None, stdout: TextIO, *, after: int = 0) -> int:
    """Write the steps from number `after + 1` to `output`, or to `stdout`; return how many.

    Raises:
        UsageError: the format or the file can not be had.
        UnknownHarness: there is no such harness.
    """
    steps = pages(reader, name, after=after)
    if output is not None and os.path.realpath(output) == os.path.realpath(reader.path):
        raise UsageError(f"{output} is the store: expected another file; choose one")
    if format == "parquet":
        return _export_parquet(steps, output)
    write = _write_csv if format == "csv" else _write_jsonl
    if output is None:
        return write(steps, stdout)
    with _whole_file(output) as file, open(file.fileno(), "w", encoding="utf-8", newline="", closefd=False) as text:
        return write(steps, text)


def _write_jsonl(steps: Iterator[list[StepRecord]], file: TextIO) -> int:
    count = 0
    for page in steps:
        file.writelines(f"{json_line(step_fields(record))}\n" for record in page)
        count += len(page)
    return count


def _write_csv(steps: Iterator[list[StepRecord]], file: TextIO) -> int:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for page in steps:
        writer.writerows(map(_cells, page))
        count += len(page)
    return count


def _cells(record: StepRecord) -> tuple[object, ...]:
    delta = record.state_delta
    return (
        record.step_number,
        stamp(record.timestamp),
        record.harness,
        record.attempt,
        record.seq,
        json_line(record.input),
        json_line(record.output),
        json_line(delta.modified),
        harmless(delta.summary or ""),
    )


def harmless(text: str) -> str:
    """Return text for a cell: on one line, inert, and no formula."""
    flat = one_line(text, 32_000)
    return f"'{flat}" if flat.startswith(_FORMULA) else flat


def _export_parquet(steps: Iterator[list[StepRecord]], output: Path | None) -> int:
    if output is None:
        raise UsageError("parquet can not be written to standard output: expected --output FILE; give one")
    try:
        arrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError:
        raise UsageError(
            "parquet needs pyarrow, which is not installed: expected the extra `parquet`; "
            "run `pip install 'harness-orchestrator[parquet]'`, or export jsonl or csv"
        ) from None
    schema = _schema(arrow)
    count = 0
    with _whole_file(output) as file, parquet.ParquetWriter(file, schema) as writer:
        for page in steps:
            writer.write_table(arrow.Table.from_pylist([_row(record) for record in page], schema=schema))
            count += len(page)
    return count


def _schema(arrow: Any) -> Any:
    text = arrow.string()
    types = {
        "step_number": arrow.int64(),
        "timestamp": arrow.timestamp("us", tz="UTC"),
        "attempt": arrow.int32(),
        "seq": arrow.int64(),
        "modified": arrow.list_(text),
    }
    return arrow.schema([(column, types.get(column, text)) for column in COLUMNS])


def _row(record: StepRecord) -> dict[str, object]:
    delta = record.state_delta
    values = (
        record.step_number,
        record.timestamp,
        record.harness,
        record.attempt,
        record.seq,
        json_text(record.input),
        json_text(record.output),
        list(delta.modified),
        redact_text(delta.summary) if delta.summary else delta.summary,
    )
    return dict(zip(COLUMNS, values, strict=True))


@contextmanager
def _whole_file(path: Path) -> Generator[IO[bytes], None, None]:
    """Give a file that gets its name when the block has ended well. What is no plain file, say a pipe, is written to."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with _naming(path, lambda: target.open("wb")) as file:
            yield file
        return
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with _naming(path, lambda: beside.open("wb")) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def _naming(path: Path, open_it: Callable[[], IO[bytes]]) -> IO[bytes]:
    try:
        return open_it()
    except OSError as error:
        raise UsageError(f"{path} can not be written: {error.strerror}; check its folder and permissions") from error
