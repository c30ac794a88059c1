"""Lines with no more points than a picture has pixels for. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

_PointT = TypeVar("_PointT")


def thin(points: Sequence[_PointT], most: int, *measures: Callable[[_PointT], float]) -> list[_PointT]:
    """Return at most `most` points: of each stretch the ends, and where each measure is lowest and highest."""
    if len(points) <= most:
        return list(points)
    stretch = -(-2 * (1 + len(measures)) * len(points) // most)
    kept: list[_PointT] = []
    for start in range(0, len(points), stretch):
        places = range(start, min(start + stretch, len(points)))
        found = {places[0], places[-1]}
        for measure in measures:
            of_place = [measure(points[place]) for place in places]
            found |= {places[of_place.index(extreme(of_place))] for extreme in (min, max)}
        kept += [points[place] for place in sorted(found)]
    return kept
