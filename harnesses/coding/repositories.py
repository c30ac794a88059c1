"""The repositories of a coding harness: the user's, the judge's, the agents' worktrees, and the branch for accepted work.

user's repository ──commits──► judge ──files──► worktree of an agent
        ▲                        ▲                      │
        └──merges, tries─────────┴────────files─────────┘
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import trio
from attrs import frozen

from harnesses.coding.agent_worktrees import AgentWorktrees, Worktree
from harnesses.coding.branches import PREFIX, slug, try_branch
from harnesses.coding.git import GitError, Identity, find_git
from harnesses.coding.judge_repository import JudgeRepository
from harnesses.coding.user_repository import UserRepository, find_user_repository
from harnesses.coding.workspace import Workspace, default_root, remove
from harnesses.errors import Waiting
from harnesses.features.errors import InvalidRequest, MemoryFailed
from harnesses.processes.bounded_command import sweep

_MOST_TOUCHED = 200


@frozen
class Repositories:
    """The repositories of one harness, in use from `open_repositories` to `close`."""

    name: str
    into: str
    """The branch that receives accepted work."""
    user: UserRepository
    judge: JudgeRepository
    worktrees: AgentWorktrees
    workspace: Workspace

    async def close(self) -> None:
        """Remove the worktrees, and release the workspace."""
        try:
            await self.workspace.sweep()
        finally:
            self.workspace.release()

    async def begin(self) -> str:
        """Return the commit at which the work starts; create the branch there if it is missing."""
        return await self.user.ensure(self.into, self.judge)

    async def restore(self, commit: str) -> None:
        """Restore the judge's repository and the last good commit, whatever an agent has done to them."""
        with suppress(GitError, OSError):  # then it is created again
            await self.judge.upkeep(self.user.format)
            if await self.judge.has(commit):
                return
        await _open_judge(self.judge, self.user.format)
        await self.go_on(commit)

    async def go_on(self, commit: str) -> None:
        """Fetch the last good commit if it is missing.

        Raises:
            MemoryFailed: it cannot be found.
        """
        if await self.judge.has(commit):
            return
        try:
            await self.judge.take(self.user.git.directory, commit)
        except GitError as error:
            raise MemoryFailed(
                f"repository {self.user.path}: the last good commit {commit} is missing: expected the one at which the "
                f"recorded features were proven; restore it, or start again under another name"
            ) from error

    async def check(self, good: str) -> None:
        """Check that the branch has not been moved by others, and may be moved.

        Raises:
            Waiting: it was moved or is checked out; a person must decide.
        """
        tip = await self.user.tip(self.into)
        if tip != good:
            raise Waiting(self._moved(good, tip))
        if self.into in await self.user.checked_out():
            raise Waiting(
                f"repository {self.user.path}: branch {self.into!r} is checked out: expected it not to be, because moving it "
                f"would change that checkout; switch to another branch there and start again"
            )

    # a try

    async def new_branch(self, feature_id: str, turn: int) -> str:
        """Return an unused branch name for a try."""
        taken = await self.user.branches(f"{PREFIX}/{slug(self.name)}")
        return try_branch(self.name, feature_id, turn, taken=taken, into=self.into)

    async def commit(self, worktree: Worktree, message: str) -> tuple[str, tuple[str, ...]]:
        """Commit the contents of a worktree on top of its commit; return the new commit, and the changed paths.

        Returns the worktree's own commit if nothing has changed.

        Raises:
            Uncommittable: the contents cannot be committed.
        """
        base = worktree.commit
        # A process that can write in a worktree can write next to it.
        await self.judge.upkeep(self.user.format)
        tree = await self.judge.snapshot(worktree.path, worktree.index, base)
        if tree == await self.judge.tree_of(base):
            return base, ()
        commit = await self.judge.commit(tree, base, message=message)
        changes = await self.judge.changes(base, commit)
        # Converted to storable text, because paths may be any bytes.
        paths = [change.path.encode(errors="surrogateescape") for change in changes[:_MOST_TOUCHED]]
        return commit, tuple(path.decode(errors="backslashreplace") for path in paths)

    async def has(self, commit: str) -> bool:
        """Return whether a commit is available; fetch it if the user's repository has it."""
        if await self.judge.has(commit):
            return True
        try:
            await self.judge.take(self.user.git.directory, commit)
        except GitError:
            return False
        return True

    async def publish(self, branch: str, commit: str) -> None:
        """Create a branch at a commit in the user's repository, for inspection; an existing branch is left as it is."""
        await self.user.receive(self.judge, commit)
        await self.user.create(branch, commit)

    async def unpublish(self, branch: str, commit: str) -> None:
        """Remove a branch whose work is merged, unless somebody has moved it."""
        try:
            await self.user.drop(branch, commit)
        except GitError:
            # The work is merged, so a remaining branch does no harm.
            return

    # merging

    async def merge(self, message: str, good: str, commit: str) -> str:
        """Move the branch from the last good commit to a merge of it with `commit`; return the merge commit.

        Raises:
            Waiting: the branch was moved by others, or is checked out.
        """
        await self.check(good)
        merged = await self.judge.commit(await self.judge.tree_of(commit), good, commit, message=message)
        await self.user.receive(self.judge, merged)
        if not await self.user.move(self.into, merged, good):
            raise Waiting(self._moved(good, await self.user.tip(self.into)))
        return merged

    async def merged(self, commit: str) -> str | None:
        """Return the commit that merged `commit` into the branch; None if it was not merged."""
        return await self.user.merge_of(self.into, commit)

    def _moved(self, good: str, tip: str | None) -> str:
        if tip is None:
            return (
                f"repository {self.user.path}: branch {self.into!r} was deleted: expected it at {good}; "
                f"create it again (`git branch {self.into} {good}`) and start again"
            )
        return (
            f"repository {self.user.path}: branch {self.into!r} was moved by somebody else: expected it at {good}, was at "
            f'{tip}; move it back, or accept it with the message {{"accept_base": "{tip}"}}, and start again'
        )


