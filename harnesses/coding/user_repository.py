"""The user's repository: read, and given commits and branches; checkout, index, settings and hooks are not touched.

Invariant: a branch is moved only from the expected commit to another one, or not at all; a checked-out branch is never moved.
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
"""Name used for the branch of a detached HEAD."""


@frozen
class UserRepository:
    """The user's repository."""

    git: Git
    path: Path
    """The given path: a worktree, whose HEAD is used, or the repository itself."""
    head: str | None
    """The branch that HEAD points to, which need not exist yet; None if HEAD is detached."""
    format: str
    """Hash algorithm of object names: `sha1` or `sha256`."""

    def through(self, git: Git) -> UserRepository:
        """Return a copy that uses another git."""
        return evolve(self, git=evolve(git, directory=self.git.directory, durable=True))

    async def tip(self, branch: str) -> str | None:
        """Return the commit of a branch; None if there is no such branch."""
        return await self.git.says("rev-parse", "--verify", "--quiet", "--end-of-options", f"{HEADS}{branch}^{{commit}}")

    async def branches(self, folder: str) -> tuple[str, ...]:
        """Return the branches whose names begin with a folder."""
        said = await self.git.line("for-each-ref", "--format=%(refname)", f"{HEADS}{folder}/")
        return tuple(line.removeprefix(HEADS) for line in said.splitlines())

    async def checked_out(self) -> frozenset[str]:
        """Return the branches that are checked out in any worktree."""
        said = await self.git.line("worktree", "list", "--porcelain")
        lines = (line.removeprefix(f"branch {HEADS}") for line in said.splitlines() if line.startswith(f"branch {HEADS}"))
        return frozenset(lines)

    async def target(self, name: str, into: str | None, *, is_own: bool = False) -> str:
        """Return the branch that receives accepted work.

        Args:
            is_own: whether it must not be one that others use, unless `into` names it.

        Raises:
            InvalidRequest: the name is not valid for a branch, or the branch must not be moved.
        """
        taken = await self.checked_out()
        if into is None:
            free = not is_own and self.head is not None and self.head not in taken and not await self._is_alias(self.head)
            return self.head if self.head and free else f"{PREFIX}/{slug(name)}/{self.head or DETACHED}"
        if await self.git.says("check-ref-format", f"{HEADS}{into}") is None or into.startswith("-"):
            raise InvalidRequest(f"repository {self.path}: into: expected the name of a branch, was {into!r}")
        if into in taken:
            raise InvalidRequest(
                f"repository {self.path}: branch {into!r} is checked out: expected one that is not, because moving it would "
                f"change that checkout; name another as `into`, or none"
            )
        if await self._is_alias(into):
            raise InvalidRequest(
                f"repository {self.path}: into: {into!r} is a symbolic ref: expected a branch; name the branch it refers to"
            )
        return into

    async def ensure(self, branch: str, judge: JudgeRepository) -> str:
        """Return the commit of a branch; create it at HEAD if it is missing."""
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
        """Return the directory that contains HEAD: for a linked worktree it differs from that of the branches."""
        found = await ask_git(self.git, self.path, "--absolute-git-dir")
        return Path(found)

    async def receive(self, judge: JudgeRepository, commit: str) -> None:
        """Receive a commit with all its ancestors; no branch is moved."""
        await fetch(self.git, judge.git.directory, commit)

    async def create(self, branch: str, commit: str) -> bool:
        """Create a branch at a commit of this repository; return False if it exists already."""
        return await self.move(branch, commit, None)

    async def move(self, branch: str, new: str, old: str | None) -> bool:
        """Move a branch from one commit to another; return False, without moving it, if it is elsewhere.

        Args:
            old: the expected commit; None if the branch must not exist yet.
        """
        try:
            # `--no-deref`: if it has become a symbolic ref, the branch it refers to must not be moved.
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
        """Return the first commit of a branch that merged another commit; None if the branch does not contain it."""
        code, _, _ = await self.git.ask("merge-base", "--is-ancestor", commit, f"{HEADS}{branch}")
        if code != 0:
            return None
        options = ("--first-parent", "--ancestry-path", "--reverse")
        line = await self.git.line("rev-list", *options, f"{commit}..{HEADS}{branch}")
        return line.split("\n")[0] or commit

    async def _is_alias(self, branch: str) -> bool:
        return await self.git.says("symbolic-ref", "--quiet", f"{HEADS}{branch}") is not None


async def ask_git(git: Git, path: Path, *questions: str) -> str:
    """Return git's answers about the repository that contains a path."""
    ended = await trio.run_process(
        [git.program, "-C", path, "rev-parse", "--path-format=absolute", *questions],
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        env=git.environment(),
    )
    if ended.returncode != 0:
        said = ended.stderr.decode(errors="replace").strip()
        raise InvalidRequest(f"repository {path}: expected a git repository, was none; git wrote: {said}")
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
    # The step that records the merge is on disk, so the merged objects must survive a power failure too.
    return UserRepository(evolve(git, directory=common, durable=True), path, head.removeprefix(HEADS) if head else None, form)
