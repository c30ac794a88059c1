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
    """The pending feature of the highest priority whose dependencies pass; among equals the first of the list."""

    def select(self, features: Sequence[Feature], standings: Sequence[Standing]) -> Feature | None:
        """Return the next feature to work; None if none can be worked now."""
        return max(workable(features, standings), key=_priority, default=None)


def workable(features: Sequence[Feature], standings: Sequence[Standing]) -> list[Feature]:
    """Return the features that can be worked now, in the order of the list: pending ones whose dependencies all pass."""
    passing = {feature.id for feature in features if feature.passes}
    return [
        feature
        for feature, standing in zip(features, standings, strict=True)
        if standing.status is FeatureStatus.PENDING and passing.issuperset(feature.depends_on)
    ]


def _priority(feature: Feature) -> int:
    return feature.priority
