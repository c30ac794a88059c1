"""What can be exported: for each, its columns, where its rows come from, and a row as a line of JSON.

    records     every record as it is: with them alone, all that can be asked of a run can be answered
    steps       a row for each step; input and output are JSON
    events      every record that concerns neither a step nor an effect: lifecycle, messages, output, what is attached …
    effects     what is known of each effect now
    messages    each message, and the step that consumed it
    approvals   each request, and what has become of it
    transcripts each turn of an agent, with what was said

Invariant: rows come in order of `seq`, page by page, after one number and up to another; what is recorded meanwhile is left
out. Records, steps, events and transcripts only grow, so an export of them can be continued; rows of the others can still
change.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from attrs import evolve, frozen

from harnesses.diagnostics.control_characters import inert_json
from harnesses.redaction.redactor import may_hold_secret, redact, redact_text
from orchestrator.codec import decode, decode_step, encode
from orchestrator.log import line
from orchestrator.records import Record, StepRecord
from orchestrator.store.sqlite.sqlite_file import open_reader, translated
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.text.value_lines import json_line, json_text, stamp, step_fields

Row: TypeAlias = tuple[Any, ...]
Page: TypeAlias = tuple[int, list[Any]]
"""How far the store was read, and what was found."""

_FIRST_ROWS, _MOST_ROWS, _PAGE_BYTES = 64, 4096, 4_000_000


@frozen
class Column:
    """A column."""

    name: str
    type: str
    """`int64`, `int32`, `bool`, `time`, `text`, `json` or `names`, a list of text."""


class Head(NamedTuple):
    """Where an item belongs."""

    seq: int
    harness: str
    time_us: int
    characters: int
    """About so many."""


@frozen
class Sheet:
    """Something that can be exported."""

    columns: tuple[Column, ...]
    pages: Callable[[SqliteReader, str | None, int, int], Iterator[Page]]
    """Called with the harness, None for all, the number after which to begin and the last one."""
    row: Callable[[Any], Row]
    """An item as values for the columns. Text and JSON are without secrets."""
    line: Callable[[Any], str]
    """An item as JSON on one line."""
    head: Callable[[Any], Head]
    grows: bool = False
    """Whether no row changes any more."""


def _columns(text: str) -> tuple[Column, ...]:
    return tuple(Column(*part.split(":")) for part in text.split())


# records, steps and events


_RECORDS = """
SELECT r.seq, coalesce(h.name, ''), r.attempt, r.step, r.time_us, r.kind, r.body, coalesce(c.run, '')
FROM records r LEFT JOIN harnesses h ON h.id = r.harness
LEFT JOIN claims c ON c.harness = r.harness AND c.epoch = r.epoch
WHERE r.seq > ? AND r.seq <= ? AND {which} ORDER BY r.seq LIMIT ?
"""


def _of_kinds(which: str) -> Callable[[SqliteReader, str | None, int, int], Iterator[Page]]:
    """Return what reads the records that a condition holds of."""

    def pages(reader: SqliteReader, name: str | None, after: int, until: int) -> Iterator[Page]:
        query = _RECORDS.format(which=which if name is None else f"{which} AND r.harness = {number_of(reader, name)}")
        rows = _FIRST_ROWS
        with closing(open_reader(reader.path)) as db:
            while after < until:
                with translated(reader.location):
                    found = [Record(*row) for row in db.execute(query, (after, until, rows))]
                after = found[-1].seq if len(found) == rows else until
                yield after, found
                largest = max((len(record.body) for record in found), default=0)
                rows = max(1, min(rows * 8, _MOST_ROWS, _PAGE_BYTES // max(largest, 1)))

    return pages


def number_of(reader: SqliteReader, name: str) -> int:
    """Return the store's number for a harness.

    Raises:
        UnknownHarness: there is no such harness.
    """
    reader.steps(name, limit=1)
    with closing(open_reader(reader.path)) as db, translated(reader.location):
        return int(db.execute("SELECT id FROM harnesses WHERE name = ?", (name,)).fetchone()[0])


def without_secrets(text: str) -> str:
    """Return JSON without the secrets in it, and else as it is."""
    return encode(redact(decode(text))) if may_hold_secret(text) else text


def _record_head(record: Record) -> Head:
    return Head(record.seq, record.harness, record.time_us, len(record.body))


def _record_row(record: Record) -> Row:
    stamped = (record.seq, record.timestamp, record.run, record.harness, record.attempt, record.step, record.kind)
    return (*stamped, without_secrets(record.body))


def _record_line(record: Record) -> str:
    return inert_json(json_text(line(record)))


def _step(record: Record) -> StepRecord:
    return decode_step(record.harness, record.attempt, record.seq, record.step, record.time_us, record.body)


def step_row(step: StepRecord) -> Row:
    """Return a step as values for the columns."""
    delta = step.state_delta
    return (
        step.step_number,
        step.timestamp,
        step.harness,
        step.attempt,
        step.seq,
        json_text(step.input),
        json_text(step.output),
        list(delta.modified),
        redact_text(delta.summary) if delta.summary else delta.summary,
    )


def step_line(step: StepRecord) -> str:
    """Return a step as `orchestrator steps --json` has it."""
    return json_line(step_fields(step))


_RECORD_COLUMNS = _columns("seq:int64 timestamp:time run:text harness:text attempt:int32 step:int64 kind:text body:json")
_STEP_COLUMNS = _columns(
    "step_number:int64 timestamp:time harness:text attempt:int32 seq:int64 input:json output:json modified:names summary:text"
)


# transcripts


_of_transcripts = _of_kinds("r.kind = 'transcript'")


def _transcripts(reader: SqliteReader, name: str | None, after: int, until: int) -> Iterator[Page]:
    """Read transcripts with their messages, which may be large: one at a time."""
    for reached, found in _of_transcripts(reader, name, after, until):
        for record in found:
            yield record.seq, [reader.whole(record)]
        yield reached, []


def _transcript_fields(record: Record) -> dict[str, Any]:
    said = redact(decode(record.body))
    place = {"seq": record.seq, "timestamp": record.timestamp, "harness": record.harness, "attempt": record.attempt}
    fields = {**said, **place, "step_number": record.step}
    return {one.name: fields.get(one.name, [] if one.type == "json" else None) for one in _TRANSCRIPT_COLUMNS}


def _transcript_row(record: Record) -> Row:
    fields = _transcript_fields(record)
    return tuple(encode(fields[one.name]) if one.type == "json" else fields[one.name] for one in _TRANSCRIPT_COLUMNS)


def _transcript_line(record: Record) -> str:
    return json_line({**_transcript_fields(record), "timestamp": stamp(record.timestamp)})


_TRANSCRIPT_COLUMNS = _columns(
    "seq:int64 timestamp:time harness:text attempt:int32 step_number:int64 agent:text scope:text session:text turn:int64 "
    "model:text stop_reason:text error:text model_calls:int64 tool_calls:int64 tool_errors:int64 input_tokens:int64 "
    "output_tokens:int64 cached_tokens:int64 reasoning_tokens:int64 cost:text rounds:json compactions:json messages:json"
)


# what is known of effects, messages and approvals


def _of_view(columns: Sequence[Column], view: str) -> Callable[[SqliteReader, str | None, int, int], Iterator[Page]]:
    """Return what reads a view: all that it shows as of one moment, for a row can change while others are read."""
    names = ", ".join("r.time_us" if column.name == "timestamp" else f"v.{column.name}" for column in columns)
    query = (
        f"SELECT {names} FROM {view} v JOIN records r ON r.seq = v.seq "
        "WHERE v.seq > ? AND v.seq <= ? AND (? IS NULL OR v.harness = ?) ORDER BY v.seq"
    )

    def pages(reader: SqliteReader, name: str | None, after: int, until: int) -> Iterator[Page]:
        if name is not None:
            number_of(reader, name)
        with closing(open_reader(reader.path)) as db, translated(reader.location):
            cursor: sqlite3.Cursor = db.execute(query, (after, until, name, name))
            while rows := cursor.fetchmany(1000):
                yield rows[-1][0], rows
        yield until, []

    return pages


def _shape_row(columns: Sequence[Column]) -> Callable[[Row], Row]:
    return lambda found: tuple(_value(column.type, value) for column, value in zip(columns, found, strict=True))


def _value(type: str, value: Any) -> Any:
    if value is None:
        return None
    if type == "json":
        return without_secrets(value)
    if type == "text":
        return redact_text(value)
    if type == "time":
        return datetime.fromtimestamp(value / 1e6, UTC)
    return bool(value) if type == "bool" else value


def _as_line(columns: Sequence[Column]) -> Callable[[Row], str]:
    shaped = _shape_row(columns)

    def told(found: Row) -> str:
        values = zip(columns, shaped(found), strict=True)
        return json_line({column.name: _plain(column.type, value) for column, value in values})

    return told


def _plain(type: str, value: Any) -> Any:
    if value is None:
        return None
    return decode(value) if type == "json" else stamp(value) if type == "time" else value


def _view_head(found: Row) -> Head:
    seq, time_us, harness = found[:3]
    return Head(seq, harness, time_us, sum(len(value) for value in found if isinstance(value, str)))


def _view(view: str, text: str) -> Sheet:
    columns = _columns(text)
    return Sheet(columns, _of_view(columns, view), _shape_row(columns), _as_line(columns), _view_head)


_EVERYTHING = Sheet(_RECORD_COLUMNS, _of_kinds("true"), _record_row, _record_line, _record_head, grows=True)
SHEETS = {
    "records": _EVERYTHING,
    "steps": Sheet(
        _STEP_COLUMNS,
        _of_kinds("r.kind = 'step'"),
        lambda record: step_row(_step(record)),
        lambda record: step_line(_step(record)),
        _record_head,
        grows=True,
    ),
    "events": evolve(_EVERYTHING, pages=_of_kinds("r.kind NOT IN ('step', 'intent', 'outcome')")),
    "effects": _view(
        "effects",
        "seq:int64 timestamp:time harness:text attempt:int32 step_number:int64 key:text outcome:text arguments:json "
        "result:json reason:text idempotent:bool settled_by:text",
    ),
    "messages": _view(
        "messages",
        "seq:int64 timestamp:time harness:text sender:text body:json consumed_step:int64 kind:text id:text type:text "
        "deadline_us:int64",
    ),
    "approvals": _view(
        "approvals",
        "seq:int64 timestamp:time harness:text attempt:int32 step_number:int64 id:text key:text category:text summary:text "
        "arguments:json digest:text expires:text verdict:text answered_by:text reason:text used:bool",
    ),
    "transcripts": Sheet(_TRANSCRIPT_COLUMNS, _transcripts, _transcript_row, _transcript_line, _record_head, grows=True),
}
