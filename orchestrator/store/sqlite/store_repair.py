"""Mending what an earlier version has left in a store: `upgrade(path)` its schema, `repair(path, by=…)` what a defect did.

The only such defect is the note that a second prune dropped: `proof.find_lost_note`. The laws: a store with anything
else wrong is left as it is; the repair is one transaction, and the store is proven at its beginning and at its end, so whoever
is killed leaves it as it was or repaired; the record of the repair says what cannot be known any more.
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
"""The first schema version whose records are sealed: what is older cannot be proven."""
_DONE = "the residue, as it is now, is noted by the seal over this record"


def repair(path: str | Path, *, by: str, busy_s: float = 10.0) -> LostNote | None:
    """Put the missing note into a new seal; return what was mended, None if there is nothing to mend.

    No program may run on the store: the proof, which takes as long as `orchestrator verify --deep`, holds the write lock.

    Args:
        by: who has it done; it is recorded.

    Raises:
        StoreCorrupt: something else is wrong with it. Nothing was written.
        OwnedElsewhere: a program runs on it.
        StoreError: it is not a store of ours, or cannot be written.
    """
    store = Path(path).resolve()
    with closing(open_reader(store, older=True)):
        pass  # refuses what is not there, what is no store, and what is newer than this program
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
    """Bring a store of an earlier version to this one's schema; return the schema version it had, None if there is no need.

    A store without a head beside it is upgraded too: it may be a copy, and is no more proven afterwards than before.

    Raises:
        StoreCorrupt: it was changed by something other than this project. Nothing was written.
        OwnedElsewhere: a program runs on it.
        StoreError: it is not a store of ours, or cannot be written.
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
    """Record what is done, and note the residue in the seal over that."""
    seals.take_up()
    db.execute(_INSERT, (now_us(), encode(_account(lost, by)), REPAIRED))
    seals.seal([lost.residue.note()])


def _account(lost: LostNote, by: str) -> dict[str, object]:
    """Return what is said of a repair."""
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
    """Return what is to be mended; None if the store is untouched.

    Raises:
        StoreCorrupt: something else is wrong with it.
    """
    if not proof.findings:
        return None
    if proof.lost_note is None:
        more = f", and {len(proof.findings) - 1} more" if len(proof.findings) > 1 else ""
        first = proof.findings[0]
        raise StoreCorrupt(
            f"{store} was not repaired, and its records are as they were: expected nothing wrong with it but the known "
            f"defect, found {first.what}: {first.text}{more}; run `orchestrator verify --deep` to see all of it"
        )
    return proof.lost_note


def _expect_untouched(store: Path, proof: Proof) -> None:
    if proof.findings:
        text = proof.findings[0].text
        raise StoreError(
            f"{store} was not repaired, and its records are as they were: after the repair it would still not verify: {text}"
        )


def _prove(db: Connection, store: Path) -> Proof:
    return prove_in(db, store, _head(store), Account(), deep=True)


def _head(store: Path) -> str | None:
    path = head_path(store)
    return path.read_text("utf-8", "replace") if path.is_file() else None
