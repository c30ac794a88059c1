"""Bringing the local copy of a store on PostgreSQL up to date: what was committed since is added to it.

Records, messages, approvals and versions are added by `seq`, which has no gaps and is in the order of commits; of harnesses,
pools, reservations and waiting messages, what has changed is written again. All of it is as of one moment, in one transaction;
if there is much, such as at the first time, it is several, each with the next records, and one that fails leaves those before.
If the store on the server is another one than before, or was put back to an earlier moment, the copy is made anew.

The transaction on the server has ended when the copy is indexed and committed: the server ends one that is idle for long.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from attrs import frozen

from harnesses.files.safe_files import draft_of
from orchestrator.errors import StoreBusy, StoreCorrupt, StoreError, StoreUnusable
from orchestrator.kill_switch import KillSwitch
from orchestrator.store.file.schema import INDEX_NEW
from orchestrator.store.file.schema import VERSION as FILE_VERSION
from orchestrator.store.file.schema_shape import Connection
from orchestrator.store.file.server_copy import Server, note_fleets, note_living
from orchestrator.store.file.summary_folder import remove_summary, writing
from orchestrator.store.integrity.chain_head import Noted
from orchestrator.store.integrity.residue import NOT_PRUNED, Base, read_base
from orchestrator.store.integrity.seals import append_seals, row_hash
from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_connection import LimitedDatabase, array, translated
from orchestrator.store.postgres.postgres_seals import changed_rows
from orchestrator.store.postgres.postgres_setup import check_version
from orchestrator.store.postgres.postgres_switch import fields_of, read_switches
from orchestrator.store.sqlite.sqlite_file import is_database, open_writer
from orchestrator.store.sqlite.sqlite_file import translated as file_translated

WAIT_S = 5.0
"""Seconds for connecting, and for each answer."""
_BUSY_S = 10.0
_PAGE = 2000
"""Most rows that are read at once."""
_PAGE_BYTES = 250_000
"""Most bytes that are read at once, if it is more than one row: what a slow connection brings in a second or two."""
_SLOWEST = 100_000
"""Bytes a second: an answer of this size may take a second longer."""
_PAGES = 40
"""Pages of records in one transaction."""
_INDEX_FROM = 1000
"""Records that are searched rather than indexed."""
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_MOMENT = """
SELECT m.store, coalesce((SELECT max(position) FROM seals WHERE substr(notes, 1, 15) = '[["",["pruned",'), 0), m.ownership,
       (SELECT coalesce(max(seq), 0) FROM records), (SELECT coalesce(sum(commits), 0)::bigint FROM runs),
       (SELECT coalesce(json_agg(run ORDER BY run), '[]')::text FROM leases WHERE until > clock_timestamp())
