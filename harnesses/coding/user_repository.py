"""The user's repository: read, and given commits and branches. Never its checkout, index, settings or hooks.

The law: a branch moves from the commit that was expected to another, or not at all; one that somebody has checked out does
not move.
"""

from __future__ import annotations

from pathlib import Path

import trio
from attrs import evolve, frozen

from harnesses.coding.branches import HEADS, PREFIX, slug
from harnesses.coding.git import Git, GitError
from harnesses.coding.judge_repository import JudgeRepository, fetch
from harnesses.features.errors import InvalidRequest

DETACHED = "head"
"""What the branch of a detached HEAD is called."""


@frozen
class UserRepository:
    """The repository of the user."""

    git: Git
    path: Path
    """As it was named: a worktree, whose HEAD counts, or the repository itself."""
    head: str | None
    """The branch that HEAD names, born or not; None if it is detached."""
    format: str
    """Of the names of objects: `sha1` or `sha256`."""

    def through(self, git: Git) -> UserRepository:
        """Return the same, looked at by another git."""
        return evolve(self, git=evolve(git, directory=self.git.directory, durable=True))

    async def tip(self, branch: str) -> str | None:
        """Return the commit that a branch is at; None if there is no such branch."""
        return await self.git.says("rev-parse", "--verify", "--quiet", "--end-of-options", f"{HEADS}{branch}^{{commit}}")

    async def branches(self, folder: str) -> tuple[str, ...]:
        """Return the branches below a folder."""
        said = await self.git.line("for-each-ref", "--format=%(refname)", f"{HEADS}{folder}/")
        return tuple(line.removeprefix(HEADS) for line in said.splitlines())

    async def checked_out(self) -> frozenset[str]:
        """Return the branches that somebody works on."""
        said = await self.git.line("worktree", "list", "--porcelain")
        lines = (line.removeprefix(f"branch {HEADS}") for line in said.splitlines() if line.startswith(f"branch {HEADS}"))
        return frozenset(lines)

    async def target(self, name: str, into: str | None) -> str:
        """Return the branch that accepted work goes to.

        Raises:
            InvalidRequest: it cannot be a branch, or is one that must not move.
        """
        taken = await self.checked_out()
        if into is None:
            free = self.head is not None and self.head not in taken and not await self._is_alias(self.head)
            return self.head if self.head and free else f"{PREFIX}/{slug(name)}/{self.head or DETACHED}"
        if await self.git.says("check-ref-format", f"{HEADS}{into}") is None or into.startswith("-"):
            raise InvalidRequest(f"repository {self.path}: into: expected the name of a branch, was {into!r}")
        if into in taken:
            raise InvalidRequest(
                f"repository {self.path}: branch {into!r} is checked out: expected one that nobody works on, for it would "
                f"move under their feet; name another as `into`, or none"
            )
        if await self._is_alias(into):
            raise InvalidRequest(
                f"repository {self.path}: into: {into!r} is a symbolic ref: expected a branch; name the one it stands for"
            )
        return into

    async def ensure(self, branch: str, judge: JudgeRepository) -> str:
        """Return the commit that a branch is at; make it where HEAD is if it is not there."""
        tip = await self.tip(branch)
        if tip is None:
            tip = await self._first(judge)
            if not await self.create(branch, tip):
                return await self.ensure(branch, judge)
        await judge.take(self.git.directory, tip)
        return tip

    async def _first(self, judge: JudgeRepository) -> str:
        head = await self.git.to(await self._own_directory()).says("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if head is not None:
            return head
        begin = await judge.empty_commit()
        await self.receive(judge, begin)
        return begin

    async def _own_directory(self) -> Path:
        """Return where HEAD is: in a linked worktree that is not where the branches are."""
        found = await ask_git(self.git, self.path, "--absolute-git-dir")
        return Path(found)

    async def receive(self, judge: JudgeRepository, commit: str) -> None:
        """Take in a commit and all that it needs; no branch moves."""
        await fetch(self.git, judge.git.directory, commit)

    async def create(self, branch: str, commit: str) -> bool:
        """Make a branch at a commit that is here; return False if there is one already."""
        return await self.move(branch, commit, None)

    async def move(self, branch: str, new: str, old: str | None) -> bool:
        """Move a branch from one commit to another; return False, and leave it, if it is elsewhere.

        Args:
            old: None if it is not to be there yet.
        """
        try:
            # `--no-deref`: if it has become a symbolic ref, what it stands for must not move.
            why = "durable-harnesses: accepted work" if old else "durable-harnesses: begin"
            none = "0" * len(new)
            await self.git.run("update-ref", "--no-deref", "-m", why, f"{HEADS}{branch}", new, old or none)
        except GitError:
            if await self.tip(branch) == old:
                raise
            return False
        return True

    async def drop(self, branch: str, commit: str) -> None:
        """Remove a branch if it is at a commit."""
        if await self.tip(branch) == commit:
            await self.git.run("update-ref", "--no-deref", "-d", f"{HEADS}{branch}", commit)

    async def merge_of(self, branch: str, commit: str) -> str | None:
        """Return the commit of a branch that merged another, the first one that did; None if it is not in the branch."""
        code, _, _ = await self.git.ask("merge-base", "--is-ancestor", commit, f"{HEADS}{branch}")
        if code != 0:
            return None
        options = ("--first-parent", "--ancestry-path", "--reverse")
        line = await self.git.line("rev-list", *options, f"{commit}..{HEADS}{branch}")
        return line.split("\n")[0] or commit

    async def _is_alias(self, branch: str) -> bool:
        return await self.git.says("symbolic-ref", "--quiet", f"{HEADS}{branch}") is not None


async def ask_git(git: Git, path: Path, *questions: str) -> str:
    """Return what git says of the repository that a path is in."""
    ended = await trio.run_process(
        [git.program, "-C", path, "rev-parse", "--path-format=absolute", *questions],
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        env=git.environment(),
    )
    if ended.returncode != 0:
        said = ended.stderr.decode(errors="replace").strip()
        raise InvalidRequest(f"repository {path}: expected a git repository, was none; git said: {said}")
    return ended.stdout.decode(errors="surrogateescape").removesuffix("\n")


async def find_user_repository(git: Git, path: Path) -> UserRepository:
    """Return the user's repository at an absolute path.

    Raises:
        InvalidRequest: there is none.
    """
    if not await trio.Path(path).is_dir():
        raise InvalidRequest(
            f"repository {path}: expected the directory of a git repository, was none; make one with `git init`"
        )
    own = git.to(Path(await ask_git(git, path, "--absolute-git-dir")))
    common = Path(await ask_git(git, path, "--git-common-dir"))
    head = await own.says("symbolic-ref", "--quiet", "HEAD")
    form = await own.line("rev-parse", "--show-object-format")
    # A step that says "merged" is on disk; what was merged should be there too after a power cut.
    return UserRepository(evolve(git, directory=common, durable=True), path, head.removeprefix(HEADS) if head else None, form)
