"""Files beside a store for large values: `run.db-files/<sha256>`, one for each distinct value.

Invariants: a file is on disk before the commit that names it; its name is the hash of its content; equal values share a file.
Files are written and removed only under the store's write lock, so that no program removes a file that another one is about to
name. The names are in records, so the seals cover the files too.

    commit     write `<sha256>.new` and sync it → commit the record → rename it to `<sha256>`
    read       `<sha256>`, or `<sha256>.new` if the program was killed before it renamed it
    open       each `.new` file of a killed program is renamed if a record names it, else removed
    prune      files that no record names any more are removed
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec
from attrs import frozen

from harnesses.data.large_values import ASIDE, NAMES_A_FILE, StoredFile, split_large, stored_file, with_file
from harnesses.files.safe_files import sync
from orchestrator.errors import StoreCorrupt, StoreError

NEW = ".new"
_NAME = re.compile(r"[0-9a-f]{64}(\.new)?")
"""Names of files of ours; others in the folder are left alone."""
_NAMING = f"""
SELECT seq, kind, body FROM records
WHERE seq > ? AND kind IN ({", ".join(map(repr, ASIDE))}) AND instr(body, '{NAMES_A_FILE}') ORDER BY seq
"""
_COPY = "restore the store and the folder from a copy"


def files_folder(store: Path) -> Path:
    """Return the folder with the large values of a store."""
    return store.with_name(f"{store.name}-files")


@frozen
class Staged:
    """A value to be written to a file."""

    file: StoredFile
    content: bytes


@frozen(eq=False)
class ValueFiles:
    """The files of one store.

    Args:
        store: resolved path of the store.
        hide: encrypts a text, given its role; equal texts must give equal results.
        reveal: decrypts it.
    """

    folder: Path
    _hide: Callable[[str, str], str]
    _reveal: Callable[[str, str], str]

    def stage(self, kind: str, body: str) -> tuple[str, Staged] | None:
        """Return the body to record, and the file that it names; None if the body has no large value."""
        found = split_large(kind, body)
        if found is None:
            return None
        fields, name, text = found
        content = self._hide(name, text).encode()
        staged = Staged(StoredFile(sha256(content).hexdigest(), len(content), name), content)
        return with_file(fields, staged.file), staged

    def write(self, staged: Collection[Staged]) -> None:
        """Write files and sync them; the caller holds the write lock and then commits the records that name them.

        Raises:
            StoreError: a file cannot be written.
        """
        try:
            if not self.folder.is_dir():
                self.folder.mkdir(mode=0o770)
                sync(self.folder.parent)
            written = [one for one in staged if self._write(one)]
            if written:
                sync(self.folder)
        except OSError as error:
            raise StoreError(
                f"{self.folder} cannot be written: {error.strerror}; earlier records are safe, make the folder writable and "
                "free some space, then `orchestrator run FILE`"
            ) from error

    def _write(self, staged: Staged) -> bool:
        """Write one file unless it exists; return whether the folder has changed."""
        path = self.folder / staged.file.sha256
        if path.exists():
            return False
        new = path.with_name(path.name + NEW)
        if new.exists() and what_is_wrong(self.folder, staged.file) is None:
            sync(new)  # Of a commit that is not renamed yet, or of a program that was killed.
            return True
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o660), "wb") as file:
            file.write(staged.content)
            file.flush()
            os.fsync(file.fileno())
        return True

    def settle(self, staged: Collection[Staged]) -> None:
        """Give the files of a finished commit their names."""
        for one in staged:
            path = self.folder / one.file.sha256
            with suppress(FileNotFoundError):  # Another program has renamed it already.
                path.with_name(path.name + NEW).replace(path)

    def read(self, file: StoredFile) -> str:
        """Return the value in a file, as JSON.

        Raises:
            StoreCorrupt: the file is missing, or was changed.
            StoreUnusable: it is encrypted, and the key is missing or wrong.
        """
        content = _content(self.folder, file)
        wrong = "is missing" if content is None else _difference(content, file)
        if content is None or wrong is not None:
            raise StoreCorrupt(f"{self.folder / file.sha256} {wrong}; {_COPY}")
        return self._reveal(file.field, content.decode())

    def has_leftovers(self) -> bool:
        """Return whether a program was killed, or is working, between writing a file and naming it."""
        try:
            return any(name.endswith(NEW) for name in os.listdir(self.folder))
        except OSError:
            return False

    def sweep(self, db: sqlite3.Connection) -> None:
        """Rename or remove what a killed program left; the caller holds the write lock."""
        named = {file.sha256 for _, file in named_files(db)}
        for name in named:
            with suppress(FileNotFoundError):
                (self.folder / f"{name}{NEW}").replace(self.folder / name)
        for path, _ in unnamed(self.folder, named):
            path.unlink(missing_ok=True)


def named_files(db: sqlite3.Connection, after: int = 0) -> Iterator[tuple[int, StoredFile]]:
    """Yield the files that records after one name, each with the `seq` of its record; unreadable bodies are skipped."""
    for seq, kind, body in db.execute(_NAMING, (after,)):
        with suppress(msgspec.DecodeError, TypeError, AttributeError, UnicodeError):
            file = stored_file(kind, body)
            if file is not None:
                yield seq, file


def unnamed(folder: Path, named: Collection[str]) -> list[tuple[Path, int]]:
    """Return the files of a folder that no record names, and their sizes in bytes."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        ours = [entry for entry in entries if _NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)]
        return sorted((Path(one.path), one.stat().st_size) for one in ours if one.name.removesuffix(NEW) not in named)
    return []


def what_is_wrong(folder: Path, file: StoredFile) -> tuple[str, str] | None:
    """Compare a file with what its record says.

    Returns:
        What was done to it, as a finding of a proof, and a description; None if it is unchanged.
    """
    content = _content(folder, file)
    if content is None:
        return "dropped", "is missing"
    wrong = _difference(content, file)
    return None if wrong is None else ("cut off" if len(content) < file.bytes else "edited", wrong)


def _content(folder: Path, file: StoredFile) -> bytes | None:
    """Return the content of a file, at most one byte more than expected; None if it cannot be read."""
    for end in ("", NEW):
        with suppress(OSError):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(folder / f"{file.sha256}{end}", flags), "rb") as found:
                return found.read(file.bytes + 1)
    return None


def _difference(content: bytes, file: StoredFile) -> str | None:
    if len(content) != file.bytes:
        return (
            f"was changed: expected {file.bytes:,} bytes, got {'more' if len(content) > file.bytes else f'{len(content):,}'}"
        )
    return None if sha256(content).hexdigest() == file.sha256 else "was changed: its hash differs from its name"
