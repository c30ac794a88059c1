"""Time axes and time labels, always in UTC and as precise as the visible span requires; and thinning of lines. Pure.

All spans, from microseconds to years, use the same axis and differ only in labels. Below `FINE_S` seconds the axis counts
microseconds from its start, because the renderer supports no unit shorter than a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from attrs import frozen

FINE_S = 0.05
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LEAST_US = 10
_FORMATS = (
    (4 * 365 * 86_400, "%Y"),
    (130 * 86_400, "%b %Y"),
    (6 * 86_400, "%d %b"),
    (12 * 3600, "%d %b %H:%M"),
    (360, "%H:%M"),
    (6, "%H:%M:%S"),
    (0, "%H:%M:%S.%L"),
)
"""Formats of times, by the shortest span in seconds for which eight ticks are all labelled differently."""


@frozen
class Span:
    """The visible time span, microseconds since 1970; never empty, whatever was recorded."""

    begin_us: int
    end_us: int

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return (self.end_us - self.begin_us) / 1e6

    @property
    def is_fine(self) -> bool:
        """Whether the axis counts microseconds from its start."""
        return self.seconds < FINE_S

    def at(self, time_us: float) -> float:
        """Return the axis position of a time."""
        return time_us - self.begin_us if self.is_fine else time_us / 1000

    def x(self, field: str = "at", *, is_written: bool = True) -> dict[str, Any]:
        """Return the Vega-Lite x axis. Hide the labels (`is_written=False`) if another axis below shows them."""
        if not is_written:
            shown = self.x(field)
            return {**shown, "title": None, "axis": {**shown["axis"], "labels": False, "ticks": False}}
        scale: dict[str, Any] = {"domain": [self.at(self.begin_us), self.at(self.end_us)], "nice": False}
        if self.is_fine:
            kind, title = "quantitative", f"µs since {moment(self.begin_us)} UTC"
            axis: dict[str, Any] = {"tickCount": 8, "format": ",d"}
        else:
            kind, scale = "temporal", {"type": "utc", **scale}
            format = next(format for least, format in _FORMATS if self.seconds >= least)
            title = "time (UTC)" if "%Y" in format else f"time (UTC) from {moment(self.begin_us)[:10]}"
            ticks = 5 if format.endswith("%L") else 8
            axis = {"format": format, "tickCount": ticks, "labelOverlap": "greedy", "labelSeparation": 10}
        return {"field": field, "type": kind, "title": title, "scale": scale, "axis": axis}


def span_of(begin_us: int | None, end_us: int | None) -> Span:
    """Return the span of the recorded times; a single time is widened around itself."""
    begin, end = begin_us or 0, end_us or 0
    return Span(begin, end) if end - begin >= _LEAST_US else Span(begin - _LEAST_US // 2, begin + _LEAST_US // 2)


def moment(time_us: int) -> str:
    """Format a time as date and time, with as many digits as it has."""
    time = _EPOCH + timedelta(microseconds=time_us)
    return time.strftime("%Y-%m-%d %H:%M:%S") + (f".{time.microsecond:06d}".rstrip("0") if time.microsecond else "")


_PointT = TypeVar("_PointT")


def thin(points: Sequence[_PointT], most: int, *measures: Callable[[_PointT], float]) -> list[_PointT]:
    """Return at most `most` points: the ends of each stretch, and where each measure is lowest and highest."""
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
