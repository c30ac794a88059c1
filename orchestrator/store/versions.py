"""Of which version of their class the states of a harness are, decided the same way in every store. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.codec import encode
from orchestrator.errors import UsageError
from orchestrator.store.protocol import Migrate, VersionRow


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
