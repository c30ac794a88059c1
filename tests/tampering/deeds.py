"""What somebody may do to a store: each deed changes a copy by chance, with nothing but SQL or an editor."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Callable, Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any, TypeAlias
from zlib import crc32

from orchestrator.store.integrity.chain_head import head_path
from orchestrator.store.integrity.residue import Base as Pruned
from orchestrator.store.integrity.residue import Residue, read_base, read_marks
from orchestrator.store.integrity.seals import row_hash

from .stores import Base

Deed: TypeAlias = Callable[[sqlite3.Connection, Base, Random], object]
FileDeed: TypeAlias = Callable[[Path, Base, Random], object]

RECORD = ("harness", "epoch", "attempt", "step", "time_us", "body", "kind", "state")
SEAL = ("first_seq", "last_seq", "notes", "hash", "marks")
ROWS = {
    "harnesses": ("name", "class", "initial_state", "owner", "epoch", "status", "attempt", "supervision", "event", "time_us"),
    "claims": ("run", "epoch"),
    "mailbox": ("harness", "sender", "body", "consumed_step", "seq", "id", "kind", "type", "deadline_us"),
    "meta": ("indexed_seq", "ownership"),
    "pools": ("pool", "limits", "spent", "reserved", "time_us"),
    "open_reservations": ("harness", "pools", "amounts"),
    "approval_index": ("id", "digest"),
}
INDEXES = {"step_index": ("harness", "step", "seq"), "effect_index": ("harness", "step", "seq"), "snapshots": ("step", "seq")}


def other(value: Any, chance: Random) -> Any:
    """Return a value that is another one."""
    if value is None:
        return chance.choice(["", "{}", 0])
    if isinstance(value, int):
        return chance.choice(
            [value + 1, value - 1, value ^ (1 << chance.randrange(20)), -value - 1, str(value) + "x", value + 0.5]
        )
    if isinstance(value, bytes):
        return flipped(value, chance) if value else b"\x00"
    choices: list[Any] = [value + " ", value.encode(), None, value[:-1] if value else "x"]
    if value:
        at = chance.randrange(len(value))
        choices += [value[:at] + chr(ord(value[at]) ^ 1) + value[at + 1 :], value[:at] + value[at + 1 :]] * 3
        choices.append(value.replace("1", "2", 1) if "1" in value else value + "1")
    return chance.choice(choices)


def flipped(data: bytes, chance: Random) -> bytes:
    """Return bytes of which one has one bit changed."""
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]


def seqs(db: sqlite3.Connection, base: Base) -> list[int]:
    """Return the numbers of the records under seals."""
    return [seq for (seq,) in db.execute("SELECT seq FROM records WHERE seq <= ? ORDER BY seq", (base.sealed,))]


def edit_record(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    seq, column = chance.choice(seqs(db, base)), chance.choice(RECORD)
    (value,) = db.execute(f"SELECT {column} FROM records WHERE seq = ?", (seq,)).fetchone()
    db.execute(f"UPDATE records SET {column} = ? WHERE seq = ?", (other(value, chance), seq))


def drop_records(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    seq = chance.choice(seqs(db, base))
    db.execute("DELETE FROM records WHERE seq >= ? AND seq < ?", (seq, seq + chance.choice([1, 1, 1, 2, 5, 50])))


def drop_and_renumber(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    seq = chance.choice(seqs(db, base)[:-1])
    db.execute("DELETE FROM records WHERE seq = ?", (seq,))
    db.execute("UPDATE records SET seq = -seq WHERE seq > ?", (seq,))
    db.execute("UPDATE records SET seq = -seq - 1 WHERE seq < 0")


def insert_record(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    """Put a copy of a record in between, at the end, or where no record is ever."""
    seq = chance.choice(seqs(db, base))
    at = chance.choice([seq, 0, -3, 1 << 40])
    if at == seq:
        db.execute("UPDATE records SET seq = -seq WHERE seq >= ?", (seq,))
        db.execute("UPDATE records SET seq = -seq + 1 WHERE seq < 0")
        seq += 1
    columns = ", ".join(RECORD)
    db.execute(f"INSERT INTO records (seq, {columns}) SELECT ?, {columns} FROM records WHERE seq = ?", (at, seq))


def append_record(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    """Add what nobody who was running can have left: another kind, or a step of a harness that nobody holds."""
    kind = chance.choice(["evidence", "started", "approval_answered", "completed"])
    columns = "harness, epoch, attempt, step, time_us, body, state"
    db.execute(
        f"INSERT INTO records ({columns}, kind) SELECT {columns}, ? FROM records WHERE seq = ?",
        (kind, chance.choice(seqs(db, base))),
    )


def swap_records(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    one, two = chance.sample(seqs(db, base), 2)
    for before, after in ((one, -1), (two, one), (-1, two)):
        db.execute("UPDATE records SET seq = ? WHERE seq = ?", (after, before))


def cut_off(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    """Cut off the end: the records alone, their seals too, or all that speaks of them."""
    thorough = chance.randrange(3)
    above = read_base(db).position
    *seals, _ = db.execute("SELECT position, last_seq FROM seals WHERE position > ? ORDER BY 1", (above,)).fetchall()
    (seal, seq) = chance.choice(seals)
    if thorough == 0:
        seq = chance.randrange(seq, base.sealed) if seq < base.sealed else base.sealed - 1
    db.execute("DELETE FROM records WHERE seq > ?", (seq,))
    if thorough:
        db.execute("DELETE FROM seals WHERE position > ?", (seal,))
    if thorough == 2:
        for table in (*INDEXES, "mailbox", "approval_index"):
            db.execute(f"DELETE FROM {table} WHERE seq > ?", (seq,))
        db.execute("UPDATE meta SET indexed_seq = min(indexed_seq, ?)", (seq,))
        note_anew(db)


def edit_seal(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    position, column = chance.choice(positions(db)), chance.choice(SEAL)
    (value,) = db.execute(f"SELECT {column} FROM seals WHERE position = ?", (position,)).fetchone()
    db.execute(f"UPDATE OR IGNORE seals SET {column} = ? WHERE position = ?", (other(value, chance), position))


def drop_seals(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    position = chance.choice(positions(db))
    db.execute("DELETE FROM seals WHERE position >= ? AND position < ?", (position, position + chance.choice([1, 1, 3, 1000])))


def swap_seals(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    one, two = chance.sample(positions(db), 2)
    for before, after in ((one, -1), (two, one), (-1, two)):
        db.execute("UPDATE seals SET position = ? WHERE position = ?", (after, before))


def edit_with_marks(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    """Edit a record and write the mark anew, so that it hides which record it is."""
    edit_record(db, base, chance)
    for position, first, last, _ in db.execute("SELECT position, first_seq, last_seq, marks FROM seals").fetchall():
        marks = [crc32(text) for text in texts(db, first, last)]
        db.execute("UPDATE seals SET marks = ? WHERE position = ?", (struct.pack(f"<{len(marks)}I", *marks), position))


def edit_and_seal_anew(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    """Edit a record, and write the whole chain anew as the program would: only the head does not know of it."""
    edit_record(db, base, chance)
    seal_anew(db)


def prune_by_hand(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    """Take away the beginning without a word of it: the records alone, or their seals too."""
    before = read_base(db).position
    position, seq = chance.choice(
        db.execute("SELECT position, last_seq FROM seals WHERE position > ? AND last_seq >= first_seq", (before,)).fetchall()
    )
    forget(db, seq)
    if chance.randrange(2):
        db.execute("DELETE FROM seals WHERE position <= ?", (position,))


def prune_with_a_forged_note(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    """Take away the beginning as the program would, and write the chain anew: only the head does not know of it."""
    *most, _ = db.execute(
        "SELECT position, last_seq, hash FROM seals WHERE position > ? ORDER BY 1", (read_base(db).position,)
    ).fetchall()
    if not most:
        edit_and_seal_anew(db, base, chance)
        return
    position, seq, hash = chance.choice(most)
    forget(db, seq)
    db.execute("DELETE FROM seals WHERE position <= ?", (position,))
    last, text = db.execute("SELECT position, notes FROM seals ORDER BY 1 DESC LIMIT 1").fetchone()
    residue = Residue(position, 1, seq, sha256(f"\n{position} 1 {seq}\n".encode()).hexdigest(), {})
    db.execute(
        "INSERT INTO seals (position, first_seq, last_seq, notes, hash, marks) VALUES (?, ?, ?, ?, ?, ?)", residue.row()
    )
    forged = [Pruned(position, hash, seq, "somebody", 1).note(), residue.note()]
    db.execute(
        "UPDATE seals SET notes = ? WHERE position = ?",
        (json.dumps([*forged, *json.loads(text)], separators=(",", ":")), last),
    )
    note_anew(db)


def put_in_what_was_pruned(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    """Put a record where one was taken away; in a store that was not pruned, before all others."""
    taken = set(range(1, max(read_base(db).last_seq, 1))) - set(seqs(db, base))
    columns = ", ".join(RECORD)
    db.execute(
        f"INSERT INTO records (seq, {columns}) SELECT ?, {columns} FROM records WHERE seq = ?",
        (chance.choice(sorted(taken) or [0]), chance.choice(seqs(db, base))),
    )


def edit_what_was_kept(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    """Edit a record that pruning has left, with its mark and the hash over it; in a store that was not pruned, any record."""
    residues = db.execute(
        "SELECT position, first_seq, last_seq, marks FROM seals WHERE position <= ? AND length(marks) > 0",
        (read_base(db).position,),
    ).fetchall()
    if not residues:
        edit_record(db, base, chance)
        return
    position, first, last, packed = chance.choice(residues)
    seq = chance.choice([*read_marks(packed)])
    db.execute("UPDATE records SET body = replace(body, ':', ': '), time_us = time_us + 1 WHERE seq = ?", (seq,))
    found = dict(zip(read_marks(packed), texts(db, first, last), strict=True))
    hash = sha256(b"".join(text + b"\x1e" for text in found.values()) + f"\n{position} {first} {last}\n".encode()).hexdigest()
    row = Residue(position, first, last, hash, {seq: crc32(text) for seq, text in found.items()}).row()
    db.execute("UPDATE seals SET hash = ?, marks = ? WHERE position = ?", (row[4], row[5], position))


def edit_row(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    table = chance.choice([table for table in ROWS if db.execute(f"SELECT 1 FROM {table}").fetchone()])
    change(db, table, chance.choice(ROWS[table]), chance)


def edit_index(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    table = chance.choice([table for table in INDEXES if db.execute(f"SELECT 1 FROM {table}").fetchone()])
    change(db, table, chance.choice(INDEXES[table]), chance)


def drop_row(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    tables = [table for table in (*ROWS, *INDEXES) if db.execute(f"SELECT 1 FROM {table}").fetchone()]
    table = chance.choice(tables)
    row = dict(pick(db, table, chance))
    db.execute(f"DELETE FROM {table} WHERE {matching(row)}", [*row.values()])


def add_row(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    table = chance.choice([table for table in (*ROWS, *INDEXES) if db.execute(f"SELECT 1 FROM {table}").fetchone()])
    row = {
        column: value if isinstance(value, str) else other(value, chance) for column, value in pick(db, table, chance).items()
    }
    if "name" in row:
        row["name"] += "-2"
    if "pool" in row:
        row["pool"] += "-2"
    db.execute(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(row))})", [*row.values()])


def change_schema(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    (steps,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'steps'").fetchone()
    deeds: list[list[str]] = [
        ["DROP VIEW steps", steps.replace("r.kind = 'step'", "r.kind = 'step' AND r.step <> 3")],
        ["DROP VIEW events"],
        ["CREATE TRIGGER quiet AFTER INSERT ON records BEGIN DELETE FROM records WHERE seq = NEW.seq; END"],
        ["CREATE TRIGGER records AFTER INSERT ON mailbox BEGIN DELETE FROM mailbox WHERE seq = NEW.seq; END"],
        ["DROP INDEX mailbox_waiting"],
        ["ALTER TABLE harnesses ADD COLUMN note TEXT"],
        ["DROP TABLE pools"],
        ["PRAGMA user_version = 3"],
        ["PRAGMA user_version = 99"],
    ]
    for statement in chance.choice(deeds):
        db.execute(statement)


QUIET = "AFTER INSERT ON records BEGIN UPDATE records SET body = replace(NEW.body, '1', '2') WHERE seq = NEW.seq; END"
SCHEMA_EDITS: Mapping[str, tuple[str, ...]] = {
    "table": (
        "CREATE TABLE mine (x)",
        "CREATE TABLE mine (x, y GENERATED ALWAYS AS (abs(x)) VIRTUAL)",
        "CREATE VIRTUAL TABLE mine USING fts5(x)",
        "ANALYZE",
        "DROP TABLE snapshots",
        "ALTER TABLE meta RENAME COLUMN only TO lonely",
        "ALTER TABLE claims RENAME TO claimed",
        "ALTER TABLE mailbox ADD COLUMN twice GENERATED ALWAYS AS (body || body) VIRTUAL",
    ),
    "view": (
        "CREATE VIEW mine AS SELECT 1",
        "DROP VIEW budgets; CREATE VIEW budgets AS SELECT pool, limits, spent, reserved FROM pools WHERE pool <> 'all'",
        "DROP VIEW approvals; CREATE TABLE approvals (seq, harness)",
    ),
    "trigger": (
        f"CREATE TRIGGER harness_status {QUIET}",
        f"CREATE TRIGGER watch_meta_INSERT {QUIET}",
        "CREATE TRIGGER mine INSTEAD OF INSERT ON steps BEGIN SELECT 1; END",
        "CREATE TRIGGER mine BEFORE DELETE ON seals BEGIN SELECT raise(IGNORE); END",
    ),
    "index": (
        "CREATE INDEX mine ON records (abs(seq))",
        "CREATE UNIQUE INDEX mine ON records (seq, kind) WHERE kind = 'step'",
        "DROP INDEX approval_index_of",
        "DROP INDEX mailbox_waiting; CREATE INDEX mailbox_waiting ON mailbox (harness, seq) WHERE consumed_step = 1",
    ),
    "text": (
        "kind TEXT NOT NULL DEFAULT 'step' -> kind TEXT NOT NULL DEFAULT 'stop'",
        "body TEXT NOT NULL, -> body TEXT NOT NULL CHECK (length(body) < 9),",
        "name TEXT NOT NULL UNIQUE -> name TEXT COLLATE NOCASE NOT NULL UNIQUE",
        "state TEXT\n) -> state TEXT\n) STRICT",
        "harness INTEGER NOT NULL -> harness INTEGER  NOT NULL",
        "r.kind = 'step' -> r.kind = 'step' AND r.seq <> 3",
        "marks BLOB NOT NULL -> marks BLOB",
        "body TEXT NOT NULL, -> body TEXT NOT NULL, more TEXT AS (body) VIRTUAL,",
    ),
    "page": (
        "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master WHERE name = 'meta') WHERE name = 'claims'",
        "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master WHERE name = 'records') WHERE name = 'steps'",
        "UPDATE sqlite_master SET rootpage = 0 WHERE name = 'mailbox_waiting'",
    ),
    "row": (
        "UPDATE sqlite_master SET type = 'table' WHERE name = 'messages'",
        "UPDATE sqlite_master SET tbl_name = 'meta' WHERE name = 'approval_index_of'",
        "UPDATE sqlite_master SET name = 'approvel' WHERE name = 'approvals'",
        "UPDATE sqlite_master SET sql = CAST(sql AS BLOB) WHERE name = 'budgets'",
        "UPDATE sqlite_master SET rowid = 1000 WHERE name = 'claims'",
        "UPDATE sqlite_master SET rowid = 1000 WHERE name = 'steps'",
        "INSERT INTO sqlite_master SELECT * FROM sqlite_master WHERE name = 'messages'",
        "DELETE FROM sqlite_master WHERE name = 'reservations'",
    ),
    "header": ("PRAGMA application_id = 7", "PRAGMA user_version = 0", "PRAGMA user_version = 5", "PRAGMA user_version = -1"),
}
"""What can be done to a schema. One with an arrow edits the text of all that has it."""


def edit_schema(db: sqlite3.Connection, base: Base, chance: Random) -> None:
    """Change the schema by statements, or by writing into its own table."""
    kind = chance.choice([*SCHEMA_EDITS])
    apply_schema_edit(db, chance.choice(SCHEMA_EDITS[kind]))
    if kind == "trigger" and chance.randrange(2):
        hide_before_views(db)


def apply_schema_edit(db: sqlite3.Connection, edit: str) -> None:
    """Change the schema, and have other connections notice it."""
    db.execute("PRAGMA writable_schema = ON")
    before, arrow, after = edit.partition(" -> ")
    if arrow:
        db.execute("UPDATE sqlite_master SET sql = replace(sql, ?, ?)", (before, after))
    else:
        db.executescript(edit)
    (version,) = db.execute("PRAGMA schema_version").fetchone()
    db.execute(f"PRAGMA schema_version = {version + 1}")
    db.execute("PRAGMA writable_schema = OFF")


def hide_before_views(db: sqlite3.Connection) -> None:
    """Move whatever is a view behind everything else, as it would be if it had been made later."""
    apply_schema_edit(db, "UPDATE sqlite_master SET rowid = rowid + 1000 WHERE type = 'view'")


def edit_head(path: Path, base: Base, chance: Random) -> None:
    head = head_path(path)
    text = head.read_bytes()
    said = json.loads(text)
    ways: list[Callable[[], object]] = [
        head.unlink,
        lambda: head.write_bytes(flipped(text.rstrip(), chance).ljust(len(text))),
        lambda: head.write_bytes(b""),
        lambda: head.write_text("[]"),
        lambda: head.write_text(json.dumps(said | {"position": said["position"] + chance.choice([1, -1])})),
        lambda: head.write_text(json.dumps(said | {"last_seq": said["last_seq"] + 1})),
        lambda: head.write_text(json.dumps(said | {"hash": sha256(text).hexdigest()})),
    ]
    chance.choice(ways)()


def flip_a_bit(path: Path, base: Base, chance: Random) -> None:
    path.write_bytes(flipped(path.read_bytes(), chance))


def truncate(path: Path, base: Base, chance: Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: chance.choice([0, 100, len(data) // 2, len(data) - 4096, len(data) - 1])])


def wipe_a_page(path: Path, base: Base, chance: Random) -> None:
    data = bytearray(path.read_bytes())
    at = 4096 * chance.randrange(len(data) // 4096)
    data[at : at + 4096] = chance.choice([bytes(4096), chance.randbytes(4096)])
    path.write_bytes(data)


DEEDS: Mapping[str, Deed] = {
    deed.__name__: deed
    for deed in (
        edit_record,
        drop_records,
        drop_and_renumber,
        insert_record,
        append_record,
        swap_records,
        cut_off,
        edit_seal,
        drop_seals,
        swap_seals,
        edit_with_marks,
        edit_and_seal_anew,
        prune_by_hand,
        prune_with_a_forged_note,
        put_in_what_was_pruned,
        edit_what_was_kept,
        edit_row,
        edit_index,
        drop_row,
        add_row,
        change_schema,
        edit_schema,
    )
}
FILE_DEEDS: Mapping[str, FileDeed] = {deed.__name__: deed for deed in (edit_head, flip_a_bit, truncate, wipe_a_page)}
_LIKELY = {
    "edit_record": 6,
    "drop_records": 3,
    "insert_record": 2,
    "swap_records": 2,
    "cut_off": 2,
    "edit_row": 3,
    "edit_schema": 3,
}


def tamper(path: Path, base: Base, chance: Random) -> str:
    """Do something to a store, and return what."""
    names = [*DEEDS, *FILE_DEEDS]
    (name,) = chance.choices(names, [_LIKELY.get(name, 1) for name in names])
    if name in FILE_DEEDS:
        FILE_DEEDS[name](path, base, chance)
        return name
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        try:
            DEEDS[name](db, base, chance)
        except sqlite3.IntegrityError:
            return f"{name}, which the file itself refuses"
    return name


def positions(db: sqlite3.Connection) -> list[int]:
    return [position for (position,) in db.execute("SELECT position FROM seals ORDER BY 1")]


def pick(db: sqlite3.Connection, table: str, chance: Random) -> dict[str, Any]:
    cursor = db.execute(f"SELECT * FROM {table}")
    columns = [description[0] for description in cursor.description]
    return dict(zip(columns, chance.choice(cursor.fetchall()), strict=True))


def matching(row: dict[str, Any]) -> str:
    return " AND ".join(f"{column} IS ?" for column in row)


def change(db: sqlite3.Connection, table: str, column: str, chance: Random) -> None:
    row = pick(db, table, chance)
    value = other(row[column], chance)
    db.execute(f"UPDATE {table} SET {column} = ? WHERE {matching(row)}", [value, *row.values()])


def texts(db: sqlite3.Connection, first: int, last: int) -> list[bytes]:
    """Return what is hashed of records, for somebody who knows how."""
    rows = db.execute(
        "SELECT harness, epoch, attempt, step, time_us, kind, body, state FROM records WHERE seq BETWEEN ? AND ? ORDER BY seq",
        (first, last),
    )
    found: list[bytes] = []
    for *fields, body, state in rows:
        parts = [str(part).encode() for part in (body, state) if part is not None]
        lengths = [len(str(body).encode()), None if state is None else len(str(state).encode())]
        header = json.dumps([*fields, *lengths], separators=(",", ":"), ensure_ascii=False, default=str)
        found.append(b"".join((header.encode(), *parts)))
    return found


def forget(db: sqlite3.Connection, seq: int) -> None:
    """Delete the records up to one, and whatever speaks of them."""
    for table in ("records", *INDEXES, "mailbox", "approval_index"):
        db.execute(f"DELETE FROM {table} WHERE seq <= ?", (seq,))


def seal_anew(db: sqlite3.Connection) -> None:
    """Write the marks and hashes of the whole chain anew, from where it begins."""
    base = read_base(db)
    before = base.hash
    for position, first, last, notes in db.execute(
        "SELECT position, first_seq, last_seq, notes FROM seals WHERE position > ? ORDER BY 1", (base.position,)
    ).fetchall():
        found = texts(db, first, last)
        before = sha256(
            before.encode() + b"".join(text + b"\x1e" for text in found) + f"\n{position} {first} {last}\n{notes}".encode()
        ).hexdigest()
        marks = struct.pack(f"<{len(found)}I", *map(crc32, found))
        db.execute("UPDATE seals SET hash = ?, marks = ? WHERE position = ?", (before, marks, position))


def note_anew(db: sqlite3.Connection) -> None:
    """Write into the last seal what the rows of other tables are now, and which are gone, and the chain anew."""
    position, text = db.execute("SELECT position, notes FROM seals ORDER BY 1 DESC LIMIT 1").fetchone()
    notes = json.loads(text)
    there = {table: rows_of(db, table) for table in (*ROWS, "seals")}
    for (noted,) in db.execute("SELECT notes FROM seals WHERE position < ?", (position,)).fetchall():
        gone = [
            (table, key) for table, key, _ in json.loads(noted or "[]") if table in there and tuple(key) not in there[table]
        ]
        notes += [[table, key, None] for table, key in gone]
    notes += [[table, list(key), row_hash(row)] for table in ROWS for key, row in there[table].items()]
    db.execute("UPDATE seals SET notes = ? WHERE position = ?", (json.dumps(notes, separators=(",", ":")), position))
    seal_anew(db)


def rows_of(db: sqlite3.Connection, table: str) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    keys = [row[1] for row in sorted(db.execute(f"PRAGMA table_info({table})"), key=lambda row: row[5]) if row[5]]
    rows = db.execute(f"SELECT {', '.join(keys)}, * FROM {table}").fetchall()
    return {row[: len(keys)]: row[len(keys) :] for row in rows}
