"""The seals of a store on PostgreSQL: the chain of `orchestrator.store.integrity.seals`, made by one program at a time.

    commit      writes records, and triggers note in `unsealed` which rows of other tables it has changed: only on connections
                of this package, which say so with a setting
    sealing     every program tries to hold one lock of the database; the holder seals what is new every `SEAL_EVERY_S` and at
                its end, in transactions of its own, so that no commit waits
    heads       every program keeps the newest seal on its own disk, where whoever has the database cannot change it

Invariant: a seal is appended only to a chain that contains the seal which this program saw last.
"""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any
from zlib import crc32

from orchestrator.errors import OrchestratorError
from orchestrator.store.integrity.chain_head import Noted
from orchestrator.store.integrity.seals import BETWEEN, Note, row_hash, trailer
from orchestrator.store.postgres.machine_head import LAST_SEAL, MachineHead
from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_connection import Database, LimitedDatabase, is_connection_error, translated
from orchestrator.store.postgres.postgres_schema import NOTED
from orchestrator.text.terminal_text import say

WAIT_S = 5.0
"""Seconds for connecting, and for each answer."""
_MOST = 50_000
"""Records under one seal."""
_ROWS = 512
_BYTES = 4_000_000
"""Limits on the records, and on their bytes, that are hashed at a time."""
_KEYS = 10_000

_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ"
_ALONE = "LOCK TABLE seals IN EXCLUSIVE MODE"
_HOLD = "SELECT pg_try_advisory_lock(hashtext('orchestrator seals'), hashtext(%s))"
_INSERT = "INSERT INTO seals (position, first_seq, last_seq, notes, hash, marks) VALUES (%s, %s, %s, %s, %s, %s)"
_TEXT = """
concat('[', harness, ',', epoch, ',', attempt, ',', step, ',', time_us, ',', to_json(kind), ',', octet_length(body), ',',
       coalesce(octet_length(state)::text, 'null'), ']', body, state)
"""
"""`seals.RECORD_TEXT`, as PostgreSQL makes it."""
_NEXT = f"""
SELECT count(*), min(seq), max(seq), coalesce(string_agg({_TEXT}, chr(30) ORDER BY seq), '')
FROM (SELECT *, sum(bytes) OVER (ORDER BY seq) AS total
      FROM (SELECT *, octet_length(body) + coalesce(octet_length(state), 0) AS bytes FROM records
            WHERE seq > %s ORDER BY seq LIMIT %s) AS next) AS summed
WHERE total <= {_BYTES} OR total = bytes
"""
"""One row for many records. The first of them comes whatever its size."""
_NUMBERS = "SELECT seq FROM records WHERE seq > %s ORDER BY seq LIMIT %s"


class SealingThread:
    """Seals a store, or waits until it is this program's turn, and keeps its head on this machine.

    Args:
        folder: where the head is kept; None to keep none.

    Raises:
        StoreCorrupt: the chain does not contain the head of this machine, or it is that of another store.
    """

    def __init__(self, address: Address, db: Database, folder: Path | None, every_s: float) -> None:
        self._address = address
        self._every_s = every_s
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._said = ""
        self._has_failed = False
        self._db: LimitedDatabase | None = None
        self._head = MachineHead(db, folder, address.location)
        try:
            self._head.follow(db)
        except BaseException:
            self._head.close()
            raise
        self._thread = threading.Thread(target=self._seal_all, name="orchestrator-seals", daemon=True)

    def start(self) -> None:
        """Seal from now on."""
        self._thread.start()

    def seal(self) -> None:
        """Seal everything new, if it is this program's turn; otherwise note the newest seal of the one whose turn it is.

        Raises:
            StoreError: the server does not answer, or the chain does not contain the newest seal that was noted.
        """
        with self._lock, translated(self._address.location):
            try:
                if self._db is None:
                    self._db = LimitedDatabase(self._address, WAIT_S)
                self._head.follow(self._db)
                if self._db.row(_HOLD, (self._address.schema,))[0]:
                    while (newest := seal_new(self._db)) is not None:
                        self._head.note(newest)
            except BaseException:
                self._disconnect()
                raise

    def stop(self, *, is_over: bool) -> None:
        """Seal what is left, unless the run is over, and end."""
        self._stopped.set()
        if not is_over:
            with suppress(OrchestratorError):
                self.seal()
        elif (db := self._db) is not None:
            db.cut()
        if self._thread.is_alive():
            self._thread.join(WAIT_S)
        self._disconnect()
        self._head.close()

    def _seal_all(self) -> None:
        while not self._stopped.wait(self._every_s):
            try:
                self.seal()
            except OrchestratorError as error:
                self._tell(error)
            else:
                if self._said:
                    self._say(f"orchestrator: {self._address.location} is reached again, and sealed")
                self._said, self._has_failed = "", False

    def _tell(self, error: OrchestratorError) -> None:
        """Say what keeps this program from sealing, once.

        A server that is away is told at the second attempt: at the first, it may only have ended this connection.
        """
        is_away = error.__cause__ is not None and is_connection_error(error.__cause__)
        if is_away and not self._has_failed:
            self._has_failed = True
        elif str(error) != self._said:
            self._said = str(error)
            what = "waiting for the server, and nothing is sealed meanwhile" if is_away else "nothing is sealed"
            self._say(f"orchestrator: {what}: {error}")

    def _say(self, text: str) -> None:
        if not self._stopped.is_set():
            with suppress(OSError, ValueError):  # stderr is closed
                say(text)

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with suppress(Exception):
                db.close()


