"""How a feature of a repository is tried: in a worktree, on a branch; judged in fresh worktrees; merged.

The laws: what an agent has left is on a branch before it is judged; what was accepted is merged once, however often a program
is killed while it does so.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from attrs import evolve

from harnesses.coding.branches import merge_message, slug, try_message
from harnesses.coding.candidate import LINK, Candidate, leads_out
from harnesses.coding.git import GitError
from harnesses.coding.judge import Uncommittable
from harnesses.coding.site import Site
from harnesses.coding.workshop import Worktree
from harnesses.effects import Confirmed, NotDone
from harnesses.errors import HarnessMisuse
from harnesses.features.bearings import agreed
from harnesses.features.changes import after_turn
from harnesses.features.feature import Feature, Standing, TurnResult, Verdict
from harnesses.features.harness import FeatureHarness
from harnesses.features.health import NoHealthCheck
from harnesses.features.record import Assignment, IterationKind, IterationStatus
from harnesses.features.telling import FeatureStep
from harnesses.features.turn import Worked, checked_result, checked_verdict, key_of
from harnesses.features.validators import depends_on_feature
from harnesses.process import sweep

_MERGE = "merge"


class CodingTries(FeatureHarness):
    """Has commits made, judged and merged. `CodingHarness` says where, and what there is to do."""

    accepting_acts = True

    _confirmations: int
    _check_first: bool
    _opened_site: Site | None
    _looking: Worktree | None
    """Where the health check looks."""
    _seen_to_fail: dict[str, str]
    """Features, and the commit at which each did not pass before an agent was asked."""

    # the place

    @property
    def _site(self) -> Site:
        if self._opened_site is None:
            raise HarnessMisuse("CodingHarness: its repository is not open: expected this to be asked while it runs")
        return self._opened_site

    @property
    def _good(self) -> str:
        """The last good commit."""
        good = agreed(self.state).last_known_good_commit
        if good is None:
            raise HarnessMisuse("CodingHarness: the state is of another kind of harness: expected a last good commit")
        return good

    def _directory(self) -> Path | None:
        return None if self._looking is None else self._looking.path

    async def _bearings(self, *, taken_up: bool = False) -> FeatureStep | None:
        if isinstance(self._health_check, NoHealthCheck):
            return await super()._bearings(taken_up=taken_up)
        self._looking = await self._site.workshop.open("bearings", self._good, None)
        try:
            return await super()._bearings(taken_up=taken_up)
        finally:
            await self._leave_tree(self._looking)
            self._looking = None

    async def _advance(self) -> FeatureStep | None:
        await self._site.check(self._good)
        return await super()._advance()

    # a try

    async def _do(self, assignment: Assignment) -> TurnResult:
        base, feature, turn = self._good, assignment.feature, assignment.turn
        await self._site.restore(base)
        if self._check_first and await self._passes_already(feature, base):
            return TurnResult(message="it passes already: nothing was done", base=base, commit=base)
        branch = await self._site.branch(feature.id, turn)
        worktree = await self._site.workshop.open(slug(feature.id), base, branch)
        try:
            return await self._attempt(assignment, worktree, branch)
        finally:
            await self._leave_tree(worktree)

    async def _passes_already(self, feature: Feature, base: str) -> bool:
        """Ask the validator before the agent; once for each feature and commit."""
        if self._seen_to_fail.get(feature.id) == base:
            return False
        passed = (await self._verdict(feature, Candidate(commit=base, base=base, checkouts=self._site.judge))).passed
        if not passed:
            self._seen_to_fail[feature.id] = base
        return passed

    async def _attempt(self, assignment: Assignment, worktree: Worktree, branch: str) -> TurnResult:
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
            result = checked_result(await super()._do(given))
        except Exception as error:
            await self._keep(worktree, branch, try_message(feature, turn, f"The agent failed: {error}"))
            raise
        await sweep(worktree.path)
        try:
            commit, touched = await self._site.commit(worktree, try_message(feature, turn, result.message))
        except Uncommittable as error:
            return evolve(result, base=base, commit=None, branch=None, stop_reason=str(error), touched=())
        published = branch if commit != base else None
        return evolve(result, base=base, commit=commit, branch=published, touched=touched)

    async def _keep(self, worktree: Worktree, branch: str, message: str) -> None:
        """Put what an agent has left that failed on its branch, if there is anything."""
        await sweep(worktree.path)
        try:
            commit, touched = await self._site.commit(worktree, message)
            if touched:
                await self._site.publish(branch, commit)
        except (Uncommittable, GitError):
            # There is an error already, which says more.
            return

    async def _leave_tree(self, worktree: Worktree) -> None:
        await sweep(worktree.path)
        await self._site.workshop.close(worktree)

    # judging

    async def _judge(self, feature: Feature, result: TurnResult) -> Verdict:
        base, commit = result.base, result.commit
        if base is None or commit is None:
            return _no(result.stop_reason)
        if not await self._site.has(commit):
            return _no(f"the work is lost: commit {commit} is not there any more")
        if result.branch is not None:
            await self._site.publish(result.branch, commit)
        elif not depends_on_feature(self._validator):
            return _no("nothing was changed, and the validator says the same of every feature")
        astray = await self._links_astray(base, commit)
        if astray:
            return _no(
                "\n".join(f"{path}: a symbolic link that leads out of the repository: put a file there" for path in astray)
            )
        return await self._confirmed(feature, result, base, commit)

    async def _links_astray(self, base: str, commit: str) -> list[str]:
        """Return the symbolic links of a commit that lead out of it: what they lead to is no part of the work."""
        judge = self._site.judge
        links = [one.path for one in await judge.changes(base, commit) if one.mode == LINK and one.status != "D"]
        return [path for path in links if leads_out(path, os.fsdecode(await judge.read(commit, path) or b""))]

    async def _confirmed(self, feature: Feature, result: TurnResult, base: str, commit: str) -> Verdict:
        """Return the first verdict that says no, or else the first one with what confirms it."""
        first: Verdict | None = None
        took_s = 0.0
        for number in range(1, self._confirmations + 1):
            candidate = Candidate(commit=commit, base=base, checkouts=self._site.judge, result=result, confirmation=number)
            verdict = await self._verdict(feature, candidate)
            took_s += verdict.duration_s
            if not verdict.passed:
                passes = f"\nit passed {number - 1} times before: it does not pass every time" if number > 1 else ""
                return evolve(verdict, evidence=f"{verdict.evidence}{passes}", duration_s=took_s)
            first = first or verdict
        assert first is not None
        again = (
            f"\nseen {self._confirmations} times in a row, each time in a fresh worktree" if self._confirmations > 1 else ""
        )
        return evolve(first, evidence=f"{first.evidence}{again}", duration_s=took_s)

    async def _recheck(self, feature: Feature, standing: Standing) -> Verdict:
        good = self._good
        candidate = Candidate(commit=good, base=good, checkouts=self._site.judge, result=standing.accepted)
        return await self._verdict(feature, candidate)

    async def _verdict(self, feature: Feature, candidate: Candidate) -> Verdict:
        verdict = checked_verdict(await self._validator.validate(feature, candidate))
        return evolve(verdict, commit=candidate.commit)

    # merging

    async def _worked(self, id: str, turn: int, work: Worked, result: TurnResult, *, taken_up: bool) -> FeatureStep:
        if taken_up:
            await self._hear()
            if result.base is not None and result.base != self._good:
                return await self._overtaken(id, turn, work, result)
        return await super()._worked(id, turn, work, result, taken_up=taken_up)

    async def _overtaken(self, id: str, turn: int, work: Worked, result: TurnResult) -> FeatureStep:
        """Put work aside that builds on a commit which is not the last good one any more, by a person's order."""
        verdict = _no(f"by order, work goes on at {self._good}; this builds on {result.base}")
        if result.branch is not None and result.commit is not None and await self._site.has(result.commit):
            await self._site.publish(result.branch, result.commit)
        state = after_turn(self._opened(), self._policy, id, result=result, verdict=verdict, now=self.now())
        return self._made(
            state,
            IterationKind.TURN,
            IterationStatus.NOT_VALIDATED,
            id=id,
            turn=turn,
            result=result,
            verdict=verdict,
            duration_s=work.duration_s,
        )

    async def _accept(self, feature: Feature, turn: int, result: TurnResult, verdict: Verdict) -> str | None:
        base, commit = result.base, result.commit
        if base is None or commit is None or base == commit:
            return base
        merge = partial(self._merge, merge_message(feature, turn, result, verdict))
        merged = await self.once(key_of(_MERGE, feature.id, turn), merge, base, commit, reconcile=self._merged)
        if result.branch is not None:
            await self._site.unpublish(result.branch, commit)
        return merged

    async def _merge(self, message: str, base: str, commit: str) -> str:
        return await self._site.merge(message, base, commit)

    async def _merged(self, _: str, base: str, commit: str) -> Confirmed | NotDone:
        merged = await self._site.merged(commit)
        return NotDone() if merged is None else Confirmed(merged)


def _no(why: str) -> Verdict:
    return Verdict(passed=False, evidence=why, validator="coding harness")
