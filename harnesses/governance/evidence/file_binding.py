"""Binds evidence to the content of files, by hash, and detects when it is stale.

Invariants: only regular files inside the root, on a path without links, can be bound. Whatever happens to one later (other
content, deletion, a link, a directory, no permission) counts as a change.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attrs import Attribute, field, frozen

from harnesses.governance.errors import EvidenceError

MAX_BOUND = 10_000
"""Maximum number of files that one entry may refer to."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


def _check_path(owner: Any, attribute: Attribute[Any], value: object) -> None:
    usable = isinstance(value, str) and 0 < len(value) <= 4_096 and "\0" not in value
    if (
        not usable
        or os.path.isabs(str(value))
        or os.path.normpath(str(value)) != value
        or str(value).split("/")[0] in ("..", ".")
    ):
        raise EvidenceError(f"evidence of a file: path: expected one below the root, such as 'src/a.py', got {value!r:.200}")


def _check_hash(owner: Any, attribute: Attribute[Any], value: object) -> None:
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise EvidenceError(f"evidence of a file: sha256: expected 64 hexadecimal digits, got {value!r:.100}; use bind()")


@frozen
class Bound:
    """A file with the hash of its content."""

    path: str = field(validator=_check_path)
    """Path below the root, with slashes."""
    sha256: str = field(validator=_check_hash)
    """SHA-256 of the content, hexadecimal."""


def bind(root: Path | str, paths: Iterable[str | Path]) -> tuple[Bound, ...]:
    """Bind the files with their current content, in order, without duplicates. Reads all of them: use a thread for large ones.

    Raises:
        EvidenceError: a path is not a regular file inside the root, reached without links.
    """
    bound: dict[str, Bound] = {}
    for path in paths:
        place = below(Path(root), os.fspath(path))
        if place is None:
            raise EvidenceError(
                f"evidence of {os.fspath(path)!r:.200} lies outside of {str(root)!r}: expected a file inside it"
            )
        if place in bound:
            continue
        digest = _hash(Path(root), place)
        if digest is None:
            raise EvidenceError(
                f"evidence of {place!r:.200} cannot be bound: expected a regular file that can be read, and no link on the "
                "way to it; name the file itself"
            )
        bound[place] = Bound(place, digest)
        if len(bound) > MAX_BOUND:
            raise EvidenceError(f"evidence of too many files: expected at most {MAX_BOUND}; make several entries")
    return tuple(bound.values())


class Content:
    """Current content hashes; each file is read once, however many entries refer to it."""

    def __init__(self, root: Path | str) -> None:
        self._root = Path(root)
        self._known: dict[str, str | None] = {}

    def changed(self, subject: Iterable[Bound]) -> tuple[str, ...]:
        """Return the paths whose content has changed since they were bound."""
        return tuple(one.path for one in subject if self._digest(one.path) != one.sha256)

    def _digest(self, path: str) -> str | None:
        if path not in self._known:
            self._known[path] = _hash(self._root, path)
        return self._known[path]


def changed(subject: Iterable[Bound], root: Path | str) -> tuple[str, ...]:
    """Return the paths whose content has changed since they were bound."""
    return Content(root).changed(subject)


def below(root: Path, path: str) -> str | None:
    """Return a path relative to the root, however it is written; None if it is outside."""
    if not path or "\0" in path:
        return None
    within = os.path.realpath(root)
    # The root may have two names, and a path may be written with either.
    for base in dict.fromkeys((within, os.path.abspath(root))):
        place = os.path.relpath(os.path.normpath(os.path.join(base, path)), base)
        if place not in (".", "..") and not place.startswith("../"):
            return place
    return None


def _hash(root: Path, path: str) -> str | None:
    """Return the hash of a regular file; None if it is not one, or cannot be read."""
    try:
        within = os.path.realpath(root)
        place = os.path.join(within, path)
        if os.path.realpath(place) != place or os.path.commonpath([within, place]) != within:
            return None
        # Non-blocking: opening a pipe would wait for a writer.
        handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        return None
