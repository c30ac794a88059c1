"""The program of a process that copies a range of a store's records into two Parquet files (`copied_columns.py`).

The file of the steps has the columns of `step_columns`. That of the other records has their bodies: `body`, and `clean`, the
same without its secrets, where there may be some. Steps of which a field has an unexpected type are among the others.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from harnesses.redaction.prefilter import suspects
from harnesses.redaction.redactor import redact, redact_text
from orchestrator.analysis.sources.step_columns import Body, columns_of, fingerprints, read_body
from orchestrator.codec import decode, encode_private
from orchestrator.events import EARLIER_KINDS
from orchestrator.store.sqlite.sqlite_file import open_reader

_BATCH = 8192
_ROW_GROUP = 8
"""Batches that are written at once: DuckDB divides the work by such groups of rows."""
_ROWS = """
    SELECT seq, harness, epoch, attempt, step, time_us, kind, body FROM records WHERE seq BETWEEN ? AND ? ORDER BY seq
"""
_SEQ, _HARNESS, _EPOCH, _ATTEMPT, _STEP, _TIME, _KIND, _BODY = range(8)
_WORDS = ("run", "harness", "kind", "given_kind", "status", "validator", "risk", "drawdown", "latched")
_Row: TypeAlias = tuple[Any, ...]
_NO_STEP = Body()
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def copy_alone(asked: str) -> None:
    """Copy the records that the parent process asks for, in JSON, in a process that does nothing else."""
    boot: dict[str, Any] = msgspec.json.decode(asked)
    # Nothing here is part of a cycle, and millions of values would be looked at again and again.
    gc.disable()
    copy(Path(boot["store"]), boot["first"], boot["last"], boot["steps"], boot["others"])


def copy(store: Path, first: int, last: int, steps_file: str, others_file: str) -> None:
    """Copy the records `first` to `last` into two files, which only this user can read.

    Raises:
        StoreError: the store cannot be read.
        OSError: a file cannot be written.
    """
    with closing(open_reader(store)) as db, ExitStack() as files:
        names = {number: redact_text(name) for number, name in db.execute("SELECT id, name FROM harnesses")}
        runs = {(harness, epoch): run for harness, epoch, run in db.execute("SELECT harness, epoch, run FROM claims")}
        table = _Table(names, runs)
        db.text_factory = bytes
        steps, others = (files.enter_context(closing(_File(path))) for path in (steps_file, others_file))
        cursor = db.execute(_ROWS, (first, last))
        while True:
            rows = cursor.fetchmany(_BATCH)
            made, bodies, rest = _divided(rows)
            steps.add(table.of(made, has_kind=False) | columns_of(bodies))
            others.add(table.of(rest, has_kind=True) | _bodies(rest))
            if not rows:
                return


def _divided(rows: Sequence[_Row]) -> tuple[list[_Row], list[Body], list[_Row]]:
    """Return the steps with their bodies, and the other records."""
    steps, bodies, others = list[_Row](), list[Body](), list[_Row]()
    for row in rows:
        if row[_KIND] == b"step":
            try:
                bodies.append(read_body(row[_BODY]))
            except msgspec.DecodeError:
                others.append(row)
            else:
                steps.append(row)
        else:
            others.append(row)
    return steps, bodies, others


class _Table:
    """Makes the columns that every record has."""

    def __init__(self, names: Mapping[int, str], runs: Mapping[tuple[int, int], str]) -> None:
        self._names, self._runs = names, runs

    def of(self, rows: Sequence[_Row], *, has_kind: bool) -> dict[str, Any]:
        arrow: Any = import_module("pyarrow")
        columns = {
            "seq": arrow.array(map(itemgetter(_SEQ), rows), arrow.int64()),
            "timestamp": arrow.array(map(itemgetter(_TIME), rows), arrow.int64()).view(arrow.timestamp("us")),
            "run": arrow.array([self._runs.get((row[_HARNESS], row[_EPOCH]), "") for row in rows], arrow.string()),
            "harness": arrow.array([self._names.get(row[_HARNESS], "") for row in rows], arrow.string()),
            "attempt": arrow.array(map(itemgetter(_ATTEMPT), rows), arrow.int32()),
            "step": arrow.array(map(itemgetter(_STEP), rows), arrow.int64()),
        }
        if has_kind:
            kinds = [row[_KIND].decode() for row in rows]
            columns["kind"] = arrow.array([EARLIER_KINDS.get(kind, kind) for kind in kinds], arrow.string())
        return columns


def _bodies(rows: Sequence[_Row]) -> dict[str, Any]:
    arrow: Any = import_module("pyarrow")
    bodies: list[bytes] = [row[_BODY] for row in rows]
    texts = [str(body, "utf-8") for body in bodies]
    clean: list[str | None] = [None] * len(bodies)
    for at in set(suspects(texts)):
        clean[at] = encode_private(redact(decode(texts[at])))
    steps = [_parts_of(body) if row[_KIND] == b"step" else _NO_STEP for row, body in zip(rows, bodies, strict=True)]
    return {
        "body": arrow.array(bodies, arrow.string()),
        "clean": arrow.array(clean, arrow.string()),
        **fingerprints(steps),
    }


def _parts_of(body: bytes) -> Body:
    fields, absent = _fields(body), msgspec.Raw()
    given, made, delta, governance = (fields.get(name, absent) for name in ("input", "output", "delta", "governance"))
    return Body(input=given, output=made, delta=delta, governance=governance)


class _File:
    """A Parquet file, to which columns are added."""

    def __init__(self, path: str) -> None:
        self._path, self._batches = path, list[Any]()
        self._stream: Any = None
        self._writer: Any = None

    def add(self, columns: Mapping[str, Any]) -> None:
        """Add columns; the first ones, which may be empty, define the schema."""
        arrow: Any = import_module("pyarrow")
        self._batches.append(arrow.RecordBatch.from_pydict(columns))
        if len(self._batches) >= _ROW_GROUP:
            self._write()

    def _write(self) -> None:
        arrow: Any = import_module("pyarrow")
        table = arrow.Table.from_batches(self._batches)
        if self._writer is None:
            parquet: Any = import_module("pyarrow.parquet")
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self._stream = os.fdopen(descriptor, "wb")
            words = [name for name in _WORDS if name in table.schema.names]
            self._writer = parquet.ParquetWriter(
                self._stream, table.schema, compression="lz4", use_dictionary=words, write_statistics=["seq"]
            )
        self._writer.write_table(table)
        self._batches.clear()

    def close(self) -> None:
        """Write what has been added."""
        if self._batches:
            self._write()
        if self._writer is not None:
            self._writer.close()
            self._stream.close()
