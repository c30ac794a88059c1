"""Getting bearings: what there is, whether it is what was agreed on, and whether the surroundings are fit to work in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from harnesses.features.changes import amended
from harnesses.features.errors import HealthCheckFailed, MemoryFailed
from harnesses.features.feature import Feature, Standing, Verdict
from harnesses.features.lists import check_locks
from harnesses.features.manifest import InitPlan, SessionManifest
from harnesses.features.prompts import prompt
from harnesses.features.protocols import HealthCheck
from harnesses.features.record import Assignment, FeatureState
from harnesses.features.turn import checked_verdict, words_of

_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def agreed(state: FeatureState) -> SessionManifest:
    """Return the manifest, having seen that the features are those that were agreed on.

    Raises:
        MemoryFailed: they are not.
    """
    if state.manifest is None:
        raise MemoryFailed("the feature list has no manifest: expected the one it was begun with; restore the stored state")
    check_locks(state.manifest, state.features)
    return state.manifest


async def look(check: HealthCheck, plan: InitPlan, directory: Path | None) -> tuple[Verdict, HealthCheckFailed | None]:
    """Return what a health check sees; and the error that it is, if all is not well."""
    try:
        seen = checked_verdict(await check.check(plan, directory), "the health check")
    except Exception as error:
        failure = HealthCheckFailed(f"the health check raised {words_of(error)}")
        failure.__cause__ = error
        return Verdict(passed=False, evidence=words_of(error), validator="health check"), failure
    if seen.passed:
        return seen, None
    return seen, HealthCheckFailed(
        f"the surroundings are not fit to work in: expected the health check to pass, was:\n{seen.evidence}\n"
        "Put them right and start again"
    )


def has_news(state: FeatureState, given: Sequence[Feature]) -> bool:
    """Return whether a list brings features, or specifications, that the one being worked does not have."""
    after = amended(state, given, _ANY_TIME).manifest
    return state.manifest is None or after is None or after.locks != state.manifest.locks


def assignment(
    state: FeatureState, feature: Feature, standing: Standing, *, turn: int, health: str, words: str | None
) -> Assignment:
    """Return what an agent is asked.

    Args:
        turn: which try all told, from 1.
        words: the prompt, if it is not the usual one.
    """
    objective = "" if state.manifest is None else state.manifest.current_objective
    usual = prompt(
        objective,
        feature,
        standing.turns + 1,
        last_failure=standing.last_failure,
        progress=state.progress,
        health=health,
    )
    return Assignment(
        feature=feature,
        turn=turn,
        prompt=usual if words is None else words,
        objective=objective,
        last_failure=standing.last_failure,
        session=standing.session,
        progress=state.progress,
        health=health,
    )
