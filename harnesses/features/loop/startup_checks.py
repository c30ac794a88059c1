"""What is checked when a run begins: the list is what was agreed on, and the surroundings are fit to work in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from attrs import define, field

from harnesses.features.errors import HealthCheckFailed, MemoryFailed
from harnesses.features.feature import Verdict
from harnesses.features.feature_protocols import HealthCheck
from harnesses.features.feature_record import FeatureState
from harnesses.features.health_checks import NoHealthCheck
from harnesses.features.loop.feature_steps import StepWriter
from harnesses.features.loop.feature_workplace import Workplace
from harnesses.features.loop.observers import Phase
from harnesses.features.planning.feature_list import check_locks
from harnesses.features.planning.next_move import next_run
from harnesses.features.planning.state_changes import open_run
from harnesses.features.session_manifest import InitPlan, SessionManifest
from harnesses.features.turn_results import check_verdict, describe_error

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
