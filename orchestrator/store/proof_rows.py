"""Whether the rows beside the records are what the chain notes of them, and whether the indexes show what there is."""

from __future__ import annotations

import sqlite3
from typing import Any

from orchestrator.store.proof_account import COPY, Account
from orchestrator.store.pruning_residue import Base
from orchestrator.store.sealing import key_of, row_hash

_VERSION = ("user_version",)
_INDEXES = {
    "step_index": "kind = 'step'",
    "effect_index": "kind IN ('intent', 'outcome')",
    "snapshots": "kind = 'step' AND state IS NOT NULL",
}
_STEPS = """
SELECT seq FROM (
    SELECT seq, step, lag(step, 1, CASE WHEN ? THEN step - 1 ELSE 0 END) OVER (PARTITION BY harness ORDER BY seq) AS was
    FROM records WHERE kind = 'step'
) WHERE step <> was + 1 ORDER BY seq LIMIT 1
"""


def look_at_rows(db: sqlite3.Connection, account: Account) -> None:
    """Hold the rows of other tables, and the version of the schema, against what was noted of them last."""
    for table in sorted({table for table, _ in account.noted}):
        kept = {key: hash for (of, key), hash in account.noted.items() if of == table and hash}
        if table == "sqlite_master":  # its objects are held against what they have to be, whatever was noted of them
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


def look_at_indexes(db: sqlite3.Connection, account: Account) -> None:
    """Hold the indexes against the records: what is not in an index, no view shows."""
    for index, which in _INDEXES.items():
        shown = f"SELECT harness, step, seq FROM {index}"
        there = f"SELECT harness, step, seq FROM records WHERE seq <= (SELECT indexed_seq FROM meta) AND {which}"
        for fault, row in (
            *(("shows what is not there", row) for row in db.execute(f"{shown} EXCEPT {there}")),
            *(("hides what is there", row) for row in db.execute(f"{there} EXCEPT {shown}")),
        ):
            text = f"{index} was edited: at record {row[2]!r} it {fault}; {COPY}"
            account.add("edited", index, text, row[2] if isinstance(row[2], int) else None)
    for (seq,) in db.execute(_STEPS, (account.base.position,)):
        account.add("edited", "record", f"record {seq} is a step that does not follow the one before it; {COPY}", seq)
    for (text,) in db.execute("PRAGMA integrity_check(1)"):
        if text != "ok":
            account.add("damaged", "file", f"the file is damaged: {text}; {COPY}")
