"""The workplace of a coding harness: tries at features happen in a git repository.

    RepositoryWorkplace ──► Repositories        the user's, the judge's, those of agents
                        ──► CodingAttempts ───► Repositories
                        ──► CommitJudging ────► Repositories, the validator

Invariant: accepted work is merged once, however often a program is killed during the merge.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from attrs import evolve, field, frozen

from harnesses.coding.branches import merge_message
from harnesses.coding.candidate import Candidate
from harnesses.coding.git import GitError, Identity
from harnesses.coding.merge_limits import MergeLimits
from harnesses.coding.pull_request import PullRequest
from harnesses.coding.repositories import Repositories, open_repositories
from harnesses.coding.sources import FailingTests, NothingToDo
from harnesses.coding.sources.feature_files import FeatureSource
from harnesses.coding.workplace.coding_attempts import CodingAttempts, CommitJudging, leave, refusal
from harnesses.coding.workplace.delivery import REMOTE, Delivery, open_delivery, undelivered
from harnesses.effects.effect import Confirmed, NotDone
from harnesses.errors import HarnessMisuse
from harnesses.features.agent_text import cut_list
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import Feature, FeatureStatus, Standing, TurnResult, Verdict
from harnesses.features.feature_record import Assignment, FeatureState, InitializerRequest, Proposal
from harnesses.features.feature_validators import OutcomeValidator, expect_features
from harnesses.features.loop.feature_workplace import Ask, Once, Pause, Settle, Workplace
from harnesses.features.loop.startup_checks import check_agreed
from harnesses.features.turn_results import effect_key

_MERGE = "merge"
_MOST_NOTES = 10


@frozen(kw_only=True)
class RepositoryOptions:
    """Which repository to work on, and how."""

    path: Path
    into: str | None = None
    """The branch that receives accepted work."""
    pull_request: PullRequest | None = None
    """Where accepted work is proposed; None for nowhere."""
    workspace: Path | None = None
    confirmations: int = 3
    check_first: bool = False
    """Whether the validator is asked before the agent."""
    limits: MergeLimits = field(factory=MergeLimits)
    """The most that one try may add or change."""
    identity: Identity | None = None
    has_objective: bool = False
    """Whether the caller gave an objective; otherwise the source may provide one."""


@frozen
class _Opened:
    repositories: Repositories
    attempts: CodingAttempts
    judging: CommitJudging
    delivery: Delivery | None


class RepositoryWorkplace(Workplace):
    """Has tries committed, validated and merged.

    Args:
        source: the source of the list; None if the harness was given the list.
    """

    acts_on_verdicts = True

    def __init__(
        self, validator: OutcomeValidator[Candidate], options: RepositoryOptions, source: FeatureSource | None
    ) -> None:
        super().__init__(validator)
        self._options = options
        self._source = source
        self._now: _Opened | None = None
        self._seen_to_fail: dict[str, tuple[str, str]] = {}

    @property
    def handoff_directory(self) -> Path | None:
        return self._repositories.workspace.root

    async def open(self, name: str, state: FeatureState) -> None:
        manifest, options, agreed = state.manifest, self._options, None
        if manifest is not None:
            agreed = manifest.active_branch
        is_fork = manifest is not None and manifest.session_id != name
        repositories = await open_repositories(
            options.path,
            name,
            into=None if is_fork and options.into == agreed else options.into,
            agreed=None if is_fork else agreed,
            is_fork=is_fork,
            is_own=options.pull_request is not None,
            root=options.workspace,
            identity=options.identity,
        )
        try:
            delivery = await self._delivery_of(repositories, state)
        except BaseException:
            await repositories.close()
            raise
        judging = CommitJudging(repositories, self.validator, options.confirmations, options.limits, self._seen_to_fail)
        self._now = _Opened(repositories, CodingAttempts(repositories), judging, delivery)
        if manifest is not None:
            await repositories.go_on(_good(state))
            if is_fork:
                await repositories.publish(repositories.into, _good(state))

    async def _delivery_of(self, repositories: Repositories, state: FeatureState) -> Delivery | None:
        asked = self._options.pull_request
        if asked is None:
            return None
        delivery = await open_delivery(asked, repositories, self._options.confirmations)
        if state.manifest is not None and REMOTE not in dict(state.manifest.metadata):
            raise InvalidRequest(
                f"repository {repositories.user.path}: into: expected what the work began with, which was no pull request; "
                f"start under another name"
            )
        return delivery

    @property
    def branch(self) -> str | None:
        return self._repositories.into

    async def close(self) -> None:
        now, self._now = self._now, None
        if now is not None:
            await now.repositories.close()

    # the list

    def knows_list(self) -> bool:
        return self._source is None

    async def first_commit(self) -> str | None:
        return await self._repositories.begin()

    async def complete(self, request: InitializerRequest, state: FeatureState) -> tuple[InitializerRequest, str]:
        request = evolve(request, active_branch=self._repositories.into)
        if (delivery := self._opened.delivery) is not None:
            request = evolve(request, metadata=(*request.metadata, (REMOTE, delivery.remote.fingerprint)))
        if self._source is None:
            return request, ""
        request = evolve(request, feature_list=tuple(await self._load(self._source, state)))
        objective: str | None = getattr(self._source, "objective", None)
        if objective and not self._options.has_objective:
            request = evolve(request, current_objective=objective)
        notes = cut_list(getattr(self._source, "notes", ()), _MOST_NOTES)
        if not notes:
            return request, ""
        return evolve(request, progress_summary="\n".join([request.progress_summary, *notes])), f"! {'; '.join(notes)}"

    async def _load(self, source: FeatureSource, state: FeatureState) -> Sequence[Feature]:
        begun = state.manifest is not None
        known = {feature.id: evolve(feature, passes=False) for feature in state.features}
        commit = await self._where_listed(state) if begun else await self._repositories.begin()
        try:
            async with self._repositories.judge.at(commit) as checkout:
                found = await source.load(checkout)
        except NothingToDo:
            if not begun:
                raise
            # Everything listed is done, so there is nothing new.
            return list(known.values())
        if not isinstance(source, FailingTests):
            return found
        source.listed_at(await self._repositories.judge.tree_of(commit))
        # A feature's description has the original failure of its test; a changed failure does not make it another feature.
        return [known.get(feature.id, feature) for feature in found]

    async def _where_listed(self, state: FeatureState) -> str:
        """Return the commit whose list counts after the work has begun: the tip of the branch, whoever has moved it.

        Work continues there only when a person accepts that.
        """
        tip = await self._repositories.user.tip(self._repositories.into)
        return tip if tip is not None and await self._repositories.has(tip) else _good(state)

    async def follow(self, state: FeatureState, message: object) -> tuple[FeatureState, str] | None:
        match message:
            case {"accept_base": str(wanted)}:
                return await self._accept_base(state, wanted)
            case {"accept_remote": str(name)} if self._opened.delivery is not None:
                return self._opened.delivery.agree(state, name)
            case _:
                return None

    async def _accept_base(self, state: FeatureState, wanted: str) -> tuple[FeatureState, str]:
        user, into = self._repositories.user, self._repositories.into
        tip = await user.tip(into)
        if tip is None or len(wanted) < 7 or not tip.startswith(wanted):
            return state, f"message to accept {wanted:.80} was not followed: branch {into!r} is at {tip}"
        if tip == _good(state):
            return state, f"{tip} is the last good commit already"
        await self._repositories.judge.take(user.git.directory, tip)
        manifest = evolve(check_agreed(state), last_known_good_commit=tip)
        # Features that passed at another commit must be seen to pass at this one.
        state = evolve(state, manifest=manifest, version=state.version + 1)
        return state, f"work continues at {tip}, to which {into!r} was moved by somebody else"

    # a run and its attempts

    @asynccontextmanager
    async def inspected(self, state: FeatureState) -> AsyncGenerator[Path | None]:
        worktree = await self._repositories.worktrees.open("bearings", _good(state), None)
        try:
            yield worktree.path
        finally:
            await leave(self._repositories, worktree)

    async def check(self, state: FeatureState) -> None:
        expect_features(self.validator, state.features)
        await self._repositories.check(_good(state))

    async def work(self, ask: Ask, assignment: Assignment) -> TurnResult:
        base, now = assignment.base, self._opened
        assert base is not None
        await now.repositories.restore(base)
        if self._options.check_first and await now.judging.passes_already(assignment.feature, base):
            return TurnResult(message="it passes already: the agent was not asked", base=base, commit=base)
        result = await now.attempts.work(ask, assignment, base)
        return evolve(result, before=now.judging.failure_at(assignment.feature, base))

    async def diff(self, result: TurnResult) -> str:
        if result.base is None or result.commit is None or result.base == result.commit:
            return ""
        try:
            return await self._repositories.judge.diff(result.base, result.commit)
        except GitError:
            return ""  # too long, or the repository was damaged: what depends on it says so

    async def judge(self, feature: Feature, result: TurnResult) -> Verdict:
        return await self._opened.judging.judge(feature, result)

    async def recheck(self, state: FeatureState, feature: Feature, standing: Standing) -> Verdict:
        judging, good = self._opened.judging, _good(state)
        if standing.status is FeatureStatus.BLOCKED:
            return await judging.judge_blocked(feature, good, standing)
        return await judging.judge_at(feature, good, standing.accepted)

    async def overtaken(self, state: FeatureState, result: TurnResult) -> Verdict | None:
        """Keep on its branch work based on a commit that, after a person's message, is no longer the last good one."""
        good = _good(state)
        if result.base in (None, good):
            return None
        if result.branch is not None and result.commit is not None and await self._repositories.has(result.commit):
            await self._repositories.publish(result.branch, result.commit)
        return refusal(f"a person's message moved the work to {good}; this is based on {result.base}")

    # merging

    async def accept(self, once: Once, feature: Feature, turn: int, result: TurnResult, verdict: Verdict) -> str | None:
        base, commit = result.base, result.commit
        if base is None or commit is None or base == commit:
            return base
        merge = partial(self._repositories.merge, merge_message(feature, turn, result, verdict))
        merged: str = await once(effect_key(_MERGE, feature.id, turn), merge, base, commit, reconcile=self._merged)
        if result.branch is not None:
            await self._repositories.unpublish(result.branch, commit)
        return merged

    async def _merged(self, _: str, base: str, commit: str) -> Confirmed | NotDone:
        merged = await self._repositories.merged(commit)
        return NotDone() if merged is None else Confirmed(merged)

    # pull requests

    def owes(self, state: FeatureState) -> bool:
        return self._options.pull_request is not None and undelivered(state) is not None

    async def deliver(self, once: Once, settle: Settle, pause: Pause, state: FeatureState) -> tuple[FeatureState, str]:
        delivery, commit = self._opened.delivery, undelivered(state)
        assert delivery is not None
        assert commit is not None
        proposal = await delivery.deliver(once, settle, pause, state, commit)
        return evolve(state, proposal=proposal), _pushed(proposal)

    def conclusion(self, state: FeatureState) -> str:
        return "" if state.proposal is None or self.owes(state) else _pushed(state.proposal)

    @property
    def _opened(self) -> _Opened:
        if self._now is None:
            raise HarnessMisuse("CodingHarness: its repository is not open: expected a running harness; ask while it runs")
        return self._now

    @property
    def _repositories(self) -> Repositories:
        return self._opened.repositories


def _pushed(one: Proposal) -> str:
    return f"pushed {one.branch} at {one.commit[:12]} to {one.remote}{f': {one.url}' if one.url else ''}"


def _good(state: FeatureState) -> str:
    """Return the last good commit."""
    good = check_agreed(state).last_known_good_commit
    if good is None:
        raise HarnessMisuse("CodingHarness: the state is of another kind of harness: expected a last good commit")
    return good
