"""Checks of what is beside the records: that the other rows match the chain's notes, that the indexes and the files with large
values match the records, and, by deriving the data again, that nothing in the store contradicts anything else:

    every state, from the first one and the deltas         against the snapshots
    the last lifecycle event on record of each harness     against its row with its status
    the message records                                    against the mailboxes

Only a defect of the program, or somebody who rewrote the chain of seals, can have caused such a contradiction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from harnesses.data.delta import apply_to_state
from harnesses.data.record_size import ENCRYPTED
from orchestrator.codec import decode
from orchestrator.errors import StoreUnusable
from orchestrator.events import EVENTS, stored_kinds
from orchestrator.store.encryption import FieldCipher, Plain, reveal_delta
from orchestrator.store.file.schema import INDEXES
from orchestrator.store.file.value_files import named_files, what_is_wrong
from orchestrator.store.integrity.proof_findings import COPY, Account
from orchestrator.store.integrity.residue import Base, read_base
from orchestrator.store.integrity.seals import WATCHED, key_of, row_hash
from orchestrator.store.store_operations import mailbox_columns, record_fields

_VERSION = ("user_version",)
_STEPS = """
SELECT seq FROM (
    SELECT seq, step, lag(step, 1, CASE WHEN ? THEN step - 1 ELSE 0 END) OVER (PARTITION BY harness ORDER BY seq) AS was
    FROM records WHERE kind = 'step'
) WHERE step <> was + 1 ORDER BY seq LIMIT 1
"""
_COUNTS = f"""
SELECT coalesce(sum(kind = 'step' AND i.seq = r.seq), 0),
       {", ".join(f"coalesce(sum({which}), 0)" for which in INDEXES.values())}
