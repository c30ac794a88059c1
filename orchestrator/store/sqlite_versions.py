"""The versions of states in a SQLite store, and the state that a harness goes on with. Within the caller's transaction."""

from __future__ import annotations

import sqlite3

from orchestrator.store.encryption import FieldCipher
from orchestrator.store.protocol import VersionRow
from orchestrator.store.version_schema import ADD_VERSION, GOES_ON_WITH, VERSIONS_OF


def versions_of(db: sqlite3.Connection, harness: int) -> list[VersionRow]:
    """Return the rows of one harness, in order of step and version."""
    return [VersionRow(*row) for row in db.execute(VERSIONS_OF, (harness,))]


def add_version(db: sqlite3.Connection, harness: int, row: VersionRow) -> None:
    """Note where states begin to have a version."""
    db.execute(ADD_VERSION, (harness, *row))


def goes_on_with(db: sqlite3.Connection, harness: int, head: int, cipher: FieldCipher) -> tuple[int, str | None]:
    """Return the version of what a harness goes on with, and a state that was migrated after its last step, `head`."""
    step, version, state = db.execute(GOES_ON_WITH, (harness,)).fetchone() or (0, 1, None)
    return version, None if state is None or step < head else cipher.reveal("state", state)
