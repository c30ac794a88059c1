"""The walk along the chain: every record against the seal over it, every seal against the one before, and what has no seal."""

from __future__ import annotations

import json
import sqlite3
import struct
from datetime import UTC, datetime
from hashlib import sha256

from orchestrator.store.integrity.proof_findings import COPY, REPAIRED, Account, Row, Seal
from orchestrator.store.integrity.record_bytes import records, take_in, text_bytes
from orchestrator.store.integrity.residue import read_base, read_marks
from orchestrator.store.integrity.seals import BETWEEN, UNSEALED_KINDS, trailer

LEAST = -(1 << 63)


def hold(db: sqlite3.Connection, account: Account, after: int, seal: Seal, before: str) -> None:
    """Hold the records where a seal is against it."""
    seen, hash = _hash_records(db, account, after, seal, before)
    if seen != seal.marks:
        account.expected.update(seal.marks)
        account.actual.update(seen)
    if (seen == seal.marks) != (hash == seal.hash):
        text = f"seal {seal.position} over records {seal.first_seq} to {seal.last_seq} was edited"
        account.add("edited", "seal", f"{text}, or one of them with its mark; {COPY}")


def _hash_records(db: sqlite3.Connection, account: Account, after: int, seal: Seal, before: str) -> tuple[dict[int, int], str]:
    """Return the marks of the records where a seal is, and the hash that it would have; note those that tell of a repair."""
    digest, seen = sha256(text_bytes(before)), dict[int, int]()
    for row, pieces in records(db, after, seal.last_seq):
        seen[row[0]] = take_in(pieces, digest)[1]
        if row[6] == REPAIRED:
            account.repairs.append(row[0])
        digest.update(BETWEEN)
    digest.update(trailer(seal.position, seal.first_seq, seal.last_seq, seal.text))
    return seen, digest.hexdigest()


_RESIDUES = "SELECT position, first_seq, last_seq, notes, hash, marks FROM seals WHERE position <= ? ORDER BY position"


def walk_below(db: sqlite3.Connection, account: Account) -> None:
    """Hold what a pruned store has kept from below its base against the residues."""
    base, after = account.base, LEAST
    account.hashes[base.position] = base.hash, base.last_seq
    for row in db.execute(_RESIDUES, (base.position,)):
        residue = _residue(row)
        if residue is None:
            account.add("edited", "seal", f"seal {row[0]} is not what was written; {COPY}")
            continue
        hold(db, account, after, residue, "")
        after = residue.last_seq
    account.actual.update((row[0], take_in(pieces)[1]) for row, pieces in records(db, after, base.last_seq))
    kept = db.execute("SELECT count(*) FROM records WHERE seq <= ?", (base.last_seq,)).fetchone()[0]
    account.notices.append(
        f"the store was pruned, the last time at {moment(base.time_us)} by {base.by}: of records 1 to {base.last_seq} "
        f"{kept} have stayed, and a head from before seal {base.position} is not known any more"
    )


def moment(time_us: int) -> str:
    """Return a wall time for people."""
    try:
        return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return "an impossible time"


def _residue(row: Row) -> Seal | None:
    """Return what has stayed under pruned seals as it was written; None if nobody can have written it so."""
    try:
        position, first, last, text, hash, marks = row
        if not (isinstance(first, int) and isinstance(last, int)):
            return None
        return Seal(position, first, last, [], text, hash, read_marks(marks))
    except (ValueError, TypeError, struct.error):
        return None


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
    _check_tail(db, account)


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


def _check_tail(db: sqlite3.Connection, account: Account) -> None:
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
