"""Copying a store on PostgreSQL into a SQLite file, which every verb reads. The server's store is only read."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from orchestrator.errors import StoreError, UsageError
from orchestrator.kill_switch import KillSwitch
from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_connection import Database, translated
from orchestrator.store.postgres.postgres_reader import PostgresReader
from orchestrator.store.postgres.postgres_setup import check_version
from orchestrator.store.postgres.postgres_switch import fields_of, read_switches
from orchestrator.store.sqlite.sqlite_store import SqliteStore

_WAIT_S = 10.0
_PAGE = 1000
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
TABLES: Mapping[str, str] = {
    "harnesses": "id, name, class, initial_state, NULL AS owner, epoch, status, attempt, supervision, event, time_us, "
    "mailbox_limit",
    "claims": "harness, epoch, run",
    "state_versions": "harness, step, version, seq",
    "mailbox": "seq, harness, sender, body, consumed_step, id, kind, type, deadline_us",
    "approval_index": "seq, id, harness, digest",
    "pools": "pool, limits, spent, reserved, time_us",
    "open_reservations": "id, harness, epoch, attempt, step, pools, amounts",
    "records": "seq, harness, epoch, attempt, step, time_us, body, kind, state",
}
"""What both have: columns by table. In a copy, no harness has an owner."""


def copy_store(url: str, path: Path, *, schema: str = "orchestrator") -> int:
    """Copy everything as of one moment into a new file, compare it record by record, and return the number of records.

    Programs may run on the store meanwhile. In the copy, no harness has an owner.

    Raises:
        UsageError: there is something at `path` already, or the address is not one.
        StoreUnusable: the server cannot be reached, or has no store there.
        StoreError: the copy is not equal; it must not be used.
    """
    if path.exists():
        raise UsageError(f"{path} exists already: expected a new file for the copy; choose another name, or remove it")
    address = Address(url, schema, _WAIT_S)
    with translated(address.location):
        db = Database(address, _WAIT_S)
        try:
            check_version(db, address)
            _check_whole(db, address.location)
            with _new_store(path) as store, db.transaction(_SNAPSHOT):
                store.take_in({table: (columns, _rows(db, table, columns)) for table, columns in TABLES.items()})
                switches = {name: fields_of(text) for name, text in read_switches(db).items()}
        finally:
            db.close()
    for name, said in switches.items():
        KillSwitch(path).put_on(name, **{key: str(value) for key, value in said.items() if key != "name"})
    return compare(PostgresReader(address), path)


def _check_whole(db: Database, location: str) -> None:
    """Raise `UsageError` for a store that was pruned: the copy would have gaps that no seal explains."""
    count, last = db.row("SELECT count(*), coalesce(max(seq), 0) FROM records")
    if count != last:
        raise UsageError(f"{location} was pruned: expected one with all of its records; back it up with `pg_dump`")


@contextmanager
def _new_store(path: Path) -> Generator[SqliteStore]:
    """Make a store, which is removed again if the block fails."""
    try:
        with closing(SqliteStore(path)) as store:
            yield store
    except BaseException:
        for end in ("", "-wal", "-shm", "-head"):
            Path(f"{path}{end}").unlink(missing_ok=True)
        raise


def _rows(db: Database, table: str, columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table, a page at a time."""
    name = f"copy_{table}"
    db.execute(f"DECLARE {name} NO SCROLL CURSOR FOR SELECT {columns} FROM {table}{' ORDER BY seq' * (table == 'records')}")
    while page := db.rows(f"FETCH {_PAGE} FROM {name}"):
        yield from page


def compare(source: PostgresReader, path: Path) -> int:
    """Return how many records the store in a file has.

    Raises:
        StoreError: one of them is not that of the server.
    """
    seq = count = 0
    with closing(SqliteStore(path)) as copy:
        while page := copy.records(after=seq, limit=_PAGE):
            if page != source.records(after=seq, limit=len(page)):
                raise StoreError(
                    f"{path}: a record after {seq} is not that of {source.location}; remove the copy, and copy again"
                )
            seq, count = page[-1].seq, count + len(page)
    source.close_readers()
    return count
