"""Validates feature lists, locks their specifications, and applies their owner's later changes. No I/O.

Invariants: an accepted list can be completed: ids are unique, every dependency is in the list, and there is no cycle;
manifest, features and progress are created together, so that a manifest never exists without its features.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from graphlib import CycleError, TopologicalSorter
from hashlib import sha256
from typing import Any, TypeVar, cast

from attrs import evolve

from harnesses.errors import HarnessMisuse
from harnesses.features.agent_text import is_storable, last_part, says_something
from harnesses.features.errors import InvalidRequest, MemoryFailed
from harnesses.features.feature import Feature, Standing
from harnesses.features.feature_record import (
    DEFAULT_PLAN,
    MAX_PROGRESS,
    FeatureState,
    InitializerRequest,
    InitializerResult,
    ProgressEntry,
    SessionManifest,
)

T = TypeVar("T")
MAX_ID = 500
"""Maximum characters of an id; node ids of parametrised tests are long."""
MAX_PRIORITY = 1_000_000


def check_features(features: Iterable[object]) -> tuple[Feature, ...]:
    """Return the features in the form in which they are stored.

    Raises:
        InvalidRequest: the list is empty, or a feature is invalid; the message says which, and why.
    """
    given = tuple(features)
    if not given:
        raise InvalidRequest("the feature list is empty: expected at least one feature; add one")
    checked = tuple(_checked(feature, number) for number, feature in enumerate(given, start=1))
    places: dict[str, int] = {}
    for number, feature in enumerate(checked, start=1):
        if feature.id in places:
            raise InvalidRequest(
                f"feature {number} has the id of feature {places[feature.id]}: expected a unique id, "
                f"was {feature.id!r}; rename one of them"
            )
        places[feature.id] = number
    _check_dependencies(checked)
    return checked


def starter_features() -> tuple[Feature, ...]:
    """Return the six starter features that replace an empty list, all pending."""
    return tuple(Feature(id, description, category=category, steps=steps) for id, category, description, steps in _STARTER)


def lock(feature: Feature) -> str:
    """Return the hash of a feature's specification: all fields except `passes`."""
    specification = (
        feature.id,
        feature.category,
        feature.description,
        feature.steps,
        feature.priority,
        feature.depends_on,
        feature.required,
    )
    return sha256(json.dumps(specification, separators=(",", ":")).encode()).hexdigest()


def check_locks(manifest: SessionManifest, features: Sequence[Feature]) -> None:
    """Check that the features match the manifest.

    Raises:
        MemoryFailed: their number or one of their specifications has changed since the list was locked.
    """
    if len(manifest.locks) != len(features):
        raise MemoryFailed(
            f"the feature list of {manifest.session_id!r} has changed: expected {len(manifest.locks)} features, "
            f"was {len(features)}; restore the stored state"
        )
    for feature, locked in zip(features, manifest.locks, strict=True):
        if (seen := lock(feature)) != locked:
            raise MemoryFailed(
                f"feature {feature.id!r} has changed since the list was locked: expected a specification with the hash "
                f"{locked[:12]!r}, was {seen[:12]!r}; restore the stored state, or amend the list"
            )


def differences(stored: Sequence[Feature], given: Sequence[Feature]) -> str:
    """Describe the differences between the specifications of two lists; empty if there are none."""
    before, after = {feature.id: feature for feature in stored}, {feature.id: feature for feature in given}
    said = [
        _named("new", [id for id in after if id not in before]),
        _named("gone", [id for id in before if id not in after]),
        _named("changed", [id for id in after if id in before and lock(after[id]) != lock(before[id])]),
    ]
    if not any(said) and list(before) != list(after):
        said.append("the order")
    return "; ".join(filter(None, said))


def is_id(value: object) -> bool:
    """Return whether a value can be a feature's id: printable on one line, without bidirectional controls."""
    return says_something(value) and len(value) <= MAX_ID and value == value.strip() and value.isprintable()


