"""Where a repository's features are worked: the user's, the judge's, the worktrees of agents, and the branch they are for.

user's repository ──commits──► judge ──files──► worktree of an agent
        ▲                        ▲                      │
        └──merges, tries─────────┴────────files─────────┘
"""

from __future__ import annotations

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
    """Open from `open_repositories` to `close`."""

    name: str
    into: str
    """The branch that accepted work goes to."""
    user: UserRepository
    judge: JudgeRepository
    worktrees: AgentWorktrees
    workspace: Workspace

    async def close(self) -> None:
        """Remove worktrees, and let others have the workspace."""
        try:
            await self.workspace.sweep()
        finally:
            self.workspace.release()

    async def begin(self) -> str:
        """Return the commit that the work begins at; make the branch there if it is not there."""
        return await self.user.ensure(self.into, self.judge)

    async def restore(self, commit: str) -> None:
        """Have the judge's repository and the last good commit, whatever an agent has done to them."""
        await _open_judge(self.judge, self.user.format)
        await self.go_on(commit)

    async def go_on(self, commit: str) -> None:
        """Have the last good commit at hand.

        Raises:
            MemoryFailed: it is nowhere.
        """
        if await self.judge.has(commit):
            return
        try:
            await self.judge.take(self.user.git.directory, commit)
        except GitError as error:
            raise MemoryFailed(
                f"repository {self.user.path}: the last good commit {commit} is not there: expected the one that the "
                f"features on record were proven at; bring it back, or begin anew under another name"
            ) from error

    async def check(self, good: str) -> None:
        """See that the branch is where it was left, and free to move.

        Raises:
            Waiting: it is not; a person has to decide.
        """
        tip = await self.user.tip(self.into)
        if tip != good:
            raise Waiting(self._moved(good, tip))
        if self.into in await self.user.checked_out():
            raise Waiting(
                f"repository {self.user.path}: branch {self.into!r} is checked out: expected nobody to work on it, for it "
                f"would move under their feet; switch to another branch there and start again"
            )

    # a try

    async def new_branch(self, feature_id: str, turn: int) -> str:
        """Return a branch for a try that is not there yet."""
        taken = await self.user.branches(f"{PREFIX}/{slug(self.name)}")
        return try_branch(self.name, feature_id, turn, taken=taken, into=self.into)

    async def commit(self, worktree: Worktree, message: str) -> tuple[str, tuple[str, ...]]:
        """Make what a worktree holds a commit on top of what it was at; return it, and the paths that it changes.

        Nothing changed, it is the commit that it was at.

        Raises:
            Uncommittable: it cannot be made one.
        """
        base = worktree.commit
        # Whoever can write in a worktree can write beside it.
        await self.judge.upkeep(self.user.format)
        tree = await self.judge.snapshot(worktree.path, worktree.index, base)
        if tree == await self.judge.tree_of(base):
            return base, ()
        commit = await self.judge.commit(tree, base, message=message)
        changes = await self.judge.changes(base, commit)
        # As text that can be put on record, whatever bytes they are made of.
        paths = [change.path.encode(errors="surrogateescape") for change in changes[:_MOST_TOUCHED]]
        return commit, tuple(path.decode(errors="backslashreplace") for path in paths)

    async def has(self, commit: str) -> bool:
        """Return whether a commit is at hand; fetch it if the user's repository has it."""
        if await self.judge.has(commit):
            return True
        try:
            await self.judge.take(self.user.git.directory, commit)
        except GitError:
            return False
        return True

    async def publish(self, branch: str, commit: str) -> None:
        """Put a commit on a branch of the user's repository, for people to look at; a branch that is there stays."""
        await self.user.receive(self.judge, commit)
        await self.user.create(branch, commit)

    async def unpublish(self, branch: str, commit: str) -> None:
        """Remove a branch whose work is merged, if nobody has touched it."""
        try:
            await self.user.drop(branch, commit)
        except GitError:
            # It is merged; that its branch is still there harms nobody.
            return

    # merging

    async def merge(self, message: str, good: str, commit: str) -> str:
        """Move the branch from the last good commit to one that merges `commit` with it; return that.

        Raises:
            Waiting: the branch is elsewhere, or checked out.
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
                f"repository {self.user.path}: branch {self.into!r} is gone: expected it at {good}; "
                f"make it again (`git branch {self.into} {good}`) and start again"
            )
        return (
            f"repository {self.user.path}: branch {self.into!r} was moved by somebody else: expected it at {good}, was at "
            f'{tip}; move it back, or accept it by the message {{"accept_base": "{tip}"}}, and start again'
        )


async def open_repositories(
    repository: Path, name: str, *, into: str | None, agreed: str | None, root: Path | None, identity: Identity | None
) -> Repositories:
    """Open the place where the harness called `name` works a repository.

    Args:
        into: the branch that a person has named for accepted work.
        agreed: the branch that it goes to since the work began; None if it has not begun.
        root: the workspace; default one in the user's state directory.

    Raises:
        InvalidRequest: there is no repository, or accepted work cannot go there.
        NotReady: there is no git, or somebody else uses the workspace.
    """
    path = Path(await trio.Path(repository).absolute())
    git = await find_git(path, identity=identity)
    origin = await find_user_repository(git, path)
    if agreed is not None and into not in (None, agreed):
        raise InvalidRequest(
            f"repository {path}: into: expected {agreed!r}, as when the work began, was {into!r}; leave it out"
        )
    branch = agreed if agreed is not None else await origin.target(name, into)
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
    """Refuse a workspace within a repository: git and pytest look upwards, and would take that one for theirs."""
    place = root.resolve()
    for folder in (place, *place.parents):
        if (folder / ".git").exists() or folder == repository.resolve():
            raise InvalidRequest(
                f"workspace {root}: expected a directory that is in no repository, was one in {folder}; name another"
            )


async def _open_judge(judge: JudgeRepository, form: str) -> JudgeRepository:
    """Make sure that the judge's repository can be used; make it anew if it cannot."""
    try:
        await judge.upkeep(form)
        await judge.empty_commit()
    except (GitError, OSError):
        await remove(judge.git.directory)
        await judge.upkeep(form)
    return judge
