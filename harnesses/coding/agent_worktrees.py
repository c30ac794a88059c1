"""Where agents work: each in a worktree of a bare repository of its own, which it may do with as it likes.

    workshop.git           ours: the objects that worktrees begin with. Agents read it
    desks/<worktree>.git   an agent's: its commits, refs, index and settings; other objects it has from the workshop

The law: once an agent has begun, nothing is read from its repository, and no git of ours runs in it: it is removed. What an
agent has done is what its worktree holds; the files of a fresh worktree come from the repository of the judge; and if the
workshop is not as it was made (without a sandbox an agent can write there too), it is made anew.
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
    """A place for one try."""

    path: Path
    index: Path
    """What was laid out there; out of the agent's way."""
    commit: str
    """What it was at."""
    repository: Path
    """Where its refs and new objects are: whoever works in it has to be able to write there."""
    objects: Path
    """Where the objects are that it began with: to be read."""


@frozen
class AgentWorktrees:
    """A bare repository and the worktrees of it."""

    git: Git
    judge: JudgeRepository
    folder: Path
    """For worktrees."""
    format: str
    _opening: trio.Lock = field(factory=trio.Lock, init=False, eq=False, repr=False)
    """One at a time: the first makes the repository, and one that is broken is made anew."""

    async def open(self, name: str, commit: str, branch: str | None) -> Worktree:
        """Make a fresh worktree at a commit, on a branch of its own or on none."""
        self.folder.mkdir(parents=True, exist_ok=True)
        async with self._opening:
            await self._upkeep()
            try:
                return await self._open(name, commit, branch)
            except GitError:
                # An agent may have broken it in ways that do not show.
                await remove(self.git.directory)
                await self._upkeep()
                return await self._open(name, commit, branch)

    async def close(self, worktree: Worktree) -> None:
        """Remove a worktree and all that is known of it; finish that although cancelled."""
        await remove(worktree.path)
        await remove(worktree.index)
        await remove(worktree.repository)

    @property
    def desks(self) -> Path:
        """Where the repositories of agents are."""
        return self.git.directory.with_name("desks")

    async def _open(self, name: str, commit: str, branch: str | None) -> Worktree:
        place = await self._cleared(name)
        desk = self.git.to(self.desks / f"{place.name}.git")
        objects = self.git.directory / "objects"
        worktree = Worktree(place, self.judge.folder / f"{place.name}.index", commit, desk.directory, objects)
        try:
            await fetch(self.git, self.judge.git.directory, f"{commit}:refs/base")
            await make_bare(desk, self.format)
            # Relative, for the path of the workspace may have any characters in it.
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
        """Return where a worktree can be made: where the last one of this name was, if that is gone.

        Some agents find a conversation again only in the directory in which they began it.
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