def is_priority(value: object) -> bool:
    """Return whether a value can be the priority of a feature."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_PRIORITY


def _checked(feature: object, number: int) -> Feature:
    if not isinstance(feature, Feature):
        raise InvalidRequest(f"feature {number} is not a Feature: expected a Feature, was {feature!r:.80}; create one from it")
    for field, expected, fits in _RULES:
        given = getattr(feature, field)
        if not fits(given):
            raise InvalidRequest(
                f"feature {number}, {feature.id!r:.80}, has an invalid {field}: expected {expected}, was {given!r:.200}; "
                "correct it"
            )
    return feature


_RULES: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("id", f"1 to {MAX_ID} printable characters, without space around them", is_id),
    ("description", "a text that is not blank", says_something),
    ("category", "a text", is_storable),
    ("steps", "at least one text, none of them blank", lambda given: bool(given) and all(map(says_something, given))),
    ("passes", "False, because only a validator sets it", lambda given: given is False),
    ("priority", f"a whole number between -{MAX_PRIORITY} and {MAX_PRIORITY}", is_priority),
    ("depends_on", "ids of features", lambda given: all(isinstance(id, str) for id in given)),
    ("required", "True or False", lambda given: isinstance(given, bool)),
)


def _check_dependencies(features: Sequence[Feature]) -> None:
    needs = {feature.id: feature.depends_on for feature in features}
    for feature in features:
        for other in feature.depends_on:
            if other not in needs:
                raise InvalidRequest(
                    f"feature {feature.id!r} depends on a missing feature: expected an id of the list, was {other!r}; "
                    "add that feature, or remove the dependency"
                )
    if cycle := cycle_in(needs):
        raise InvalidRequest(
            f"feature {cycle[0]!r} depends on itself: expected dependencies without a cycle, "
            f"was {' -> '.join(cycle)!r}; remove one of these dependencies"
        )


def cycle_in(needs: Mapping[T, Iterable[T]]) -> list[T]:
    """Return the ids of a dependency cycle, the first one repeated at the end; empty if there is none."""
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return list(reversed(cast(list[T], error.args[1])))
    return []


def _named(what: str, ids: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(ids[:most]) + (f" and {len(ids) - most} more" if len(ids) > most else "")
    return f"{what}: {shown}" if ids else ""


_STARTER = (
    (
        "initializer.artifacts",
        "functional",
        "The first start leaves a manifest, a feature list and a first progress entry",
        (
            "Start with an objective and no feature list",
            "Read the manifest, the features and the progress that were stored",
            "Start again and see that nothing was changed",
        ),
    ),
    (
        "harness.baseline",
        "functional",
        "One iteration works one feature from bearings to hand-off",
        ("Start after the first start", "See that one pending feature was worked", "See that the run was handed off"),
    ),
    (
        "chat.turn",
        "functional",
        "A turn of the agent gives its answer",
        ("Give the agent a feature", "Wait for the end of its turn", "See that the answer is on record"),
    ),
    (
        "chat.streaming",
        "functional",
        "A streamed turn gives the same answer as one that is not",
        ("Give the agent a feature with streaming", "Observe the pieces as they come", "See that they make up the answer"),
    ),
    (
        "tool.loop",
        "functional",
        "The agent uses tools within a turn",
        ("Give the agent a feature that needs a tool", "See that the tool was called", "See that its answer was used"),
    ),
    (
        "quality.regression",
        "quality",
        "What was proven stays proven",
        ("Run all tests", "Judge the passing features anew", "See that each of them passes still"),
    ),
)


def check_request(request: InitializerRequest) -> tuple[Feature, ...]:
    """Return the validated features of a request.

    Raises:
        InvalidRequest: the objective is blank, or the list is invalid.
    """
    if not request.current_objective.strip():
        raise InvalidRequest(
            f"the request has no objective: expected a text that is not blank, was {request.current_objective!r}; "
            "say what the features are for"
        )
    return check_features(request.feature_list) if request.feature_list else starter_features()


def initialise(request: InitializerRequest, name: str, commit: str | None, now: datetime) -> FeatureState:
    """Return the initial state: manifest, features and first progress entry.

    Args:
        name: the durable name of the harness.
        commit: the commit at which the work starts, if there is a repository.

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
    """Return the result of an initialisation."""
    manifest = manifest_of(state)
    return InitializerResult(
        session_id=manifest.session_id,
        created=created,
        schema_version=manifest.schema_version,
        harness_version=manifest.harness_version,
        feature_count=len(state.features),
    )


def amend(state: FeatureState, given: Sequence[Feature], now: datetime) -> FeatureState:
    """Return the state with a changed list: new features are added, changed ones become pending, missing ones move to the end.

    Raises:
        InvalidRequest: the resulting list is invalid.
    """
    stored = {feature.id: (feature, standing) for feature, standing in zip(state.features, state.standings, strict=True)}
    pairs: list[tuple[Feature, Standing]] = []
    afresh: set[str] = set()
    there = {feature.id for feature in given}
    gone = [evolve(feature, passes=False) for feature in state.features if feature.id not in there]
    for feature in check_features([*given, *gone]):
        old, standing = stored.get(feature.id, (None, Standing(feature_id=feature.id)))
        if old is not None and lock(old) == lock(feature):
            pairs.append((old, standing))
        else:
            pairs.append((feature, Standing(feature_id=feature.id, tries=standing.tries)))
            afresh.add(feature.id)
    features = tuple(feature for feature, _ in pairs)
    run = state.run
    if run is not None:
        # Forget the progress of features whose specification has changed.
        run = evolve(run, validated=tuple(id for id in run.validated if id not in afresh))
    changed = evolve(
        state,
        manifest=evolve(manifest_of(state), locks=tuple(map(lock, features))),
        features=features,
        standings=tuple(standing for _, standing in pairs),
        run=run,
    )
    return add_progress(changed, f"feature list amended: {len(pairs)} features, {len(afresh)} of them new or changed", now)


def add_progress(state: FeatureState, summary: str, now: datetime) -> FeatureState:
    """Return the state with one more progress entry."""
    number = 0 if state.run is None else state.run.number
    entry = ProgressEntry(run=number, summary=last_part(summary), created_at=now)
    return evolve(state, progress=(*state.progress, entry)[-MAX_PROGRESS:])


def manifest_of(state: FeatureState) -> SessionManifest:
    """Return the manifest. Raises `NotReady` if the list is not initialised."""
    if state.manifest is None:
        raise HarnessMisuse("the feature list has no manifest: expected one, was none; initialise it first")
    return state.manifest
