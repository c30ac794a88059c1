"""The walk along the chain: checks every record against its seal, every seal against the one before, and unsealed records."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from hashlib import sha256

from attrs import frozen

from orchestrator.store.integrity.proof_findings import COPY, REPAIRED, Account, Row, Seal
from orchestrator.store.integrity.record_bytes import records, take_in, text_bytes
from orchestrator.store.integrity.residue import read_base, read_marks
from orchestrator.store.integrity.seal_check import SealChecks
from orchestrator.store.integrity.seals import BETWEEN, UNSEALED_KINDS, trailer

LEAST = -(1 << 63)


def hold(db: sqlite3.Connection, account: Account, after: int, seal: Seal, before: str) -> None:
    """Check the records under a seal against it."""
    seen, hash = _hash_records(db, account, after, seal, before)
    if seen != seal.marks:
        account.expected.update(seal.marks)
        account.actual.update(seen)
    if (seen == seal.marks) != (hash == seal.hash):
        text = f"seal {seal.position} over records {seal.first_seq} to {seal.last_seq} was edited"
        account.add("edited", "seal", f"{text}, or one of them with its mark; {COPY}")


def _hash_records(db: sqlite3.Connection, account: Account, after: int, seal: Seal, before: str) -> tuple[dict[int, int], str]:
    """Return the marks of the records under a seal, and the hash that it should have; note records of repairs."""
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
    """Check what a pruned store kept below its base against the residues."""
    base, after = account.base, LEAST
    account.hashes[base.position] = base.hash, base.last_seq
    for row in db.execute(_RESIDUES, (base.position,)):
        residue = _residue(row)
        if residue is None:
            account.add("edited", "seal", f"seal {row[0]} is not valid; {COPY}")
            continue
        hold(db, account, after, residue, "")
        after = residue.last_seq
    account.actual.update((row[0], take_in(pieces)[1]) for row, pieces in records(db, after, base.last_seq))
    kept = db.execute("SELECT count(*) FROM records WHERE seq <= ?", (base.last_seq,)).fetchone()[0]
    account.notices.append(
        f"the store was pruned, last at {moment(base.time_us)} by {base.by}: of records 1 to {base.last_seq} "
        f"{kept} were kept, and a head from before seal {base.position} is no longer known"
    )


def moment(time_us: int) -> str:
    """Return a wall time as text."""
    try:
        return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return "an impossible time"


def _residue(row: Row) -> Seal | None:
    """Parse a residue; None if no program can have written it."""
    try:
        position, first, last, text, hash, marks = row
        if not (isinstance(first, int) and isinstance(last, int)):
            return None
        return Seal(position, first, last, [], text, hash, read_marks(marks))
    except (ValueError, TypeError, struct.error):
        return None


_SEALS = "SELECT position, first_seq, last_seq, notes, hash, marks FROM seals WHERE position > ? ORDER BY position"
_BEGUN = 4
"""Limit on the seals that are being checked at the same time."""
_FATES = {
    (False, False): "edited",
    (False, True): "dropped",
    (True, False): "inserted",
    (True, True): "reordered",
}
"""What happened to a record: by whether its own mark is found elsewhere, and whether the mark in its place is known."""


@frozen
class _Begun:
    """A seal whose check has begun."""

    after: int
    seal: Seal
    before: str
    is_intact: Future[bool] | None


def walk(db: sqlite3.Connection, account: Account) -> None:
    """Check the records against their seals."""
    base = account.base = read_base(db)
    if base.position:
        walk_below(db, account)
    with ThreadPoolExecutor(1) as hashing:
        _walk_seals(db, account, SealChecks(db, hashing))
    _check_tail(db, account)


def _walk_seals(db: sqlite3.Connection, account: Account, checks: SealChecks) -> None:
    base = account.base
    before, position, account.sealed = base.hash, base.position, base.last_seq
    begun: deque[_Begun] = deque()
    for row in db.execute(_SEALS, (base.position,)):
        if row[0] != position + 1:
            text = (
                f"seal {position + 1} to {row[0] - 1} were dropped: nothing proves the records after {account.sealed}; {COPY}"
            )
            account.add("dropped", "seal", text, account.sealed + 1)
        seal, position, previous, before = _seal(row), row[0], before, row[4]
        if seal is None:
            account.add("edited", "seal", f"seal {position} is not valid; {COPY}")
            continue
        after = account.sealed or LEAST
        begun.append(_Begun(after, seal, previous, checks.start(after, seal, previous)))
        if len(begun) > _BEGUN:
            _end(db, account, begun.popleft())
        if seal.first_seq > account.sealed + 1:
            text = f"no seal covers records {account.sealed + 1} to {seal.first_seq - 1}: they or their seal were dropped"
            account.add("dropped", "record", f"{text}; {COPY}", account.sealed + 1)
        _take_notes(seal, account)
        account.sealed = seal.last_seq
        account.hashes[position] = seal.hash, seal.last_seq
    for one in begun:
        _end(db, account, one)


def _end(db: sqlite3.Connection, account: Account, begun: _Begun) -> None:
    """Examine a seal record by record, unless it is intact."""
    if begun.is_intact is None or not begun.is_intact.result():
        hold(db, account, begun.after, begun.seal, begun.before)


def _seal(row: Row) -> Seal | None:
    """Parse a seal; None if no program can have written it."""
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
            account.notices.append(f"records 1 to {seal.last_seq} were sealed when the file was upgraded, not before")
    if ("no head",) in said:
        account.notices.append(
            f"its head was missing when seal {seal.position} was made: the end may have been cut off before"
        )
    account.noted.update(((table, key), of_row or "") for table, key, of_row in seal.notes if table)


def _check_tail(db: sqlite3.Connection, account: Account) -> None:
    """Check the unsealed records, left by a killed program or not sealed yet by a running one."""
    held = set(db.execute("SELECT id, epoch FROM harnesses WHERE owner IS NOT NULL"))
    expected = account.sealed + 1
    for row, pieces in records(db, account.sealed or LEAST):
        seq, harness, epoch, kind = row[0], row[1], row[2], row[6]
        if seq != expected + len(account.tail):
            missing = expected + len(account.tail)
            account.add("dropped", "record", f"record {missing} is missing before record {seq}; {COPY}", missing)
        if kind not in UNSEALED_KINDS or (harness, epoch) not in held:
            text = f"record {seq} was inserted: it is not under a seal, and no program left it so; remove it, or {COPY}"
            account.add("inserted", "record", text, seq)
        account.tail[seq] = take_in(pieces)[1]


def compare(account: Account) -> None:
    """Report what happened to each record whose mark does not match."""
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
