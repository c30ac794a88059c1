"""Judges the commits of agents, in fresh worktrees that none of them has seen."""

from __future__ import annotations

import os

from attrs import evolve, field, frozen

from harnesses.coding.candidate import LINK, Candidate, leads_out
from harnesses.coding.repositories import Repositories
from harnesses.features.feature import Feature, TurnResult, Verdict
from harnesses.features.feature_protocols import OutcomeValidator
from harnesses.features.feature_validators import depends_on_feature
from harnesses.features.turn_results import check_verdict


@frozen
class CommitJudging:
    """Asks the validator about commits.

    Args:
        confirmations: passes in a row, each in a fresh worktree, that an acceptance needs.
    """

    repositories: Repositories
    validator: OutcomeValidator[Candidate]
    confirmations: int
    seen_to_fail: dict[str, str] = field(factory=dict[str, str])
    """Features, and the commit at which each did not pass before an agent was asked."""

    async def passes_already(self, feature: Feature, base: str) -> bool:
        """Ask the validator before the agent; once for each feature and commit."""
        if self.seen_to_fail.get(feature.id) == base:
            return False
        passed = (await self.judge_at(feature, base, None)).passed
        if not passed:
            self.seen_to_fail[feature.id] = base
        return passed

    async def judge_at(self, feature: Feature, commit: str, result: TurnResult | None) -> Verdict:
        """Judge a feature at a commit that everything accepted is part of."""
        return await self._ask(
            feature, Candidate(commit=commit, base=commit, checkouts=self.repositories.judge, result=result)
        )

    async def judge(self, feature: Feature, result: TurnResult) -> Verdict:
        """Judge the work of a turn; what an agent has made is on its branch first."""
        base, commit = result.base, result.commit
        if base is None or commit is None:
            return refusal(result.stop_reason)
        if not await self.repositories.has(commit):
            return refusal(f"the work is lost: commit {commit} is not there any more")
        if result.branch is not None:
            await self.repositories.publish(result.branch, commit)
        elif not depends_on_feature(self.validator):
            return refusal("nothing was changed, and the validator says the same of every feature")
        if astray := await self._links_astray(base, commit):
            return refusal(
                "\n".join(f"{path}: a symbolic link that leads out of the repository: put a file there" for path in astray)
            )
        return await self._confirm(feature, result, base, commit)

    async def _links_astray(self, base: str, commit: str) -> list[str]:
        """Return the symbolic links of a commit that lead out of it: what they lead to is no part of the work."""
        judge = self.repositories.judge
        links = [one.path for one in await judge.changes(base, commit) if one.mode == LINK and one.status != "D"]
        return [path for path in links if leads_out(path, os.fsdecode(await judge.read(commit, path) or b""))]

    async def _confirm(self, feature: Feature, result: TurnResult, base: str, commit: str) -> Verdict:
        """Return the first verdict that says no, or else the first one with what confirms it."""
        candidate = Candidate(commit=commit, base=base, checkouts=self.repositories.judge, result=result)
        verdicts: list[Verdict] = []
        for number in range(1, self.confirmations + 1):
            verdicts.append(await self._ask(feature, evolve(candidate, confirmation=number)))
            if not verdicts[-1].passed:
                break
        said, more = verdicts[0], ""
        if not verdicts[-1].passed:
            said = verdicts[-1]
            if len(verdicts) > 1:
                more = f"\nit passed {len(verdicts) - 1} times before: it does not pass every time"
        elif self.confirmations > 1:
            more = f"\nseen {self.confirmations} times in a row, each time in a fresh worktree"
        return evolve(said, evidence=f"{said.evidence}{more}", duration_s=sum(one.duration_s for one in verdicts))

    async def _ask(self, feature: Feature, candidate: Candidate) -> Verdict:
        verdict = check_verdict(await self.validator.validate(feature, candidate))
        return evolve(verdict, commit=candidate.commit)


def refusal(why: str) -> Verdict:
    """Return the verdict on work that the validator is not asked about."""
    return Verdict(passed=False, evidence=why, validator="coding harness")
