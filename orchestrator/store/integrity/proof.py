"""Verification of a store: its records, other rows, indexes and files against its seals, and the seals against a head.

Invariants: records that were edited, dropped, inserted, reordered or cut off are found, and the first one is named, unless
the whole chain and its head were rewritten. Nothing is changed, and no writer waits. A damaged or forged store causes
findings, never a traceback. `orchestrator/verify_alone.py` verifies the same without sharing code.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from attrs import evolve, frozen

from orchestrator.codec import decode
from orchestrator.events import current_kind
from orchestrator.store.encryption import KEY_FILE, Plain, cipher_of
from orchestrator.store.file.open_files import connect_reader
from orchestrator.store.file.schema_shape import faults, harden
from orchestrator.store.file.value_files import files_folder
from orchestrator.store.integrity.chain_head import Noted, read_head
from orchestrator.store.integrity.chain_walk import compare, moment, walk
from orchestrator.store.integrity.proof_findings import COPY, OTHER_HEAD, REPAIR, Account, Finding, LostNote, Proof, Row
from orchestrator.store.integrity.residue import Base, Residue, read_marks
from orchestrator.store.integrity.row_consistency import (
    check_files,
    check_indexes,
    check_pages,
    check_rows,
    contradictions,
    is_encrypted,
)
from orchestrator.store.integrity.seals import row_hash
from orchestrator.store.rules.budget_rules import KIND as BUDGET
from orchestrator.store.store_operations import APPROVAL_KINDS, mailbox_columns, record_fields

__all__ = ["HASH_LENGTH", "Finding", "Proof", "is_unmade", "prove", "prove_in", "readable"]

HASH_LENGTH = 64
_APART = 3
"""Checks that run beside the walk along the chain; SQLite releases the interpreter meanwhile."""
Check: TypeAlias = Callable[[sqlite3.Connection, Account], None]
Apart: TypeAlias = Callable[[Check], Callable[[], list[Finding]]]


def prove(store: Path, head: str | None, *, deep: bool = False) -> Proof:
    """Verify a store.

    Args:
        head: what the chain must contain: the content of a head, or a hash; None if there is none.
        deep: whether to also derive every state again, and compare statuses and mailboxes with the records.
    """
    account = Account()
    try:
        with closing(_open(store)) as db, ThreadPoolExecutor(_APART) as pool:
            return prove_in(
                db, store, head, account, deep=deep, apart=lambda check: pool.submit(_check_apart, store, check).result
            )
    except (sqlite3.Error, UnicodeError) as error:
        account.add("damaged", "file", f"{store} is damaged: {error}; restore it from a copy")
    return _proof(account)


def prove_in(
    db: sqlite3.Connection, store: Path, head: str | None, account: Account, *, deep: bool = False, apart: Apart | None = None
) -> Proof:
    """Verify the store of a connection inside its transaction. Its text is read as `readable` does.

    Args:
        apart: begins a check with another connection, and returns what waits for its findings; None to use this connection.

    Raises:
        sqlite3.Error, UnicodeError: the file is damaged.
    """
    if head is None:
        account.add(
            "dropped",
            "head",
            f"the head of {store} is missing: it cannot be determined whether its end was cut off; {OTHER_HEAD}",
        )
    if _is_blank(db):
        account.add("cut off", "file", f"{store} is empty, and its head is not that of an empty store; {COPY}")
        return Proof(account.found)
    wrong = faults(db)
    for fault in wrong:
        account.add(fault.what, "sqlite_master", f"{fault}; {fault.mend(store)}")
    lost = None
    if all(fault.is_harmless for fault in wrong):
        begin = apart or partial(_check_here, db)
        files = begin(partial(check_files, folder=files_folder(store.resolve())))
        _check_within(db, account, head, deep, begin)
        account.found += files()
        lost = find_lost_note(db, account)
    if lost is not None:
        account.found = [evolve(finding, text=f"{lost.what}; run `{REPAIR}`") for finding in account.found]
    account.found = [_name_record(db, finding) for finding in account.found]
    return evolve(_proof(account), lost_note=lost)


def _proof(account: Account) -> Proof:
    found = sorted(account.found, key=lambda finding: (finding.seq is None, finding.seq or 0))
    newest = max(account.hashes, default=0)
    hash, _ = account.hashes.get(newest, ("", 0))
    return Proof(found, newest, account.sealed, len(account.tail), hash, account.notices, account.base)


def is_unmade(store: Path, head: str | None) -> bool:
    """Return whether the program was killed while creating the file: it is empty, and its head names no record."""
    try:
        with closing(_open(store)) as db:
            if not _is_blank(db):
                return False
        noted = read_head(head) if head else None
    except (sqlite3.Error, UnicodeError, ValueError):
        return False
    return noted is None or (noted.position, noted.last_seq) == (1, 0)


def _is_blank(db: sqlite3.Connection) -> bool:
    (objects,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return bool(objects == 0)


def _check_apart(store: Path, check: Check) -> list[Finding]:
    """Return the findings of a check with a connection of its own, which sees the store at a moment of its own."""
    account = Account()
    with closing(_open(store)) as db:
        if all(fault.is_harmless for fault in faults(db)):
            check(db, account)
    return account.found


def _check_here(db: sqlite3.Connection, check: Check) -> Callable[[], list[Finding]]:
    def found() -> list[Finding]:
        account = Account()
        check(db, account)
        return account.found

    return found


def _check_within(db: sqlite3.Connection, account: Account, head: str | None, deep: bool, apart: Apart) -> None:
    """Check the records, other rows and indexes against the chain."""
    begun = [apart(check) for check in (check_indexes, check_pages)]
    walk(db, account)
    compare(account)
    check_rows(db, account)
    for found in begun:
        account.found += found()
    account.notices += [_describe_repair(db, seq) for seq in account.repairs]
    if deep:
        cipher = cipher_of(None, "the store")
        if isinstance(cipher, Plain) and is_encrypted(db):
            account.notices.append(f"encrypted states are not derived again without the key: set {KEY_FILE}")
        for what, where, text, seq in contradictions(db, cipher):
            account.add(what, where, f"{text}; {COPY}", seq)
    if head is not None:
        _check_head(head, account)


def _describe_repair(db: sqlite3.Connection, seq: int) -> str:
    """Return a description of the record of a repair."""
    time_us, body = db.execute("SELECT time_us, body FROM records WHERE seq = ?", (seq,)).fetchone()
    try:
        said = decode(body)
        return f"repaired at {moment(time_us)} by {said['by']}, record {seq}: {said['found']}; {said['unproven']}"
    except (ValueError, TypeError, LookupError, AttributeError):
        return f"record {seq} is a repair, but not as a program writes it"


def _open(store: Path) -> sqlite3.Connection:
    db = connect_reader(store.resolve(), sqlite3.Connection)
    harden(db)
    # Text that is not UTF-8 was not written by a program, and must be reported instead of raising.
    db.text_factory = readable
    db.execute("BEGIN")
    return db


def readable(text: bytes) -> str:
    """Decode text of a file, whatever it contains."""
    return text.decode("utf-8", "surrogateescape")


def _check_head(head: str, account: Account) -> None:
    """Check the chain against its head."""
    newest = max(account.hashes, default=0)
    try:
        noted = None if len(head) == HASH_LENGTH else read_head(head)
    except ValueError as error:
        account.add("edited", "head", f"the head cannot be read back: {error}; {OTHER_HEAD}")
        return
    hash = head if noted is None else noted.hash
    place = next((place for place, (of_seal, _) in account.hashes.items() if of_seal == hash), None)
    if place is None and (noted is None or noted.position > newest):
        text = "the chain ends before its head, or was rewritten: seals, and what they covered, were cut off"
        text += f"; or it is a head from before seal {account.base.position}, which was pruned" * (account.base.position > 0)
        account.add("cut off", "head", f"{text} after record {account.sealed}; {COPY}", account.sealed + 1)
    elif place is None or noted not in (None, Noted(place, account.hashes[place][1], hash)):
        older = ", or it is from before the store was pruned" if account.base.position else ""
        text = f"the head belongs to no seal of this store: it was edited, or the chain was{older}; {OTHER_HEAD}"
        account.add("edited", "head", text)
    elif place < newest:
        account.notices.append(f"the head is that of seal {place} of {newest}: later records are proven by the chain alone")


def _name_record(db: sqlite3.Connection, finding: Finding) -> Finding:
    """Return a finding with details of its record, from the record itself, or from the index if it is gone."""
    if finding.seq is None or finding.where == "seal" or not 0 <= finding.seq < 1 << 63:
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
    return evolve(finding, harness=str(name or ""), step=step if isinstance(step, int) else None, kind=current_kind(str(kind)))


_RESIDUES = "SELECT position, first_seq, last_seq, notes, hash, marks FROM seals WHERE position <= ? ORDER BY position"
_MOVES = """
SELECT position, notes FROM seals WHERE substr(notes, 1, 15) = '[["",["pruned",' ORDER BY position
"""
_RECORDS = f"""
SELECT seq, kind, harness, epoch, attempt, step, body FROM records
WHERE seq BETWEEN ? AND ? AND kind IN ({", ".join(map(repr, ("message", BUDGET, *APPROVAL_KINDS)))}) ORDER BY seq
"""
_MESSAGES = "SELECT seq, harness, {columns} FROM mailbox WHERE seq BETWEEN ? AND ?"
_APPROVALS = "SELECT seq, harness, id, digest FROM approval_index WHERE seq BETWEEN ? AND ?"
_RESERVATIONS = "SELECT id, harness, epoch, attempt, step, pools, amounts FROM open_reservations WHERE id BETWEEN ? AND ?"
_MADE_UP = (ValueError, TypeError, LookupError, AttributeError, struct.error, RecursionError, OverflowError)
"""Errors caused by values that no program can have written."""


@frozen
class Move:
    """A seal that moved the base of the chain, or notes residues below it."""

    seal: int
    base: Base
    residues: Mapping[int, str | None]
    """Notes of the seal on residues, by position; None for a removed residue."""


def find_lost_note(db: sqlite3.Connection, account: Account) -> LostNote | None:
    """Return the residue that no seal notes because a later prune dropped its note, if nothing else is wrong.

    An earlier version dropped the note if the seal that held it was pruned in the commit that moved the base on from that
    residue. The finding counts as this defect only if nothing but the defect can have caused it in a chain that was not
    rewritten; None if anything else is wrong, or these conditions do not hold:

        seal M            the first remaining seal that moved the base beyond the residue. It notes the residue it moved to,
                          which begins with the record after the lost one's last, and it notes no residue as removed. So the
                          earlier residue stayed and was noted somewhere; no remaining seal notes it
        the residue       is valid, matches its records, and begins after the one before it
        other rows        the chain's notes on messages, approvals and reservations of its records match them

    This proves that a residue was there, not what was in it: its hash was only in the lost note.

    Args:
        account: of a proof that has examined everything.
    """
    if [(finding.what, finding.where) for finding in account.found] != [("inserted", "seals")]:
        return None
    try:
        rows = db.execute(_RESIDUES, (account.base.position,)).fetchall()
        (place,) = [place for place, row in enumerate(rows) if ("seals", (row[0],)) not in account.noted]
        residue = _read_residue(rows[place], rows[place - 1] if place else None)
        move = move_beyond(residue, [*_read_moves(db)], {row[0]: row for row in rows})
        fits = move is not None and _agrees(db, residue)
    except _MADE_UP:
        return None
    return LostNote(residue, move.seal) if move is not None and fits else None


def _read_residue(row: Row, before: Row | None) -> Residue:
    """Parse a residue that begins after the one before.

    Raises:
        ValueError: it is not valid, or begins elsewhere.
    """
    position, first, last, _, hash, packed = row
    residue = Residue(position, first, last, hash, read_marks(packed))
    seqs = [*residue.marks]
    is_ours = residue.row() == row and seqs == sorted(seqs) and seqs and first <= seqs[0] and seqs[-1] <= last
    if not is_ours or (before[2] if before else 0) >= first:
        raise ValueError(f"residue {position}")
    return residue


def _read_moves(db: sqlite3.Connection) -> Iterator[Move]:
    for seal, text in db.execute(_MOVES):
        (_, (_, *base), _), *notes = json.loads(text)
        yield Move(seal, Base(*base), {key[0]: hash for table, key, hash in notes if table == "seals"})


def move_beyond(residue: Residue, moves: Sequence[Move], rows: Mapping[int, Row]) -> Move | None:
    """Return the seal that moved the base on from that residue, if it is what the defect leaves; else None. Pure."""
    at_it = [move for move in moves if move.base.position <= residue.position]
    beyond = moves[len(at_it) :]
    if not beyond or any((move.base.position, move.base.last_seq) != (residue.position, residue.last_seq) for move in at_it):
        return None
    move = beyond[0]
    # It exists: it covers the record of who pruned before, which is always kept.
    row = rows[move.base.position]
    fits = row[1] == residue.last_seq + 1 and move.residues.get(row[0]) == row_hash(row)
    return move if fits and None not in move.residues.values() else None


def _agrees(db: sqlite3.Connection, residue: Residue) -> bool:
    """Return whether the notes on other rows match the records of the residue.

    A closed reservation has no row any more; the row of a message or an approval is kept as long as its record.
    """
    reach = residue.first_seq, residue.last_seq
    messages_asked = _MESSAGES.format(columns=mailbox_columns(db, "mailbox"))
    messages, approvals, reservations = (
        {row[0]: row[1:] for row in db.execute(query, reach)} for query in (messages_asked, _APPROVALS, _RESERVATIONS)
    )
    for seq, kind, harness, *place, text in db.execute(_RECORDS, reach):
        body: dict[str, Any] = decode(text)
        if kind == "message":
            of, *message = messages.pop(seq)
            fits = of == harness and body == record_fields(*message)
        elif kind in APPROVAL_KINDS:
            fits = approvals.pop(seq) == (harness, body["id"], body["digest"])
        elif seq in reservations:
            *of, pools, amounts = reservations.pop(seq)
            said = {"change": "reserved", "pools": decode(pools), "amounts": decode(amounts)}
            fits = of == [harness, *place] and body == said
        else:
            fits = True
        if not fits:
            return False
    return not (messages or approvals or reservations)
