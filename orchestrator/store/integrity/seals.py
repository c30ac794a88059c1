"""Seals, which make tampering evident. The store writes them in the transaction of the records they cover.

A seal covers the records since the last one, and the rows of other tables that have changed since, each by its current hash.
Its own hash covers that and the hash of the seal before. `orchestrator.store.integrity.proof` and
`orchestrator/verify_alone.py` verify:

    hash    = sha256(hash before + record + "\\x1e" … + "\\n<position> <first_seq> <last_seq>\\n<notes>")
    record  = [harness,epoch,attempt,step,time_us,"kind",bytes of the body,bytes of the state or null] body state
    marks   = crc32(record), four bytes each, little-endian, for each number from `first_seq` to `last_seq`
    notes   = [[table, key, hash of the row or null if it is gone], …], JSON; table "" is for notes on the seal itself
    of row  = the first 32 digits of sha256(ascii(row)): Python's text of a tuple, which is unique

`orchestrator.store.integrity.residue` describes what pruning makes of it.

Every commit ends with a seal, except those of only steps, effects and output. These are sealed with the next one: after
`INDEX_EVERY` records or `SEAL_EVERY_S` seconds at the latest, when the program ends, or when the next one opens the store.
"""

from __future__ import annotations

import json
import re
import sqlite3
import struct
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeAlias
from zlib import crc32

from orchestrator.errors import StoreCorrupt
from orchestrator.store.file.schema import MIGRATIONS, VERSION
from orchestrator.store.file.schema_shape import Connection
from orchestrator.store.integrity.chain_head import Head, Noted, begin_head
from orchestrator.store.integrity.record_bytes import cap_texts, records, take_in

SEAL_EVERY_S = 10.0
"""Seconds after a seal from which on the next commit is sealed, whatever is in it."""

UNSEALED_KINDS = frozenset({"step", "intent", "outcome", "output"})
"""Kinds of records that may wait for the next seal; only the owner of their harness writes them."""

DERIVED = frozenset({"records", "seals", "step_index", "effect_index", "snapshots"})
WATCHED: tuple[str, ...] = tuple(
    table for script in MIGRATIONS for table in re.findall(r"CREATE TABLE (\w+)", script) if table not in DERIVED
)
"""Tables whose rows change; each change is noted. Other tables only grow, and duplicate what the records say."""

BETWEEN = b"\x1e"
"""Separator after each record. JSON has no such character; if a text contains it, the lengths keep records apart."""
_CHUNK = 512
_CHUNK_BYTES = 4_000_000
"""Limits on the records and bytes hashed at a time. Each chunk waits for the interpreter twice, up to 5 ms while the loop
computes; larger ones cost more in memory allocation than they save."""
_HEADER = "json_array(harness, epoch, attempt, step, time_us, kind, length(CAST(body AS BLOB)), length(CAST(state AS BLOB)))"
RECORD_TEXT = f"{_HEADER} || body || coalesce(state, '')"
"""SQL for the hashed text of a record."""
_TAIL = f"""
SELECT count(*), min(seq), max(seq), CAST(group_concat(text, char(30)) AS BLOB)
FROM (SELECT seq, {RECORD_TEXT} AS text FROM records WHERE seq > ? ORDER BY seq LIMIT ?)
"""
"""One row for many records, since SQLite releases the interpreter for each row and then waits to get it back."""
_NUMBERS = "SELECT count(*), min(seq), max(seq) FROM (SELECT seq FROM records WHERE seq > ? ORDER BY seq LIMIT ?)"
_LAST = "SELECT position, last_seq, hash FROM seals ORDER BY position DESC LIMIT 1"
_STRANGE = f"""
SELECT r.seq, r.kind FROM records r LEFT JOIN harnesses h ON h.id = r.harness
WHERE r.seq > ? AND (h.owner IS NULL OR h.epoch <> r.epoch OR r.kind NOT IN ({", ".join(map(repr, sorted(UNSEALED_KINDS)))}))
ORDER BY r.seq LIMIT 1
"""
"""Records that no program left unsealed: of another kind, or of a harness without an owner."""

Note: TypeAlias = tuple[str, list[Any], str | None]


