"""Lines of several harnesses in one picture, told apart by lightness, by dashes, and by a name at their end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.analysis.pictures.paper import INK, STEPS, WIDTH, Spec, values

MOST_LINES = 5
"""More can not be told apart in grey."""
MOST_POINTS = 1_000
"""Of a line: more than a picture has pixels for."""
STYLES: tuple[tuple[str, list[int]], ...] = (
    (STEPS[0], []),
    (STEPS[2], [7, 3]),
    ("#c4661f", [2, 2]),
    (STEPS[3], [10, 3, 2, 3]),
    ("#8d96a0", [4, 1]),
)
"""Colour and dashes of each line."""


def thinned(points: Sequence[tuple[float, float]], most: int = MOST_POINTS) -> list[tuple[float, float]]:
    """Return at most `most` points: of each stretch the first, the lowest, the highest and the last."""
    if len(points) <= most:
        return list(points)
    stretch = -(-4 * len(points) // most)
    kept: list[tuple[float, float]] = []
    for start in range(0, len(points), stretch):
        places = range(start, min(start + stretch, len(points)))
        ends = {places[0], places[-1], min(places, key=lambda at: points[at][1]), max(places, key=lambda at: points[at][1])}
        kept += [points[at] for at in sorted(ends)]
    return kept


def drawn(lines: dict[str, list[tuple[float, float]]], x: Spec, y: Spec, *, is_stepped: bool, height: int) -> Spec:
    """Return the layers of some lines, by what they are called; each named at its end."""
    names = list(lines)
    rows = [{"line": name, "at": at, "value": value} for name, points in lines.items() for at, value in points]
    styles = STYLES[: len(names)]
    colour = {"domain": names, "range": [colour for colour, _ in styles]}
    dashes = {"domain": names, "range": [dash for _, dash in styles]}
    interpolate = {"interpolate": "step-after"} if is_stepped else {}
    return {
        "layer": [
            {
                "data": values(rows),
                "mark": {"type": "line", "strokeWidth": 2, **interpolate},
                "encoding": {
                    "x": x,
                    "y": {**y, "field": "value", "type": "quantitative"},
                    "color": {"field": "line", "type": "nominal", "scale": colour, "legend": None},
                    "strokeDash": {"field": "line", "type": "nominal", "scale": dashes, "legend": None},
                },
            },
            _ends(lines, y, height),
        ]
    }


def _ends(lines: dict[str, list[tuple[float, float]]], y: Spec, height: int) -> Spec:
    """Return the names beside the ends of the lines, moved apart where they would lie on each other."""
    low, high = y["scale"]["domain"]
    apart = 14 * (high - low) / height
    ends = sorted((points[-1][1], name) for name, points in lines.items() if points)
    placed: list[dict[str, Any]] = []
    for value, name in ends:
        least = placed[-1]["value"] + apart if placed else value
        placed.append({"line": name, "value": max(value, least)})
    over = max(placed[-1]["value"] - high, 0) if placed else 0
    for row in placed:
        row["value"] -= over
    text = {"type": "text", "align": "left", "dx": 8, "color": INK}
    return {
        "data": values(placed),
        "mark": text,
        "encoding": {
            "x": {"value": WIDTH},
            "y": {**y, "field": "value", "type": "quantitative"},
            "text": {"field": "line"},
        },
    }
