"""Fingerprints of what git runs and obeys in the user's repository: an agent without a sandbox can write there.

Invariant: only read, never mended: what has changed may be a person's, and is left to a person.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

_FILES = ("config", "config.worktree", "info/attributes", "info/grafts", "objects/info/alternates")
_MOST_BYTES = 16_000_000


def fingerprint(directory: Path) -> Mapping[str, str]:
    """Return a hash of each hook and settings file of a repository, by path below its git directory."""
    return {str(path.relative_to(directory)): _hash(path) for path in _guarded(directory)}


def changed_settings(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return which hooks and settings differ, in words."""
    words = {
        path: "added" if path not in before else "removed" if path not in after else "changed" for path in {*before, *after}
    }
    return [f".git/{path} was {words[path]}" for path in sorted(words) if before.get(path) != after.get(path)]


def _guarded(directory: Path) -> Iterator[Path]:
    yield from (path for name in _FILES if os.path.lexists(path := directory / name))
    for folder, _, names in os.walk(directory / "hooks"):
        yield from (Path(folder, name) for name in names)


def _hash(path: Path) -> str:
    try:
        if path.is_symlink():
            return f"link {os.readlink(path)}"
        with path.open("rb") as file:
            return f"{path.stat().st_mode:o} {sha256(file.read(_MOST_BYTES)).hexdigest()}"
    except OSError as error:
        return f"unreadable {error.errno}"