class Sealer:
    """Writes the seals of one store.

    Args:
        db: the writer's connection; its changes from now on are noted.
    """

    def __init__(self, db: sqlite3.Connection, store: Path, every_s: float = SEAL_EVERY_S) -> None:
        self._db = db
        self._location = str(store)
        self._every_s = every_s
        self._due = 0.0
        self._touched: set[tuple[str, str]] = set()
        self._newest: Noted | None = None
        self._head = Head(store)
        self._keys = {table: key_of(db, table) for table in WATCHED}
        self._watch()

    @property
    def is_due(self) -> bool:
        """Whether the next commit is to be sealed, whatever is in it."""
        return time.monotonic() >= self._due

    def begin(self) -> None:
        """Forget the changes of a transaction that was rolled back."""
        self._touched.clear()

    def take_up(self) -> None:
        """Seal what a killed program left, if it follows from what is sealed.

        Raises:
            StoreCorrupt: it does not, or sealed records are missing.
        """
        position, last_seq, _ = self._db.execute(_LAST).fetchone() or (0, 0, "")
        (newest,) = self._db.execute("SELECT coalesce(max(seq), 0) FROM records").fetchone()
        advice = "run `orchestrator verify` to see more, and restore the store from a copy"
        if newest < last_seq:
            raise StoreCorrupt(
                f"{self._location} was cut off: expected records up to {last_seq}, the last is {newest}; {advice}"
            )
        noted = self._head.read()
        if noted is not None and not self._has(noted):
            raise StoreCorrupt(
                f"{self._location} is older than its head, {self._head.path}, or another store, or was pruned since: expected "
                f"seal {noted.position} over record {noted.last_seq}, its last is seal {position} over record {last_seq}; "
                "restore the newer one, or remove the head if you put an older store here yourself"
            )
        strange = self._db.execute(_STRANGE, (last_seq,)).fetchone()
        if strange is not None:
            raise StoreCorrupt(f"{self._location}: record {strange[0]} ({strange[1]}) was not written by a program; {advice}")
        (count,) = self._db.execute("SELECT count(*) FROM records WHERE seq > ?", (last_seq,)).fetchone()
        if count != newest - last_seq:
            raise StoreCorrupt(f"{self._location}: expected records {last_seq + 1} to {newest}, found {count}; {advice}")
        self.begin()
        self.seal([] if noted is not None else [("", ["no head"], None)])

    def seal(self, said: Iterable[Note] = ()) -> None:
        """Write a seal over everything new, if there is anything."""
        position, last_seq, hash = self._db.execute(_LAST).fetchone() or (0, 0, "")
        notes = [*said, *self._notes()]
        self._newest = append_seals(self._db, position + 1, last_seq, hash, notes) or Noted(position, last_seq, hash)
        self._touched.clear()
        self._due = time.monotonic() + self._every_s

    def publish(self) -> None:
        """Write the newest seal to the head, after its commit succeeded."""
        if self._newest is not None:
            self._head.write(self._newest)
            self._newest = None

    def close(self) -> None:
        """Close the head."""
        self._head.close()

    def _has(self, noted: Noted) -> bool:
        row = self._db.execute("SELECT hash, last_seq FROM seals WHERE position = ?", (noted.position,)).fetchone()
        return bool(row == (noted.hash, noted.last_seq))

    def _watch(self) -> None:
        self._db.create_function("touched", 2, self._touch)
        self._db.execute("PRAGMA temp_store = MEMORY")
        for table, columns in self._keys.items():
            for verb, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
                key = ", ".join(f"{row}.{column}" for column in columns)
                self._db.execute(
                    f"CREATE TEMP TRIGGER watch_{table}_{verb} AFTER {verb} ON main.{table} "
                    f"BEGIN SELECT touched('{table}', json_array({key})); END"
                )

    def _touch(self, table: str, key: str) -> None:
        self._touched.add((table, key))

    def _notes(self) -> Iterator[Note]:
        for table, text in sorted(self._touched):
            key = json.loads(text)
            where = " AND ".join(f"{column} = ?" for column in self._keys[table])
            row = self._db.execute(f"SELECT * FROM {table} WHERE {where}", key).fetchone()
            yield table, key, None if row is None else row_hash(row)


def seal_anew(db: sqlite3.Connection, store: Path, version: int) -> None:
    """Seal a file that was just created or upgraded: all its rows and its schema are noted.

    Args:
        version: its earlier schema version; 0 if it is new.
    """
    position, last_seq, hash = db.execute(_LAST).fetchone() or (0, 0, "")
    notes: list[Note] = [("", ["anew", version], token_hex(16))]
    notes += [("sqlite_master", [row[1]], row_hash(row)) for row in db.execute(SCHEMA_ROWS).fetchall()]
    notes.append(("sqlite_master", ["user_version"], row_hash((VERSION,))))
    for table in WATCHED:
        columns = key_of(db, table)
        rows = db.execute(f"SELECT {', '.join(columns)}, * FROM {table} ORDER BY 1")
        notes += [(table, list(row[: len(columns)]), row_hash(row[len(columns) :])) for row in rows]
    seal = append_seals(db, position + 1, last_seq, hash, notes)
    assert seal is not None
    if position == 0:
        begin_head(store, seal)


