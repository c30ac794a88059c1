"""Tries at the features of a repository, and their validation: the agent's worktree is new, and so is the one for validation.

Invariant: what an agent has left becomes a commit, and is on a branch before it is validated.
"""

from __future__ import annotations

import os

import trio
from attrs import evolve, field, frozen

from harnesses.coding.agent_worktrees import Worktree
from harnesses.coding.branches import slug, try_message
from harnesses.coding.candidate import LINK, Candidate, leads_out
from harnesses.coding.git import GitError
from harnesses.coding.guarded_settings import changed_settings, fingerprint
from harnesses.coding.judge_repository import Uncommittable
from harnesses.coding.merge_limits import MergeLimits
from harnesses.coding.repositories import Repositories
from harnesses.diagnostics.program_log import get_logger
from harnesses.features.agent_text import cut_list
from harnesses.features.feature import Feature, Standing, TurnResult, Verdict
from harnesses.features.feature_record import Assignment
from harnesses.features.feature_validators import OutcomeValidator, depends_on_feature
from harnesses.features.loop.feature_workplace import Ask
from harnesses.features.turn_results import check_result, check_verdict
from harnesses.processes.bounded_command import sweep
from harnesses.processes.cores import usable_cores

_MOST_FINDINGS = 20
_NOT_ANEW = "\nother work was accepted since, but the validator's verdict does not depend on the feature"


@frozen
class CodingAttempts:
    """Makes tries, each in a new worktree on its own branch."""

    repositories: Repositories

    async def work(self, ask: Ask, assignment: Assignment, base: str) -> TurnResult:
        """Have the agent work at a commit, and return its result with the commit of its work."""
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
        user = self.repositories.user.git.directory
        before = await trio.to_thread.run_sync(fingerprint, user)
        try:
            result = check_result(await ask(given))
        except Exception as error:
            await self._keep(worktree, branch, try_message(feature, turn, f"The agent failed: {error}"))
            raise
        await sweep(worktree.path)
        if changed := changed_settings(before, await trio.to_thread.run_sync(fingerprint, user)):
            seen = f"{'; '.join(changed)}, during the turn, in {user}: git runs or obeys it; look at it"
            if not result.confined:
                why = f"{seen}, and use a sandbox"
                get_logger(__name__).warning("feature %r: the work is refused: %s", feature.id, why)
                return evolve(result, base=base, commit=None, branch=None, stop_reason=why, touched=())
            get_logger(__name__).warning("feature %r: %s; its agent cannot write there, somebody else did", feature.id, seen)
        try:
            commit, touched = await self.repositories.commit(worktree, try_message(feature, turn, result.message))
        except Uncommittable as error:
            return evolve(result, base=base, commit=None, branch=None, stop_reason=str(error), touched=())
        published = branch if commit != base else None
        return evolve(result, base=base, commit=commit, branch=published, touched=touched)

    async def _keep(self, worktree: Worktree, branch: str, message: str) -> None:
        """Commit what a failed agent has left to its branch, if there is anything."""
        await sweep(worktree.path)
        try:
            commit, touched = await self.repositories.commit(worktree, message)
            if touched:
                await self.repositories.publish(branch, commit)
        except (Uncommittable, GitError):
            # The error that is being handled is more informative.
            return


async def leave(repositories: Repositories, worktree: Worktree) -> None:
    """Remove a worktree, and end the processes that still run in it."""
    await sweep(worktree.path)
    await repositories.worktrees.close(worktree)


