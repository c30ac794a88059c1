"""Finding text in the records of a store, newest first; a search looks at a part of a large store, and says where it ended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from typing import Any, TypeGuard

import msgspec

from orchestrator.log import json_line_of
from orchestrator.records import HEADER
from orchestrator.store.sqlite.sqlite_file import open_reader, translated
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.text.json_text import stamp_us

MOST_RECORDS = 200_000
"""Records that one search looks at."""
_MOST_FOUND = 200
_NESTED = ("{", "[")
"""What text begins with that may be JSON itself."""
_DEEPEST = 50
"""Levels of values in values that are told apart; what is deeper is shown as JSON."""
_AROUND = 120
"""Characters that are shown on each side of what is found."""
_FIND = """
SELECT seq FROM (SELECT seq, harness, body FROM records WHERE seq < :before ORDER BY seq DESC LIMIT :most)
WHERE instr(lower(body), :text) > 0 AND (:harness = '' OR harness = (SELECT id FROM harnesses WHERE name = :harness))
LIMIT :found
"""
_FIRST = "SELECT min(seq) FROM (SELECT seq FROM records WHERE seq < :before ORDER BY seq DESC LIMIT :most)"


def search(reader: SqliteReader, text: str, *, harness: str = "", before: int | None = None) -> dict[str, Any]:
    """Return the newest records that have a text, in whatever case.

    What is encrypted is not found, and what is shown is without secrets.

    Args:
        harness: only records of this one; empty for all.
        before: only records with a smaller `seq`; `before` of an answer goes on where it has ended.
    """
    escaped = json.dumps(text, ensure_ascii=False)[1:-1].lower()
    of = {"before": before or 1 << 62, "most": MOST_RECORDS, "text": escaped, "harness": harness, "found": _MOST_FOUND}
    with closing(open_reader(reader.path)) as db, translated(reader.location):
        seqs = [seq for (seq,) in db.execute(_FIND, of)]
        (first,) = db.execute(_FIRST, of).fetchone()
    ended = seqs[-1] if len(seqs) == _MOST_FOUND else first
    return {"found": [_found(reader, seq, text) for seq in seqs], "before": ended if ended and ended > 1 else None}


def readable(fields: Mapping[str, Any]) -> str:
    """Return what a record holds as text on one line: each value behind its name, text as it was written."""
    return ", ".join(_leaves("", {name: value for name, value in fields.items() if name not in HEADER}))


def _leaves(path: str, value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str) and value[:1] in _NESTED:
        with suppress(msgspec.DecodeError, RecursionError):
            value = msgspec.json.decode(value)
    parts: dict[Any, Any] = {}
    if depth < _DEEPEST:
        parts = value if _is_dict(value) else dict(enumerate(value)) if _is_list(value) and not _is_flat(value) else parts
    if parts:
        for name, each in parts.items():
            yield from _leaves(f"{path}.{name}" if path else str(name), each, depth + 1)
    else:
        said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield f"{path}: {' '.join(said.split())}" if path else said


def _is_dict(value: object) -> TypeGuard[dict[Any, Any]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _is_flat(values: list[Any]) -> bool:
    return not any(isinstance(each, dict | list) for each in values)


def _found(reader: SqliteReader, seq: int, text: str) -> dict[str, Any]:
    (record,) = reader.records(after=seq - 1, limit=1)
    line = readable(msgspec.json.decode(json_line_of(record), type=dict[str, Any]))
    at = max(line.lower().find(text.lower()), 0)
    first, last = max(0, at - _AROUND), at + len(text) + _AROUND
    excerpt = ("…" if first else "") + line[first:last] + ("…" if last < len(line) else "")
    return {
        "seq": seq,
        "timestamp": stamp_us(record.time_us),
        "harness": record.harness,
        "step": record.step,
        "kind": record.kind,
        "excerpt": excerpt,
    }
