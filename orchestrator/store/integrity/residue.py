"""What a pruned store says of what is gone, and what proves what has stayed of it. Written by `prune_store.py`.

    seals 1 … base        gone, or one *residue* for many: `marks` has number and crc32 of each record that has stayed, `hash`
                          is over them as a seal's is, with nothing before it, and `notes` is empty
    seals base + 1 …      as they were written: the first follows the hash that the base had

The law: the newest seal whose notes begin with `["", ["pruned", position, hash, last record, by whom, when], null]` says what
the base is. What its own and earlier such seals note of the table `seals` is the hash of the row of each residue, and every
other row that a seal below the base was the last to note is noted anew in one of them. So the chain from the base to the head
proves what is there, and that it was the program that took away what is not.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterable
from typing import Any

from attrs import frozen

from orchestrator.store.integrity.seals import Note, row_hash

_NEWEST = """
SELECT notes FROM seals WHERE substr(notes, 1, 15) = '[["",["pruned",' ORDER BY position DESC LIMIT 1
"""
_MARK = struct.Struct("<QI")


@frozen
class Base:
    """Where what is left of the chain begins."""

    position: int = 0
    """Of the last seal that is gone; 0 if nothing was pruned."""
    hash: str = ""
    """That it had."""
    last_seq: int = 0
    """The last record under it. What is there up to here is under residues."""
    by: str = ""
    time_us: int = 0

    def note(self) -> Note:
        """Return what a seal says of it, before anything else."""
        return "", ["pruned", self.position, self.hash, self.last_seq, self.by, self.time_us], None


NOT_PRUNED = Base()


@frozen
class Residue:
    """What has stayed of the records under some seals."""

    position: int
    """Of the last of these seals."""
    first_seq: int
    last_seq: int
    hash: str
    marks: dict[int, int]
    """Of each record, by its number."""

    def row(self) -> tuple[Any, ...]:
        """Return it as a row of the table of seals."""
        packed = b"".join(_MARK.pack(*mark) for mark in self.marks.items())
        return self.position, self.first_seq, self.last_seq, "", self.hash, packed

    def note(self) -> Note:
        """Return what a seal notes of that row."""
        return "seals", [self.position], row_hash(self.row())


def read_base(db: sqlite3.Connection) -> Base:
    """Return where the chain begins, as the chain itself says."""
    row = db.execute(_NEWEST).fetchone()
    try:
        _, position, hash, last_seq, by, time_us = json.loads(row[0])[0][1] if row else ("", 0, "", 0, "", 0)
        sound = [type(each) for each in (position, hash, last_seq, by, time_us)] == [int, str, int, str, int]
        return Base(position, hash, last_seq, by, time_us) if sound and 0 <= position <= 1 << 62 else NOT_PRUNED
    except (ValueError, TypeError, IndexError, KeyError, RecursionError):
        return NOT_PRUNED


def read_marks(packed: bytes) -> dict[int, int]:
    """Return the marks of a residue.

    Raises:
        struct.error, TypeError: nobody can have written it so.
    """
    return dict(_MARK.iter_unpack(packed))


def note_gone(positions: Iterable[int]) -> list[Note]:
    """Return what a seal notes of residues that are not there any more."""
    return [("seals", [position], None) for position in positions]
