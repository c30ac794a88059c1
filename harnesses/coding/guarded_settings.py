"""Fingerprints of what git runs and obeys in the user's repository: an agent without a sandbox can write there.

Invariants: only read, never mended: what has changed may be a person's, and is left to a person. What an agent has put there
neither blocks nor prolongs the reading: links are not followed, only regular files are opened, and their number and bytes are
limited.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import islice
from pathlib import Path
from stat import S_ISLNK, S_ISREG

_FILES = ("config", "config.worktree", "info/attributes", "info/grafts", "objects/info/alternates")
_HOOKS = "hooks"
_MODULES = "modules"
"""Directory of the submodules' repositories, each with hooks and settings of its own."""
_REPLACED = "refs/replace"
"""What git shows instead of the commits and files of these names."""
_PACKED = "packed-refs"
_PACKED_REPLACED = re.compile(rb"^[0-9a-f]+ refs/replace/.*$", re.MULTILINE)
_MOST_PACKED = 50_000_000
"""Bytes of the packed references that are searched; of a longer file, length and time of change count, too."""
_HEAD = "HEAD"
"""A file of every git directory."""
_PASSED_BY = frozenset({"objects", "logs", "refs", "lfs"})
_MOST_FILES = 1_000
_MOST_LOOKED_AT = 20_000
"""Files in the submodules' repositories, less their objects and refs."""
_MOST_BYTES = 1_000_000
"""Of one file; of a longer one, its length and the time of its last change count, too."""
_TOO_MANY = "too many"


def fingerprint(directory: Path) -> Mapping[str, str]:
    """Return a hash of each hook and settings file of a repository, by path below its git directory."""
    paths = list(islice(_guarded(directory), _MOST_FILES + 1))
    found = {str(path.relative_to(directory)): _hash(path) for path in paths[:_MOST_FILES]}
    if replaced := _packed_replacements(directory / _PACKED):
        found[f"{_REPLACED} in {_PACKED}"] = replaced
    return found if len(paths) <= _MOST_FILES else {**found, _HOOKS: _TOO_MANY}


def changed_settings(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return which hooks and settings differ, in words; hooks that are too many to tell are reported, too."""
    if after.get(_HOOKS) == _TOO_MANY:
        return [f".git/{_HOOKS} has more than {_MOST_FILES:,} files"]
    words = {
        path: "added" if path not in before else "removed" if path not in after else "changed" for path in {*before, *after}
    }
    return [f".git/{path} was {words[path]}" for path in sorted(words) if before.get(path) != after.get(path)]


def _guarded(directory: Path) -> Iterator[Path]:
    yield from (path for name in _FILES if os.path.lexists(path := directory / name))
    for name in (_HOOKS, _REPLACED):
        folder = directory / name
        if folder.is_symlink():
            yield folder
        else:
            yield from _entries(folder)
    for number, path in enumerate(_entries(directory / _MODULES, passed_by=_PASSED_BY)):
        if number == _MOST_LOOKED_AT:
            yield directory / _MODULES
            return
        below = path.relative_to(directory).parts
        if path.is_symlink() or _HOOKS in below[:-1] or below[-1] in ("config", "config.worktree"):
            yield path


def _entries(root: Path, passed_by: frozenset[str] = frozenset()) -> Iterator[Path]:
    """Yield everything below a folder, reading no more of it than is asked for.

    Args:
        passed_by: names of folders of a git directory that are not entered. One that only has the name is, such as that of a
            submodule.
    """
    folders = [root]
    while folders:
        try:
            folder = folders.pop()
            with os.scandir(folder) as entries:
                for entry in entries:
                    yield Path(entry.path)
                    is_passed_by = entry.name in passed_by and os.path.lexists(folder / _HEAD)
                    if entry.is_dir(follow_symlinks=False) and not is_passed_by:
                        folders.append(Path(entry.path))
        except OSError:
            continue  # as if it were empty: git cannot read it either


def _packed_replacements(path: Path) -> str:
    """Return a hash of the packed references that replace objects; empty if there are none."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            now = os.fstat(file.fileno())
            if not S_ISREG(now.st_mode):
                return f"no file {now.st_mode:o}"
            found = b"\n".join(_PACKED_REPLACED.findall(file.read(_MOST_PACKED)))
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"unreadable {error.errno}"
    rest = f" {now.st_size} {now.st_ctime_ns}" if now.st_size > _MOST_PACKED else ""
    return f"{sha256(found).hexdigest() if found else ''}{rest}"


def _hash(path: Path) -> str:
    try:
        is_what = path.lstat().st_mode
        if S_ISLNK(is_what):
            return f"link {os.readlink(path)}"
        if not S_ISREG(is_what):
            return f"no file {is_what:o}"
        # A pipe that has taken its place since does not block, and a link is an error.
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            is_now = os.fstat(file.fileno())
            if not S_ISREG(is_now.st_mode):
                return f"no file {is_now.st_mode:o}"
            rest = f" {is_now.st_size} {is_now.st_ctime_ns}" if is_now.st_size > _MOST_BYTES else ""
            return f"{is_now.st_mode:o} {sha256(file.read(_MOST_BYTES)).hexdigest()}{rest}"
    except OSError as error:
        return f"unreadable {error.errno}"
