"""What a pruned store records of removed records, and what proves the kept ones. Written by `prune_store.py`.

    seals 1 … base        removed, or replaced by one *residue* for several: `marks` has number and crc32 of each kept record,
                          `hash` is computed over them like a seal's, with no hash before it, and `notes` is empty
    seals base + 1 …      unchanged: the first follows the hash that the base had

Invariant: the newest seal whose notes begin with `["", ["pruned", position, hash, last record, by whom, when], null]` defines
the base. It and earlier such seals note the hash of each residue's row in table `seals`; every other row last noted by a seal
below the base is noted again in one of them. So the chain from the base to the head proves what is there, and that the
program removed the rest.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterable
from typing import Any

from attrs import frozen

from orchestrator.store.integrity.seals import Note, row_hash

NEWEST_BASE = """
SELECT notes FROM seals WHERE substr(notes, 1, 15) = '[["",["pruned",' ORDER BY position DESC LIMIT 1
"""
_MARK = struct.Struct("<QI")


@frozen
class Base:
    """Where the remaining chain begins."""

    position: int = 0
    """Position of the last removed seal; 0 if nothing was pruned."""
    hash: str = ""
    """Hash of the last removed seal."""
    last_seq: int = 0
    """The last record under the last removed seal. Records up to this one are under residues."""
    by: str = ""
    time_us: int = 0

    def note(self) -> Note:
        """Return the note that defines the base, the first one of its seal."""
        return "", ["pruned", self.position, self.hash, self.last_seq, self.by, self.time_us], None


NOT_PRUNED = Base()


@frozen
class Residue:
    """The kept records under some pruned seals."""

    position: int
    """Position of the last of these seals."""
    first_seq: int
    last_seq: int
    hash: str
    marks: dict[int, int]
    """Marks of the records, by record number."""

    def row(self) -> tuple[Any, ...]:
        """Return it as a row of the table of seals."""
        packed = b"".join(_MARK.pack(*mark) for mark in self.marks.items())
        return self.position, self.first_seq, self.last_seq, "", self.hash, packed

    def note(self) -> Note:
        """Return the note of that row."""
        return "seals", [self.position], row_hash(self.row())


def read_base(db: sqlite3.Connection) -> Base:
    """Return the base, as the chain defines it."""
    return base_in(db.execute(NEWEST_BASE).fetchone())


def base_in(row: tuple[Any, ...] | None) -> Base:
    """Return the base that a row of `NEWEST_BASE` defines."""
    try:
        _, position, hash, last_seq, by, time_us = json.loads(row[0])[0][1] if row else ("", 0, "", 0, "", 0)
        sound = [type(each) for each in (position, hash, last_seq, by, time_us)] == [int, str, int, str, int]
        return Base(position, hash, last_seq, by, time_us) if sound and 0 <= position <= 1 << 62 else NOT_PRUNED
    except (ValueError, TypeError, IndexError, KeyError, RecursionError):
        return NOT_PRUNED


def read_marks(packed: bytes) -> dict[int, int]:
    """Return the marks of a residue.

    Raises:
        struct.error, TypeError: no program can have written it.
    """
    return dict(_MARK.iter_unpack(packed))


def note_gone(positions: Iterable[int]) -> list[Note]:
    """Return the notes for removed residues."""
    return [("seals", [position], None) for position in positions]