FROM records r LEFT JOIN step_index i ON i.harness = r.harness AND i.step = r.step
WHERE r.seq <= (SELECT indexed_seq FROM meta)
"""
"""How many steps have their entry, and how many records each index has entries for. In the order of the records: those of one
harness after those of the other would be looked up all over the file, which takes twice as long.
"""
_MATCHED = """
SELECT count(*), coalesce(sum({which} AND r.harness = i.harness AND r.step = i.step), 0)
FROM {index} i LEFT JOIN records r ON r.seq = i.seq AND r.seq <= (SELECT indexed_seq FROM meta)
"""
"""How many entries an index has, and how many of them have a record."""
_ENTRIES = "SELECT count(*) FROM step_index"
_IN_TURN = """
SELECT NOT EXISTS (
    SELECT 1 FROM (SELECT min(step) AS first, max(step) AS last, count(*) AS count FROM step_index GROUP BY harness)
    WHERE last - first + 1 <> count OR NOT (:is_pruned OR first = 1)
) AND NOT EXISTS (
    SELECT 1 FROM step_index a JOIN step_index b ON b.harness = a.harness AND b.step = a.step + 1 WHERE b.seq <= a.seq
) AND NOT EXISTS (
    SELECT 1 FROM (
        SELECT step, lag(step, 1, coalesce((SELECT max(step) FROM step_index i WHERE i.harness = r.harness),
                                           CASE WHEN :is_pruned THEN step - 1 ELSE 0 END))
                     OVER (PARTITION BY harness ORDER BY seq) AS was
        FROM records r WHERE seq > (SELECT indexed_seq FROM meta) AND kind = 'step'
    ) WHERE step <> was + 1
)
"""
"""Whether each step follows the one before, by an index that matches the records; the records would have to be sorted."""


def check_rows(db: sqlite3.Connection, account: Account) -> None:
    """Check the rows of other tables, and the schema version, against their last notes."""
    for table in sorted({table for table, _ in account.noted}.union(WATCHED)):
        kept = {key: hash for (of, key), hash in account.noted.items() if of == table and hash}
        if table == "sqlite_master":  # Schema objects are compared with the expected ones, whatever was noted of them.
            kept = {key: hash for key, hash in kept.items() if key == _VERSION}
        there, extra = _version(db) if table == "sqlite_master" else _rows(db, table, account.base)
        for key, hash in kept.items():
            if there.get(key) != hash:
                what = "edited" if key in there else "dropped"
                account.add(what, table, f"{table} {_key(key)} was {what}; {COPY}")
        for key in sorted(extra - kept.keys(), key=str):
            account.add("inserted", table, f"{table} {_key(key)} was inserted; remove it, or {COPY}")


def _rows(db: sqlite3.Connection, table: str, base: Base) -> tuple[dict[tuple[Any, ...], str], set[tuple[Any, ...]]]:
    columns = key_of(db, table)
    if not columns:
        return {}, set()
    width = len(columns)
    some = f" WHERE position <= {base.position}" if table == "seals" else ""
    rows = db.execute(f"SELECT {', '.join(columns)}, * FROM {table}{some}")
    there = {row[:width]: row_hash(row[width:]) for row in rows}
    return there, set(there)


def _version(db: sqlite3.Connection) -> tuple[dict[tuple[Any, ...], str], set[tuple[Any, ...]]]:
    return {_VERSION: row_hash(db.execute("PRAGMA user_version").fetchone())}, set()


def _key(key: tuple[Any, ...]) -> str:
    return ", ".join(ascii(part) for part in key)


def check_indexes(db: sqlite3.Connection, account: Account) -> None:
    """Check the indexes against the records: views do not show what is missing from an index."""
    of_steps, *counts = db.execute(_COUNTS).fetchone()
    is_sound = True
    for (index, which), count in zip(INDEXES.items(), counts, strict=True):
        if index == "step_index":
            matched = (*db.execute(_ENTRIES).fetchone(), of_steps)
        else:
            matched = db.execute(_MATCHED.format(index=index, which=which)).fetchone()
        # Entries are unique: if each has a record, and there are as many, then none is lacking.
        if matched != (count, count):
            is_sound = False
            _compare_index(db, account, index, which)
    is_pruned = bool(read_base(db).position)
    if is_sound and db.execute(_IN_TURN, {"is_pruned": is_pruned}).fetchone()[0]:
        return
    for (seq,) in db.execute(_STEPS, (is_pruned,)):
        account.add("edited", "record", f"record {seq} is a step that does not follow the one before; {COPY}", seq)


def _compare_index(db: sqlite3.Connection, account: Account, index: str, which: str) -> None:
    """Report the entries of an index that differ from the records."""
    shown = f"SELECT harness, step, seq FROM {index}"
    there = f"SELECT harness, step, seq FROM records WHERE seq <= (SELECT indexed_seq FROM meta) AND {which}"
    extra = [("has an entry that no record has", row) for row in db.execute(f"{shown} EXCEPT {there}")]
    lacking = [("lacks an entry", row) for row in db.execute(f"{there} EXCEPT {shown}")]
    for fault, row in (*extra, *lacking):
        text = f"{index} was edited: for record {row[2]!r} it {fault}; {COPY}"
        account.add("edited", index, text, row[2] if isinstance(row[2], int) else None)


def check_pages(db: sqlite3.Connection, account: Account) -> None:
    """Check the file as SQLite does."""
    for (text,) in db.execute("PRAGMA integrity_check(1)"):
        if text != "ok":
            account.add("damaged", "file", f"the file is damaged: {text}; {COPY}")


def check_files(db: sqlite3.Connection, account: Account, folder: Path) -> None:
    """Check the files with large values against the records that name them."""
    for seq, file in named_files(db):
        wrong = what_is_wrong(folder, file)
        if wrong is not None:
            what, text = wrong
            account.add(what, "value", f"{folder / file.sha256}, the {file.field} in record {seq}, {text}; {COPY}", seq)


Contradiction: TypeAlias = tuple[str, str, str, int | None]
"""What, where, text and the number of the record."""

_INDEXED_STEPS = """
SELECT i.harness, r.seq, r.step, r.body, r.state FROM step_index i JOIN records r ON r.seq = i.seq ORDER BY i.harness, i.step
"""
_NEW_STEPS = """
SELECT harness, seq, step, body, state FROM records
WHERE seq > (SELECT indexed_seq FROM meta) AND kind = 'step' ORDER BY harness, seq
"""
_KINDS = ", ".join(map(repr, stored_kinds(event.kind for event in EVENTS)))
_EVENTS = f"""
SELECT h.name, h.attempt, h.event, r.seq, r.attempt, r.body FROM harnesses h JOIN records r ON r.seq = (
    SELECT max(seq) FROM records WHERE harness = h.id AND kind IN ({_KINDS})
)
"""
_MESSAGES = """
SELECT m.seq, h.name, r.body, {columns}
FROM mailbox m JOIN harnesses h ON h.id = m.harness
LEFT JOIN records r ON r.seq = m.seq AND r.kind = 'message' AND r.harness = m.harness ORDER BY m.seq
"""
_UNREADABLE = (KeyError, IndexError, TypeError, AttributeError, ValueError)


def contradictions(db: sqlite3.Connection, cipher: FieldCipher) -> Iterator[Contradiction]:
    """Yield contradictions. Encrypted states are derived only with the key."""
    yield from _states(db, cipher)
    yield from _events(db)
    yield from _messages(db)


def is_encrypted(db: sqlite3.Connection) -> bool:
    """Return whether some state in a store cannot be read without a key."""
    query = "SELECT EXISTS (SELECT 1 FROM harnesses WHERE instr(initial_state, :mark) = 1) OR EXISTS ("
    query += "SELECT 1 FROM records WHERE instr(state, :mark) = 1)"
    return bool(db.execute(query, {"mark": ENCRYPTED}).fetchone()[0])


def _states(db: sqlite3.Connection, cipher: FieldCipher) -> Iterator[Contradiction]:
    """Yield each snapshot that differs from the state derived from the deltas. One state per harness is in memory."""
    states: dict[int, Any] = {}
    initial = dict(db.execute("SELECT id, initial_state FROM harnesses"))
    broken: set[int] = set()
    begun: dict[int, int] = {}
    for query in (_INDEXED_STEPS, _NEW_STEPS):
        for harness, seq, step, body, state in db.execute(query):
            if harness in broken:
                continue
            try:
                if harness not in states and step != 1:
                    # Older steps were pruned: derivation begins with a snapshot.
                    begun[harness] = seq
                    if state is not None:
                        states[harness] = decode(cipher.reveal("state", state))
                    continue
                if harness not in states:
                    states[harness] = decode(cipher.reveal("state", initial[harness]))
                states[harness] = apply_to_state(states[harness], reveal_delta(cipher, decode(body)["delta"]))
                fits = state is None or decode(cipher.reveal("state", state)) == states[harness]
            except StoreUnusable as error:
                broken.add(harness)
                if not isinstance(cipher, Plain):
                    yield "edited", "record", f"the state after step {step} in record {seq}: {error}", seq
                continue
            except _UNREADABLE as error:
                broken.add(harness)
                yield "edited", "record", f"the state after step {step} cannot be derived from record {seq}: {error}", seq
                continue
            if not fits:
                broken.add(harness)
                yield "edited", "record", f"the snapshot at step {step} differs from the state derived from the deltas", seq
    for harness, seq in begun.items():
        if harness not in states and harness not in broken:
            yield "edited", "record", f"no state can be derived from record {seq} and earlier ones: there is no snapshot", seq


def _events(db: sqlite3.Connection) -> Iterator[Contradiction]:
    for name, attempt, event, seq, recorded_attempt, body in db.execute(_EVENTS):
        if (attempt, event) != (recorded_attempt, body):
            text = f"harness {name!r} does not match its last lifecycle event, record {seq}"
            yield "edited", "harnesses", text, seq


def _messages(db: sqlite3.Connection) -> Iterator[Contradiction]:
    for seq, name, record, *message in db.execute(_MESSAGES.format(columns=mailbox_columns(db, "m"))):
        try:
            fits = record is not None and decode(record) == record_fields(*message)
        except _UNREADABLE:
            fits = False
        if not fits:
            yield "edited", "mailbox", f"message {seq} to {name!r} is not what was recorded when it was sent", seq
