"""Where agents work: worktrees of a bare repository that they may do with as they like.

The law: nothing is ever read from it. What an agent has done is what its worktree holds; the files of a fresh worktree come
from the repository of the judge; and if it is not as it was made, it is made anew.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import trio
from attrs import field, frozen

from harnesses.coding.git import Git, GitError
from harnesses.coding.judge import JudgeRepository, fetch, make_bare, reset_settings, settings
from harnesses.coding.trees import remove, unused


@frozen
class Worktree:
    """A place for one try."""

    path: Path
    index: Path
    """What was laid out there; out of the agent's way."""
    commit: str
    """What it was at."""


@frozen
class Workshop:
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
        await remove(self.git.directory / "worktrees" / worktree.path.name)

    async def _open(self, name: str, commit: str, branch: str | None) -> Worktree:
        place = await self._cleared(name)
        worktree = Worktree(place, self.judge.folder / f"{place.name}.index", commit)
        try:
            await fetch(self.git, self.judge.git.directory, f"{commit}:refs/base")
            named = ("--detach",) if branch is None else ("-B", branch)
            await self.git.run("worktree", "add", "--quiet", "--no-checkout", *named, place, commit)
            await self.judge.lay_out(commit, place, worktree.index)
            await trio.to_thread.run_sync(
                shutil.copyfile, worktree.index, self.git.directory / "worktrees" / place.name / "index"
            )
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
        await remove(self.git.directory / "worktrees" / name)
        return unused(self.folder, name) if os.path.lexists(place) else place  # noqa: ASYNC240

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
        planted = ("hooks", "objects/info/alternates", "info/grafts", "refs/replace", "shallow.lock")
        return is_ours and not directory.is_symlink() and not any((directory / name).exists() for name in planted)
