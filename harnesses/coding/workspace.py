"""The directory in which a coding harness keeps what can be made anew: its repositories, worktrees and indexes.

The law: one program has it at a time, and not before the last git process of the one before has ended, killed or not.
"""

from __future__ import annotations

import fcntl
import os
from hashlib import sha256
from pathlib import Path

import trio
from attrs import define, field

from harnesses.coding.branches import slug
from harnesses.coding.untrusted_dirs import remove
from harnesses.features.errors import NotReady
from harnesses.files.private_files import Concealed, conceal_folder
from harnesses.processes.fork_safety import close_unshared, keep_from_forks

_WAIT_S = 30.0
"""For the git processes of a program that was killed; they take no orders from anybody, and end by themselves."""
_POLL_S = 0.02


@define
class Workspace:
    """A directory, and whether it is held."""

    root: Path
    descriptor: int | None = field(default=None, init=False)
    """Of the lock; to be passed to every command that writes into the directory. Forked processes do not have it."""
    _concealed: Concealed | None = field(default=None, init=False, repr=False)
    """While it is held: what one agent works at is no other's to see."""

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
        """Take the directory, and remove what was left half-made in it.

        Raises:
            NotReady: somebody else has it, or it cannot be made.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.root / "lock", os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise NotReady(f"workspace {self.root} cannot be made: {error}; name another as `workspace`") from error
        keep_from_forks(descriptor)
        try:
            await self._wait_for(descriptor)
        except BaseException:
            close_unshared(descriptor)
            raise
        self.descriptor = descriptor
        self._concealed = conceal_folder(self.root)

    async def sweep(self) -> None:
        """Remove worktrees, indexes and locks of a program that was killed. Only while it is held."""
        await remove(self.trees)
        await remove(self.desks)
        await remove(self.judging)
        for repository in (self.judge, self.workshop):
            await trio.to_thread.run_sync(_remove_locks, repository)

    def release(self) -> None:
        """Let go of the directory."""
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
    """Return where the harness called `name` keeps what it needs for a repository."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    mark = sha256(os.fsencode(repository)).hexdigest()[:12]
    return state / "harness-orchestrator" / "coding" / f"{slug(name)}-{mark}"


def _remove_locks(repository: Path) -> None:
    for folder, _, files in os.walk(repository):
        if os.path.basename(folder) != "objects":
            for name in files:
                if name.endswith(".lock"):
                    os.unlink(os.path.join(folder, name))
