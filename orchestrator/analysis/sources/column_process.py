"""The program of a process that copies a range of a store's records into a Parquet file (`copied_columns.py`).

`body` has, for a step, only the fields that are needed of it, and the whole body for other records and where a field is of an
unexpected type; `clean` has the same without its secrets, where there may be some.
"""

from __future__ import annotations

import gc
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast
from zlib import crc32

import msgspec

from harnesses.redaction.prefilter import suspects
from harnesses.redaction.redactor import redact, redact_text
from orchestrator.codec import decode, encode_private
from orchestrator.events import EARLIER_KINDS
from orchestrator.store.sqlite.sqlite_file import open_reader

_BATCH = 8192
_ROWS = """
    SELECT seq, harness, epoch, attempt, step, time_us, kind, {body} AS body FROM records
    WHERE seq BETWEEN ? AND ? ORDER BY seq
"""
_RAW = msgspec.Raw
_NONE = msgspec.Raw()


def _only(name: str, raw: str, nested: Mapping[str, type] | None = None) -> type:
    """Return a type of objects of which these fields are kept as they are, and others are left out."""
    fields: list[tuple[str, Any, Any]] = [(field, _RAW, _NONE) for field in raw.split()]
    fields += [(field, type | None, None) for field, type in (nested or {}).items()]
    return msgspec.defstruct(name, fields, omit_defaults=True, gc=False)


_RESULTS: Mapping[str, type] = {
    "input": _only("Input", "kind feature_id turn streamed task attempt bars"),
    "output": _only(
        "Output",
        "status note duration_s events time equity cash drawdown risk latched positions fills adopted refused",
        {"result": _only("Result", "tokens commit"), "verdict": _only("Verdict", "evidence validator commit")},
    ),
}
"""All that the frames of ready-made harnesses read of `input` and `output`."""


_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_NUMBER = re.compile(b"00+")


class _Input(Protocol):
    """What a body's input is read as."""

    bars: msgspec.Raw


class _Body(Protocol):
    """What a step's body is read as, for `results`."""

    input: _Input | None


def copy(boot: Mapping[str, Any]) -> None:
    """Copy the records that the parent process asks for."""
    # Nothing here is part of a cycle, and millions of values would be looked at again and again.
    gc.disable()
    parquet: Any = import_module("pyarrow.parquet")
    with closing(open_reader(Path(boot["store"]))) as db:
        batches = _batches(db, frozenset(boot["parts"]), boot["first"], boot["last"])
        first = next(batches)
        words = ["run", "harness", "kind"]
        with parquet.ParquetWriter(
            boot["file"], first.schema, compression="lz4", use_dictionary=words, write_statistics=False
        ) as file:
            file.write_batch(first)
            for batch in batches:
                file.write_batch(batch)


def _batches(db: sqlite3.Connection, parts: frozenset[str], first: int, last: int) -> Iterator[Any]:
    """Yield the records in columns; at least one batch."""
    arrow: Any = import_module("pyarrow")
    names = {number: redact_text(name) for number, name in db.execute("SELECT id, name FROM harnesses")}
    runs = {(harness, epoch): run for harness, epoch, run in db.execute("SELECT harness, epoch, run FROM claims")}
    body = "body" if parts else "CASE WHEN kind <> 'step' THEN body END"
    slim = _slim(parts)
    db.text_factory = bytes
    cursor = db.execute(_ROWS.format(body=body), (first, last))
    rows = cursor.fetchmany(_BATCH)
    while True:
        seq, harness, epoch, attempt, step, time_us, stored, bodies = zip(*rows, strict=True) if rows else ((),) * 8
        kind = [one.decode() for one in stored]
        kept = [slim(body) if of == "step" else body for of, body in zip(kind, bodies, strict=True)]
        same, similar, is_unchanged = _loops(kind, bodies) if "loops" in parts else ([None] * len(kind),) * 3
        yield arrow.RecordBatch.from_pydict(
            {
                "seq": arrow.array(seq, arrow.int64()),
                "timestamp": arrow.array(time_us, arrow.int64()).view(arrow.timestamp("us")),
                "run": arrow.array([runs.get(claim, "") for claim in zip(harness, epoch, strict=True)], arrow.string()),
                "harness": arrow.array([names.get(number, "") for number in harness], arrow.string()),
                "attempt": arrow.array(attempt, arrow.int32()),
                "step": arrow.array(step, arrow.int64()),
                "kind": arrow.array([EARLIER_KINDS.get(one, one) for one in kind], arrow.string()),
                "body": arrow.array(kept, arrow.string()),
                "clean": arrow.array(_clean(kind, kept, with_steps="results" in parts), arrow.string()),
                "same": arrow.array(same, arrow.int64()),
                "similar": arrow.array(similar, arrow.int64()),
                "is_unchanged": arrow.array(is_unchanged, arrow.bool_()),
            }
        )
        if not (rows := cursor.fetchmany(_BATCH)):
            return


