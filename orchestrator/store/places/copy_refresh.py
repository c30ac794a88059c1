"""Bringing the local copy of a store on PostgreSQL up to date: what was committed since is added to it.

Records, messages, approvals and versions are added by `seq`, which has no gaps and is in the order of commits; of harnesses,
pools, reservations and waiting messages, what has changed is written again. All of it is as of one moment, in one transaction.
If the store on the server is another one than before, or was put back to an earlier moment, the copy is made anew.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from orchestrator.errors import StoreBusy, StoreCorrupt, StoreUnusable
from orchestrator.kill_switch import KillSwitch
from orchestrator.store.file.schema import INDEX_NEW
from orchestrator.store.file.schema import VERSION as FILE_VERSION
from orchestrator.store.file.schema_shape import Connection
from orchestrator.store.file.server_copy import Server, note_living
from orchestrator.store.file.summary_folder import remove_summary, writing
from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_connection import LimitedDatabase, array, translated
from orchestrator.store.postgres.postgres_setup import check_version
from orchestrator.store.postgres.postgres_switch import fields_of, read_switches
from orchestrator.store.sqlite.sqlite_file import is_database, open_writer

WAIT_S = 5.0
"""Seconds for connecting, and for each answer."""
_BUSY_S = 10.0
_PAGE = 2000
_INDEX_FROM = 1000
"""Records that are searched rather than indexed."""
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_MOMENT = """
SELECT m.store, m.ownership, (SELECT coalesce(max(seq), 0) FROM records), (SELECT coalesce(sum(commits), 0)::bigint FROM runs),
       (SELECT coalesce(json_agg(run ORDER BY run), '[]')::text FROM leases WHERE until > clock_timestamp())
FROM meta m
"""
"""Equal while nothing has changed."""
_BY_SEQ = {
    "records": "seq, harness, epoch, attempt, step, time_us, body, kind, state",
    "mailbox": "seq, harness, sender, body, consumed_step, id, kind, type, deadline_us",
    "approval_index": "seq, id, harness, digest",
}
_VERSIONS = "harness, step, version, seq"
_MADE = "id, name, initial_state"
_CHANGING = "class, owner, epoch, status, attempt, supervision, event, time_us, mailbox_limit"
_POOLS = "pool, limits, spent, reserved, time_us"
_RESERVATIONS = "id, harness, epoch, attempt, step, pools, amounts"
_CLAIMS = """
SELECT c.harness, c.epoch, c.run FROM claims c
JOIN unnest(%s::integer[], %s::integer[]) AS known (harness, epoch) ON c.harness = known.harness AND c.epoch > known.epoch
"""
_ALL = (
    *_BY_SEQ,
    "harnesses",
    "claims",
    "state_versions",
    "pools",
    "open_reservations",
    "step_index",
    "effect_index",
    "snapshots",
)
_AT = "SELECT harness, epoch, attempt, step, time_us, kind FROM records WHERE seq = "


class CopyRefresh:
    """Keeps one local copy. The connection to the server is kept in between; one thread at a time refreshes."""

    def __init__(self, path: Path, server: Server) -> None:
        self._path = path
        self._state = path.with_name("state.json")
        self._server = server
        self._address = Address(server.url, server.schema, 2 * WAIT_S)
        self._db: LimitedDatabase | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def refresh(self) -> None:
        """Bring the copy up to date with what is committed now.

        Raises:
            StoreUnusable: the server does not answer, or has no store there.
        """
        with self._lock, translated(self._server.location):
            try:
                db = self._connect()
                if not self._is_current(db):
                    with self._alone():
                        self._take_over(db)
            except BaseException:
                self._disconnect()
                raise

    def _connect(self) -> LimitedDatabase:
        if self._db is not None and (self._db.is_lost or os.getpid() != self._pid):
            self._disconnect()
        if self._db is None:
            db = self._db = LimitedDatabase(self._address, WAIT_S)
            self._pid = os.getpid()
            check_version(db, self._address)
        return self._db

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None and os.getpid() == self._pid:
            with suppress(Exception):
                db.close()

    @contextmanager
    def _alone(self) -> Generator[None]:
        with writing(self._path.parent) as is_locked:
            if not is_locked:
                raise StoreBusy(f"{self._path} is being written by another process for too long: expected its end; try again")
            yield

    def _is_current(self, db: LimitedDatabase) -> bool:
        moment = db.row(_MOMENT)
        return self._path.exists() and self._read_state() == [FILE_VERSION, *moment]

    def _read_state(self) -> list[Any]:
        try:
            return msgspec.json.decode(self._state.read_bytes(), type=list[Any])
        except (OSError, msgspec.DecodeError):
            return []

    def _take_over(self, db: LimitedDatabase) -> None:
        with db.transaction(_SNAPSHOT):
            moment = db.row(_MOMENT)
            state, is_same = [FILE_VERSION, *moment], moment[0] in self._read_state()[1:2]
            try:
                self._write(db, moment[1], is_same=is_same)
            except (StoreCorrupt, StoreUnusable) as error:
                if isinstance(error, StoreUnusable) and is_database(self._path):
                    raise
                self._remove()
                db.execute("CLOSE ALL")
                self._write(db, moment[1], is_same=False)
            switches = read_switches(db)
        self._keep_switches(switches)
        note_living(self._path, moment[4])
        self._state.write_bytes(msgspec.json.encode(state))

    def _write(self, db: LimitedDatabase, ownership: int, *, is_same: bool) -> None:
        with closing(open_writer(self._path, _BUSY_S)) as copy, copy.writing():
            (known,) = copy.execute("SELECT coalesce(max(seq), 0) FROM records").fetchone()
            if not is_same or not _continues(db, copy, known):
                for table in _ALL:
                    copy.execute(f"DELETE FROM {table}")
                copy.execute("UPDATE meta SET indexed_seq = 0")
                remove_summary(self._path)
                known = 0
            _add_harnesses(db, copy, known)
            _consume(db, copy)
            for table, columns in _BY_SEQ.items():
                _insert(copy, table, columns, _pages(db, table, columns, known))
            _replace(db, copy, "pools", _POOLS)
            _replace(db, copy, "open_reservations", _RESERVATIONS)
            _index(copy)
            copy.execute("UPDATE meta SET ownership = ?", (ownership,))

    def _remove(self) -> None:
        """Remove a copy that cannot be used, such as one that a full disk has left."""
        for end in ("", "-wal", "-shm"):
            Path(f"{self._path}{end}").unlink(missing_ok=True)

    def _keep_switches(self, switches: dict[str, str]) -> None:
        """Have the folder beside the copy say which kill switches are on."""
        beside = KillSwitch(self._path)
        before = beside.which()
        for name in before.keys() - switches.keys():
            beside.take_off(name)
        for name, text in switches.items():
            said = {key: str(value) for key, value in fields_of(text).items() if key != "name"}
            if before.get(name) != {**said, "name": name}:
                beside.put_on(name, **said)


def _continues(db: LimitedDatabase, copy: Connection, known: int) -> bool:
    """Return whether the last record of the copy is still that of the server."""
    return not known or db.row(f"{_AT}%s", (known,)) == copy.execute(f"{_AT}?", (known,)).fetchone()


def _pages(db: LimitedDatabase, table: str, columns: str, known: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table with a later `seq`, read a page at a time."""
    db.execute(f"DECLARE new_{table} NO SCROLL CURSOR FOR SELECT {columns} FROM {table} WHERE seq > {known} ORDER BY seq")
    while page := db.rows(f"FETCH {_PAGE} FROM new_{table}"):
        yield from page
        if len(page) < _PAGE:
            return


