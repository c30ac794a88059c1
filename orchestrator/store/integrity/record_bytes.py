"""The hashed bytes of records, in pieces: of a large record, a megabyte is in memory at a time.

Invariant: the bytes are those of `seals.RECORD_TEXT`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias
from zlib import crc32

LARGE = 8_000_000
"""Size in bytes from which a body or state is read in pieces; also the limit on records joined into one text."""
_PIECE = 1 << 20
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_SMALL = "CASE WHEN typeof({0}) = 'text' AND length(CAST({0} AS BLOB)) >= ? THEN 0 ELSE {0} END"
_RECORDS = f"""
SELECT seq, harness, epoch, attempt, step, time_us, kind, {_SMALL.format("body")}, {_SMALL.format("state")}
FROM records WHERE seq > ? AND seq <= ? ORDER BY seq
"""
_IS_LARGE = 0
"""Stands for a large text: the columns are converted to text, so no real value is a number."""

RecordHead: TypeAlias = tuple[Any, ...]
"""seq, harness, epoch, attempt, step, time_us and kind of a record."""


def records(db: sqlite3.Connection, after: int = _LEAST, last: int = _MOST) -> Iterator[tuple[RecordHead, Iterable[bytes]]]:
    """Yield the records after one up to the last, each with the pieces of its bytes."""
    for row in db.execute(_RECORDS, (LARGE, LARGE, after, last)):
        yield row[:7], _pieces(db, row)


def take_in(pieces: Iterable[bytes], *digests: Any) -> tuple[int, int]:
    """Add the bytes of a record to `digests`; return their number and crc32."""
    size = mark = 0
    for piece in pieces:
        size, mark = size + len(piece), crc32(piece, mark)
        for digest in digests:
            digest.update(piece)
    return size, mark


@contextmanager
def cap_texts(db: sqlite3.Connection) -> Generator[None]:
    """Make SQLite raise `DataError` instead of building a text of more than `LARGE` bytes."""
    limit = db.getlimit(sqlite3.SQLITE_LIMIT_LENGTH)
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(limit, LARGE))
    try:
        yield
    finally:
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limit)


def _pieces(db: sqlite3.Connection, row: tuple[Any, ...]) -> Iterator[bytes]:
    body, state = _open_column(db, row[0], "body", row[7]), _open_column(db, row[0], "state", row[8])
    fields = [*row[1:7], *(None if part is None else len(part) for part in (body, state))]
    header = text_bytes(json.dumps(fields, separators=(",", ":"), ensure_ascii=False, default=ascii))
    if isinstance(body, bytes) and (state is None or isinstance(state, bytes)):
        yield header + body + (state or b"")
        return
    yield header
    for part in (body, state):
        if part is not None:
            yield from (part[at : at + _PIECE] for at in range(0, len(part), _PIECE))


def _open_column(db: sqlite3.Connection, seq: int, column: str, value: Any) -> Any:
    """Return the bytes of a column, or a blob handle to read them from."""
    if value is None:
        return None
    return db.blobopen("records", column, seq, readonly=True) if value == _IS_LARGE else text_bytes(value)


def text_bytes(value: Any) -> bytes:
    """Return text as bytes. Values of other types, which only tampering leaves, give bytes that match no valid text."""
    return (value if isinstance(value, str) else ascii(value)).encode("utf-8", "surrogateescape")
