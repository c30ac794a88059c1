"""Creating and upgrading the schema of a store on PostgreSQL, and refusing one that this release cannot use."""

from __future__ import annotations

from orchestrator.errors import StoreUnusable
from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_connection import Database
from orchestrator.store.postgres.postgres_schema import AS_JSON, CREATE, FIND_META, MIGRATIONS, SCHEMA, VERSION
from orchestrator.store.postgres.postgres_seals import seal_anew

_LIVING = """
SELECT count(*), coalesce(max(extract(epoch FROM until - clock_timestamp())), 0)::float8
FROM leases WHERE until > clock_timestamp()
"""


def prepare(db: Database, address: Address) -> None:
    """Create the schema if it does not exist, and upgrade that of an earlier release.

    Raises:
        StoreUnusable: it was made by a newer release, programs of an earlier release run on it, or the database cannot hold
            all characters.
    """
    schema, location = address.schema, address.location
    (encoding,) = db.row("SHOW server_encoding")
    if encoding != "UTF8":
        raise StoreUnusable(f"{location} has encoding {encoding}: expected UTF8; `createdb -E UTF8 -T template0` makes one")
    if find_version(db, address) != VERSION:
        with db.transaction():
            db.execute(CREATE, (schema,))
            version = find_version(db, address)
            is_new = version == 0
            if is_new:
                db.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
                db.execute(SCHEMA)
                db.execute(AS_JSON)
                version = 1
            elif version < VERSION:
                _check_at_rest(db, location, version)
            for earlier in range(version, VERSION):
                db.execute(MIGRATIONS[earlier])
            if version < VERSION:
                seal_anew(db, 0 if is_new else version)
    check_version(db, address)


def _check_at_rest(db: Database, location: str, version: int) -> None:
    """Raise `StoreUnusable` if programs run on the store: those of an earlier release would not know what is new in it."""
    count, left_s = db.row(_LIVING)
    if count:
        raise StoreUnusable(
            f"{location} has schema version {version}, and leases of {count} programs of an earlier release, which last up to "
            f"{left_s:.0f} s more: expected none while it is upgraded to {VERSION}, since they would not know what is new; "
            "end them, or wait until the leases of those that were killed have lapsed, and start again"
        )


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
