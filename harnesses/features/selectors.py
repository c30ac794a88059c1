"""Which feature is next. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen

from harnesses.features.feature import Feature, FeatureStatus, Standing


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
    for feature in sorted(waiting, key=_priority, reverse=True):
        needed = list(feature.depends_on)
        while needed:
            id = needed.pop()
            if id not in urgency and id not in passing and id in listed:
                urgency[id] = max(listed[id].priority, feature.priority)
                needed += listed[id].depends_on
    return urgency


def _priority(feature: Feature) -> int:
    return feature.priority
