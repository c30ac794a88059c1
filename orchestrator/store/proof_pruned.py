"""Whether what a pruned store has kept from below the beginning of its chain is what was left there."""

from __future__ import annotations

import sqlite3
import struct
from datetime import UTC, datetime

from orchestrator.store.proof_account import COPY, Account, Row, Seal
from orchestrator.store.proof_marks import LEAST, hold
from orchestrator.store.pruning_residue import read_marks
from orchestrator.store.record_bytes import records, take_in

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