FROM meta m
"""
"""Equal while nothing has changed."""
_FLEETS = "SELECT DISTINCT fleet FROM nodes ORDER BY fleet"
_CHANGING = "class, owner, epoch, status, attempt, supervision, event, time_us, mailbox_limit"
_PAGED = {
    "records": (
        "seq, harness, epoch, attempt, step, time_us, body, kind, state",
        "octet_length(body) + coalesce(octet_length(state), 0)",
    ),
    "mailbox": ("seq, harness, sender, body, consumed_step, id, kind, type, deadline_us", "octet_length(body)"),
    "approval_index": ("seq, id, harness, digest", "100"),
    "harnesses": (f"id, name, initial_state, {_CHANGING}", "octet_length(initial_state) + octet_length(event)"),
}
"""Columns of the tables to which rows are only added, the first of which counts them; and about how many bytes a row is."""
_NEWEST_ID = 2**31 - 1
_VERSIONS = "harness, step, version, seq"
_POOLS = "pool, limits, spent, reserved, time_us"
_RESERVATIONS = "id, harness, epoch, attempt, step, pools, amounts"
_CLAIMS = """
SELECT c.harness, c.epoch, c.run FROM claims c
JOIN unnest(%s::integer[], %s::integer[]) AS known (harness, epoch) ON c.harness = known.harness AND c.epoch > known.epoch
"""
_ALL = (
    *_PAGED,
    "claims",
    "state_versions",
    "pools",
    "open_reservations",
    "step_index",
    "effect_index",
    "snapshots",
)
_SEAL = """
SELECT position, first_seq, last_seq, notes, hash, marks FROM seals WHERE position > %s ORDER BY position LIMIT 1
"""
_AT = "SELECT harness, epoch, attempt, step, time_us, kind FROM records WHERE seq = "


@frozen
class WholeCopy:
    """A copy with seals, as of one moment."""

    store: str
    """Which store it is of, unlike that of any other."""
    newest: Noted | None
    """The last seal of the server; None if there is none."""
    records: int
    """Number of records that are not under it."""
    base: Base = NOT_PRUNED
    vouched: tuple[str, ...] = ()
    """The rows that were changed since, as only the server's table `unsealed` says; none while programs run."""


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
            StoreError: the copy cannot be written.
        """
        with self._lock, translated(self._server.location), _disk_translated(self._path):
            try:
                db = self._connect()
                if not self._is_current(db):
                    with self._alone():
                        self._take_over(db)
            except BaseException:
                self._disconnect()
                raise

    def copy_whole(self, *, with_rest: bool = True) -> WholeCopy:
        """Make a copy, where there is none, of everything as of one moment, with the seals of the server.

        Args:
            with_rest: whether what the server has not sealed yet gets a seal in the copy.

        Raises:
            StoreUnusable: the server does not answer, or has no store there.
        """
        with translated(self._server.location), _disk_translated(self._path), file_translated(str(self._path)):
            try:
                db = self._connect()
                with closing(open_writer(self._path, _BUSY_S)) as copy, copy.writing():
                    return _copy_whole(db, copy, with_rest=with_rest)
            finally:
                self._disconnect()

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
        try:
            self._catch_up(db)
        except (StoreCorrupt, StoreUnusable) as error:
            if isinstance(error, StoreUnusable) and is_database(self._path):
                raise
            self._remove()
            self._catch_up(db)

    def _catch_up(self, db: LimitedDatabase) -> None:
        with file_translated(str(self._path)), closing(open_writer(self._path, _BUSY_S)) as copy:
            while not self._add(db, copy):
                pass

    def _add(self, db: LimitedDatabase, copy: Connection) -> bool:
        """Add what was committed since, or as much of it as one transaction has; return whether it was all."""
        with copy.writing():
            (store, pruned, *_) = db.row(_MOMENT)
            known = self._known(db, copy, store, pruned)
            with db.transaction(_SNAPSHOT):
                moment, switches = db.row(_MOMENT), read_switches(db)
                ownership, newest, _, living = moment[2:]
                if list(moment[:2]) != [store, pruned] or not _continues(db, copy, known):
                    raise StoreBusy(
                        f"{self._server.location} was replaced or pruned while it was copied: expected one store; try again"
                    )
                upto = _add_rows(db, copy, known, newest, most=_PAGES)
            _index(copy)
            copy.execute("UPDATE meta SET ownership = ?", (ownership,))
        is_all = upto >= int(newest)
        if is_all:
            self._keep_switches(switches)
            note_living(self._path, living)
            note_fleets(self._path, self._server, [fleet for (fleet,) in db.rows(_FLEETS)])
        with draft_of(self._state, mode=0o600) as file:
            file.write(msgspec.json.encode([FILE_VERSION, *(moment if is_all else [store, pruned])]))
        return is_all

    def _known(self, db: LimitedDatabase, copy: Connection, store: str, pruned: int) -> int:
        """Return the `seq` up to which the copy is the store's, after emptying one of another, or with what was pruned."""
        (known,) = copy.execute("SELECT coalesce(max(seq), 0) FROM records").fetchone()
        if self._read_state()[1:3] == [store, pruned] and _continues(db, copy, known):
            return int(known)
        for table in _ALL:
            copy.execute(f"DELETE FROM {table}")
        copy.execute("UPDATE meta SET indexed_seq = 0")
        remove_summary(self._path)
        return 0

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


@contextmanager
def _disk_translated(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path} cannot be brought up to date: {error}; check its disk and folder") from error


def _continues(db: LimitedDatabase, copy: Connection, known: int) -> bool:
    """Return whether the last record of the copy is still that of the server."""
    return not known or db.row(f"{_AT}%s", (known,)) == copy.execute(f"{_AT}?", (known,)).fetchone()


