"""Of which version of their class the states of a harness are, decided the same way in every store.

What takes a connection reads and writes a SQLite store, within the caller's transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from orchestrator.codec import encode
from orchestrator.errors import UsageError
from orchestrator.store.encryption import FieldCipher
from orchestrator.store.file.schema import ADD_VERSION, GOES_ON_WITH, VERSIONS_OF
from orchestrator.store.store_protocol import Migrate, VersionRow


def version_at(rows: Sequence[VersionRow], step: int) -> int:
    """Return the version of the state after a step: a migration after it does not change what it was."""
    return max(((row.step, row.version) for row in versions_until(rows, step)), default=(0, 1))[1]


def versions_until(rows: Sequence[VersionRow], step: int) -> tuple[VersionRow, ...]:
    """Return what belongs to the states up to a step."""
    return tuple(row for row in rows if row.step < step or not row.seq)


def check_migrate(migrate: Migrate, head: int, version: int) -> None:
    """Refuse a migration that does not follow from what is on record.

    Args:
        head: the last step of the harness.
        version: of what it goes on with.

    Raises:
        UsageError: it does not.
    """
    if (migrate.step, migrate.from_version) != (head, version) or migrate.to_version <= version:
        raise UsageError(
            f"harness number {migrate.harness}: a migration of version {migrate.from_version} after step {migrate.step} to "
            f"{migrate.to_version}: expected one of version {version} after step {head} to a later one; start it again"
        )


def migration_body(migrate: Migrate) -> str:
    """Return the body of the record."""
    return encode({"from_version": migrate.from_version, "to_version": migrate.to_version})


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
