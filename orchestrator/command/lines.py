"""Values as lines: JSON for programs, columns for people. What agents wrote is inert in both. Pure.

The law: a line holds no secret, and no character that a terminal acts upon. In JSON such characters are written as escapes, so
nothing else is lost; in lines for people they are written out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from harnesses.secrets import may_hold_secret, redact
from orchestrator.codec import decode, encode
from orchestrator.records import StepRecord
from orchestrator.text import inert_json, one_line

_LINE_ENDS = str.maketrans({"\u2028": r"\u2028", "\u2029": r"\u2029"})
"""Where some readers end a line, though JSON does not."""
_ENCODED_MOST = 4000
"""Characters of a value that are looked at for a line which will show a tenth of them."""


def json_line(value: object) -> str:
    """Return `value` as one line of JSON."""
    return _escaped(json_text(value))


def json_text(value: object) -> str:
    """Return `value` as JSON, without the secrets in it."""
    text = encode(value)
    return encode(redact(decode(text))) if may_hold_secret(text) else text


def json_pretty(value: object) -> str:
    """Return `value` as JSON for people: indented by two."""
    return _escaped(msgspec.json.format(json_text(value), indent=2))


def _escaped(text: str) -> str:
    return inert_json(text).translate(_LINE_ENDS)


def step_fields(record: StepRecord) -> dict[str, Any]:
    """Return a step as the command shows it everywhere: the fields of `Step`, then where it stands."""
    delta = record.state_delta
    return {
        "step_number": record.step_number,
        "timestamp": stamp(record.timestamp),
        "input": record.input,
        "output": record.output,
        "state_delta": {"modified": delta.modified, "summary": delta.summary},
        "harness": record.harness,
        "attempt": record.attempt,
        "seq": record.seq,
    }


def stamp(time: datetime) -> str:
    """Return an aware time as ISO 8601 in UTC, always with microseconds."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def stamp_us(time_us: int) -> str | None:
    """Return microseconds since 1970 as `stamp` does; None for 0, which stands for never."""
    return stamp(datetime.fromtimestamp(time_us / 1e6, UTC)) if time_us else None


def brief(value: object, width: int) -> str:
    """Return any value on one line of at most `width` characters: text as it is, the rest as JSON."""
    text = value if isinstance(value, str) else json_text(value)
    return one_line(text[:_ENCODED_MOST], width)


def step_line(record: StepRecord) -> str:
    """Return a step as a line for people."""
    what = f"{brief(record.input, 60)} → {brief(record.output, 100)}"
    delta = record.state_delta
    changed = f"  [{one_line(', '.join(delta.modified), 60)}]" if delta.modified else ""
    summary = f"  {one_line(delta.summary, 100)}" if delta.summary else ""
    return f"{record.step_number:>7}  {record.timestamp:%Y-%m-%d %H:%M:%S}  {record.attempt:>3}  {what}{changed}{summary}"


def columns(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table line by line, each column as wide as it needs to be. The cells must be inert."""
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
