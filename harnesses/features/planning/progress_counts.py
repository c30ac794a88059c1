"""Where a whole list stands, seen in one pass. Pure."""

from __future__ import annotations

from attrs import frozen

from harnesses.features.feature import FeatureStatus, Standing
from harnesses.features.feature_record import FeatureState

_PASSED, _BLOCKED = FeatureStatus.PASSED, FeatureStatus.BLOCKED


@frozen
class ProgressCounts:
    """Where a whole list stands."""

    workable: dict[str, Standing]
    """Pending features whose dependencies all pass, by id, in the order of the list."""
    waiting: tuple[str, ...]
    """Pending features that cannot be worked before others pass."""
    blocked: tuple[str, ...]
    stale: tuple[Standing, ...]
    """Passing features that were not seen to pass at the present version of the work."""
    gate: bool
    """Whether there are required features, and each of them passes by a verdict."""

    @property
    def pending(self) -> int:
        """How many features are pending."""
        return len(self.workable) + len(self.waiting)

    @property
    def stuck(self) -> bool:
        """Whether the list is not complete, and nothing can be worked because of what is blocked."""
        return not self.gate and not self.workable and bool(self.waiting or self.blocked)

    @property
    def all_pass(self) -> bool:
        """Whether every feature passes, required or not."""
        return not (self.workable or self.waiting or self.blocked)


def count_progress(state: FeatureState) -> ProgressCounts:
    """Look at the whole list."""
    passing = {feature.id for feature in state.features if feature.passes}
    workable: dict[str, Standing] = {}
    waiting: list[str] = []
    blocked: list[str] = []
    stale: list[Standing] = []
    required = proven = 0
    for feature, standing in zip(state.features, state.standings, strict=True):
        required += feature.required
        if standing.status is _PASSED:
            evidence = standing.evidence
            proven += feature.required and feature.passes and evidence is not None and evidence.passed
            if standing.verified_at < state.version:
                stale.append(standing)
        elif standing.status is _BLOCKED:
            blocked.append(feature.id)
        elif not feature.depends_on or passing.issuperset(feature.depends_on):
            workable[feature.id] = standing
        else:
            waiting.append(feature.id)
    return ProgressCounts(workable, tuple(waiting), tuple(blocked), tuple(stale), proven == required > 0)
