"""Whether a store is what was written: its records, other rows and indexes against its seals, and the seals against a head.

The law: what was edited, dropped, inserted, reordered or cut off is found, and the first record of it is named, as long as
not all of the chain and its head were written anew. Nothing is changed, nobody is kept waiting, and a store that is damaged
or made up gives findings, never a traceback. `orchestrator/verify_alone.py` says the same, and has nothing of this in it.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

from attrs import define, evolve, field, frozen

from orchestrator.store.head import Noted, read_head
from orchestrator.store.proof_deep import contradictions
from orchestrator.store.pruning_residue import NOT_PRUNED, Base, read_base, read_marks
from orchestrator.store.sealing import BETWEEN, SCHEMA_ROWS, UNSEALED_KINDS, key_of, row_hash, trailer

Row: TypeAlias = tuple[Any, ...]
Place: TypeAlias = tuple[str, tuple[Any, ...]]
"""A table and the key of a row in it."""

_RECORDS = """
SELECT seq, harness, epoch, attempt, step, time_us, kind, body, state FROM records WHERE seq > ? AND seq <= ? ORDER BY seq
"""
_SEALS = "SELECT position, first_seq, last_seq, notes, hash, marks FROM seals WHERE position > ? ORDER BY position"
_RESIDUES = "SELECT position, first_seq, last_seq, notes, hash, marks FROM seals WHERE position <= ? ORDER BY position"
HASH_LENGTH = 64
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_INDEXES = {
    "step_index": "kind = 'step'",
    "effect_index": "kind IN ('intent', 'outcome')",
    "snapshots": "state IS NOT NULL",
}
_STEPS = """
SELECT seq FROM (
    SELECT seq, step, lag(step, 1, CASE WHEN ? THEN step - 1 ELSE 0 END) OVER (PARTITION BY harness ORDER BY seq) AS was
    FROM records WHERE kind = 'step'
) WHERE step <> was + 1 ORDER BY seq LIMIT 1
"""


@frozen
class Finding:
    """Something that is not what was written."""

    what: str
    """`edited`, `dropped`, `inserted`, `reordered`, `cut off` or `damaged`."""
    where: str
    """`record`, `seal`, `head`, `file`, or the name of a table."""
    text: str
    """For people, and what to do."""
    seq: int | None = None
    """Of the record, if it concerns one."""
    harness: str = ""
    step: int | None = None
    kind: str = ""


@frozen
class Proof:
    """What there is, and what is wrong with it."""

    findings: Sequence[Finding]
    """In order of the records; what concerns none comes last."""
    seals: int = 0
    records: int = 0
    """Number of the last record under a seal."""
    unsealed: int = 0
    """Records that have no seal yet."""
    head: str = ""
    """Hash of the last seal."""
    notices: Sequence[str] = ()
    """What is worth knowing and not wrong."""
    pruned: Base = NOT_PRUNED
    """Where the chain begins, if the store was pruned."""


@frozen
class _Seal:
    position: int
    first_seq: int
    last_seq: int
    notes: list[tuple[str, tuple[Any, ...], str | None]]
    text: str
    hash: str
    marks: dict[int, int]
    """Of each record, by its number."""


@define
class _Account:
    """What a walk along the chain has seen."""

    found: list[Finding] = field(factory=list[Finding])
    notices: list[str] = field(factory=list[str])
    noted: dict[Place, str] = field(factory=dict[Place, str])
    """The last hash of each row."""
    hashes: dict[int, tuple[str, int]] = field(factory=dict[int, tuple[str, int]])
    """Hash and last record of each seal."""
    expected: dict[int, int] = field(factory=dict[int, int])
    """Marks of the records under seals that do not fit, as they were …"""
    actual: dict[int, int] = field(factory=dict[int, int])
    """… and as they are."""
    tail: dict[int, int] = field(factory=dict[int, int])
    """Marks of the records without a seal."""
    sealed: int = 0
    base: Base = NOT_PRUNED
    """Where the chain begins."""

    def add(self, what: str, where: str, text: str, seq: int | None = None) -> None:
        self.found.append(Finding(what, where, text, seq))


def prove(store: Path, head: str | None, *, deep: bool = False) -> Proof:
    """Return what is wrong with a store.

    Args:
        head: what the chain must contain: the text of a head, or a hash; None if there is none.
        deep: whether to derive every state anew too, and to hold statuses and mailboxes against the records.
    """
    account = _Account()
    if head is None:
        account.add("dropped", "head", f"the head of {store} is missing: whether its end was cut off can not be told; {_HEAD}")
    try:
        with closing(_open(store)) as db:
            _walk(db, account)
            _compare(account)
            _look_at_rows(db, account)
            _look_at_indexes(db, account)
            if deep:
                for what, where, text, seq in contradictions(db):
                    account.add(what, where, f"{text}; {_COPY}", seq)
            if head is not None:
                _look_at_head(head, account)
            found = [_named(db, finding) for finding in account.found]
    except (sqlite3.Error, UnicodeError) as error:
        account.add("damaged", "file", f"{store} is damaged: {error}; restore it from a copy")
        found = account.found
    newest = max(account.hashes, default=0)
    found.sort(key=lambda finding: (finding.seq is None, finding.seq or 0))
    hash, _ = account.hashes.get(newest, ("", 0))
    return Proof(found, newest, account.sealed, len(account.tail), hash, account.notices, account.base)


_HEAD = "give one that was noted elsewhere with --head"
_COPY = "restore the store from a copy"


def _open(store: Path) -> sqlite3.Connection:
    db = sqlite3.connect(f"{store.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
    # Text that is no UTF-8 can not have been written by us, and is to be told, not to be stumbled over.
    db.text_factory = _readable
    db.execute("BEGIN")
    return db


def _readable(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def _walk(db: sqlite3.Connection, account: _Account) -> None:
    """Hold the records against the seals over them."""
    base = account.base = read_base(db)
    if base.position:
        _walk_below(db, account)
    before, position, account.sealed = base.hash, base.position, base.last_seq
    for row in db.execute(_SEALS, (base.position,)):
        if row[0] != position + 1:
            text = (
                f"seal {position + 1} to {row[0] - 1} were dropped: nothing proves the records after {account.sealed}; {_COPY}"
            )
            account.add("dropped", "seal", text, account.sealed + 1)
        seal, position, previous, before = _seal(row), row[0], before, row[4]
        if seal is None:
            account.add("edited", "seal", f"seal {position} is not what was written; {_COPY}")
            continue
        _hold(db, account, account.sealed or _LEAST, seal, previous)
        if seal.first_seq > account.sealed + 1:
            text = f"no seal covers records {account.sealed + 1} to {seal.first_seq - 1}: they were dropped before, or it was"
            account.add("dropped", "record", f"{text}; {_COPY}", account.sealed + 1)
        _take_notes(seal, account)
        account.sealed = seal.last_seq
        account.hashes[position] = seal.hash, seal.last_seq
    _look_at_tail(db, account)


def _walk_below(db: sqlite3.Connection, account: _Account) -> None:
    """Hold what a pruned store has kept from below its base against the residues."""
    base, after = account.base, _LEAST
    account.hashes[base.position] = base.hash, base.last_seq
    for row in db.execute(_RESIDUES, (base.position,)):
        residue = _residue(row)
        if residue is None:
            account.add("edited", "seal", f"seal {row[0]} is not what was written; {_COPY}")
            continue
        _hold(db, account, after, residue, "")
        after = residue.last_seq
    account.actual.update((row[0], crc32(_text(row))) for row in db.execute(_RECORDS, (after, base.last_seq)))
    kept = db.execute("SELECT count(*) FROM records WHERE seq <= ?", (base.last_seq,)).fetchone()[0]
    account.notices.append(
        f"the store was pruned, the last time at {_moment(base.time_us)} by {base.by}: of records 1 to {base.last_seq} "
        f"{kept} have stayed, and a head from before seal {base.position} is not known any more"
    )


def _moment(time_us: int) -> str:
    try:
        return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return "an impossible time"


def _hold(db: sqlite3.Connection, account: _Account, after: int, seal: _Seal, before: str) -> None:
    """Hold the records where a seal is against it."""
    seen, hash = _look_at_records(db, after, seal, before)
    if seen != seal.marks:
        account.expected.update(seal.marks)
        account.actual.update(seen)
    if (seen == seal.marks) != (hash == seal.hash):
        text = f"seal {seal.position} over records {seal.first_seq} to {seal.last_seq} was edited"
        account.add("edited", "seal", f"{text}, or one of them with its mark; {_COPY}")


def _residue(row: Row) -> _Seal | None:
    """Return what has stayed under pruned seals as it was written; None if nobody can have written it so."""
    try:
        position, first, last, text, hash, marks = row
        if not (isinstance(first, int) and isinstance(last, int)):
            return None
        return _Seal(position, first, last, [], text, hash, read_marks(marks))
    except (ValueError, TypeError, struct.error):
        return None


def _seal(row: Row) -> _Seal | None:
    """Return a seal as it was written; None if nobody can have written it so."""
    try:
        position, first, last, text, hash, marks = row
        numbers = struct.unpack(f"<{last - first + 1}I", marks)
        notes = [(table, tuple(key), of_row) for table, key, of_row in json.loads(text)]
        if not all((table or "_").isidentifier() for table, _, _ in frozenset(notes)):
            return None
        return _Seal(position, first, last, notes, text, hash, dict(enumerate(numbers, first)))
    except (ValueError, TypeError, AttributeError, struct.error, RecursionError, OverflowError):
        return None


def _look_at_records(db: sqlite3.Connection, after: int, seal: _Seal, before: str) -> tuple[dict[int, int], str]:
    """Return the marks of the records where a seal is, and the hash that it would have."""
    digest, seen = sha256(_bytes(before)), dict[int, int]()
    for row in db.execute(_RECORDS, (after, seal.last_seq)):
        text = _text(row)
        seen[row[0]] = crc32(text)
        digest.update(text + BETWEEN)
    digest.update(trailer(seal.position, seal.first_seq, seal.last_seq, seal.text))
    return seen, digest.hexdigest()


def _text(row: Row) -> bytes:
    """Return what is hashed of a record."""
    _, harness, epoch, attempt, step, time_us, kind, body, state = row
    parts = [_bytes(body), b"" if state is None else _bytes(state)]
    fields = [harness, epoch, attempt, step, time_us, kind, len(parts[0]), None if state is None else len(parts[1])]
    header = json.dumps(fields, separators=(",", ":"), ensure_ascii=False, default=ascii)
    return b"".join((_bytes(header), *parts))


def _bytes(value: Any) -> bytes:
    """Return text as bytes; a value of another type, which only somebody else can have put there, as nothing that we write."""
    return (value if isinstance(value, str) else ascii(value)).encode("utf-8", "surrogateescape")


def _take_notes(seal: _Seal, account: _Account) -> None:
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


def _look_at_tail(db: sqlite3.Connection, account: _Account) -> None:
    """Look at what a program that was killed has left, or one that runs has not sealed yet."""
    held = set(db.execute("SELECT id, epoch FROM harnesses WHERE owner IS NOT NULL"))
    expected = account.sealed + 1
    for row in db.execute(_RECORDS, (account.sealed or _LEAST, _MOST)):
        seq, harness, epoch, kind = row[0], row[1], row[2], row[6]
        if seq != expected + len(account.tail):
            missing = expected + len(account.tail)
            account.add("dropped", "record", f"record {missing} is not there, and record {seq} is; {_COPY}", missing)
        if kind not in UNSEALED_KINDS or (harness, epoch) not in held:
            text = f"record {seq} was inserted: it is not under a seal, and nobody who ran left it so; remove it, or {_COPY}"
            account.add("inserted", "record", text, seq)
        account.tail[seq] = crc32(_text(row))


_FATES = {
    (False, False): "edited",
    (False, True): "dropped",
    (True, False): "inserted",
    (True, True): "reordered",
}
"""What has become of a record: by whether its own mark is in another place now, and whether the mark in its place is known."""


def _compare(account: _Account) -> None:
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
        account.add(what, "record", f"record {seq} was {what}; {_COPY}", seq)


def _look_at_rows(db: sqlite3.Connection, account: _Account) -> None:
    """Hold the rows of other tables, and the schema, against what was noted of them last."""
    for table in sorted({table for table, _ in account.noted}):
        kept = {key: hash for (of, key), hash in account.noted.items() if of == table and hash}
        there, extra = _schema(db) if table == "sqlite_master" else _rows(db, table, account.base)
        for key, hash in kept.items():
            if there.get(key) != hash:
                what = "edited" if key in there else "dropped"
                account.add(what, table, f"{table} {_key(key)} was {what}; {_COPY}")
        for key in sorted(extra - kept.keys(), key=str):
            account.add("inserted", table, f"{table} {_key(key)} was inserted; remove it, or {_COPY}")


def _rows(db: sqlite3.Connection, table: str, base: Base) -> tuple[dict[tuple[Any, ...], str], set[tuple[Any, ...]]]:
    columns = key_of(db, table)
    if not columns:
        return {}, set()
    width = len(columns)
    some = f" WHERE position <= {base.position}" if table == "seals" else ""
    rows = db.execute(f"SELECT {', '.join(columns)}, * FROM {table}{some}")
    there = {row[:width]: row_hash(row[width:]) for row in rows}
    return there, set(there)


def _schema(db: sqlite3.Connection) -> tuple[dict[tuple[Any, ...], str], set[tuple[Any, ...]]]:
    """Return what the schema is made of, and of that what may not be added: views and tables may, triggers may not."""
    rows = db.execute(SCHEMA_ROWS).fetchall()
    there = {(row[1],): row_hash(row) for row in rows}
    there["user_version",] = row_hash(db.execute("PRAGMA user_version").fetchone())
    return there, {(row[1],) for row in rows if row[0] == "trigger"}


def _key(key: tuple[Any, ...]) -> str:
    return ", ".join(ascii(part) for part in key)


def _look_at_indexes(db: sqlite3.Connection, account: _Account) -> None:
    """Hold the indexes against the records: what is not in an index, no view shows."""
    for index, which in _INDEXES.items():
        shown = f"SELECT harness, step, seq FROM {index}"
        there = f"SELECT harness, step, seq FROM records WHERE seq <= (SELECT indexed_seq FROM meta) AND {which}"
        for fault, row in (
            *(("shows what is not there", row) for row in db.execute(f"{shown} EXCEPT {there}")),
            *(("hides what is there", row) for row in db.execute(f"{there} EXCEPT {shown}")),
        ):
            text = f"{index} was edited: at record {row[2]!r} it {fault}; {_COPY}"
            account.add("edited", index, text, row[2] if isinstance(row[2], int) else None)
    for (seq,) in db.execute(_STEPS, (account.base.position,)):
        account.add("edited", "record", f"record {seq} is a step that does not follow the one before it; {_COPY}", seq)
    for (text,) in db.execute("PRAGMA integrity_check(1)"):
        if text != "ok":
            account.add("damaged", "file", f"the file is damaged: {text}; {_COPY}")


def _look_at_head(head: str, account: _Account) -> None:
    """Hold the chain against its head."""
    newest = max(account.hashes, default=0)
    try:
        noted = None if len(head) == HASH_LENGTH else read_head(head)
    except ValueError as error:
        account.add("edited", "head", f"the head can not be read back: {error}; {_HEAD}")
        return
    hash = head if noted is None else noted.hash
    place = next((place for place, (of_seal, _) in account.hashes.items() if of_seal == hash), None)
    if place is None and (noted is None or noted.position > newest):
        text = "the chain ends before its head, or was written anew: seals, and what they covered, were cut off"
        text += f"; or it is a head from before seal {account.base.position}, which was pruned" * (account.base.position > 0)
        account.add("cut off", "head", f"{text} after record {account.sealed}; {_COPY}", account.sealed + 1)
    elif place is None or noted not in (None, Noted(place, account.hashes[place][1], hash)):
        older = ", or it is from before the store was pruned" if account.base.position else ""
        text = f"the head is of no seal of this store: it was edited, or the chain was{older}; {_HEAD}"
        account.add("edited", "head", text)
    elif place < newest:
        account.notices.append(f"the head is that of seal {place} of {newest}: what came later is proven by the chain alone")


def _named(db: sqlite3.Connection, finding: Finding) -> Finding:
    """Return a finding with what is known of its record: from the record, or from the index if it is gone."""
    if finding.seq is None or finding.where == "seal":
        return finding
    row = db.execute(
        "SELECT h.name, r.step, r.kind FROM records r LEFT JOIN harnesses h ON h.id = r.harness WHERE r.seq = ?",
        (finding.seq,),
    ).fetchone()
    if row is None:
        row = db.execute(
            "SELECT h.name, i.step, 'step' FROM step_index i JOIN harnesses h ON h.id = i.harness WHERE i.seq = ?",
            (finding.seq,),
        ).fetchone()
    if row is None:
        return finding
    name, step, kind = row
    return evolve(finding, harness=str(name or ""), step=step if isinstance(step, int) else None, kind=str(kind))
