"""The theme of all pictures: one table of colours, one set of fonts, in the words of Vega-Lite. Pure.

The law: what a colour says is said a second time, by lightness, a shape, a dash or a word; so nothing is lost in grey.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Spec: TypeAlias = dict[str, Any]
"""A picture, or a part of one, in the words of Vega-Lite."""

WIDTH = 720
"""Pixels between the axes: with the labels it is as wide as a page."""
INK, FAINT, RULE = "#1b1f24", "#57606a", "#d8dee4"
STEPS = ("#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#fde725")
"""Viridis in six steps: told apart by the colour blind, and in grey, where each is 15 % lighter than the one before."""
DEEP, MID, LIGHT = STEPS[1], STEPS[3], "#c9d1d9"
ALARM = "#b3261e"
FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"
"""A machine that draws has one of them, as the library brings the third; who reads an SVG has one that is as wide."""
SHADES = {"halted": "#e08a7c", "latched": "#c9bcdc", "reducing": "#f6e9c4"}
"""Behind the line of an account, by what held trading up: from dark to light."""

CONFIG: Spec = {
    "background": "white",
    "font": FONT,
    "padding": 12,
    "view": {"stroke": None},
    "title": {
        "anchor": "start",
        "frame": "group",
        "color": INK,
        "fontSize": 15,
        "fontWeight": 600,
        "subtitleColor": FAINT,
        "subtitleFontSize": 11.5,
        "subtitlePadding": 5,
        "offset": 12,
        "subtitleLineHeight": 15,
        "lineHeight": 19,
    },
    "axis": {
        "labelColor": INK,
        "titleColor": FAINT,
        "titleFontWeight": "normal",
        "labelFontSize": 11,
        "titleFontSize": 11,
        "gridColor": RULE,
        "domainColor": FAINT,
        "tickColor": FAINT,
        "labelLimit": 260,
        "labelPadding": 6,
        "titleLimit": 700,
    },
    "legend": {
        "orient": "top",
        "direction": "horizontal",
        "labelColor": INK,
        "titleColor": FAINT,
        "titleFontWeight": "normal",
        "labelFontSize": 11,
        "titleFontSize": 11,
        "labelLimit": 260,
        "symbolStrokeWidth": 1.5,
        "offset": 8,
        "columnPadding": 14,
    },
    "text": {"fontSize": 11, "color": INK, "font": FONT},
}
"""Of every picture; `chart.to_dict() | {"config": CONFIG}` gives it to one of Altair's."""
