"""How many steps were made when: counted once for each span, in stretches that pictures put together as they need them."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from orchestrator.analysis.pictures.roll import Roll
from orchestrator.analysis.pictures.times import Span
from orchestrator.analysis.run import Run

FINEST = 240
"""Stretches that are counted: there is no use for narrower ones, which would be three pixels wide."""
_MOST = 6_000
"""Stretches in all rows of a picture together, each of which may become a mark."""
_COUNTED: WeakKeyDictionary[Run, dict[Span, dict[str, dict[int, int]]]] = WeakKeyDictionary()


def stretches(cast: Roll, most: int = FINEST) -> int:
    """Return how many stretches a picture of these harnesses has."""
    wanted = max(40, min(most, _MOST // max(len(cast.names), 1)))
    return max(count for count in (240, 120, 60, 40) if count <= wanted)


def pace(run: Run, cast: Roll, count: int) -> dict[str, dict[int, int]]:
    """Return how many steps each harness made in each of `count` equal stretches, those without any left out."""
    spans = _COUNTED.setdefault(run, {})
    if cast.span not in spans:
        spans[cast.span] = _counted(run, cast.span)
    found: dict[str, dict[int, int]] = {}
    for name in cast.names:
        for stretch, steps in spans[cast.span].get(name, {}).items():
            row = found.setdefault(name, {})
            row[stretch * count // FINEST] = row.get(stretch * count // FINEST, 0) + steps
    return found


def _counted(run: Run, span: Span) -> dict[str, dict[int, int]]:
    query = f"""
        SELECT harness, greatest(least(floor((epoch_us("timestamp") - ?) / ?), ?), 0)::INTEGER AS stretch, count(*)
        FROM ({run.source.own(("step",), {})}) GROUP BY ALL ORDER BY ALL
    """
    found: dict[str, dict[int, int]] = {}
    for name, stretch, steps in run.rows(query, [span.begin_us, (span.end_us - span.begin_us) / FINEST, FINEST - 1]):
        found.setdefault(name, {})[stretch] = steps
    return found
