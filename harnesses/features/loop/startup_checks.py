"""The start of an attempt: initialises the list or compares it with the stored one, and checks the environment."""

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
    """Initialises the requested list, or compares it with the stored one.

    Args:
        amend: whether a different list changes the stored one.
    """

    request: InitializerRequest
    workplace: Workplace
    amend: bool
    is_compared: bool = field(default=False, init=False)
    """Whether the comparison was made in this attempt."""
    has_created: bool = field(default=False, init=False)
    """Whether the list was initialised in this attempt."""

    def begin_attempt(self) -> None:
        self.is_compared = self.has_created = False

    def is_complete(self, state: FeatureState, policy: RunPolicy) -> bool:
        """Return whether everything is done, including features added to the list since."""
        if not is_complete(state, policy):
            return False
        if not self.amend or self.is_compared:
            return True
        given = self.request.feature_list
        return self.workplace.knows_list() and not (given and has_news(state, check_request(self.request)))

    async def initialise(self, state: FeatureState, name: str, now: Callable[[], datetime]) -> tuple[StepDraft, str]:
        """Create manifest, features and first progress entry, all in one step; return the step, and a remark."""
        request, remark = await self.workplace.complete(self.request, state)
        state = initialise(request, name, await self.workplace.first_commit(), now())
        self.is_compared = self.has_created = True
        note = f"{len(state.features)} features for: {request.current_objective}"
        draft = StepDraft(kind=IterationKind.INITIALIZE, status=IterationStatus.DONE, state=state, note=note)
        return draft, remark

    async def compare(
        self, state: FeatureState, policy: RunPolicy, now: Callable[[], datetime]
    ) -> tuple[StepDraft | None, str]:
        """Compare the given list with the stored one; return a step if it changes something, and a remark."""
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
            remark = (
                f"! the given list differs from the stored one ({said}): the stored one is kept; to change it, use amend=True"
            )
        if is_complete(state, policy):
            return StepDraft(kind=kind, status=done, state=state, note="nothing new in the list"), remark
        return None, remark


def has_news(state: FeatureState, given: Sequence[Feature]) -> bool:
    """Return whether a list has features or specifications that the stored one does not have."""
    after = amend(state, given, _ANY_TIME).manifest
    return state.manifest is None or after is None or after.locks != state.manifest.locks


UnlessStopped: TypeAlias = Callable[..., Awaitable[Any]]
"""Returns the result of `function(*args)`; when the harness should stop, cancels it and raises `Stopping`."""


@define
class StartupChecks:
    """Begins the runs of one attempt.

    Args:
        check: checks the environment.
        workplace: provides its directory.
        writer: records the result with the next step.
    """

    check: HealthCheck
    workplace: Workplace
    writer: StepWriter
    unless_stopped: UnlessStopped
    has_begun: bool = field(default=False, init=False)
    """Whether this attempt has begun the current run."""
    evidence: str = field(default="", init=False)
    """Output of the health check."""
    _began: datetime | None = field(default=None, init=False)

    async def begin(self, state: FeatureState, now: datetime) -> HealthCheckFailed | None:
        """Begin a run; return the error of the health check if it failed.

        Raises:
            MemoryFailed: the list is not the one that was initialised.
            Stopping: the harness should stop.
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
    """Return the manifest, after checking that the features match it.

    Raises:
        MemoryFailed: they do not match.
    """
    if state.manifest is None:
        raise MemoryFailed("the feature list has no manifest: expected the one it was created with; restore the stored state")
    check_locks(state.manifest, state.features)
    return state.manifest


async def inspect(check: HealthCheck, plan: InitPlan, directory: Path | None) -> tuple[Verdict, HealthCheckFailed | None]:
    """Return the verdict of a health check, and an error if it failed."""
    try:
        seen = check_verdict(await check.check(plan, directory), "the health check")
    except Exception as error:
        failure = HealthCheckFailed(f"the health check raised {describe_error(error)}")
        failure.__cause__ = error
        return Verdict(passed=False, evidence=describe_error(error), validator="health check"), failure
    if seen.passed:
        return seen, None
    return seen, HealthCheckFailed(
        f"the environment is not fit to work in: expected the health check to pass, was:\n{seen.evidence}\n"
        "Fix it and start again"
    )
