"""Attempts at the features of a repository: an agent works in a worktree, and what it leaves becomes a commit.

The law: what an agent has left is on a branch before it is judged.
"""

from __future__ import annotations

from attrs import evolve, frozen

from harnesses.coding.agent_worktrees import Worktree
from harnesses.coding.branches import slug, try_message
from harnesses.coding.git import GitError
from harnesses.coding.judge_repository import Uncommittable
from harnesses.coding.repositories import Repositories
from harnesses.features.feature import TurnResult
from harnesses.features.feature_record import Assignment
from harnesses.features.loop.feature_workplace import Ask
from harnesses.features.turn_results import check_result
from harnesses.processes.bounded_command import sweep


@frozen
class CodingAttempts:
    """Makes attempts, each in a fresh worktree on a branch of its own."""

    repositories: Repositories

    async def work(self, ask: Ask, assignment: Assignment, base: str) -> TurnResult:
        """Have the agent work at a commit, and return what it hands in, with the commit of its work."""
        feature, repositories = assignment.feature, self.repositories
        branch = await repositories.new_branch(feature.id, assignment.turn)
        worktree = await repositories.worktrees.open(slug(feature.id), base, branch)
        try:
            return await self._work_in(worktree, branch, ask, assignment)
        finally:
            await leave(repositories, worktree)

    async def _work_in(self, worktree: Worktree, branch: str, ask: Ask, assignment: Assignment) -> TurnResult:
        feature, turn, base = assignment.feature, assignment.turn, worktree.commit
        given = evolve(
            assignment,
            directory=str(worktree.path),
            writable=(str(worktree.repository),),
            readable=(str(worktree.objects),),
            branch=branch,
            base=base,
        )
        try:
            result = check_result(await ask(given))
        except Exception as error:
            await self._keep(worktree, branch, try_message(feature, turn, f"The agent failed: {error}"))
            raise
        await sweep(worktree.path)
        try:
            commit, touched = await self.repositories.commit(worktree, try_message(feature, turn, result.message))
        except Uncommittable as error:
            return evolve(result, base=base, commit=None, branch=None, stop_reason=str(error), touched=())
        published = branch if commit != base else None
        return evolve(result, base=base, commit=commit, branch=published, touched=touched)

    async def _keep(self, worktree: Worktree, branch: str, message: str) -> None:
        """Put what an agent has left that failed on its branch, if there is anything."""
        await sweep(worktree.path)
        try:
            commit, touched = await self.repositories.commit(worktree, message)
            if touched:
                await self.repositories.publish(branch, commit)
        except (Uncommittable, GitError):
            # There is an error already, which says more.
            return


async def leave(repositories: Repositories, worktree: Worktree) -> None:
    """Remove a worktree, and end what still runs in it."""
    await sweep(worktree.path)
    await repositories.worktrees.close(worktree)
