"""What is agreed on at the beginning, and what its owner changes of it later. Pure.

The law: manifest, features and what is known of them are made together, so that there is no manifest without its features.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import evolve

from harnesses.errors import HarnessMisuse
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import Feature, Standing
from harnesses.features.lists import check_features, lock, starter_features
from harnesses.features.manifest import DEFAULT_PLAN, InitializerRequest, InitializerResult, SessionManifest
from harnesses.features.record import MAX_PROGRESS, FeatureState, ProgressEntry, RunCounts
from harnesses.features.texts import last_part


def checked_request(request: InitializerRequest) -> tuple[Feature, ...]:
    """Return the features that a request stands for.

    Raises:
        InvalidRequest: the objective is blank, or the list can not be worked.
    """
    if not request.current_objective.strip():
        raise InvalidRequest(
            f"the request has no objective: expected a text that says something, was {request.current_objective!r}; "
            "say what the features are for"
        )
    return check_features(request.feature_list) if request.feature_list else starter_features()


def initialised(request: InitializerRequest, name: str, commit: str | None, now: datetime) -> FeatureState:
    """Return the first state: manifest, features and first progress entry in one.

    Args:
        name: the durable name of the harness.
        commit: the commit that the work begins at, where there is a repository.

    Raises:
        InvalidRequest: see `checked_request`.
    """
    features = checked_request(request)
    manifest = SessionManifest(
        session_id=name,
        current_objective=request.current_objective,
        active_branch=request.active_branch,
        init_plan=DEFAULT_PLAN if request.init_plan is None else request.init_plan,
        last_known_good_commit=commit,
        locks=tuple(lock(feature) for feature in features),
        metadata=request.metadata,
    )
    summary = request.progress_summary.strip() and request.progress_summary
    state = FeatureState(
        manifest=manifest, features=features, standings=tuple(Standing(feature_id=feature.id) for feature in features)
    )
    return told(state, summary or f"Initializer scaffold created for objective: {request.current_objective}", now)


def initializer_result(state: FeatureState, *, created: bool) -> InitializerResult:
    """Return what there is after an initialisation."""
    manifest = manifest_of(state)
    return InitializerResult(
        session_id=manifest.session_id,
        created=created,
        schema_version=manifest.schema_version,
        harness_version=manifest.harness_version,
        feature_count=len(state.features),
    )


def amended(state: FeatureState, given: Sequence[Feature], now: datetime) -> FeatureState:
    """Take a changed list: new features are added, changed ones are pending again, those that are gone are kept at the end.

    Raises:
        InvalidRequest: the list that comes of it can not be worked.
    """
    stored = {feature.id: (feature, standing) for feature, standing in zip(state.features, state.standings, strict=True)}
    pairs: list[tuple[Feature, Standing]] = []
    afresh: set[str] = set()
    for feature in check_features([*given, *_gone(state, given)]):
        old, standing = stored.get(feature.id, (None, Standing(feature_id=feature.id)))
        if old is not None and lock(old) == lock(feature):
            pairs.append((old, standing))
        else:
            pairs.append((feature, Standing(feature_id=feature.id, tries=standing.tries)))
            afresh.add(feature.id)
    features = tuple(feature for feature, _ in pairs)
    changed = evolve(
        state,
        manifest=evolve(manifest_of(state), locks=tuple(map(lock, features))),
        features=features,
        standings=tuple(standing for _, standing in pairs),
        run=_without(state.run, afresh),
    )
    return told(changed, f"feature list amended: {len(pairs)} features, {len(afresh)} of them new or changed", now)


def told(state: FeatureState, summary: str, now: datetime) -> FeatureState:
    """Return the state with one more progress entry."""
    number = 0 if state.run is None else state.run.number
    entry = ProgressEntry(run=number, summary=last_part(summary), created_at=now)
    return evolve(state, progress=(*state.progress, entry)[-MAX_PROGRESS:])


def manifest_of(state: FeatureState) -> SessionManifest:
    """Return the manifest."""
    if state.manifest is None:
        raise HarnessMisuse("the feature list has no manifest: expected one, was none; initialise it first")
    return state.manifest


def _gone(state: FeatureState, given: Sequence[Feature]) -> list[Feature]:
    there = {feature.id for feature in given}
    return [evolve(feature, passes=False) for feature in state.features if feature.id not in there]


def _without(run: RunCounts | None, ids: set[str]) -> RunCounts | None:
    """Return the open run without what it did for features that are other ones now."""
    return None if run is None else evolve(run, validated=tuple(id for id in run.validated if id not in ids))
