"""What a judged command is run in: a clean environment, a home that nobody has used before, a sandbox where there is one.

Files of the base are put back into the worktree in which a commit is judged.

The law: what is put back and removed lies in the worktree; a symbolic link that the commit put in the way is replaced by what
was there, never followed.
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

from harnesses.agents.sandbox import Bubblewrap, programs_below_tmp
from harnesses.coding.candidate import EXECUTABLE, LINK, SUBMODULE, Candidate, Change
from harnesses.processes.bounded_command import Ran, run_bounded

_PLACES = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")


@frozen
class Environment:
    """A fresh place for one run."""

    private: Path
    """For what the judge itself has to keep; the judged command is not told of it."""
    env: Mapping[str, str]
    """The whole environment of the command."""


@asynccontextmanager
async def fresh_environment(additions: Mapping[str, str], *, seed: int) -> AsyncGenerator[Environment, None]:
    """Make a home and a directory for temporary files, and remove them afterwards.

    Args:
        additions: to the environment; they win.
        seed: of Python's hashes: what depends on the order of a set differs from one to the next.
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
    # The interpreter's own directory, so that `python` is the one that has the project's packages.
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
    """Return a seed that differs from one confirmation, and from one commit, to the next, and can be used again."""
    return (int(commit[:8] or "0", 16) if all(c in "0123456789abcdef" for c in commit[:8]) else 0) % 100_000 + confirmation


async def run_judged(
    argv: Sequence[str], around: Environment, *, root: Path, cwd: Path, limit_s: float, network: bool = False
) -> Ran:
    """Run a command that may write to a worktree and to its own surroundings, and nowhere else.

    Args:
        root: the worktree.
        network: whether it shares the machine's network; where bubblewrap does not work, it does.
    """
    sandbox = Bubblewrap(network=network)
    if not await trio.to_thread.run_sync(sandbox.works):
        return await run_bounded(argv, limit_s=limit_s, cwd=cwd, env=around.env)
    programs = (*programs_below_tmp(around.env.get("PATH", "")), *programs_below_tmp(os.path.dirname(argv[0])))
    writable = (str(root), str(around.private.parent))
    # The sandbox names its own /tmp, in which the worktree may lie; what is judged finds an empty folder.
    command = ["env", f"TMPDIR={around.env.get('TMPDIR', '/tmp')}", *argv]
    return await run_bounded(
        sandbox.wrap(command, cwd, writable=writable, readable=programs),
        limit_s=limit_s,
        cwd=cwd,
        env=around.env,
        may_gain_privileges=sandbox.needs_privileges(),
        scoped_sockets=True,
    )


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
    """Remove what is at a path, if the way to it stays in the worktree."""
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
    """Return the directories on the way to a path, from the root down."""
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
