"""The layers that pictures are made of: rows of harnesses, bars, texts, and lines named at their ends. Pure.

A channel is written as Altair writes it, `at:Q` for a field and its type, or as Vega-Lite has it. Lines are told apart by
lightness, by dashes, and by their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harnesses.charts.chart_theme import FAINT, INK, STEPS, WIDTH, Spec
from orchestrator.analysis.pictures.picture_page import values

Rows = Sequence[Mapping[str, object]]
_TYPES = {"Q": "quantitative", "N": "nominal", "O": "ordinal"}
SMALL = 10.5
"""Pixels of the figures in and beside bars."""
LEFT: Spec = {"type": "text", "align": "left"}


def channel(shorthand: str, **more: object) -> Spec:
    """Return a channel: `at:Q` is the field `at`, which is a quantity; N is a name, and O a name that has an order."""
    field, _, type = shorthand.partition(":")
    return {"field": field, **({"type": _TYPES[type]} if type else {}), **more}


def layer(rows: Rows | None, mark: Spec, **channels: Spec | str) -> Spec:
    """Return a layer of marks, one for each row; None stands for the rows that the layers around it have."""
    encoding = {name: channel(one) if isinstance(one, str) else one for name, one in channels.items()}
    return {**({} if rows is None else {"data": values(rows)}), "mark": mark, "encoding": encoding}


def names_axis(order: Sequence[object], field: str = "harness", **axis: object) -> Spec:
    """Return the axis of names, from top to bottom, without lines."""
    return channel(f"{field}:N", sort=order, title=None, axis={"domain": False, "ticks": False, **axis})


def rows_of(order: Sequence[object], height: int, layers: Sequence[Spec], *, width: int = WIDTH) -> Spec:
    """Return layers over one row for each harness."""
    return {"width": width, "height": {"step": height}, "encoding": {"y": names_axis(order)}, "layer": list(layers)}


def bars(rows: Rows, x: Spec, color: Spec | None = None, /, *, band: float, **style: object) -> Spec:
    """Return bars from `x` to the field `end`, which take up a part of their rows."""
    return layer(
        rows, {"type": "bar", "height": {"band": band}, **style}, x=x, x2="end", **({"color": color} if color else {})
    )


def stacked_bars(rows: Rows, parts: Mapping[str, str], x: Spec) -> Spec:
    """Return bars whose parts, by the field `part`, have colours; what they are called stands above, if there are several.

    Args:
        parts: the colour of each, in their order.
    """
    used = [part for part in parts if any(row["part"] == part for row in rows)]
    legend = {"title": None, "symbolType": "square", "symbolStrokeColor": FAINT, "symbolSize": 110} if len(used) > 1 else None
    scale = {"domain": used, "range": [parts[part] for part in used]}
    return bars(rows, x, channel("part:N", scale=scale, sort=used, legend=legend), band=0.74, stroke=FAINT, strokeWidth=0.7)


def words_after(rows: Rows | None, x: str | None) -> Spec:
    """Return the field `said` of each row, after the end of its bar; or, without an `x`, of which the bar may be any."""
    place = {} if x is None else {"x": channel(x)}
    return layer(rows, {**LEFT, "dx": 6, "color": INK, "fontSize": SMALL}, **place, text="said")


def words_beside(rows: Rows) -> Spec:
    """Return the field `said` of each row, to the right of the picture."""
    return layer(rows, {**LEFT, "color": FAINT}, x={"value": WIDTH + 14}, text="said")


MOST_LINES = 5
"""More cannot be told apart in grey."""
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


def drawn(lines: dict[str, list[tuple[float, float]]], x: Spec, y: Spec, *, is_stepped: bool, height: int) -> Spec:
    """Return the layers of some lines, by what they are called; each named at its end."""
    names = list(lines)
    rows = [{"line": name, "at": at, "value": value} for name, points in lines.items() for at, value in points]
    styles = STYLES[: len(names)]
    colour = {"domain": names, "range": [colour for colour, _ in styles]}
    dashes = {"domain": names, "range": [dash for _, dash in styles]}
    interpolate = {"interpolate": "step-after"} if is_stepped else {}
    line = layer(
        rows,
        {"type": "line", "strokeWidth": 2, **interpolate},
        x=x,
        y={**y, **channel("value:Q")},
        color=channel("line:N", scale=colour, legend=None),
        strokeDash=channel("line:N", scale=dashes, legend=None),
    )
    return {"layer": [line, _ends(lines, y, height)]}


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
    text = {**LEFT, "dx": 8, "color": INK}
    return layer(placed, text, x={"value": WIDTH}, y={**y, **channel("value:Q")}, text="line")
