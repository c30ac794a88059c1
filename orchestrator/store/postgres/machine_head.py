"""What a machine has seen of a store on a server: its newest seal, on a disk where whoever has the database cannot change it.

    folder of an address    `<store>-head`: the head of the one store that was seen there

Invariant: a head is replaced only by a newer seal of the same store, in a chain that contains it. If it was pruned, which
whoever has the database can feign, it stays until somebody removes it, or has given `verify` a later one.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from orchestrator.errors import StoreCorrupt
from orchestrator.store.integrity.chain_head import Head, Noted
from orchestrator.store.integrity.residue import NEWEST_BASE, Base, base_in
from orchestrator.store.postgres.postgres_connection import Database
from orchestrator.text.terminal_text import one_line, say

LAST_SEAL = "SELECT position, last_seq, hash FROM seals ORDER BY position DESC LIMIT 1"
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_END = "-head"


class MachineHead:
    """The newest seal that was seen, in memory and on disk.

    Args:
        folder: this machine's folder for the address; None to keep it in memory alone.

    Raises:
        StoreCorrupt: another store was seen at the address.
        StoreUnusable: the head cannot be written.
    """

    def __init__(self, db: Database, folder: Path | None, location: str) -> None:
        self._location = location
        self._newest: Noted | None = None
        self._is_pruned = False
        (store,) = db.row("SELECT store FROM meta")
        self._head = None if folder is None else Head(path_of(folder, str(store), location))

    def follow(self, db: Database) -> None:
        """Note the newest seal.

        Raises:
            StoreCorrupt: the chain does not contain the one that was noted before, and was not pruned beyond it.
        """
        kept = None if self._head is None else self._head.read()
        noted = max(filter(None, (self._newest, kept)), key=lambda each: each.position, default=None)
        is_there = noted is None or _has(db, noted)
        base = base_in(db.row(NEWEST_BASE))  # after it, since it may be pruned meanwhile
        if noted is not None and not is_there and noted.position > base.position:
            raise self._missing(db, noted)
        was_pruned, self._is_pruned = self._is_pruned, kept is not None and kept.position <= base.position
        if self._is_pruned and not was_pruned and kept is not None and self._head is not None:
            with suppress(OSError, ValueError):  # stderr is closed
                say(f"orchestrator: {describe_pruned(kept, base, self._head.path, self._location)}")
        row = db.row(LAST_SEAL)
        if row is not None and (noted is None or row[0] > noted.position):
            self.note(Noted(*row))

    def note(self, noted: Noted) -> None:
        """Note a seal of the chain that was followed."""
        self._newest = noted
        if self._head is not None and not self._is_pruned:
            self._head.write(noted)

    def close(self) -> None:
        """Close the file."""
        if self._head is not None:
            self._head.close()

    def _missing(self, db: Database, noted: Noted) -> StoreCorrupt:
        last = db.row(LAST_SEAL) or (0, 0, "")
        named = "this program" if self._head is None else f"its head on this machine, {self._head.path}"
        return StoreCorrupt(
            f"{self._location} is older than {named}, or was changed: expected seal {noted.position} over record "
            f"{noted.last_seq}, its last is seal {last[0]} over record {last[1]}; run `orchestrator verify`, and restore the "
            "newer one, or remove the head if you put an older store there yourself"
        )


def path_of(folder: Path, store: str, location: str) -> Path:
    """Return the path whose head is that of a store.

    Raises:
        StoreCorrupt: another store was seen at the address.
    """
    heads = {head.name.removesuffix(_END): head for head in sorted(folder.glob(f"*{_END}"))}
    others = {of: head for of, head in heads.items() if _ID.fullmatch(of) and of != store}
    if others or not _ID.fullmatch(store):
        expected = " or ".join(others) or "an id of 36 digits"
        removed = f", or remove {' and '.join(map(str, others.values()))} if you replaced the database yourself" * bool(others)
        raise StoreCorrupt(
            f"{location} is another store than this machine has seen there: expected {expected} in table meta, got "
            f"{store!r:.60}; restore the one that was there{removed}"
        )
    return folder / store


def describe_pruned(noted: Noted, base: Base, head: Path, location: str) -> str:
    """Return what follows from a head that was pruned."""
    return (
        f"seal {noted.position}, the last of {location} that this machine has seen, was pruned by {one_line(base.by, 60)!r}: "
        "whether the store was written anew cannot be told here; give `orchestrator verify` a later head with --head, or "
        f"remove {head} to trust the store as it is now"
    )


def _has(db: Database, noted: Noted) -> bool:
    row = db.row("SELECT hash, last_seq FROM seals WHERE position = %s", (noted.position,))
    return bool(row == (noted.hash, noted.last_seq))
