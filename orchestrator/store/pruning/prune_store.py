"""Removal of old records: `prune(path, Rule(keep=1000))`. `prune_plan.py` decides what is removed.

Invariants: nothing is removed that does not verify, or that a harness may need again. Between any two commits the store opens
and verifies, and records how far it was pruned (`residue.py`). A program running on it waits for one short commit at a time.

    look      find which steps of each harness must be kept
    say       record who prunes what. After that, everything existing is under seals, and the head is on disk
    take      a few seals at a time: check each against its records, delete what is removed, put the rest under a residue
    files     remove the files with large values that no record names any more, and the summary, which has what was removed
"""

from __future__ import annotations

import sqlite3
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from attrs import define, field

from harnesses.files.safe_files import sync
from harnesses.timing.clock import now_us
from orchestrator.codec import encode
from orchestrator.errors import StoreBusy, StoreCorrupt
from orchestrator.store.file.schema import INDEX_NEW
from orchestrator.store.file.schema_shape import Connection
from orchestrator.store.file.summary_folder import remove_summary
from orchestrator.store.file.value_files import files_folder, named_files, unnamed
from orchestrator.store.integrity.chain_head import head_path
from orchestrator.store.integrity.residue import NOT_PRUNED, Base, note_gone, read_base
from orchestrator.store.integrity.seals import SEAL_EVERY_S, Sealer, sealed_transaction
from orchestrator.store.pruning.prune_plan import Floor, Plan, Rule, read_plan
from orchestrator.store.pruning.prune_survey import Latest, Portion, portions
from orchestrator.store.sqlite.sqlite_file import open_reader, open_writer, translated

_BREATH_S = 0.002
"""Minimum seconds between two commits, so that others get their turn; at least as long as the last commit took."""

_THERE = "SELECT hash FROM seals WHERE position >= ? AND position <= ? ORDER BY position"
_EMPTY = "DELETE FROM seals WHERE position = ? AND length(marks) = 0"
_INSERT = "INSERT INTO seals (position, first_seq, last_seq, notes, hash, marks) VALUES (?, ?, ?, ?, ?, ?)"


@define
class Pruned:
    """What is removed, or would be, and what is kept."""

    floors: Sequence[Floor]
    base: Base
    """Where the chain of seals begins now."""
    steps: Counter[int] = field(factory=Counter[int])
    """Removed steps, by the store's number for the harness."""
    records: Counter[int] = field(factory=Counter[int])
    bytes: Counter[int] = field(factory=Counter[int])
    """Removed bytes of recorded data; the file has some overhead."""
    kept: dict[int, dict[str, int]] = field(factory=dict[int, dict[str, int]])
    """Records below the floor that are kept, by their kind."""
    runs: list[tuple[int, int]] = field(factory=list[tuple[int, int]])
    """First and last `seq` of each run of removed records, in order."""
    files: int = 0
    """Removed files with large values: those that no remaining record names."""
    file_bytes: int = 0

    def add(self, portion: Portion) -> None:
        self.records.update(portion.records)
        self.runs += portion.runs
        self.bytes.update(portion.bytes)
        for harness, steps in portion.steps.items():
            self.steps[harness] += len(steps)
        for (harness, kind), count in portion.kept.items():
            self.kept.setdefault(harness, Counter[str]())[kind] += count


def survey(path: str | Path, rule: Rule, names: Collection[str] = ()) -> Pruned:
    """Return what pruning would remove, without writing anything.

    Raises:
        StoreError: it is not a valid store, or was changed by something else.
        UnknownHarness: there is no such harness.
    """
    return _look(path, rule, names)[1]


def prune(path: str | Path, rule: Rule, names: Collection[str] = (), *, by: str, busy_s: float = 10.0) -> Pruned:
    """Remove old records; another process may be running on the store. Run again after a crash, it continues.

    Args:
        names: the harnesses to prune; empty for all.
        by: who prunes; it is recorded.

    Raises:
        StoreError: it is not a valid store, was changed by something else, or is being pruned by another process.
        UnknownHarness: there is no such harness.
    """
    plan, would = _look(path, rule, names)
    if not would.records and not would.files:
        return would
    store = Path(path).resolve()
    with closing(open_writer(store, busy_s)) as db:
        db.execute(f"PRAGMA busy_timeout = {int(busy_s * 1000)}")
        with explain_errors(path):
            return _Pruner(db, store, plan, by).run(rule)


def _look(path: str | Path, rule: Rule, names: Collection[str]) -> tuple[Plan, Pruned]:
    """Return the plan and what it would remove, with every record checked against its seal."""
    with closing(open_reader(Path(path).resolve())) as db, explain_errors(path):
        db.execute("BEGIN")
        plan, base, latest = read_plan(db, rule, names), read_base(db), Latest()
        would = Pruned(plan.floors, base)
        if plan.until:
            latest.read(db)
            for portion in portions(db, plan, base, latest):
                would.add(portion)
        _count_files(would, unnamed(files_folder(Path(path).resolve()), _still_named(db, would.runs)))
    return plan, would


def _still_named(db: sqlite3.Connection, runs: Sequence[tuple[int, int]], after: int = 0) -> set[str]:
    """Return the files that records outside of `runs` name."""
    last = [run[1] for run in runs]

    def goes(seq: int) -> bool:
        at = bisect_left(last, seq)
        return at < len(runs) and runs[at][0] <= seq

    return {file.sha256 for seq, file in named_files(db, after) if not goes(seq)}


def _count_files(pruned: Pruned, files: Sequence[tuple[Path, int]]) -> None:
    pruned.files, pruned.file_bytes = len(files), sum(size for _, size in files)


