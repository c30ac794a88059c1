"""The records of harnesses that harnesses have started, in the SQLite store."""

from __future__ import annotations

import sqlite3

from harnesses.attachments import CHILD
from orchestrator.lifecycle import Status
from orchestrator.records import ChildRecord, name_in
from orchestrator.store.encryption import FieldCipher, reveal_body
from orchestrator.store.file.schema import CHILDREN, CHILDREN_OF


def read_children(db: sqlite3.Connection, cipher: FieldCipher, harness: int | None = None) -> tuple[ChildRecord, ...]:
    """Return what one harness, or all of them, have started, oldest first.

    Args:
        harness: the store's number of it.
    """
    rows = db.execute(CHILDREN) if harness is None else db.execute(CHILDREN_OF, (harness,))
    return tuple(
        ChildRecord(
            harness=parent,
            step_number=step,
            seq=seq,
            name=name_in(body) if name is None else name,
            body=reveal_body(cipher, CHILD, body),
            status=None if status is None else Status(status),
            harness_class=harness_class or "",
        )
        for parent, step, seq, body, name, status, harness_class in rows
    )
