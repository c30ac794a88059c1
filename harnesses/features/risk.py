"""Which passing features are judged anew first: those that were most likely broken since. Pure."""

from __future__ import annotations

from harnesses.features.feature import FeatureStatus, Standing
from harnesses.features.record import FeatureState

_MOST_OVERLAP = 9
"""Paths in common that count: beyond it a feature is not more at risk than another."""


def stale(state: FeatureState) -> list[Standing]:
    """Return the passing features that were not seen to pass at the present version of the work, in the order of the list."""
    return [
        standing
        for standing in state.standings
        if standing.status is FeatureStatus.PASSED and standing.verified_at < state.version
    ]


def most_at_risk(state: FeatureState, count: int = 1) -> tuple[str, ...]:
    """Return the ids of the `count` passing features most at risk, the first one most; the same state gives the same ids.

    The risk is the number of versions since it was last seen to pass, times one more than it was set back and than paths it
    touched have been touched since. So whoever is not judged comes first in the end.
    """
    waiting = stale(state)
    if not waiting or count < 1:
        return ()
    touched = _last_touched(state)
    ranked = sorted(
        waiting,
        key=lambda standing: -(state.version - standing.verified_at) * (1 + standing.set_backs + _overlap(standing, touched)),
    )
    return tuple(standing.feature_id for standing in ranked[:count])


def _last_touched(state: FeatureState) -> dict[str, int]:
    """Return the last version at which each path was touched."""
    last: dict[str, int] = {}
    for standing in state.standings:
        if standing.accepted is not None:
            for path in standing.accepted.touched:
                if last.get(path, 0) < standing.accepted_at:
                    last[path] = standing.accepted_at
    return last


def _overlap(standing: Standing, touched: dict[str, int]) -> int:
    if standing.accepted is None or not standing.accepted.touched:
        return 0
    return min(_MOST_OVERLAP, sum(touched[path] > standing.verified_at for path in standing.accepted.touched))