@frozen
class CommitJudging:
    """Has the validator validate commits.

    Args:
        confirmations: consecutive passes, each in a new worktree, required for an acceptance.
    """

    repositories: Repositories
    validator: OutcomeValidator[Candidate]
    confirmations: int
    limits: MergeLimits = field(factory=MergeLimits)
    seen_to_fail: dict[str, tuple[str, str]] = field(factory=dict[str, tuple[str, str]])
    """By feature, the commit at which it did not pass before an agent was asked, and the evidence."""

    async def passes_already(self, feature: Feature, base: str) -> bool:
        """Ask the validator before the agent; once for each feature and commit."""
        if self.seen_to_fail.get(feature.id, ("", ""))[0] == base:
            return False
        seen = await self._ask(feature, evolve(self._at(base, None), before_work=True))
        if not seen.passed:
            self.seen_to_fail[feature.id] = base, seen.evidence
        return seen.passed

    def failure_at(self, feature: Feature, base: str) -> str:
        """Return how a feature failed at a commit before the agent was asked; empty if the validator was not asked."""
        commit, evidence = self.seen_to_fail.get(feature.id, ("", ""))
        return evidence if commit == base else ""

    async def judge_at(self, feature: Feature, commit: str, result: TurnResult | None) -> Verdict:
        """Return the verdict on a feature at a commit that contains all accepted work."""
        return await self._ask(feature, self._at(commit, result))

    def _at(self, commit: str, result: TurnResult | None) -> Candidate:
        return Candidate(commit=commit, base=commit, checkouts=self.repositories.judge, result=result)

    async def judge_blocked(self, feature: Feature, commit: str, standing: Standing) -> Verdict:
        """Return the verdict on a blocked feature at a commit that contains all accepted work: as strict as an acceptance.

        A refusal without asking repeats the last failure, so that it stays on record.
        """
        if not depends_on_feature(self.validator) and not await self._has_work_of(standing, commit):
            why = (standing.last_failure or "").removesuffix(_NOT_ANEW)
            return refusal(f"{why}{_NOT_ANEW}".lstrip())
        return await self._confirm(feature, standing.accepted or TurnResult(), commit, commit)

    async def _has_work_of(self, standing: Standing, commit: str) -> bool:
        """Return whether a commit contains work that was accepted for a feature: what proved it then can prove it again."""
        work = standing.accepted
        if work is None or work.commit is None or work.base == work.commit:
            return False
        return await self.repositories.judge.contains(commit, work.commit)

    async def judge(self, feature: Feature, result: TurnResult) -> Verdict:
        """Return the verdict on the work of a turn, which is on its branch already."""
        base, commit = result.base, result.commit
        if base is None or commit is None:
            return refusal(result.stop_reason)
        if not await self.repositories.has(commit):
            return refusal(f"the work is lost: commit {commit} no longer exists")
        if too_large := self.limits.findings(await self.repositories.judge.sizes(base, commit)):
            return refusal("\n".join(cut_list(too_large, _MOST_FINDINGS)))
        if result.branch is not None:
            await self.repositories.publish(result.branch, commit)
        elif not depends_on_feature(self.validator):
            return refusal("nothing was changed, and the validator's verdict does not depend on the feature")
        judge = self.repositories.judge
        links = [one.path for one in await judge.changes(base, commit) if one.mode == LINK and one.status != "D"]
        # Their targets are not part of the work.
        if astray := [path for path in links if leads_out(path, os.fsdecode(await judge.read(commit, path) or b""))]:
            return refusal(
                "\n".join(f"{path}: a symbolic link that leads out of the repository: replace it by a file" for path in astray)
            )
        return await self._confirm(feature, result, base, commit)

    async def _confirm(self, feature: Feature, result: TurnResult, base: str, commit: str) -> Verdict:
        """Return the first rejecting verdict, or else the first one with its confirmations."""
        candidate = Candidate(commit=commit, base=base, checkouts=self.repositories.judge, result=result)
        verdicts = [await self._ask(feature, candidate)]
        if verdicts[0].passed:
            verdicts += await self._further(feature, candidate)
        said, more = verdicts[0], ""
        if not verdicts[-1].passed:
            said = verdicts[-1]
            if len(verdicts) > 1:
                more = f"\nit passed {len(verdicts) - 1} times before: it does not pass every time"
        elif self.confirmations > 1:
            more = f"\npassed {self.confirmations} times in a row, each time in a new worktree"
        return evolve(said, evidence=f"{said.evidence}{more}", duration_s=sum(one.duration_s for one in verdicts))

    async def _further(self, feature: Feature, candidate: Candidate) -> list[Verdict]:
        """Return the verdicts of the confirmations after the first, up to the first rejection."""
        asked = [evolve(candidate, confirmation=number) for number in range(2, self.confirmations + 1)]
        found: list[Verdict] = []
        if not getattr(self.validator, "side_by_side", False):
            for one in asked:
                found.append(await self._ask(feature, one))
                if not found[-1].passed:
                    break
            return found
        told: dict[int, Verdict] = {}
        limiter = trio.CapacityLimiter(usable_cores())

        async def ask(one: Candidate) -> None:
            async with limiter:
                told[one.confirmation] = await self._ask(feature, one)

        async with trio.open_nursery() as nursery:
            for one in asked:
                nursery.start_soon(ask, one)
        for number in sorted(told):
            found.append(told[number])
            if not found[-1].passed:
                break
        return found

    async def _ask(self, feature: Feature, candidate: Candidate) -> Verdict:
        verdict = check_verdict(await self.validator.validate(feature, candidate))
        return evolve(verdict, commit=candidate.commit)


def refusal(why: str) -> Verdict:
    """Return a rejecting verdict, without asking the validator."""
    return Verdict(passed=False, evidence=why, validator="coding harness")
