"""Copying a store in a file into a new schema on a PostgreSQL server, to go on there. The file is only read."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from harnesses.data.large_values import stored_file
from orchestrator.errors import StoreError, UsageError
from orchestrator.kill_switch import KillSwitch
from orchestrator.operating.postgres_copy import TABLES, compare
from orchestrator.store.encryption import hidden_field
from orchestrator.store.file.run_lock import running_on
from orchestrator.store.file.server_copy import Server
from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_connection import Database, LimitedDatabase, translated
from orchestrator.store.postgres.postgres_reader import PostgresReader
from orchestrator.store.postgres.postgres_setup import prepare
from orchestrator.store.sqlite.sqlite_file import open_reader
from orchestrator.store.sqlite.sqlite_file import translated as translated_file

_WAIT_S = 60.0
_GAP = "SELECT count(*), coalesce(max(seq), 0) FROM records"
_ENCRYPTED = "SELECT 'state', initial_state FROM harnesses WHERE initial_state GLOB 'encrypted:*'"
_SUSPECTS = "SELECT kind, body FROM records WHERE instr(body, 'encrypted:v1:') OR instr(body, '\"file\"')"
_USED = "SELECT EXISTS (SELECT 1 FROM records) OR EXISTS (SELECT 1 FROM harnesses)"


def copy_to_server(path: Path, server: Server) -> int:
    """Copy everything into a schema that has nothing in it, compare it, and return the number of records.

    Raises:
        UsageError: the file is not one that a server can have: encrypted, pruned, or with values in files; a program runs on
            it; or there is something in the schema already.
        StoreError: the server does not answer, or the copy is not equal; then it must not be used.
    """
    if any(True for _ in running_on(path.resolve())):
        raise UsageError(f"{path}: a program runs on it: expected a store at rest; end the program first")
    address = Address(server.url, server.schema, 2 * _WAIT_S)
    with closing(open_reader(path)) as source, translated_file(str(path)):
        source.execute("BEGIN")
        _check_plain(source, path)
        with translated(address.location):
            db = LimitedDatabase(address, _WAIT_S)
            try:
                prepare(db, address)
                with db.transaction():
                    _fill(db, source, server, KillSwitch(path).which())
                _check_tables(db, source, server)
            finally:
                db.close()
    return compare(PostgresReader(address), path)


def _check_plain(source: sqlite3.Connection, path: Path) -> None:
    """Raise `UsageError` for a store that has what only a file can have."""
    count, last = source.execute(_GAP).fetchone()
    if count != last:
        raise UsageError(f"{path} was pruned: expected a store with all of its records; go on with it as a file")
    for kind, body in (*source.execute(_ENCRYPTED), *source.execute(_SUSPECTS)):
        if kind == "state" or hidden_field(kind, body) is not None:
            raise UsageError(f"{path} is encrypted: expected a store that is not, for a server; go on with it as a file")
        if stored_file(kind, body) is not None:
            raise UsageError(f"{path} keeps large values in files: expected a store without; go on with it as a file")


def _fill(db: Database, source: sqlite3.Connection, server: Server, switches: Mapping[str, Mapping[str, Any]]) -> None:
    db.row("SELECT * FROM begin_commit('')")
    if db.row(_USED)[0]:
        raise UsageError(
            f"{server.location} has records already: expected an empty schema; name another one, as in ADDRESS?schema=NAME"
        )
    for table, columns in TABLES.items():
        db.copy_in(table, _names(columns), source.execute(f"SELECT {columns} FROM {table}"))
    said = ((name, msgspec.json.encode({**fields, "name": name}).decode()) for name, fields in switches.items())
    db.copy_in("kill_switches", "name, said", said)
    db.execute("UPDATE meta SET ownership = ownership + 1")


def _check_tables(db: Database, source: sqlite3.Connection, server: Server) -> None:
    """Raise `StoreError` unless every table but that of records, which `compare` reads, has the same rows."""
    for table, columns in TABLES.items():
        if table != "records" and set(db.rows(f"SELECT {columns} FROM {table}")) != set(
            source.execute(f"SELECT {columns} FROM {table}")
        ):
            raise StoreError(f"{server.location}: {table} are not those of the file; drop the schema, and copy again")


def _names(columns: str) -> str:
    return ", ".join(name.split()[-1] for name in columns.split(", "))