def _copy_whole(db: LimitedDatabase, copy: Connection, *, with_rest: bool) -> WholeCopy:
    with db.transaction(_SNAPSHOT):
        store, _, _, newest, _, living = db.row(_MOMENT)
        _add_rows(db, copy, 0, newest, most=None)
        copy.execute("DELETE FROM seals")
        seal = Noted(0, 0, "")
        for position, first, last, notes, hash, marks in _seals(db):
            copy.execute("INSERT INTO seals VALUES (?, ?, ?, ?, ?, ?)", (position, first, last, notes, hash, marks))
            seal = Noted(position, last, hash)
        unsealed = db.rows("SELECT of_table, key FROM unsealed")
        changes = [*changed_rows(db, unsealed)]
        vouched = () if msgspec.json.decode(living) else tuple(sorted({f"{table} {key}" for table, key in unsealed}))
    if not seal.position:
        return WholeCopy(store, None, int(newest))
    (count,) = copy.execute("SELECT count(*) FROM records WHERE seq > ?", (seal.last_seq,)).fetchone()
    base = read_base(copy)
    if not with_rest:
        return WholeCopy(store, seal, count, base, vouched)
    own = copy.execute("SELECT * FROM meta").fetchone()
    append_seals(copy, seal.position + 1, seal.last_seq, seal.hash, [*changes, ("meta", [1], row_hash(own))])
    return WholeCopy(store, seal, count, base, vouched)


def _seals(db: LimitedDatabase) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the seals, one at a time: there may be megabytes in each."""
    after = -(1 << 62)
    while row := db.row(_SEAL, (after,)):
        yield row
        after = row[0]


def _add_rows(db: LimitedDatabase, copy: Connection, known: int, newest: int, *, most: int | None) -> int:
    """Add what comes after the record `known`, and return the `seq` of the last record added: `newest`, or an earlier one."""
    upto = known
    _consume(db, copy)
    for last, page in islice(pages(db, "records", known, newest), most):
        _insert(copy, "records", _PAGED["records"][0], page)
        upto = last
    for table in ("mailbox", "approval_index"):
        for _, page in pages(db, table, known, upto):
            _insert(copy, table, _PAGED[table][0], page)
    _add_harnesses(db, copy, known, upto)
    _replace(db, copy, "pools", _POOLS)
    _replace(db, copy, "open_reservations", _RESERVATIONS)
    return upto


def pages(db: LimitedDatabase, table: str, after: int, upto: int) -> Iterator[tuple[int, list[Any]]]:
    """Yield the rows of a table from `after` to `upto`, a page at a time, each with the number of its last row."""
    columns, size = _PAGED[table]
    number = columns.partition(",")[0]
    between = f"FROM {table} WHERE {number} > %s AND {number} <= %s ORDER BY {number}"
    ending = f"""
    SELECT max({number}), max(total)::bigint
    FROM (SELECT {number}, bytes, sum(bytes) OVER (ORDER BY {number}) AS total
          FROM (SELECT {number}, {size} AS bytes {between} LIMIT {_PAGE}) AS next) AS summed
    WHERE total <= {_PAGE_BYTES} OR total = bytes
    """
    while after < upto:
        last, count = db.row(ending, (after, upto))
        if last is None:
            return
        with db.waiting_longer(count / _SLOWEST):
            page = db.rows(f"SELECT {columns} {between}", (after, last))
        yield last, page
        after = last


def _insert(copy: Connection, table: str, columns: str, rows: Iterable[Sequence[Any]]) -> None:
    places = ", ".join("?" * len(columns.split(", ")))
    copy.executemany(f"INSERT INTO {table} ({columns}) VALUES ({places})", rows)


def _add_harnesses(db: LimitedDatabase, copy: Connection, known: int, upto: int) -> None:
    """Add new harnesses, with the versions of their states, and write again what has changed of the others."""
    (last,) = copy.execute("SELECT coalesce(max(id), 0) FROM harnesses").fetchone()
    before = {row[0]: row for row in copy.execute(f"SELECT id, {_CHANGING} FROM harnesses")}
    rows = db.rows(f"SELECT id, {_CHANGING} FROM harnesses WHERE id <= %s", (last,))
    changed = [row for row in rows if tuple(row) != before.get(row[0])]
    epochs = {row[0]: before[row[0]][3] for row in changed if row[3] != before[row[0]][3]}
    assigned = ", ".join(f"{column} = ?" for column in _CHANGING.split(", "))
    copy.executemany(f"UPDATE harnesses SET {assigned} WHERE id = ?", [(*row[1:], row[0]) for row in changed])
    for _, page in pages(db, "harnesses", last, _NEWEST_ID):
        _insert(copy, "harnesses", _PAGED["harnesses"][0], page)
        epochs |= dict.fromkeys((row[0] for row in page), 0)
    if epochs:
        found = db.rows(_CLAIMS, (array([*epochs]), array([*epochs.values()])))
        _insert(copy, "claims", "harness, epoch, run", found)
    _insert(
        copy,
        "state_versions",
        _VERSIONS,
        db.rows(f"SELECT {_VERSIONS} FROM state_versions WHERE seq <= %s AND (seq > %s OR harness > %s)", (upto, known, last)),
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