async def open_repositories(
    repository: Path,
    name: str,
    *,
    into: str | None,
    agreed: str | None,
    root: Path | None,
    identity: Identity | None,
    is_fork: bool = False,
    is_own: bool = False,
) -> Repositories:
    """Open the repositories of the harness called `name`.

    Args:
        into: the branch that the caller names for accepted work.
        agreed: the branch used since the work began; None if it has not begun.
        is_fork: whether the work was begun by another harness, whose branch it leaves alone.
        is_own: whether it is one of its own, unless `into` names it.
        root: the workspace; None uses one in the user's state directory.

    Raises:
        InvalidRequest: there is no repository, or the branch cannot receive accepted work.
        NotReady: git is missing, or another process uses the workspace.
    """
    path = Path(await trio.Path(repository).absolute())
    git = await find_git(path, identity=identity)
    origin = await find_user_repository(git, path)
    if agreed is not None and into not in (None, agreed):
        raise InvalidRequest(
            f"repository {path}: into: expected {agreed!r}, as when the work began, was {into!r}; leave it out"
        )
    branch = agreed if agreed is not None else await origin.target(name, into, is_own=is_fork or is_own)
    workspace = Workspace(root or default_root(name, origin.git.directory))
    if root is not None:
        _check_outside(root, origin.git.directory)
    await workspace.take()
    try:
        assert workspace.descriptor is not None
        held = git.holding(workspace.descriptor)
        origin = origin.through(held)
        for folder in (workspace.trees, workspace.judging):
            await sweep(folder)
        await workspace.sweep()
        judge = await _open_judge(JudgeRepository(held.to(workspace.judge), workspace.judging), origin.format)
        workshop = AgentWorktrees(held.to(workspace.workshop), judge, workspace.trees, origin.format)
    except BaseException:
        workspace.release()
        raise
    return Repositories(name, branch, origin, judge, workshop, workspace)


def _check_outside(root: Path, repository: Path) -> None:
    """Refuse a workspace inside a repository, because git and pytest search parent directories and would find that one."""
    place = root.resolve()
    for folder in (place, *place.parents):
        if (folder / ".git").exists() or folder == repository.resolve():
            raise InvalidRequest(
                f"workspace {root}: expected a directory outside of all repositories, was one in {folder}; name another"
            )


async def _open_judge(judge: JudgeRepository, form: str) -> JudgeRepository:
    """Return the judge's repository ready for use; create it again if it is broken."""
    try:
        await judge.upkeep(form)
        await judge.empty_commit()
    except (GitError, OSError):
        await remove(judge.git.directory)
        await judge.upkeep(form)
    return judge
