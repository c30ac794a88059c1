"""Repair of what an earlier version left in a store: `upgrade(path)` its schema, `repair(path, by=…)` the effect of a defect.

The only such defect is a note that a second prune dropped: `proof.find_lost_note`. Invariants: a store with any other fault is
left unchanged; the repair is one transaction, and the store is verified at its beginning and end, so a process that is killed
leaves it unchanged or repaired; the record of the repair says what can no longer be proven.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from harnesses.timing.clock import now_us
from orchestrator.codec import encode
from orchestrator.errors import OwnedElsewhere, StoreCorrupt, StoreError
from orchestrator.store.file.run_lock import running_on
from orchestrator.store.file.schema import VERSION
from orchestrator.store.file.schema_shape import Connection
from orchestrator.store.integrity.chain_head import head_path
from orchestrator.store.integrity.proof import prove, prove_in, readable
from orchestrator.store.integrity.proof_findings import REPAIRED, Account, LostNote, Proof
from orchestrator.store.integrity.seals import Sealer, sealed_transaction
from orchestrator.store.sqlite.sqlite_file import open_reader, open_writer, translated

_INSERT = """
INSERT INTO records (harness, epoch, attempt, step, time_us, body, kind) VALUES (0, 0, 0, 0, ?, ?, ?)
"""
_FIRST_SEALED = 6
"""The first schema version with sealed records; older stores cannot be verified."""
_DONE = "the residue, as it is now, is noted by the seal over this record"


def repair(path: str | Path, *, by: str, busy_s: float = 10.0) -> LostNote | None:
    """Add the missing note to a new seal; return what was repaired, None if nothing was missing.

    No program may be running on the store. The verification takes as long as `orchestrator verify --deep`, and holds the write
    lock.

    Args:
        by: who repairs; it is recorded.

    Raises:
        StoreCorrupt: something else is wrong with it. Nothing was written.
        OwnedElsewhere: a program is running on it.
        StoreError: it is not a store of this program, or cannot be written.
    """
    store = Path(path).resolve()
    with closing(open_reader(store, older=True)):
        pass  # raises if it does not exist, is not a store, or is newer than this program
    if _lost_note(store, prove(store, _head(store), deep=True)) is None:
        return None
    _expect_no_program(store)
    with closing(open_writer(store, busy_s)) as db, translated(str(path)):
        db.text_factory = readable
        db.execute(f"PRAGMA busy_timeout = {int(busy_s * 1000)}")
        with closing(Sealer(db, store)) as seals, sealed_transaction(db, store, seals):
            lost = _lost_note(store, _prove(db, store))
            if lost is not None:
                _note(db, seals, lost, by)
                _expect_untouched(store, _prove(db, store))
    return lost


def upgrade(path: str | Path, *, busy_s: float = 10.0) -> int | None:
    """Upgrade the schema of a store; return its earlier schema version, None if it was current.

    A store without a head beside it is upgraded too: it may be a copy, and an upgrade proves nothing about it.

    Raises:
        StoreCorrupt: it was changed by something else. Nothing was written.
        OwnedElsewhere: a program is running on it.
        StoreError: it is not a store of this program, or cannot be written.
    """
    store = Path(path).resolve()
    with closing(open_reader(store, older=True)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
    if version == VERSION:
        return None
    _expect_no_program(store)
    if version >= _FIRST_SEALED:
        proof = prove(store, _head(store), deep=True)
        if _head(store) is not None or [finding.what for finding in proof.findings] != ["dropped"]:
            _lost_note(store, proof)
    with closing(open_writer(store, busy_s)):
        return int(version)


def _expect_no_program(store: Path) -> None:
    if pids := running_on(store):
        raise OwnedElsewhere(
            f"{store} was not repaired: expected no program on it, but process {pids[0] or '?'} runs; stop it, and try again"
        )


def _note(db: Connection, seals: Sealer, lost: LostNote, by: str) -> None:
    """Record the repair, and note the residue in the seal over that record."""
    seals.take_up()
    db.execute(_INSERT, (now_us(), encode(_account(lost, by)), REPAIRED))
    seals.seal([lost.residue.note()])


def _account(lost: LostNote, by: str) -> dict[str, object]:
    """Return the body of the record of a repair."""
    residue = lost.residue
    return {
        "by": by,
        "found": lost.what,
        "done": _DONE,
        "unproven": lost.unproven,
        "residue": residue.position,
        "residue_hash": residue.note()[2],
        "first_seq": residue.first_seq,
        "last_seq": residue.last_seq,
        "records": len(residue.marks),
        "moved_by": lost.moved_by,
    }


def _lost_note(store: Path, proof: Proof) -> LostNote | None:
    """Return what is to be repaired; None if the store is unchanged.

    Raises:
        StoreCorrupt: something else is wrong with it.
    """
    if not proof.findings:
        return None
    if proof.lost_note is None:
        more = f", and {len(proof.findings) - 1} more" if len(proof.findings) > 1 else ""
        first = proof.findings[0]
        raise StoreCorrupt(
            f"{store} was not repaired, and its records are unchanged: expected no fault but the known "
            f"defect, found {first.what}: {first.text}{more}; run `orchestrator verify --deep` for details"
        )
    return proof.lost_note


def _expect_untouched(store: Path, proof: Proof) -> None:
    if proof.findings:
        text = proof.findings[0].text
        raise StoreError(
            f"{store} was not repaired, and its records are unchanged: it would still not verify after the repair: {text}"
        )


def _prove(db: Connection, store: Path) -> Proof:
    return prove_in(db, store, _head(store), Account(), deep=True)


def _head(store: Path) -> str | None:
    path = head_path(store)
    return path.read_text("utf-8", "replace") if path.is_file() else None
