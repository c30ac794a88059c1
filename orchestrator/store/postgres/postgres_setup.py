"""Creating and upgrading the schema of a store on PostgreSQL, and refusing one that this release cannot use."""

from __future__ import annotations

from orchestrator.errors import StoreUnusable
from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_connection import Database
from orchestrator.store.postgres.postgres_schema import AS_JSON, CREATE, FIND_META, MIGRATIONS, SCHEMA, VERSION


def prepare(db: Database, address: Address) -> None:
    """Create the schema if it does not exist, and upgrade that of an earlier release.

    Raises:
        StoreUnusable: it was made by a newer release, or the database cannot hold all characters.
    """
    schema, location = address.schema, address.location
    (encoding,) = db.row("SHOW server_encoding")
    if encoding != "UTF8":
        raise StoreUnusable(f"{location} has encoding {encoding}: expected UTF8; `createdb -E UTF8 -T template0` makes one")
    if find_version(db, address) != VERSION:
        with db.transaction():
            db.execute(CREATE, (schema,))
            version = find_version(db, address)
            if version == 0:
                db.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
                db.execute(SCHEMA)
                db.execute(AS_JSON)
                version = 1
            for earlier in range(version, VERSION):
                db.execute(MIGRATIONS[earlier])
    # Off, the server would acknowledge what it can still lose.
    db.execute("SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'")
    check_version(db, address)


def find_version(db: Database, address: Address) -> int:
    """Return the version of the schema; 0 if there is none."""
    if not db.row(FIND_META, (address.schema,))[0]:
        return 0
    return int(db.row("SELECT version FROM meta")[0])


def check_version(db: Database, address: Address) -> None:
    """Raise `StoreUnusable` unless there is a store of this release."""
    location, version = address.location, find_version(db, address)
    if version == 0:
        raise StoreUnusable(
            f"{location} has no store in schema {address.schema!r}: expected one; check the address, or run something there"
        )
    if version < VERSION:
        raise StoreUnusable(
            f"{location} has schema version {version}: expected {VERSION}; end the programs that run on it, and then "
            "`orchestrator doctor --repair` upgrades it, as does the next program"
        )
    if version > VERSION:
        raise StoreUnusable(
            f"{location} has schema version {version}: expected at most {VERSION}; install the newer release that wrote it"
        )
