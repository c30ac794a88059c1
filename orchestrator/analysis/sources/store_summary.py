"""The summary of a store: the copy of its records in columns, kept in a folder beside it (`summary_folder.py`).

It is made on the first demand, and extended on later ones by what was sealed since: a copy ends at a seal of the store. Newer
records, and few ones, are copied for each run into its temporary folder.

    contents.json    version, where the copy ends, and its files with their sizes
    *.parquet        the files of `copied_columns`; small ones are copied again with what is new, so there are few

Invariants: a copy is used only if the store still has the seal at which it ends, and the same record there, and was not
pruned since; otherwise it is made anew. It is never older than the run: what is lacking is copied. Files are opened when the
contents are read, so that removing or replacing them later does not matter.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import stat
from contextlib import ExitStack, closing
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import msgspec
from attrs import frozen

from harnesses.files.safe_files import draft_of
from harnesses.redaction.prefilter import coarse_suspect
from orchestrator.analysis.sources.copied_columns import SHARE, Columns, Range, copy_records
from orchestrator.store.file.summary_folder import remove_others, usable_folder, writing
from orchestrator.store.integrity.residue import read_base
from orchestrator.store.sqlite.sqlite_file import open_reader, translated

_VERSION = 3
"""Version of the files: of their columns and of what is in them."""
_CONTENTS = "contents.json"
_DESCRIPTORS = Path("/proc/self/fd")
_SEAL = "SELECT position, last_seq, hash FROM seals WHERE last_seq <= ? ORDER BY position DESC LIMIT 1"
_SEAL_AT = "SELECT position, last_seq, hash FROM seals WHERE position = ?"
_RECORD = "SELECT harness, epoch, attempt, step, time_us, kind, body FROM records WHERE seq = ?"


@frozen
class Anchor:
    """The state of the store where a copy ends."""

    position: int
    """Position of a seal."""
    last_seq: int
    """Its last record."""
    hash: str
    record: str
    """Hash of that record; of none, if it was pruned."""
    pruned: str
    """How far the store was pruned."""

    @classmethod
    def read(cls, db: sqlite3.Connection, query: str, value: int) -> Anchor | None:
        """Return the state at a seal; None if there is no such seal."""
        found = db.execute(query, (value,)).fetchone()
        if found is None:
            return None
        position, last, hash = found
        record = db.execute(_RECORD, (last,)).fetchone()
        base = read_base(db)
        return cls(position, last, hash, sha256(repr(record).encode()).hexdigest(), f"{base.position} {base.hash}")


class _File(msgspec.Struct):
    name: str
    size: int


class _Part(msgspec.Struct):
    first: int
    last: int
    steps: _File
    others: _File


class _Contents(msgspec.Struct, forbid_unknown_fields=True):
    version: str
    anchor: Anchor
    first: int
    parts: list[_Part]


class Summary:
    """The copy for one run.

    Args:
        store: path of the store.
        temporary: where files are that are not kept.
    """

    def __init__(self, store: Path, temporary: Path) -> None:
        self._store, self._temporary = store, temporary
        self._opened = ExitStack()

    def columns(self, first: int, last: int, *, is_kept: bool) -> Columns | None:
        """Return a copy of the records `first` to `last`; None if it cannot be made, or only for this run if `is_kept`."""
        folder = usable_folder(self._store)
        kept = self._kept(folder, first, last) if folder is not None else None
        if kept is None and is_kept:
            return None
        kept = kept or ()
        begin = kept[-1].last + 1 if kept else first
        rest = copy_records(self._store, begin, last, self._temporary, "columns") if begin <= last else ()
        return None if rest is None else Columns((*kept, *rest), last)

    def close(self) -> None:
        """Close the files."""
        self._opened.close()

    def _kept(self, folder: Path, first: int, last: int) -> tuple[Range, ...] | None:
        """Return the kept copy, extended if it is worth it; None if there is none."""
        with writing(folder) as is_mine, closing(open_reader(self._store)) as db, translated(str(self._store)):
            contents = _valid(db, folder, first)
            try:
                if is_mine:
                    contents = self._extended(db, folder, contents, first, last)
                return None if contents is None else tuple(self._open(folder, part) for part in contents.parts)
            except OSError:
                self._opened.close()
                return None

    def _extended(
        self, db: sqlite3.Connection, folder: Path, contents: _Contents | None, first: int, last: int
    ) -> _Contents | None:
        """Return the contents after copying what is new; the same ones if that is little, or could not be copied."""
        parts = list(contents.parts) if contents is not None else []
        anchor = Anchor.read(db, _SEAL, last)
        if anchor is None or (contents is not None and anchor.last_seq - contents.anchor.last_seq < SHARE):
            return contents
        begin = parts[-1].last + 1 if parts else first
        while parts and parts[-1].last - parts[-1].first < anchor.last_seq - begin:
            begin = parts.pop().first
        if anchor.last_seq < begin:
            return contents
        new = copy_records(self._store, begin, anchor.last_seq, folder, secrets.token_hex(6))
        # While the records were copied, some may have been pruned.
        if new is not None and Anchor.read(db, _SEAL_AT, anchor.position) == anchor:
            contents = _Contents(_version(db), anchor, first, [*parts, *map(_part, new)])
            with draft_of(folder / _CONTENTS, mode=0o600) as file:
                file.write(msgspec.json.encode(contents))
        named = (file.name for part in (contents.parts if contents else ()) for file in (part.steps, part.others))
        remove_others(folder, frozenset({_CONTENTS, *named}))
        return contents

    def _open(self, folder: Path, part: _Part) -> Range:
        steps, others = (str(self._opened_file(folder, file)) for file in (part.steps, part.others))
        return Range(part.first, part.last, steps, others)

    def _opened_file(self, folder: Path, file: _File) -> Path:
        descriptor = os.open(folder / file.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._opened.callback(os.close, descriptor)
        return _DESCRIPTORS / str(descriptor) if _DESCRIPTORS.exists() else folder / file.name


def _valid(db: sqlite3.Connection, folder: Path, first: int) -> _Contents | None:
    """Return the contents of a folder if they belong to the store as it is."""
    try:
        contents = msgspec.json.decode((folder / _CONTENTS).read_bytes(), type=_Contents)
        files = [file for part in contents.parts for file in (part.steps, part.others)]
        is_whole = all(_is_own(folder, file) for file in files)
    except (OSError, msgspec.DecodeError):
        return None
    follows = all(one.last + 1 == after.first for one, after in pairwise(contents.parts))
    is_right = follows and contents.version == _version(db) and contents.first == first and is_whole
    ends = bool(contents.parts) and contents.parts[-1].last == contents.anchor.last_seq
    return contents if is_right and ends and Anchor.read(db, _SEAL_AT, contents.anchor.position) == contents.anchor else None


def _is_own(folder: Path, file: _File) -> bool:
    """Return whether a file is the one that was written, as far as its owner and size tell."""
    found = (folder / file.name).lstat()
    is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
    return is_own and found.st_size == file.size and Path(file.name).name == file.name


def _part(range: Range) -> _Part:
    steps, others = (_File(Path(file).name, Path(file).stat().st_size) for file in (range.steps, range.others))
    return _Part(range.first, range.last, steps, others)


def _version(db: sqlite3.Connection) -> str:
    """Return the version that files must have: of their form, of the store's schema, and of the rules for secrets."""
    (schema,) = db.execute("PRAGMA user_version").fetchone()
    rules = " ".join(sorted(coarse_suspect().split("|")))
    return f"{_VERSION} {schema} {sha256(rules.encode()).hexdigest()[:16]}"
