"""Worktrees for agents: each belongs to its own bare repository, with which the agent may do anything.

    workshop.git           ours: the objects that worktrees start with. Agents can read it
    desks/<worktree>.git   an agent's: its commits, refs, index and settings; it borrows other objects from the workshop

Invariant: once an agent has started, nothing is read from its repository and our git never runs in it; it is only removed. An
agent's work is the contents of its worktree. The files of a new worktree come from the judge's repository. If the workshop has
been modified (without a sandbox an agent can write there too), it is created again.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import trio
from attrs import field, frozen

from harnesses.coding.git import Git, GitError
from harnesses.coding.judge_repository import JudgeRepository, fetch, make_bare, reset_settings, settings
from harnesses.coding.workspace import remove, unused_path


@frozen
class Worktree:
    """A worktree for one try."""

    path: Path
    index: Path
    """Index of the files checked out there; stored out of the agent's reach."""
    commit: str
    """The commit that was checked out."""
    repository: Path
    """Repository with its refs and new objects; must be writable for the agent."""
    objects: Path
    """Directory of the borrowed objects; must be readable for the agent."""


@frozen
class AgentWorktrees:
    """A bare repository, and the worktrees created from it."""

    git: Git
    judge: JudgeRepository
    folder: Path
    """Directory of the worktrees."""
    format: str
    _opening: trio.Lock = field(factory=trio.Lock, init=False, eq=False, repr=False)
    """Serialises opening: the first call creates the repository, and a broken one is created again."""

    async def open(self, name: str, commit: str, branch: str | None) -> Worktree:
        """Create a new worktree at a commit, on its own branch or detached."""
        self.folder.mkdir(parents=True, exist_ok=True)
        async with self._opening:
            await self._upkeep()
            try:
                return await self._open(name, commit, branch)
            except GitError:
                # An agent may have broken it in ways that are not visible.
                await remove(self.git.directory)
                await self._upkeep()
                return await self._open(name, commit, branch)

    async def close(self, worktree: Worktree) -> None:
        """Remove a worktree and its repository; completes even when cancelled."""
        await remove(worktree.path)
        await remove(worktree.index)
        await remove(worktree.repository)

    @property
    def desks(self) -> Path:
        """Directory of the agents' repositories."""
        return self.git.directory.with_name("desks")

    async def _open(self, name: str, commit: str, branch: str | None) -> Worktree:
        place = await self._cleared(name)
        desk = self.git.to(self.desks / f"{place.name}.git")
        objects = self.git.directory / "objects"
        worktree = Worktree(place, self.judge.folder / f"{place.name}.index", commit, desk.directory, objects)
        try:
            await fetch(self.git, self.judge.git.directory, f"{commit}:refs/base")
            await make_bare(desk, self.format)
            # Relative, because the workspace's path may contain any characters.
            shared = f"../../../{self.git.directory.name}/objects\n"
            (desk.directory / "objects" / "info" / "alternates").write_text(shared)
            named = ("--detach",) if branch is None else ("-B", branch)
            await desk.run("worktree", "add", "--quiet", "--no-checkout", *named, place, commit)
            await self.judge.lay_out(commit, place, worktree.index)
            await trio.to_thread.run_sync(shutil.copyfile, worktree.index, desk.directory / "worktrees" / place.name / "index")
        except BaseException:
            await self.close(worktree)
            raise
        return worktree

    async def _cleared(self, name: str) -> Path:
        """Return a free path for a worktree, the last one used under this name if possible.

        Some agents can resume a conversation only in the directory where it started.
        """
        place = self.folder / name
        await remove(place)
        await remove(self.desks / f"{name}.git")
        return unused_path(self.folder, name) if os.path.lexists(place) else place  # noqa: ASYNC240

    async def _upkeep(self) -> None:
        directory = self.git.directory
        if not self._is_sound():
            await remove(directory)
            await make_bare(self.git, self.format)
        reset_settings(directory, self.format)

    def _is_sound(self) -> bool:
        directory = self.git.directory
        try:
            is_ours = (directory / "config").read_text() == settings(self.format)
        except (OSError, UnicodeDecodeError):
            return False
        planted = ("hooks", "commondir", "objects/info/alternates", "info/grafts", "refs/replace", "shallow.lock")
        ours = (directory, directory / "objects", directory / "refs", directory / "config", directory / "HEAD")
        return (
            is_ours
            and not any(path.is_symlink() for path in ours)
            and not any(os.path.lexists(directory / name) for name in planted)
        )
