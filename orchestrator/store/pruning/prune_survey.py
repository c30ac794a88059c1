"""A pass over the seals of a store that is to be pruned: what of each portion is removed, and what proves the rest.

Invariant: every record, removed or kept, is first checked against its seal, so that tampering is never taken for pruning.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, TypeAlias

from attrs import define, field

from orchestrator.errors import StoreCorrupt
from orchestrator.events import current_kind
from orchestrator.store.integrity.record_bytes import records, take_in
from orchestrator.store.integrity.residue import Base, Residue
from orchestrator.store.integrity.seals import BETWEEN, Note, row_hash, trailer
from orchestrator.store.pruning.prune_plan import Found, Plan
from orchestrator.store.store_protocol import EFFECT_KINDS

Place: TypeAlias = tuple[str, tuple[Any, ...]]
"""A table and the key of a row in it."""

PORTION = 1000
"""Minimum number of records per commit, unless there are fewer: seals are processed as a whole."""
_PORTION_BYTES = 16_000_000

_SEALS = """
SELECT position, first_seq, last_seq, notes, hash, marks FROM seals WHERE position > ? AND first_seq <= ? ORDER BY position
"""
_NOTES = "SELECT position, notes FROM seals WHERE position > ? ORDER BY position"
_USED_UP = "SELECT seq, consumed_step FROM mailbox WHERE seq > ? AND seq <= ? AND consumed_step IS NOT NULL"


@define
class Portion:
    """The work of one commit: consecutive seals, and the records under them."""

    base: Base
    """Where the chain begins before this portion is pruned."""
    positions: list[int] = field(factory=list[int])
    hashes: list[str] = field(factory=list[str])
    """Hashes of these seals."""
    residues: list[int] = field(factory=list[int])
    """Positions of those that are residues already."""
    whole: list[int] = field(factory=list[int])
    """Positions of the others."""
    runs: list[tuple[int, int]] = field(factory=list[tuple[int, int]])
    """First and last number of each run of removed records."""
    records: Counter[int] = field(factory=Counter[int])
    """Number of removed records, by harness."""
    bytes: Counter[int] = field(factory=Counter[int])
    steps: dict[int, list[int]] = field(factory=dict[int, list[int]])
    """Numbers of the removed steps, by harness."""
    marks: list[tuple[int, int, int]] = field(factory=list[tuple[int, int, int]])
    """Harness, step and number of each removed intent and outcome."""
    messages: list[int] = field(factory=list[int])
    kept: Counter[tuple[int, str]] = field(factory=Counter[tuple[int, str]])
    """Number of records kept below the floor, by harness and kind."""
    residue: Residue = field(factory=lambda: Residue(0, 0, 0, "", {}))
    """The residue over the kept records."""

    @property
    def position(self) -> int:
        """Position of the last of its seals."""
        return self.positions[-1]

    def changes(self, base: Base) -> bool:
        """Return whether there is anything to do; always true above the base, which moves past it."""
        return bool(self.runs) or self.position > base.position

    def base_after(self, by: str, time_us: int) -> Base:
        """Return where the chain begins once this portion is pruned."""
        old = self.base
        if self.position <= old.position:
            return Base(old.position, old.hash, old.last_seq, by, time_us)
        return Base(self.position, self.hashes[-1], self.residue.last_seq, by, time_us)


@define
class Latest:
    """Tracks which seal was the last to note each row."""

    places: dict[Place, tuple[int, str | None]] = field(factory=dict[Place, tuple[int, str | None]])
    by_seal: dict[int, set[Place]] = field(factory=dict[int, set[Place]])
    position: int = 0
    """Position of the last seal that was read."""

    def read(self, db: sqlite3.Connection) -> None:
        """Read the seals that are new since the last time."""
        self.add(db.execute(_NOTES, (self.position,)))

    def add(self, seals: Iterable[tuple[int, str]]) -> None:
        """Take in the position and the notes of new seals, in order."""
        for position, text in seals:
            self.position = position
            for table, key, hash in json.loads(text or "[]"):
                if table:
                    self._note((table, tuple(key)), position, hash)
                elif key[:1] == ["anew"]:
                    self._forget()

    def noted_in(self, positions: Iterable[int]) -> list[tuple[Note, Place]]:
        """Return the notes on existing rows that some seals were the last to make, and forget them."""
        found: list[tuple[Note, Place]] = []
        for position in positions:
            for table, key in self.by_seal.pop(position, ()):
                _, hash = self.places.pop((table, key))
                if hash is not None:
                    found.append(((table, list(key), hash), (table, key)))
        return found

    def _forget(self) -> None:
        """Forget the notes on rows, as verification does: the seal notes all of them anew."""
        for place in [place for place in self.places if place[0] != "seals"]:
            self.by_seal[self.places.pop(place)[0]].discard(place)

    def _note(self, place: Place, position: int, hash: str | None) -> None:
        before = self.places.get(place)
        if before is not None:
            self.by_seal[before[0]].discard(place)
        self.places[place] = position, hash
        self.by_seal.setdefault(position, set()).add(place)


def portions(db: sqlite3.Connection, plan: Plan, base: Base, latest: Latest, *, after: int = 0) -> Iterator[Portion]:
    """Yield the work portion by portion.

    Args:
        db: within a transaction.
        latest: the notes on residues; it has read the seals.
        after: position of the last processed seal.

    Raises:
        StoreCorrupt: a seal does not match its records.
    """
    looker = _Looker(db, plan, base, latest)
    for row in db.execute(_SEALS, (after, plan.until)):
        looker.take(row)
        if looker.is_full:
            yield looker.end()
    if looker.portion.positions:
        yield looker.end()


class _Looker:
    """Examines seals one after the other."""

    def __init__(self, db: sqlite3.Connection, plan: Plan, base: Base, latest: Latest) -> None:
        self._db = db
        self._plan = plan
        self._base = base
        self._before = base.hash
        self._latest = latest
        self._first: int | None = None
        self._last = self._bytes = 0
        self._begin(base)

    @property
    def is_full(self) -> bool:
        return len(self._kept) + sum(self.portion.records.values()) >= PORTION or self._bytes >= _PORTION_BYTES

    def take(self, row: tuple[Any, ...]) -> None:
        """Add a seal to the portion."""
        position, first, last, notes, hash, _ = row
        is_residue = position <= self._base.position
        seal = sha256(b"" if is_residue else self._before.encode())
        used_up = dict(self._db.execute(_USED_UP, (first - 1, last)))
        for (seq, harness, _, _, step, time_us, kind), pieces in records(self._db, first - 1, last):
            self._sort(Found(seq, harness, step, time_us, kind), pieces, seal, used_up)
            seal.update(BETWEEN)
        seal.update(trailer(position, first, last, notes))
        noted = self._latest.places.get(("seals", (position,)), (0, None))[1]
        if seal.hexdigest() != hash or (is_residue and noted != row_hash(row)):
            raise StoreCorrupt(
                f"records {first} to {last} do not match their seal: nothing of them was pruned; "
                "run `orchestrator verify` for details and the remedy"
            )
        self.portion.positions.append(position)
        self.portion.hashes.append(hash)
        self._last = last
        if self._first is None:
            self._first = first
        if is_residue:
            self.portion.residues.append(position)
        else:
            self.portion.whole.append(position)
            self._before = hash

    def end(self) -> Portion:
        """Return the portion, and begin another."""
        portion, first, last = self.portion, self._first or 0, self._last
        self._digest.update(trailer(portion.position, first, last, ""))
        portion.residue = Residue(portion.position, first, last, self._digest.hexdigest(), self._kept)
        self._begin(portion.base_after("", 0))
        return portion

    def _begin(self, base: Base) -> None:
        self.portion = Portion(base)
        self._digest, self._kept = sha256(), dict[int, int]()
        self._first, self._last, self._bytes = None, 0, 0

    def _sort(self, record: Found, pieces: Iterable[bytes], seal: Any, used_up: Mapping[int, int]) -> None:
        """Hash a record for its seal, and note whether it is removed or kept."""
        portion, plan = self.portion, self._plan
        if not plan.goes(record, used_up):
            size, self._kept[record.seq] = take_in(pieces, seal, self._digest)
            self._digest.update(BETWEEN)
            self._bytes += size
            if record.step < plan.by_number.get(record.harness, 0) and record.seq <= plan.until:
                portion.kept[record.harness, current_kind(record.kind)] += 1
            return
        size, _ = take_in(pieces, seal)
        self._bytes += size
        portion.records[record.harness] += 1
        portion.bytes[record.harness] += size
        if portion.runs and portion.runs[-1][1] == record.seq - 1:
            portion.runs[-1] = portion.runs[-1][0], record.seq
        else:
            portion.runs.append((record.seq, record.seq))
        if record.kind == "step":
            portion.steps.setdefault(record.harness, []).append(record.step)
        elif record.kind in EFFECT_KINDS:
            portion.marks.append((record.harness, record.step, record.seq))
        elif record.kind == "message":
            portion.messages.append(record.seq)
