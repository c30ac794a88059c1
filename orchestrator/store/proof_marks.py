"""Whether the records where a seal is are those that it was put over: by its marks, which name each, and by its hash."""

from __future__ import annotations

import json
import sqlite3
from hashlib import sha256
from typing import Any
from zlib import crc32

from orchestrator.store.proof_account import COPY, Account, Row, Seal
from orchestrator.store.sealing import BETWEEN, trailer

RECORDS = """
SELECT seq, harness, epoch, attempt, step, time_us, kind, body, state FROM records WHERE seq > ? AND seq <= ? ORDER BY seq
"""
LEAST, MOST = -(1 << 63), (1 << 63) - 1


def hold(db: sqlite3.Connection, account: Account, after: int, seal: Seal, before: str) -> None:
    """Hold the records where a seal is against it."""
    seen, hash = _look_at_records(db, after, seal, before)
    if seen != seal.marks:
        account.expected.update(seal.marks)
        account.actual.update(seen)
    if (seen == seal.marks) != (hash == seal.hash):
        text = f"seal {seal.position} over records {seal.first_seq} to {seal.last_seq} was edited"
        account.add("edited", "seal", f"{text}, or one of them with its mark; {COPY}")


def _look_at_records(db: sqlite3.Connection, after: int, seal: Seal, before: str) -> tuple[dict[int, int], str]:
    """Return the marks of the records where a seal is, and the hash that it would have."""
    digest, seen = sha256(_bytes(before)), dict[int, int]()
    for row in db.execute(RECORDS, (after, seal.last_seq)):
        text = text_of(row)
        seen[row[0]] = crc32(text)
        digest.update(text + BETWEEN)
    digest.update(trailer(seal.position, seal.first_seq, seal.last_seq, seal.text))
    return seen, digest.hexdigest()


def text_of(row: Row) -> bytes:
    """Return what is hashed of a record."""
    _, harness, epoch, attempt, step, time_us, kind, body, state = row
    parts = [_bytes(body), b"" if state is None else _bytes(state)]
    fields = [harness, epoch, attempt, step, time_us, kind, len(parts[0]), None if state is None else len(parts[1])]
    header = json.dumps(fields, separators=(",", ":"), ensure_ascii=False, default=ascii)
    return b"".join((_bytes(header), *parts))


def _bytes(value: Any) -> bytes:
    """Return text as bytes; a value of another type, which only somebody else can have put there, as nothing that we write."""
    return (value if isinstance(value, str) else ascii(value)).encode("utf-8", "surrogateescape")