def _insert(copy: Connection, table: str, columns: str, rows: Iterable[Sequence[Any]]) -> None:
    places = ", ".join("?" * len(columns.split(", ")))
    copy.executemany(f"INSERT INTO {table} ({columns}) VALUES ({places})", rows)


def _add_harnesses(db: LimitedDatabase, copy: Connection, known: int) -> None:
    """Add new harnesses, with the versions of their states, and write again what has changed of the others."""
    (last,) = copy.execute("SELECT coalesce(max(id), 0) FROM harnesses").fetchone()
    made = db.rows(f"SELECT {_MADE}, {_CHANGING} FROM harnesses WHERE id > %s ORDER BY id", (last,))
    before = {row[0]: row for row in copy.execute(f"SELECT id, {_CHANGING} FROM harnesses")}
    rows = db.rows(f"SELECT id, {_CHANGING} FROM harnesses WHERE id <= %s", (last,))
    changed = [row for row in rows if tuple(row) != before.get(row[0])]
    epochs = {row[0]: before[row[0]][3] for row in changed if row[3] != before[row[0]][3]} | dict.fromkeys(
        (row[0] for row in made), 0
    )
    assigned = ", ".join(f"{column} = ?" for column in _CHANGING.split(", "))
    copy.executemany(f"UPDATE harnesses SET {assigned} WHERE id = ?", [(*row[1:], row[0]) for row in changed])
    _insert(copy, "harnesses", f"{_MADE}, {_CHANGING}", made)
    if epochs:
        found = db.rows(_CLAIMS, (array([*epochs]), array([*epochs.values()])))
        _insert(copy, "claims", "harness, epoch, run", found)
    _insert(
        copy,
        "state_versions",
        _VERSIONS,
        db.rows(f"SELECT {_VERSIONS} FROM state_versions WHERE seq > %s OR harness > %s", (known, last)),
    )


def _consume(db: LimitedDatabase, copy: Connection) -> None:
    """Note which messages that waited in the copy have been consumed."""
    waiting = [seq for (seq,) in copy.execute("SELECT seq FROM mailbox WHERE consumed_step IS NULL")]
    if waiting:
        asked = "SELECT consumed_step, seq FROM mailbox WHERE seq = ANY(%s::bigint[]) AND consumed_step IS NOT NULL"
        copy.executemany("UPDATE mailbox SET consumed_step = ? WHERE seq = ?", db.rows(asked, (array(waiting),)))


def _replace(db: LimitedDatabase, copy: Connection, table: str, columns: str) -> None:
    """Write a small table anew, if it has changed."""
    rows = set(db.rows(f"SELECT {columns} FROM {table}"))
    if rows != set(copy.execute(f"SELECT {columns} FROM {table}")):
        copy.execute(f"DELETE FROM {table}")
        _insert(copy, table, columns, sorted(rows))


def _index(copy: Connection) -> None:
    (newest,) = copy.execute("SELECT coalesce(max(seq), 0) FROM records").fetchone()
    (indexed,) = copy.execute("SELECT indexed_seq FROM meta").fetchone()
    if newest - indexed >= _INDEX_FROM:
        for statement in INDEX_NEW:
            copy.execute(statement)
        copy.execute("UPDATE meta SET indexed_seq = ?", (newest,))