@contextmanager
def explain_errors(path: str | Path) -> Generator[None]:
    """Convert errors of an unusable file, or of values that no program wrote, into messages with a remedy."""
    with translated(str(path)):
        try:
            yield
        except (TypeError, ValueError, AttributeError, LookupError, OverflowError) as error:
            raise StoreCorrupt(
                f"{path} contains something that was not written by a program: {error}; run `orchestrator verify` to see "
                "more, and restore the store from a copy"
            ) from error


def statement(rule: Rule, plan: Plan, by: str) -> str:
    """Return the body of the record that says who prunes what."""
    rules = {"keep": rule.keep, "since_us": rule.since_us, "context": rule.context}
    first = {floor.harness: floor.first for floor in plan.floors if floor.goes}
    return encode({"by": by, **{name: value for name, value in rules.items() if value is not None}, "first": first})


class _Pruner:
    """Carries out a plan.

    Args:
        db: a connection that writes.
    """

    def __init__(self, db: Connection, store: Path, plan: Plan, by: str) -> None:
        self._db = db
        self._store = store
        self._plan = plan
        self._by = by
        self._seals = Sealer(db, store, SEAL_EVERY_S)
        self._latest = Latest()

    def run(self, rule: Rule) -> Pruned:
        pruned = Pruned(self._plan.floors, NOT_PRUNED)
        try:
            with sealed_transaction(self._db, self._store, self._seals):
                self._seals.take_up()
            with sealed_transaction(self._db, self._store, self._seals):
                self._say(rule)
            # The seal in the head on disk is never pruned, so it stays in the chain whatever happens to later ones.
            sync(head_path(self._store))
            for portion in self._portions():
                began = time.monotonic()
                with sealed_transaction(self._db, self._store, self._seals):
                    self._take(portion)
                pruned.add(portion)
                time.sleep(max(_BREATH_S, time.monotonic() - began))
        finally:
            self._seals.close()
            remove_summary(self._store)
        pruned.base = read_base(self._db)
        _count_files(pruned, self._remove_files())
        return pruned

    def _remove_files(self) -> list[tuple[Path, int]]:
        """Remove the files that no record names any more. Those of new records are looked up under the write lock."""
        folder = files_folder(self._store)
        if not folder.is_dir():
            return []
        with self._reading():
            (newest,) = self._db.execute("SELECT coalesce(max(seq), 0) FROM records").fetchone()
            named = _still_named(self._db, ())
        with self._db.writing():
            files = unnamed(folder, named | _still_named(self._db, (), newest))
            for path, _ in files:
                path.unlink(missing_ok=True)
        return files

    def _portions(self) -> Generator[Portion]:
        """Yield the work for each commit, examined outside of it."""
        after = 0
        while True:
            with self._reading():
                self._latest.read(self._db)
                base = read_base(self._db)
                portion = next(portions(self._db, self._plan, base, self._latest, after=after), None)
            if portion is None:
                return
            if portion.changes(base):
                yield portion
            after = portion.position

    def _say(self, rule: Rule) -> None:
        """Record who prunes what, with every step indexed."""
        for index in INDEX_NEW:
            self._db.execute(index)
        self._db.execute("UPDATE meta SET indexed_seq = (SELECT max(seq) FROM records)")
        said = statement(rule, self._plan, self._by)
        self._db.execute(
            "INSERT INTO records (harness, epoch, attempt, step, time_us, body, kind) VALUES (0, 0, 0, 0, ?, ?, 'pruned')",
            (now_us(), said),
        )
        self._seals.seal()

    def _take(self, portion: Portion) -> None:
        """Delete the removed records of a portion, and replace its seals by a residue over the rest."""
        db, old = self._db, portion.base
        there = db.execute(_THERE, (portion.positions[0], portion.position)).fetchall()
        if [hash for (hash,) in there] != portion.hashes or read_base(db).position != old.position:
            raise StoreBusy(f"{self._store} is being pruned by another process: wait until that ends, and try again")
        self._delete(portion)
        base = portion.base_after(self._by, now_us())
        taken = [*portion.residues]
        if old.position < base.position and db.execute(_EMPTY, (old.position,)).rowcount:
            taken.append(old.position)
        notes = [base.note(), *note_gone(taken)]
        if portion.residue.marks or base.position == portion.position:
            db.execute(_INSERT, portion.residue.row())
            notes.append(portion.residue.note())
        self._latest.read(db)
        left = {("mailbox", (seq,)) for seq in portion.messages} | {("seals", (position,)) for position in taken}
        notes += [note for note, place in self._latest.noted_in(portion.whole) if place not in left]
        self._seals.seal(notes)

    def _delete(self, portion: Portion) -> None:
        db = self._db
        db.executemany("DELETE FROM records WHERE seq >= ? AND seq <= ?", portion.runs)
        reaches = [(harness, min(steps), max(steps)) for harness, steps in portion.steps.items()]
        for index in ("step_index", "snapshots"):
            db.executemany(f"DELETE FROM {index} WHERE harness = ? AND step >= ? AND step <= ?", reaches)
        db.executemany("DELETE FROM effect_index WHERE harness = ? AND step = ? AND seq = ?", portion.marks)
        db.executemany("DELETE FROM mailbox WHERE seq = ?", [(seq,) for seq in portion.messages])
        db.execute("DELETE FROM seals WHERE position >= ? AND position <= ?", (portion.positions[0], portion.position))

    @contextmanager
    def _reading(self) -> Generator[None]:
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("COMMIT")
