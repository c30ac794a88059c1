"""Directories that somebody untrusted has had the run of: made anew, looked through, removed.

The law: no symbolic link in them is ever followed.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import trio

MOST_FILES = 1_000_000
"""Files in a worktree; above that it is not looked through."""


async def remove(path: Path) -> None:
    """Remove whatever is at a path, although its permissions forbid it; finish that although cancelled."""
    with trio.CancelScope(shield=True):
        await trio.to_thread.run_sync(remove_sync, path)


def remove_sync(path: Path) -> None:
    """Remove whatever is at a path, although its permissions forbid it. What cannot be removed stays."""
    if path.is_symlink() or not path.is_dir():
        with suppress(OSError):
            path.unlink()
        return
    shutil.rmtree(path, ignore_errors=True)
    if path.is_dir():
        with suppress(OSError):
            for _ in _entries(path, into_git=True):
                pass
        shutil.rmtree(path, ignore_errors=True)


def unused_path(folder: Path, name: str) -> Path:
    """Return a path in `folder` that was never used before."""
    return folder / f"{name}-{secrets.token_hex(4)}"


def nested_repositories(tree: Path) -> tuple[str, ...]:
    """Return the directories below `tree` that are git repositories of their own; give access to what denies it.

    Raises:
        OSError: there are more files than `MOST_FILES`, or access cannot be given.
    """
    found: list[str] = []
    for count, entry in enumerate(_entries(tree)):
        if count == MOST_FILES:
            raise OSError(f"{tree} holds more than {MOST_FILES} files")
        if entry.name.lower() == ".git" and os.path.dirname(entry.path) != os.fspath(tree):
            found.append(os.path.relpath(os.path.dirname(entry.path), tree))
    return tuple(sorted(found))


def is_directory(path: Path) -> bool:
    """Return whether there is a directory at a path, and not a link to one."""
    return path.is_dir() and not path.is_symlink()


def make_empty(directory: Path) -> None:
    """Remove all that is in a directory; make one if there is none."""
    remove_sync(directory)
    directory.mkdir(parents=True)


def _entries(tree: Path, *, into_git: bool = False) -> Iterator[os.DirEntry[str]]:
    """Yield all that is below `tree`, after giving access to it."""
    folders = [os.fspath(tree)]
    while folders:
        folder = folders.pop()
        _allow(folder, stat.S_IRWXU)
        with os.scandir(folder) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    # What is in a nested repository is not committed, so it need not be looked through.
                    if into_git or entry.name.lower() != ".git":
                        folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    _allow(entry.path, stat.S_IRUSR)


def _allow(path: str, wanted: int) -> None:
    mode = stat.S_IMODE(os.lstat(path).st_mode)
    if mode & wanted != wanted:
        os.chmod(path, mode | wanted)
