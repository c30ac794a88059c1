"""Selectors: which feature is worked next, and which passing one is rechecked first; protocols and defaults. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Protocol

from attrs import frozen

from harnesses.features.feature import Feature, FeatureStatus, Standing
from harnesses.features.feature_record import FeatureState

MOST_OVERLAP = 9
"""Maximum common paths that count; more do not increase the risk."""


class FeatureSelector(Protocol):
    """Chooses the next feature. Deterministic: the same list gives the same answer."""

    def select(self, features: Sequence[Feature], standings: Sequence[Standing]) -> Feature | None:
        """Return the next feature to work, which must be pending; None if none can be worked now.

        Args:
            features: the whole list, in order.
            standings: progress of each feature, in the same order.
        """
        ...


@frozen
class FirstPending:
    """Selects the pending feature with the highest priority whose dependencies pass; the first of equal ones.

    A feature inherits the highest priority among the features that depend on it.
    """

    def select(self, features: Sequence[Feature], standings: Sequence[Standing]) -> Feature | None:
        """Return the next feature to work; None if none can be worked now."""
        passing = {feature.id for feature in features if feature.passes}
        workable: list[Feature] = []
        waiting: list[Feature] = []
        for feature, standing in zip(features, standings, strict=True):
            if standing.status is FeatureStatus.PENDING:
                (workable if passing.issuperset(feature.depends_on) else waiting).append(feature)
        urgency = _urgency(features, waiting, passing) if waiting else {}
        return max(workable, key=lambda feature: urgency.get(feature.id, feature.priority), default=None)


def _urgency(features: Sequence[Feature], waiting: Sequence[Feature], passing: set[str]) -> dict[str, int]:
    """Return priorities by id: a feature's own, or the highest of those waiting for it."""
    listed = {feature.id: feature for feature in features}
    urgency: dict[str, int] = {}
    for feature in sorted(waiting, key=attrgetter("priority"), reverse=True):
        needed = list(feature.depends_on)
        while needed:
            id = needed.pop()
            if id not in urgency and id not in passing and id in listed:
                urgency[id] = max(listed[id].priority, feature.priority)
                needed += listed[id].depends_on
    return urgency


def most_at_risk(state: FeatureState, count: int = 1) -> tuple[str, ...]:
    """Return the ids of the `count` passing features most at risk, the riskiest first; the same state gives the same ids.

    The risk is the number of versions since the feature was last seen to pass, times one plus the number of its set-backs plus
    the number of its paths that were touched since; equal ones keep the order of the list. The risk grows until a feature is
    rechecked, so every feature gets its turn.
    """
    waiting = [one for one in state.standings if one.status is FeatureStatus.PASSED and one.verified_at < state.version]
    if not waiting or count < 1:
        return ()
    touched = _last_touched(state.standings)
    risks = {one.feature_id: _risk(one, state.version, touched) for one in waiting}
    return tuple(sorted(risks, key=risks.__getitem__, reverse=True)[:count])


def _risk(standing: Standing, version: int, touched: dict[str, int]) -> int:
    overlap = 0
    if standing.accepted is not None:
        for path in standing.accepted.touched:
            overlap += touched[path] > standing.verified_at
    return (version - standing.verified_at) * (1 + standing.set_backs + min(MOST_OVERLAP, overlap))


def _last_touched(standings: Sequence[Standing]) -> dict[str, int]:
    """Return the last version at which each path was touched."""
    last: dict[str, int] = {}
    for standing in standings:
        if standing.accepted is not None:
            for path in standing.accepted.touched:
                if last.get(path, 0) < standing.accepted_at:
                    last[path] = standing.accepted_at
    return last
