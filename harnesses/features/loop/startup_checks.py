"""How an attempt begins: the list is set up or compared with the one that was agreed on, and the surroundings are checked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from attrs import define, field

from harnesses.features.errors import HealthCheckFailed, MemoryFailed
from harnesses.features.feature import Feature, Verdict
from harnesses.features.feature_record import (
    FeatureState,
    InitializerRequest,
    InitPlan,
    IterationKind,
    IterationStatus,
    SessionManifest,
)
from harnesses.features.health_checks import HealthCheck, NoHealthCheck
from harnesses.features.loop.feature_steps import StepDraft, StepWriter
from harnesses.features.loop.feature_workplace import Workplace
from harnesses.features.loop.observers import Phase
from harnesses.features.planning.feature_list import amend, check_locks, check_request, differences, initialise
from harnesses.features.planning.next_move import is_complete, next_run
from harnesses.features.planning.state_changes import open_run
from harnesses.features.run_policy import RunPolicy
from harnesses.features.turn_results import check_verdict, describe_error

_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)


@define
class ListSetup:
    """Sets up the list that was asked for, or compares it with the one being worked.

    Args:
        amend: whether a list that differs changes the one being worked.
    """

    request: InitializerRequest
    workplace: Workplace
    amend: bool
    is_compared: bool = field(default=False, init=False)
    """Whether that was done in this attempt."""
    has_created: bool = field(default=False, init=False)
    """Whether the list came in this attempt."""

    def begin_attempt(self) -> None:
        self.is_compared = self.has_created = False

    def is_complete(self, state: FeatureState, policy: RunPolicy) -> bool:
        """Return whether all is done, also of what may have come to the list since."""
        if not is_complete(state, policy):
            return False
        if not self.amend or self.is_compared:
            return True
        given = self.request.feature_list
        return self.workplace.knows_list() and not (given and has_news(state, check_request(self.request)))

    async def initialise(self, state: FeatureState, name: str, now: Callable[[], datetime]) -> tuple[StepDraft, str]:
        """Set up manifest, features and first progress entry, all in one step; return it, with a remark."""
        request, remark = await self.workplace.complete(self.request, state)
        state = initialise(request, name, await self.workplace.first_commit(), now())
        self.is_compared = self.has_created = True
        note = f"{len(state.features)} features for: {request.current_objective}"
        draft = StepDraft(kind=IterationKind.INITIALIZE, status=IterationStatus.DONE, state=state, note=note)
        return draft, remark

    async def compare(
        self, state: FeatureState, policy: RunPolicy, now: Callable[[], datetime]
    ) -> tuple[StepDraft | None, str]:
        """Compare the list given with the one being worked; return a step, if it takes one, and a remark."""
        if self.is_compared or not (self.request.feature_list or self.amend):
            return None, ""
        self.is_compared = True
        request, remark = await self.workplace.complete(self.request, state)
        given = check_request(request) if request.feature_list else ()
        said = differences(state.features, given) if given else ""
        kind, done = IterationKind.AMEND, IterationStatus.DONE
        if self.amend and given and has_news(state, given):
            return StepDraft(kind=kind, status=done, state=amend(state, given, now()), note=said), remark
        if said and not self.amend:
            remark = f"! the list given is not the one being worked ({said}): it is kept; to change it, amend=True"
        if is_complete(state, policy):
            return StepDraft(kind=kind, status=done, state=state, note="nothing new in the list"), remark
        return None, remark


def has_news(state: FeatureState, given: Sequence[Feature]) -> bool:
    """Return whether a list brings features, or specifications, that the one being worked does not have."""
    after = amend(state, given, _ANY_TIME).manifest
    return state.manifest is None or after is None or after.locks != state.manifest.locks


UnlessStopped: TypeAlias = Callable[..., Awaitable[Any]]
"""Returns what `function(*args)` returns; raises `Stopping`, having cancelled it, as soon as the harness is to stop."""


@define
class StartupChecks:
    """Begins the runs of one attempt.

    Args:
        check: looks at the surroundings.
        workplace: says where that is.
        writer: records what was seen with the next step.
    """

    check: HealthCheck
    workplace: Workplace
    writer: StepWriter
    unless_stopped: UnlessStopped
    has_begun: bool = field(default=False, init=False)
    """Whether it has begun the open run."""
    evidence: str = field(default="", init=False)
    """What the health check has seen."""
    _began: datetime | None = field(default=None, init=False)

    async def begin(self, state: FeatureState, now: datetime) -> HealthCheckFailed | None:
        """Begin a run; return why it should not go on, if it should not.

        Raises:
            MemoryFailed: the list is not the one that was agreed on.
            Stopping: the harness is to stop.
        """
        inspected = nullcontext(None) if isinstance(self.check, NoHealthCheck) else self.workplace.inspected(state)
        async with inspected as directory:
            self._began = now
            manifest = check_agreed(state)
            self.writer.phases.start(Phase.TASK_ITERATION, next_run(state).number)
            seen: Verdict
            failure: HealthCheckFailed | None
            seen, failure = await self.unless_stopped(inspect, self.check, manifest.init_plan, directory)
        self.writer.note(health=seen)
        self.evidence, self.has_begun = seen.evidence, True
        return failure

    def opened(self, state: FeatureState, now: datetime) -> FeatureState:
        """Return the state with a run open."""
        return open_run(state, self._began or now)


def check_agreed(state: FeatureState) -> SessionManifest:
    """Return the manifest, having seen that the features are those that were agreed on.

    Raises:
        MemoryFailed: they are not.
    """
    if state.manifest is None:
        raise MemoryFailed("the feature list has no manifest: expected the one it was begun with; restore the stored state")
    check_locks(state.manifest, state.features)
    return state.manifest


async def inspect(check: HealthCheck, plan: InitPlan, directory: Path | None) -> tuple[Verdict, HealthCheckFailed | None]:
    """Return what a health check sees; and the error that it is, if all is not well."""
    try:
        seen = check_verdict(await check.check(plan, directory), "the health check")
    except Exception as error:
        failure = HealthCheckFailed(f"the health check raised {describe_error(error)}")
        failure.__cause__ = error
        return Verdict(passed=False, evidence=describe_error(error), validator="health check"), failure
    if seen.passed:
        return seen, None
    return seen, HealthCheckFailed(
        f"the surroundings are not fit to work in: expected the health check to pass, was:\n{seen.evidence}\n"
        "Put them right and start again"
    )
