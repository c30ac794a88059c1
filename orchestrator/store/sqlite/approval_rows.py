"""The approvals of the SQLite store: the table of `orchestrator.store.file.schema`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from orchestrator.store.encryption import FieldCipher, reveal_body
from orchestrator.store.rules.approval_rules import Filed

# Not by `approval_index`: somebody who takes an answer out of that must not make it unsaid. SQLite itself keeps up
# `approval_records`, by which they are found; it does so only for a condition that is written as in its definition.
OF_REQUEST = """
SELECT r.kind, r.harness, coalesce(h.name, ''), r.step, r.body FROM records r LEFT JOIN harnesses h ON h.id = r.harness
WHERE r.seq >= (SELECT min(seq) FROM approval_index WHERE id = :id)
  AND r.kind IN ('approval_requested', 'approval_answered', 'approval_used') AND instr(r.body, :id) AND r.body ->> '$.id' = :id
ORDER BY r.seq
"""
_ALL = """
SELECT i.id, r.seq, r.time_us, r.kind, r.harness, coalesce(h.name, ''), r.step, r.body
FROM approval_index i JOIN records r ON r.seq = i.seq LEFT JOIN harnesses h ON h.id = r.harness ORDER BY r.seq
"""


_GONE = """
SELECT 1 FROM approval_index i LEFT JOIN records r ON r.seq = i.seq WHERE i.id = ? AND r.seq IS NULL LIMIT 1
"""


class SqliteApprovalRows:
    """The records of approvals in one SQLite file."""

    def __init__(self, db: sqlite3.Connection, cipher: FieldCipher) -> None:
        self._db = db
        self._cipher = cipher

    def newest(self, harness: int, digest: str) -> str | None:
        row = self._db.execute(
            "SELECT id FROM approval_index WHERE harness = ? AND digest = ? ORDER BY seq DESC LIMIT 1", (harness, digest)
        ).fetchone()
        return None if row is None else str(row[0])

    def of(self, id: str) -> Sequence[Filed]:
        found = [_to_filed(self._cipher, *row) for row in self._db.execute(OF_REQUEST, {"id": id})]
        gone = self._db.execute(_GONE, (id,)).fetchone()
        if gone is not None and found:
            # What was there and is not any more may have been a denial: nothing can be said of the request.
            found.append(found[0]._replace(kind="approval_answered", body=""))
        return found

    def file(self, seq: int, id: str, harness: int, digest: str) -> None:
        self._db.execute("INSERT INTO approval_index VALUES (?, ?, ?, ?)", (seq, id, harness, digest))


def all_filed(db: sqlite3.Connection, cipher: FieldCipher) -> Iterator[tuple[str, int, int, Filed]]:
    """Yield id, `seq` and time of every record of an approval, and the record; oldest first."""
    for id, seq, time_us, *rest in db.execute(_ALL):
        yield id, seq, time_us, _to_filed(cipher, *rest)


def _to_filed(cipher: FieldCipher, kind: str, harness: int, name: str, step: int, body: str) -> Filed:
    return Filed(kind, harness, name, step, reveal_body(cipher, kind, body))