SCHEMA_ROWS = (
    "SELECT type, name, tbl_name, sql FROM main.sqlite_master WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY name"
)


def row_hash(row: tuple[Any, ...]) -> str:
    """Return the hash of a row. `ascii` gives each value one text in any version of Python."""
    return sha256(ascii(tuple(row)).encode()).hexdigest()[:32]


def trailer(position: int, first_seq: int, last_seq: int, notes: str) -> bytes:
    """Return the bytes that a seal hashes after its records."""
    return f"\n{position} {first_seq} {last_seq}\n{notes}".encode("utf-8", "surrogateescape")


def append_seals(db: sqlite3.Connection, position: int, after: int, before: str, notes: list[Note]) -> Noted | None:
    """Write seals over the records after one, with the notes; return the last seal, None if there was nothing to cover.

    A seal ends at a gap in the numbers, and the next begins after it, so that the gap stays visible.
    """
    newest: Noted | None = None
    while True:
        digest = sha256(before.encode())
        first, last, marks, is_all = _take_in(db, after, digest)
        if last < first and not notes:
            return newest
        text = json.dumps(notes, separators=(",", ":"))
        digest.update(trailer(position, first, last, text))
        before = digest.hexdigest()
        db.execute("INSERT INTO seals VALUES (?, ?, ?, ?, ?, ?)", (position, first, last, text, before, marks))
        newest, after, position, notes = Noted(position, last, before), last, position + 1, []
        if is_all:
            return newest


def _take_in(db: sqlite3.Connection, after: int, digest: Any) -> tuple[int, int, bytes, bool]:
    """Hash the records after one, up to a gap; return the first, the last, their marks, and whether there are no more.

    The text of a few hundred records is in memory at a time, of fewer if they are large, of a very large one a piece.
    """
    first, last = after + 1, after
    marks: list[int] = []
    limit, is_all = _CHUNK, False
    while not is_all:
        count, oldest, newest, text = _tail(db, last, limit)
        if count and not marks:
            first, last = oldest, oldest - 1
        if count and oldest != last + 1:
            break
        if count and newest - last != count:
            limit = _in_a_row(db, last, limit)
            continue
        if count > 1 and (text is None or text.count(BETWEEN) != count - 1):
            limit = limit // 2 if text is None else 1
            continue
        is_all = count < limit
        if count:
            size, found = _hash(db, last, count, text, digest)
            marks += found
            last = newest
            limit = max(1, min(_CHUNK, 2 * limit, limit * _CHUNK_BYTES // max(size, 1)))
    return first, last, struct.pack(f"<{len(marks)}I", *marks), is_all


def _hash(db: sqlite3.Connection, after: int, count: int, text: bytes | None, digest: Any) -> tuple[int, list[int]]:
    """Add the text of records, or the pieces of a large one, to `digest`; return the number of bytes, and the marks."""
    if text is None:
        size, mark = take_in(next(records(db, after))[1], digest)
        digest.update(BETWEEN)
        return size, [mark]
    digest.update(text)
    digest.update(BETWEEN)
    return len(text), [*map(crc32, text.split(BETWEEN) if count > 1 else (text,))]


def _tail(db: sqlite3.Connection, after: int, limit: int) -> tuple[int, int, int, bytes | None]:
    """Return the number of records after one, the first and the last of them, and their text; None if that is too large."""
    try:
        with cap_texts(db):
            return db.execute(_TAIL, (after, limit)).fetchone()  # type: ignore[no-any-return]
    except sqlite3.DataError:
        count, oldest, newest = db.execute(_NUMBERS, (after, limit)).fetchone()
        return count, oldest, newest, None


def _in_a_row(db: sqlite3.Connection, after: int, limit: int) -> int:
    """Return how many of the next records there are before a gap."""
    rows = db.execute("SELECT seq FROM records WHERE seq > ? ORDER BY seq LIMIT ?", (after, limit))
    return sum(seq == place for place, (seq,) in enumerate(rows, after + 1))


def key_of(db: sqlite3.Connection, table: str) -> list[str]:
    """Return the columns of the primary key, in its order."""
    columns = [(row[5], row[1]) for row in db.execute(f"PRAGMA table_info({table})") if row[5]]
    return [name for _, name in sorted(columns)]


@contextmanager
def sealed_transaction(db: Connection, store: Path, seals: Sealer) -> Generator[None]:
    """Commit what the block writes with its seal, then write the head; roll back if the block raises."""
    with db.writing():
        db.hold_schema(store)
        seals.begin()
        yield
    seals.publish()
