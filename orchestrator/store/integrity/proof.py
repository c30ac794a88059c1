"""Whether a store is what was written: its records, other rows and indexes against its seals, and the seals against a head.

The law: what was edited, dropped, inserted, reordered or cut off is found, and the first record of it is named, as long as
not all of the chain and its head were written anew. Nothing is changed, nobody is kept waiting, and a store that is damaged
or made up gives findings, never a traceback. `orchestrator/verify_alone.py` says the same, and has nothing of this in it.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from orchestrator.codec import decode
from orchestrator.events import current_kind
from orchestrator.store.encryption import KEY_FILE, Plain, cipher_of
from orchestrator.store.file.open_files import connect_reader
from orchestrator.store.file.schema_shape import faults, harden
from orchestrator.store.integrity.chain_head import Noted, read_head
from orchestrator.store.integrity.chain_walk import compare, moment, walk
from orchestrator.store.integrity.proof_findings import COPY, OTHER_HEAD, REPAIR, Account, Finding, LostNote, Proof, Row
from orchestrator.store.integrity.residue import Base, Residue, read_marks
from orchestrator.store.integrity.row_consistency import check_indexes, check_rows, contradictions, is_encrypted
from orchestrator.store.integrity.seals import row_hash
from orchestrator.store.rules.budget_rules import KIND as BUDGET
from orchestrator.store.store_operations import APPROVAL_KINDS, mailbox_columns, record_fields

__all__ = ["HASH_LENGTH", "Finding", "Proof", "is_unmade", "prove", "prove_in", "readable"]

HASH_LENGTH = 64


def prove(store: Path, head: str | None, *, deep: bool = False) -> Proof:
    """Return what is wrong with a store.

    Args:
        head: what the chain must contain: the text of a head, or a hash; None if there is none.
        deep: whether to derive every state anew too, and to hold statuses and mailboxes against the records.
    """
    account = Account()
    try:
        with closing(_open(store)) as db:
            return prove_in(db, store, head, account, deep=deep)
    except (sqlite3.Error, UnicodeError) as error:
        account.add("damaged", "file", f"{store} is damaged: {error}; restore it from a copy")
    return _proof(account)


def prove_in(db: sqlite3.Connection, store: Path, head: str | None, account: Account, *, deep: bool = False) -> Proof:
    """Return what is wrong with the store of a connection, within its transaction. Its text is read as `readable` does.

    Raises:
        sqlite3.Error, UnicodeError: the file is damaged.
    """
    if head is None:
        account.add(
            "dropped", "head", f"the head of {store} is missing: whether its end was cut off cannot be told; {OTHER_HEAD}"
        )
    if _is_blank(db):
        account.add("cut off", "file", f"{store} is empty, and its head is not that of an empty store; {COPY}")
        return Proof(account.found)
    wrong = faults(db)
    for fault in wrong:
        account.add(fault.what, "sqlite_master", f"{fault}; {fault.mend(store)}")
    lost = None
    if all(fault.is_harmless for fault in wrong):
        _check_within(db, account, head, deep=deep)
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
    """Return whether a file was being made when its program was killed: it is empty, and its head names nothing recorded."""
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


def _check_within(db: sqlite3.Connection, account: Account, head: str | None, *, deep: bool) -> None:
    """Hold what is recorded against the chain: it is in tables and indexes as the program makes them."""
    walk(db, account)
    compare(account)
    check_rows(db, account)
    check_indexes(db, account)
    account.notices += [_describe_repair(db, seq) for seq in account.repairs]
    if deep:
        cipher = cipher_of(None, "the store")
        if isinstance(cipher, Plain) and is_encrypted(db):
            account.notices.append(f"encrypted states are not derived anew without the key: set {KEY_FILE}")
        for what, where, text, seq in contradictions(db, cipher):
            account.add(what, where, f"{text}; {COPY}", seq)
    if head is not None:
        _check_head(head, account)


def _describe_repair(db: sqlite3.Connection, seq: int) -> str:
    """Return what to say of the record of a repair."""
    time_us, body = db.execute("SELECT time_us, body FROM records WHERE seq = ?", (seq,)).fetchone()
    try:
        said = decode(body)
        return f"repaired at {moment(time_us)} by {said['by']}, record {seq}: {said['found']}; {said['unproven']}"
    except (ValueError, TypeError, LookupError, AttributeError):
        return f"record {seq} tells of a repair, and is not as a program writes it"


def _open(store: Path) -> sqlite3.Connection:
    db = connect_reader(store.resolve(), sqlite3.Connection)
    harden(db)
    # Text that is no UTF-8 cannot have been written by us, and is to be told, not to be stumbled over.
    db.text_factory = readable
    db.execute("BEGIN")
    return db


def readable(text: bytes) -> str:
    """Return text of a file, whatever is in it."""
    return text.decode("utf-8", "surrogateescape")


def _check_head(head: str, account: Account) -> None:
    """Hold the chain against its head."""
    newest = max(account.hashes, default=0)
    try:
        noted = None if len(head) == HASH_LENGTH else read_head(head)
    except ValueError as error:
        account.add("edited", "head", f"the head cannot be read back: {error}; {OTHER_HEAD}")
        return
    hash = head if noted is None else noted.hash
    place = next((place for place, (of_seal, _) in account.hashes.items() if of_seal == hash), None)
    if place is None and (noted is None or noted.position > newest):
        text = "the chain ends before its head, or was written anew: seals, and what they covered, were cut off"
        text += f"; or it is a head from before seal {account.base.position}, which was pruned" * (account.base.position > 0)
        account.add("cut off", "head", f"{text} after record {account.sealed}; {COPY}", account.sealed + 1)
    elif place is None or noted not in (None, Noted(place, account.hashes[place][1], hash)):
        older = ", or it is from before the store was pruned" if account.base.position else ""
        text = f"the head is of no seal of this store: it was edited, or the chain was{older}; {OTHER_HEAD}"
        account.add("edited", "head", text)
    elif place < newest:
        account.notices.append(f"the head is that of seal {place} of {newest}: what came later is proven by the chain alone")


def _name_record(db: sqlite3.Connection, finding: Finding) -> Finding:
    """Return a finding with what is known of its record: from the record, or from the index if it is gone."""
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
"""What values raise that no program of ours has written."""


@frozen
class Move:
    """What a seal says that moved the base of the chain, or worked below it."""

    seal: int
    base: Base
    residues: Mapping[int, str | None]
    """What it notes of residues, by their position; None of one that is gone."""


def find_lost_note(db: sqlite3.Connection, account: Account) -> LostNote | None:
    """Return the residue which no seal notes since a later prune dropped the note of it, if that is all that is wrong.

    An earlier version dropped it if the seal that held it was pruned in the very commit that moved the base on from that
    residue. The law: what is taken for the defect is what only the defect can have left in a chain that nobody has written
    anew. None if something else is wrong, or it is not that:

        seal M            the first that is there and moved the base beyond the residue: it notes the residue it moved to,
                          which begins with the record after the lost one's last, and it notes of no residue that it is gone.
                          So the one before stayed, and was noted somewhere; nothing that is there now notes it
        the residue       is as a program writes one, fits its records, and begins after the one before it
        other rows        what the chain notes of messages, approvals and reservations of its records agrees with them

    This proves that a residue was left there, not what was in it: its hash was only in the note that is gone.

    Args:
        account: of a proof that has looked at everything.
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
    """Return a residue that is as a program writes it, and begins after the one before.

    Raises:
        ValueError: it is not, or does not.
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
    """Return what moved the base from that residue, as only the defect leaves it; None if nothing did, or not so. Pure."""
    at_it = [move for move in moves if move.base.position <= residue.position]
    beyond = moves[len(at_it) :]
    if not beyond or any((move.base.position, move.base.last_seq) != (residue.position, residue.last_seq) for move in at_it):
        return None
    move = beyond[0]
    # It is there: it covers the record that says who pruned before, which always stays.
    row = rows[move.base.position]
    fits = row[1] == residue.last_seq + 1 and move.residues.get(row[0]) == row_hash(row)
    return move if fits and None not in move.residues.values() else None


def _agrees(db: sqlite3.Connection, residue: Residue) -> bool:
    """Return whether what is noted of other rows agrees with the records of the residue.

    A reservation has no row any more once it is closed; of a message and an approval the row stays as long as the record.
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
