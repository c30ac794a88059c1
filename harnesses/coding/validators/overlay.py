"""Puts files of the base back into a worktree in which a commit is judged.

The law: what it writes and removes lies in the worktree; a symbolic link that the commit put in the way is replaced by what
was there, never followed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

import trio

from harnesses.coding.candidate import EXECUTABLE, LINK, SUBMODULE, Candidate, Change


async def lay_over(
    root: Path, candidate: Candidate, changes: Iterable[Change], covers: Callable[[str], bool]
) -> tuple[str, ...]:
    """Make every covered path be what it is at the base; return those that were not, in order.

    Args:
        root: a worktree of the commit.
        changes: what differs between the base and the commit.
        covers: which paths are to be as they were.
    """
    covered = sorted((change for change in changes if covers(change.path)), key=lambda change: change.path)
    for change in covered:
        if change.status == "A":
            await trio.to_thread.run_sync(_remove, root, change.path)
    for change in covered:
        if change.status != "A":
            content = await candidate.checkouts.read(candidate.base, change.path)
            await trio.to_thread.run_sync(_restore, root, change, content)
    return tuple(change.path for change in covered)


async def drop_compiled(root: Path, files: Iterable[str]) -> None:
    """Remove compiled modules that the base holds: they are taken for their source, whatever that says."""
    for path in files:
        if path.endswith(".pyc"):
            await trio.to_thread.run_sync(_remove, root, path)


def _remove(root: Path, path: str) -> None:
    if _is_reached(root, path):
        _clear(root / path)


def _restore(root: Path, change: Change, content: bytes | None) -> None:
    path = root / change.path
    _open_way(root, change.path)
    _clear(path)
    if content is None:
        return
    was_link = (change.status == "D" and change.mode == LINK) or (
        change.status == "T" and change.mode not in (LINK, SUBMODULE)
    )
    if was_link:
        path.symlink_to(content.decode())
        return
    path.write_bytes(content)
    if change.mode == EXECUTABLE:
        path.chmod(0o755)


def _parents(root: Path, path: str) -> list[Path]:
    """Return the directories on the way to a path, from the root down."""
    return [root / parent for parent in reversed(PurePosixPath(path).parents) if parent.name]


def _is_reached(root: Path, path: str) -> bool:
    """Return whether the way to a path stays in the worktree."""
    return not any(parent.is_symlink() for parent in _parents(root, path))


def _open_way(root: Path, path: str) -> None:
    for parent in _parents(root, path):
        if parent.is_symlink() or (parent.exists() and not parent.is_dir()):
            parent.unlink()
        parent.mkdir(exist_ok=True)


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
