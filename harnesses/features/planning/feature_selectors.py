"""Which feature is next, and which passing one is judged anew first: protocols and defaults. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Protocol

from attrs import frozen

from harnesses.features.feature import Feature, FeatureStatus, Standing
from harnesses.features.feature_record import FeatureState

MOST_OVERLAP = 9
"""Paths in common that count: with more of them a feature is not more at risk."""


class FeatureSelector(Protocol):
    """Says which feature is next. Pure: the same list gives the same answer."""

    def select(self, features: Sequence[Feature], standings: Sequence[Standing]) -> Feature | None:
        """Return the next feature to work, one that is pending; None if none can be worked now.

        Args:
            features: the whole list, in order.
            standings: one for each.
        """
        ...


@frozen
class FirstPending:
    """The pending feature of the highest priority whose dependencies pass; among equals the first of the list.

    A feature that others wait for counts as much as the most important of them.
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
    """Return the priority of what is waited for, by id: its own, or that of who waits for it, whichever is higher."""
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
    """Return the ids of the `count` passing features most at risk, the first one most; the same state gives the same ids.

    The risk is the number of versions since it was last seen to pass, times one plus how often it was set back plus how many
    of the paths it has touched were touched since; among equals the order of the list decides. As the risk grows for as long
    as a feature is not judged, none is passed over for ever.
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