def _slim(parts: frozenset[str]) -> Callable[[bytes], bytes | None]:
    """Return what makes the kept body of a step out of its body."""
    raw = " ".join([*(["took_us consumed"] if "work" in parts else []), *(["delta"] if "results" in parts else [])])
    if not raw:
        return lambda body: None
    read: Callable[[bytes], Any] = msgspec.json.Decoder(_only("Body", raw, _RESULTS if "results" in parts else {})).decode
    write = msgspec.json.Encoder().encode

    def slim(body: bytes) -> bytes:
        try:
            return write(read(body))
        except msgspec.DecodeError:
            return body

    def slim_results(body: bytes) -> bytes:
        try:
            one = cast("_Body", read(body))
        except msgspec.DecodeError:
            return body
        if one.input is not None and (bars := bytes(one.input.bars)):
            # A slice of a market is needed only where there is a split in it, and then whole.
            if bars.count(b'"split"') != bars.count(b'"split":"1"'):
                return body
            one.input.bars = _NONE
        return write(one)

    return slim_results if "results" in parts else slim


def _clean(kind: Sequence[str], bodies: Sequence[bytes | None], *, with_steps: bool) -> list[bytes | None]:
    """Return the bodies that may hold secrets without them, each in its place."""
    clean: list[bytes | None] = [None] * len(bodies)
    places = [place for place, body in enumerate(bodies) if body is not None and (with_steps or kind[place] != "step")]
    texts = [str(bodies[place] or b"", "utf-8") for place in places]
    for at in set(suspects(texts)):
        clean[places[at]] = encode_private(redact(decode(texts[at]))).encode()
    return clean


class _Made(msgspec.Struct, gc=False):
    """What tells whether steps repeat themselves."""

    output: msgspec.Raw = _RAW(b"null")
    delta: msgspec.Raw = _RAW(b"{}")


_made = msgspec.json.Decoder(_Made).decode


def _loops(kind: Sequence[str], bodies: Sequence[bytes]) -> tuple[list[int | None], list[int | None], list[bool | None]]:
    """Return checksums of the outputs, of the outputs with each number as 0, and whether a step has changed nothing."""
    places = [place for place, one in enumerate(kind) if one == "step"]
    made = [_made(bodies[place]) for place in places]
    outputs = [bytes(one.output) for one in made]
    folded = _NUMBER.sub(b"0", b"\0".join(outputs).translate(_DIGITS)).split(b"\0")
    same: list[int | None] = [None] * len(kind)
    similar, is_unchanged = list(same), cast("list[bool | None]", list(same))
    for place, one, output, numberless in zip(places, made, outputs, folded, strict=False):
        same[place], similar[place] = crc32(output), crc32(numberless)
        is_unchanged[place] = bytes(one.delta) in (b"{}", b"null")
    return same, similar, is_unchanged
