"""The walk along the chain: every record against the seal over it, every seal against the one before, and what has no seal."""

from __future__ import annotations

import json
import sqlite3
import struct

from orchestrator.store.proof_account import COPY, Account, Row, Seal
from orchestrator.store.proof_marks import LEAST, hold
from orchestrator.store.proof_pruned import walk_below
from orchestrator.store.pruning_residue import read_base
from orchestrator.store.record_bytes import records, take_in
from orchestrator.store.sealing import UNSEALED_KINDS

_SEALS = "SELECT position, first_seq, last_seq, notes, hash, marks FROM seals WHERE position > ? ORDER BY position"
_FATES = {
    (False, False): "edited",
    (False, True): "dropped",
    (True, False): "inserted",
    (True, True): "reordered",
}
"""What has become of a record: by whether its own mark is in another place now, and whether the mark in its place is known."""


def walk(db: sqlite3.Connection, account: Account) -> None:
    """Hold the records against the seals over them."""
    base = account.base = read_base(db)
    if base.position:
        walk_below(db, account)
    before, position, account.sealed = base.hash, base.position, base.last_seq
    for row in db.execute(_SEALS, (base.position,)):
        if row[0] != position + 1:
            text = (
                f"seal {position + 1} to {row[0] - 1} were dropped: nothing proves the records after {account.sealed}; {COPY}"
            )
            account.add("dropped", "seal", text, account.sealed + 1)
        seal, position, previous, before = _seal(row), row[0], before, row[4]
        if seal is None:
            account.add("edited", "seal", f"seal {position} is not what was written; {COPY}")
            continue
        hold(db, account, account.sealed or LEAST, seal, previous)
        if seal.first_seq > account.sealed + 1:
            text = f"no seal covers records {account.sealed + 1} to {seal.first_seq - 1}: they were dropped before, or it was"
            account.add("dropped", "record", f"{text}; {COPY}", account.sealed + 1)
        _take_notes(seal, account)
        account.sealed = seal.last_seq
        account.hashes[position] = seal.hash, seal.last_seq
    _look_at_tail(db, account)


def _seal(row: Row) -> Seal | None:
    """Return a seal as it was written; None if nobody can have written it so."""
    try:
        position, first, last, text, hash, marks = row
        numbers = struct.unpack(f"<{last - first + 1}I", marks)
        notes = [(table, tuple(key), of_row) for table, key, of_row in json.loads(text)]
        if not all((table or "_").isidentifier() for table, _, _ in frozenset(notes)):
            return None
        return Seal(position, first, last, notes, text, hash, dict(enumerate(numbers, first)))
    except (ValueError, TypeError, AttributeError, struct.error, RecursionError, OverflowError):
        return None


def _take_notes(seal: Seal, account: Account) -> None:
    said = {key[:1]: key for table, key, _ in seal.notes if not table}
    if ("anew",) in said:
        account.noted = {place: hash for place, hash in account.noted.items() if place[0] == "seals"}
        if seal.position == 1 and seal.last_seq:
            account.notices.append(
                f"records 1 to {seal.last_seq} were sealed when the file was brought up to date, not before"
            )
    if ("no head",) in said:
        account.notices.append(
            f"its head was not there when seal {seal.position} was made: the end may have been cut off before"
        )
    account.noted.update(((table, key), of_row or "") for table, key, of_row in seal.notes if table)


def _look_at_tail(db: sqlite3.Connection, account: Account) -> None:
    """Look at what a program that was killed has left, or one that runs has not sealed yet."""
    held = set(db.execute("SELECT id, epoch FROM harnesses WHERE owner IS NOT NULL"))
    expected = account.sealed + 1
    for row, pieces in records(db, account.sealed or LEAST):
        seq, harness, epoch, kind = row[0], row[1], row[2], row[6]
        if seq != expected + len(account.tail):
            missing = expected + len(account.tail)
            account.add("dropped", "record", f"record {missing} is not there, and record {seq} is; {COPY}", missing)
        if kind not in UNSEALED_KINDS or (harness, epoch) not in held:
            text = f"record {seq} was inserted: it is not under a seal, and nobody who ran left it so; remove it, or {COPY}"
            account.add("inserted", "record", text, seq)
        account.tail[seq] = take_in(pieces)[1]


def compare(account: Account) -> None:
    """Tell of each record that does not have its mark what has become of it."""
    expected, actual = account.expected, account.actual
    wrong = sorted(seq for seq in expected.keys() | actual.keys() if expected.get(seq) != actual.get(seq))
    gone = {expected[seq] for seq in wrong if seq in expected}
    come = {actual[seq] for seq in wrong if seq in actual} | set(account.tail.values())
    last = max([*actual, *account.tail], default=0)
    for seq in wrong:
        if seq not in expected:
            what = "reordered" if actual[seq] in gone else "inserted"
        elif seq not in actual:
            what = "reordered" if expected[seq] in come else "cut off" if seq > last else "dropped"
        else:
            what = _FATES[expected[seq] in come, actual[seq] in gone]
        account.add(what, "record", f"record {seq} was {what}; {COPY}", seq)