def seal_anew(db: Database, version: int) -> None:
    """Seal a store that was just created or upgraded, within the transaction that did it: all its rows are noted.

    Args:
        version: its earlier schema version; 0 if it is new.
    """
    notes: list[Note] = [("", ["anew", version], token_hex(16))]
    for table, (keys, columns) in NOTED.items():
        rows = db.rows(f"SELECT {', '.join(keys)}, {columns} FROM {table} ORDER BY {', '.join(keys)}")
        notes += [(table, list(row[: len(keys)]), row_hash(row[len(keys) :])) for row in rows]
    db.execute("DELETE FROM unsealed")
    newest = append_seal(db, notes)
    while newest is not None:
        newest = append_seal(db, [])


@contextmanager
def sealing(db: Database) -> Generator[None]:
    """Begin a transaction that writes a seal, as of a moment after any other such transaction."""
    with db.transaction(_SNAPSHOT):
        db.execute(_ALONE)  # It takes no snapshot: that comes with the next statement.
        yield


def seal_new(db: Database) -> Noted | None:
    """Write one seal over what is new; return it, or None if there was nothing."""
    with sealing(db):
        notes = [*changed_rows(db, db.rows("DELETE FROM unsealed RETURNING of_table, key"))]
        return append_seal(db, notes)


def changed_rows(db: Database, changes: Iterable[tuple[str, str]]) -> Iterator[Note]:
    """Yield a note on each row that was changed, as it is now."""
    by_table: dict[str, set[str]] = {}
    for table, key in changes:
        by_table.setdefault(table, set()).add(key)
    for table, texts in sorted(by_table.items()):
        keys, columns = NOTED[table]
        wanted = sorted(map(json.loads, texts))
        for start in range(0, len(wanted), _KEYS):
            some = wanted[start : start + _KEYS]
            rows = db.rows(_select(table, keys, columns), [*map(list, zip(*some, strict=True))])
            there = {row[: len(keys)]: row[len(keys) :] for row in rows}
            for key in some:
                row = there.get(tuple(key))
                yield table, key, None if row is None else row_hash(row)


def _select(table: str, keys: Mapping[str, str], columns: str) -> str:
    wanted = ", ".join(f"%s::{of_type}[]" for of_type in keys.values())
    names = ", ".join(keys)
    return f"SELECT {names}, {columns} FROM {table} WHERE ({names}) IN (SELECT * FROM unnest({wanted}))"


def append_seal(db: Database, notes: list[Note]) -> Noted | None:
    """Write a seal over the records after the last one, with notes; return it, or None if there was nothing to cover.

    A seal ends at a gap in the numbers, and the next begins after it, so that the gap stays visible.
    """
    position, last_seq, before = db.row(LAST_SEAL) or (0, 0, "")
    digest = sha256(before.encode())
    first, last, marks = _take_in(db, last_seq, digest)
    if last < first and not notes:
        return None
    text = json.dumps(notes, separators=(",", ":"))
    digest.update(trailer(position + 1, first, last, text))
    db.execute(_INSERT, (position + 1, first, last, text, digest.hexdigest(), struct.pack(f"<{len(marks)}I", *marks)))
    return Noted(position + 1, last, digest.hexdigest())


def _take_in(db: Database, after: int, digest: Any) -> tuple[int, int, list[int]]:
    """Hash the records after one, up to a gap or the limit; return the first, the last, and their marks."""
    first, last = after + 1, after
    marks: list[int] = []
    limit = _ROWS
    while len(marks) < _MOST:
        count, oldest, newest, text = db.row(_NEXT, (last, limit))
        if not count or (marks and oldest != last + 1):
            break
        if newest - oldest != count - 1:
            limit = sum(seq == at for at, (seq,) in enumerate(db.rows(_NUMBERS, (last, limit)), oldest))
            continue
        joined = text.encode()
        if count > 1 and joined.count(BETWEEN) != count - 1:
            limit = 1
            continue
        if not marks:
            first = oldest
        digest.update(joined)
        digest.update(BETWEEN)
        marks += map(crc32, joined.split(BETWEEN) if count > 1 else (joined,))
        last, limit = newest, _ROWS
    return first, last, marks
