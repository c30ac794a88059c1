"""The mark that a known defect has left in a chain: a residue which no seal notes, since a later prune dropped the note of it.

An earlier version dropped it if the seal that held it was pruned in the very commit that moved the base on from that residue.
The law: what is taken for the defect is what only the defect can have left in a chain that nobody has written anew.

    seal M            the first that is there and moved the base beyond the residue: it notes the residue it moved to, which
                      begins with the record after the lost one's last, and it notes of no residue that it is gone. So the
                      one before stayed, and was noted somewhere; nothing that is there now notes it
    the residue       is as a program writes one, fits its records, and begins after the one before it
    other rows        what the chain notes of messages, approvals and reservations of its records agrees with them

This proves that a residue was left there, not what was in it: its hash was only in the note that is gone.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from orchestrator.codec import decode
from orchestrator.store.integrity.proof_findings import Account, LostNote, Row
from orchestrator.store.integrity.residue import Base, Residue, read_marks
from orchestrator.store.integrity.seals import row_hash
from orchestrator.store.rules.budget_rules import KIND as BUDGET
from orchestrator.store.store_operations import APPROVAL_KINDS, mailbox_columns, record_fields

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
    """Return the residue whose note was lost, if that is all that is wrong; None if not, or if it is not the defect.

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
