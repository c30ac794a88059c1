"""Whether the records where a seal is are those that it was put over: by its marks, which name each, and by its hash."""

from __future__ import annotations

import sqlite3
from hashlib import sha256
from typing import Any

from orchestrator.store.proof_account import COPY, REPAIRED, Account, Seal
from orchestrator.store.record_bytes import records, take_in
from orchestrator.store.sealing import BETWEEN, trailer

LEAST = -(1 << 63)


def hold(db: sqlite3.Connection, account: Account, after: int, seal: Seal, before: str) -> None:
    """Hold the records where a seal is against it."""
    seen, hash = _look_at_records(db, account, after, seal, before)
    if seen != seal.marks:
        account.expected.update(seal.marks)
        account.actual.update(seen)
    if (seen == seal.marks) != (hash == seal.hash):
        text = f"seal {seal.position} over records {seal.first_seq} to {seal.last_seq} was edited"
        account.add("edited", "seal", f"{text}, or one of them with its mark; {COPY}")


def _look_at_records(
    db: sqlite3.Connection, account: Account, after: int, seal: Seal, before: str
) -> tuple[dict[int, int], str]:
    """Return the marks of the records where a seal is, and the hash that it would have; note those that tell of a repair."""
    digest, seen = sha256(_bytes(before)), dict[int, int]()
    for row, pieces in records(db, after, seal.last_seq):
        seen[row[0]] = take_in(pieces, digest)[1]
        if row[6] == REPAIRED:
            account.repairs.append(row[0])
        digest.update(BETWEEN)
    digest.update(trailer(seal.position, seal.first_seq, seal.last_seq, seal.text))
    return seen, digest.hexdigest()


def _bytes(value: Any) -> bytes:
    """Return text as bytes; a value of another type, which only somebody else can have put there, as nothing that we write."""
    return (value if isinstance(value, str) else ascii(value)).encode("utf-8", "surrogateescape")
