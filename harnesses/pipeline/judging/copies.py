"""Private copies of a workspace: made, hashed, compared, removed. Pipes, sockets and caches are left out.

workspace ──copied──► copy ──► what it was, file by file, against what it is now
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
"""Directories that are not copied, and do not count as a change: caches, and what is installed."""
MAX_COPY_BYTES = 500_000_000
"""Bytes that are copied to be judged, by what files say that they are: a sparse one would become as large as it says."""
_COPY_TRIES = 3


class Copy:
    """A private copy of a workspace, for those who look after it."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = root
        self._folder = folder
        self._before = digests(root)

    def changed(self) -> tuple[str, ...]:
        """Return the files that are not any more what they were copied as. Reads all of them."""
        return differences(self._before, digests(self.root))

    def differences(self, other: Copy) -> tuple[str, ...]:
        """Return the files in which another copy differs."""
        return differences(digests(self.root), digests(other.root))

    def another(self, name: str) -> Copy:
        """Return a copy of the copy."""
        place = self._folder / name
        copy_tree(self.root, place)
        return Copy(place, self._folder)

    def forget(self, name: str) -> None:
        """Remove a copy of the copy."""
        remove_copy(self._folder / name)


def begin_copy(workspace: Path, folder: Path, unseen: Iterable[str] = (), most: int = MAX_COPY_BYTES) -> Copy:
    """Copy a workspace to a folder of our own.

    Raises:
        PipelineInvalid: it is larger than that; with the largest file.
    """
    root = folder / "copy"
    _check_size(workspace, unseen, most)
    for tries in range(_COPY_TRIES, -1, -1):
        try:
            copy_tree(workspace, root, unseen)
            break
        except (shutil.Error, FileNotFoundError):
            # Others are at work: a directory that was there a moment ago is gone.
            if not tries:
                raise
            remove_copy(root)
    return Copy(root, folder)


def copy_tree(source: Path, target: Path, unseen: Iterable[str] = ()) -> None:
    """Copy what is in a directory, links as links; pipes, sockets and the like are left out."""
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
            f"the workspace is too large to be judged in a copy: expected at most {most} bytes, was {total}; the largest file "
            f"is {largest[1]!r:.200}, {largest[0]}: remove it, name it in `unseen`, or allow more by `max_copy_bytes`"
        )


def _copied(source: str, target: str) -> None:
    # Others are at work, and what they have removed is not there.
    with suppress(FileNotFoundError):
        shutil.copy2(source, target, follow_symlinks=False)


def _is_plain(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)


def remove_copy(folder: Path) -> None:
    """Remove a copy, and all that was made of it."""
    shutil.rmtree(folder, ignore_errors=True)


def digests(root: Path) -> dict[str, str]:
    """Return what every file and link below a directory is, by path; caches are left out."""
    return {path: _digest(place) for path, place in places(root)}


def places(root: Path, prefix: str = ".") -> Iterator[tuple[str, str]]:
    """Yield the path of every file and link below a directory, and where it is; caches are left out."""
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
    """Return the paths at which two trees differ."""
    return tuple(sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path)))
