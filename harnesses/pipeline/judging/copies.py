"""Creates, hashes, compares and removes private copies of a workspace. Pipes, sockets and caches are left out.

workspace ──copied──► copy ──► its original hashes, compared with the current ones
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from harnesses.pipeline.plan.ids import PipelineInvalid

UNSEEN = ("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".venv", "node_modules")
"""Directories that are not copied and whose changes do not count: caches, and installed packages."""
MAX_COPY_BYTES = 500_000_000
"""Maximum bytes copied for validation, by stated file sizes, because a sparse file would grow to its stated size."""
_COPY_TRIES = 3


class Copy:
    """A private copy of a workspace."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = root
        self._folder = folder
        self._before = digests(root)

    def changed(self) -> tuple[str, ...]:
        """Return the files that have changed since they were copied. Reads all of them."""
        return differences(self._before, digests(self.root))

    def differences(self, other: Copy) -> tuple[str, ...]:
        """Return the files that differ from another copy."""
        return differences(digests(self.root), digests(other.root))

    def another(self, name: str) -> Copy:
        """Return a copy of this copy."""
        place = self._folder / name
        copy_tree(self.root, place)
        return Copy(place, self._folder)

    def forget(self, name: str) -> None:
        """Remove a copy of this copy."""
        remove_copy(self._folder / name)


def begin_copy(workspace: Path, folder: Path, unseen: Iterable[str] = (), most: int = MAX_COPY_BYTES) -> Copy:
    """Copy a workspace to a private folder.

    Raises:
        PipelineInvalid: the workspace is larger than `most`; names its largest file.
    """
    root = folder / "copy"
    _check_size(workspace, unseen, most)
    for tries in range(_COPY_TRIES, -1, -1):
        try:
            copy_tree(workspace, root, unseen)
            break
        except (shutil.Error, FileNotFoundError):
            # Other agents are at work, so a directory may disappear at any time.
            if not tries:
                raise
            remove_copy(root)
    return Copy(root, folder)


def copy_tree(source: Path, target: Path, unseen: Iterable[str] = ()) -> None:
    """Copy the contents of a directory, links as links; pipes, sockets and the like are left out."""
    left_out = _left_out(unseen)

    def ignored(directory: str, names: list[str]) -> set[str]:
        below = os.path.relpath(directory, source)
        return {
            name
            for name in names
            if name in UNSEEN
            or os.path.normpath(os.path.join(below, name)) in left_out
            or not _is_plain(os.path.join(directory, name))
        }

    shutil.copytree(source, target, symlinks=True, ignore=ignored, copy_function=_copied)


def _left_out(unseen: Iterable[str]) -> set[str]:
    return {os.path.normpath(path) for path in unseen}


def _check_size(workspace: Path, unseen: Iterable[str], most: int) -> None:
    left_out, total, largest = _left_out(unseen), 0, (0, "")
    for path, place in places(workspace):
        if any(path == one or path.startswith(f"{one}/") for one in left_out):
            continue
        with suppress(OSError):
            found = os.lstat(place)
            if stat.S_ISREG(found.st_mode):
                total, largest = total + found.st_size, max(largest, (found.st_size, path))
    if total > most:
        raise PipelineInvalid(
            f"the workspace is too large to copy for validation: expected at most {most} bytes, was {total}; the largest file "
            f"is {largest[1]!r:.200}, {largest[0]}: remove it, list it in `unseen`, or raise `max_copy_bytes`"
        )


def _copied(source: str, target: str) -> None:
    # Other agents are at work, and may have removed files.
    with suppress(FileNotFoundError):
        shutil.copy2(source, target, follow_symlinks=False)


def _is_plain(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)


def remove_copy(folder: Path) -> None:
    """Remove a copy, and all copies of it."""
    shutil.rmtree(folder, ignore_errors=True)


def digests(root: Path) -> dict[str, str]:
    """Return a description of the content of every file and link below a directory, by path; caches are left out."""
    return {path: _digest(place) for path, place in places(root)}


def places(root: Path, prefix: str = ".") -> Iterator[tuple[str, str]]:
    """Yield the relative and absolute path of every file and link below a directory; caches are left out."""
    for directory, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name not in UNSEEN)
        for name in [*files, *(name for name in names if os.path.islink(os.path.join(directory, name)))]:
            place = os.path.join(directory, name)
            yield os.path.normpath(os.path.join(prefix, os.path.relpath(place, root))), place


def _digest(path: str) -> str:
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return f"link {os.readlink(path)}"
        if not stat.S_ISREG(mode):
            return f"mode {stat.S_IFMT(mode)}"
        with open(path, "rb") as file:
            return f"{mode & 0o111:o} {hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        return f"unreadable: {error.strerror}"


def differences(before: dict[str, str], after: dict[str, str]) -> tuple[str, ...]:
    """Return the paths whose contents differ between two trees."""
    return tuple(sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path)))
