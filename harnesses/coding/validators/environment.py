"""Runs judged commands in a clean environment: a new home, a sandbox where available, and judging files restored.

Invariant: only paths inside the worktree are restored and removed; a symbolic link that the commit put in the way is replaced,
never followed.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp

import trio
from attrs import frozen

from harnesses.agents.sandbox import Sandbox, programs_below_tmp, run_sandboxed, sandboxed
from harnesses.coding.candidate import EXECUTABLE, LINK, SUBMODULE, Candidate, Change
from harnesses.processes.bounded_command import Ran

_BUBBLEWRAP = Sandbox(memory_bytes=None)  # Tests that are built with a sanitizer reserve terabytes.
_PLACES = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")


@frozen
class Environment:
    """A new environment for one run."""

    private: Path
    """Directory for the judge's own files; the judged command is not told its path."""
    env: Mapping[str, str]
    """The complete environment of the command."""


@asynccontextmanager
async def fresh_environment(additions: Mapping[str, str], *, seed: int) -> AsyncGenerator[Environment, None]:
    """Create a home and a directory for temporary files, and remove them afterwards.

    Args:
        additions: variables that are added or override others.
        seed: Python's hash seed, which varies the order of sets between runs.
    """
    directory = Path(await trio.to_thread.run_sync(partial(mkdtemp, prefix="judged-")))
    try:
        for name in ("home", "tmp", "private"):
            (directory / name).mkdir()
        yield Environment(directory / "private", {**_clean(directory, seed), **additions})
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(partial(shutil.rmtree, directory, ignore_errors=True))


def _clean(directory: Path, seed: int) -> dict[str, str]:
    # The interpreter's own directory, so that `python` is the interpreter with the project's packages.
    places = [os.path.dirname(sys.executable), *_PLACES]
    return {
        "PATH": os.pathsep.join(dict.fromkeys(place for place in places if os.path.isabs(place))),
        "HOME": str(directory / "home"),
        "TMPDIR": str(directory / "tmp"),
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": str(seed),
        "PYTHONIOENCODING": "utf-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
    }


def hash_seed(commit: str, confirmation: int) -> int:
    """Return a reproducible seed that differs between confirmations and between commits."""
    return (int(commit[:8] or "0", 16) if all(c in "0123456789abcdef" for c in commit[:8]) else 0) % 100_000 + confirmation


async def run_judged(
    argv: Sequence[str],
    around: Environment,
    *,
    root: Path,
    cwd: Path,
    limit_s: float,
    sandbox: Sandbox | None = None,
    network: bool = False,
) -> tuple[Ran, str]:
    """Run a command that may write only to a worktree and to its own environment; return how it ended, and the sandbox.

    Args:
        root: the worktree.
        sandbox: None for bubblewrap, or nothing where that does not work.
        network: whether it shares the machine's network if the sandbox does not say; without any sandbox it always does.
    """
    if sandbox is None:
        sandbox = _BUBBLEWRAP if await trio.to_thread.run_sync(_BUBBLEWRAP.works) else None
    # The sandbox sets its own /tmp, which may hide the worktree; the judged command gets an empty directory.
    prepare = partial(
        sandboxed,
        ["env", f"TMPDIR={around.env.get('TMPDIR', '/tmp')}", *argv],
        cwd,
        sandbox,
        network=network,
        environment={},
        added=around.env,
        writable=(str(root), str(around.private.parent)),
        readable=(*programs_below_tmp(around.env.get("PATH", "")), *programs_below_tmp(os.path.dirname(argv[0]))),
    )
    ran, ready = await run_sandboxed(prepare, limit_s=limit_s, cwd=cwd)
    return ran, ready.described or "none"


async def lay_over(
    root: Path, candidate: Candidate, changes: Iterable[Change], covers: Callable[[str], bool]
) -> tuple[str, ...]:
    """Restore every covered path to its state at the base; return the restored paths, in order.

    Args:
        root: a worktree of the commit.
        changes: the differences between the base and the commit.
        covers: which paths to restore.
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
    """Remove compiled modules that the base contains, because Python would use them instead of the source."""
    for path in files:
        if path.endswith(".pyc"):
            await trio.to_thread.run_sync(_remove, root, path)


def _remove(root: Path, path: str) -> None:
    """Remove what is at a path, if none of its parents leads out of the worktree."""
    if not any(parent.is_symlink() for parent in _parents(root, path)):
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
    """Return the parent directories of a path, from the root down."""
    return [root / parent for parent in reversed(PurePosixPath(path).parents) if parent.name]


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
