"""The workspace of a harness, a directory locked by one program; and safe functions on directories of untrusted code.

Invariants: one program uses a workspace at a time, and only after the last git process of the previous one has ended, even if
that was killed; no symbolic link in these directories is ever followed.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import trio
from attrs import define, field

from harnesses.coding.branches import slug
from harnesses.features.errors import NotReady
from harnesses.files.private_files import Concealed, conceal_folder
from harnesses.files.state_folder import state_folder
from harnesses.processes.fork_safety import close_unshared, keep_from_forks

MOST_FILES = 1_000_000
"""Maximum files in a worktree; a larger one is not searched."""


async def remove(path: Path) -> None:
    """Remove whatever is at a path, even if its permissions forbid it; completes even when cancelled."""
    with trio.CancelScope(shield=True):
        await trio.to_thread.run_sync(remove_sync, path)


def remove_sync(path: Path) -> None:
    """Remove whatever is at a path, even if its permissions forbid it. What cannot be removed stays."""
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
    """Return the directories below `tree` that are git repositories; make unreadable directories readable.

    Raises:
        OSError: there are more files than `MOST_FILES`, or a directory cannot be made readable.
    """
    found: list[str] = []
    for count, entry in enumerate(_entries(tree)):
        if count == MOST_FILES:
            raise OSError(f"{tree} holds more than {MOST_FILES} files")
        if entry.name.lower() == ".git" and os.path.dirname(entry.path) != os.fspath(tree):
            found.append(os.path.relpath(os.path.dirname(entry.path), tree))
    return tuple(sorted(found))


def is_directory(path: Path) -> bool:
    """Return whether a path is a directory, and not a link to one."""
    return path.is_dir() and not path.is_symlink()


def make_empty(directory: Path) -> None:
    """Remove the contents of a directory; create it if it is missing."""
    remove_sync(directory)
    directory.mkdir(parents=True)


def _entries(tree: Path, *, into_git: bool = False) -> Iterator[os.DirEntry[str]]:
    """Yield everything below `tree`, making it readable first."""
    folders = [os.fspath(tree)]
    while folders:
        folder = folders.pop()
        _allow(folder, stat.S_IRWXU)
        with os.scandir(folder) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    # The contents of a nested repository are not committed, so they need not be searched.
                    if into_git or entry.name.lower() != ".git":
                        folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    _allow(entry.path, stat.S_IRUSR)


def _allow(path: str, wanted: int) -> None:
    mode = stat.S_IMODE(os.lstat(path).st_mode)
    if mode & wanted != wanted:
        os.chmod(path, mode | wanted)


_WAIT_S = 30.0
"""Maximum seconds to wait for git processes of a program that was killed; they end by themselves."""
_POLL_S = 0.02


@define
class Workspace:
    """A directory that is locked while in use."""

    root: Path
    descriptor: int | None = field(default=None, init=False)
    """Descriptor of the lock; pass it to every command that writes into the directory. Forks do not inherit it."""
    _concealed: Concealed | None = field(default=None, init=False, repr=False)
    """Hides the directory from other agents while it is locked."""

    @property
    def judge(self) -> Path:
        return self.root / "judge.git"

    @property
    def judging(self) -> Path:
        return self.root / "judging"

    @property
    def workshop(self) -> Path:
        return self.root / "workshop.git"

    @property
    def desks(self) -> Path:
        return self.root / "desks"

    @property
    def trees(self) -> Path:
        return self.root / "trees"

    async def take(self) -> None:
        """Lock the directory, and remove what was left incomplete in it.

        Raises:
            NotReady: another process has it locked, or it cannot be created.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.root / "lock", os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise NotReady(f"workspace {self.root} cannot be created: {error}; name another as `workspace`") from error
        keep_from_forks(descriptor)
        try:
            await self._wait_for(descriptor)
        except BaseException:
            close_unshared(descriptor)
            raise
        self.descriptor = descriptor
        self._concealed = conceal_folder(self.root)

    async def sweep(self) -> None:
        """Remove worktrees, indexes and locks of a program that was killed. Requires the lock."""
        await remove(self.trees)
        await remove(self.desks)
        await remove(self.judging)
        for repository in (self.judge, self.workshop):
            await trio.to_thread.run_sync(_remove_locks, repository)

    def release(self) -> None:
        """Unlock the directory."""
        if self.descriptor is not None:
            close_unshared(self.descriptor)
            self.descriptor = None
        if self._concealed is not None:
            self._concealed.reveal()
            self._concealed = None

    async def _wait_for(self, descriptor: int) -> None:
        with trio.move_on_after(_WAIT_S):
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    await trio.sleep(_POLL_S)
                else:
                    return
        raise NotReady(
            f"workspace {self.root} is in use: expected it to be free within {_WAIT_S:g} s; "
            f"end the program that works there, or name another as `workspace`"
        )


def default_root(name: str, repository: Path) -> Path:
    """Return the default workspace of the harness called `name` for a repository."""
    mark = sha256(os.fsencode(repository)).hexdigest()[:12]
    return state_folder() / "coding" / f"{slug(name)}-{mark}"


def _remove_locks(repository: Path) -> None:
    for folder, _, files in os.walk(repository):
        if os.path.basename(folder) != "objects":
            for name in files:
                if name.endswith(".lock"):
                    os.unlink(os.path.join(folder, name))
