"""What is agreed on at the beginning, and what its owner changes of it later. Pure.

The law: manifest, features and what is known of them are made together, so that there is no manifest without its features.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import evolve

from harnesses.errors import HarnessMisuse
from harnesses.features.agent_text import last_part
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import Feature, Standing
from harnesses.features.feature_record import MAX_PROGRESS, FeatureState, ProgressEntry, RunCounts
from harnesses.features.planning.feature_list import check_features, lock, starter_features
from harnesses.features.session_manifest import DEFAULT_PLAN, InitializerRequest, InitializerResult, SessionManifest


def check_request(request: InitializerRequest) -> tuple[Feature, ...]:
    """Return the features that a request stands for.

    Raises:
        InvalidRequest: the objective is blank, or the list cannot be worked.
    """
    if not request.current_objective.strip():
        raise InvalidRequest(
            f"the request has no objective: expected a text that says something, was {request.current_objective!r}; "
            "say what the features are for"
        )
    return check_features(request.feature_list) if request.feature_list else starter_features()


def initialise(request: InitializerRequest, name: str, commit: str | None, now: datetime) -> FeatureState:
    """Return the first state: manifest, features and first progress entry in one.

    Args:
        name: the durable name of the harness.
        commit: the commit that the work begins at, where there is a repository.

    Raises:
        InvalidRequest: see `check_request`.
    """
    features = check_request(request)
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
    return add_progress(state, summary or f"Initializer scaffold created for objective: {request.current_objective}", now)


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


def amend(state: FeatureState, given: Sequence[Feature], now: datetime) -> FeatureState:
    """Take a changed list: new features are added, changed ones are pending again, those that are gone are kept at the end.

    Raises:
        InvalidRequest: the list that comes of it cannot be worked.
    """
    stored = {feature.id: (feature, standing) for feature, standing in zip(state.features, state.standings, strict=True)}
    pairs: list[tuple[Feature, Standing]] = []
    afresh: set[str] = set()
    for feature in check_features([*given, *_find_gone(state, given)]):
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
        run=_forget(state.run, afresh),
    )
    return add_progress(changed, f"feature list amended: {len(pairs)} features, {len(afresh)} of them new or changed", now)


def add_progress(state: FeatureState, summary: str, now: datetime) -> FeatureState:
    """Return the state with one more progress entry."""
    number = 0 if state.run is None else state.run.number
    entry = ProgressEntry(run=number, summary=last_part(summary), created_at=now)
    return evolve(state, progress=(*state.progress, entry)[-MAX_PROGRESS:])


def manifest_of(state: FeatureState) -> SessionManifest:
    """Return the manifest."""
    if state.manifest is None:
        raise HarnessMisuse("the feature list has no manifest: expected one, was none; initialise it first")
    return state.manifest


def _find_gone(state: FeatureState, given: Sequence[Feature]) -> list[Feature]:
    there = {feature.id for feature in given}
    return [evolve(feature, passes=False) for feature in state.features if feature.id not in there]


def _forget(run: RunCounts | None, ids: set[str]) -> RunCounts | None:
    """Return the open run without what it did for features that are other ones now."""
    return None if run is None else evolve(run, validated=tuple(id for id in run.validated if id not in ids))
