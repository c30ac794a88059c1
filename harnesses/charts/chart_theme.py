"""The theme of all charts: colours and fonts as Vega-Lite specifications. Pure.

Invariant: colour is never the only carrier of information; lightness, a shape, a dash or a label repeats it, so nothing is
lost in greyscale.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Spec: TypeAlias = dict[str, Any]
"""A Vega-Lite specification, or a part of one."""

WIDTH = 720
"""Width of the plot area in pixels; with labels it is as wide as a page."""
INK, FAINT, RULE = "#1b1f24", "#57606a", "#d8dee4"
STEPS = ("#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#fde725")
"""Viridis in six steps: distinguishable with colour blindness and in greyscale, where each is 15 % lighter than the last."""
DEEP, MID, LIGHT = STEPS[1], STEPS[3], "#c9d1d9"
ALARM = "#b3261e"
FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"
"""Font stack: the drawing library brings the third one; a reader of the SVG has a font of the same width."""
SHADES = {"halted": "#e08a7c", "latched": "#c9bcdc", "reducing": "#f6e9c4"}
"""Background shades of an account chart, by the reason trading was restricted, from dark to light."""

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
"""Vega-Lite config of every chart; apply it to an Altair chart with `chart.to_dict() | {"config": CONFIG}`."""
