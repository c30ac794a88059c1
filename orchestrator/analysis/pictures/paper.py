"""A picture, and how all of them look: one table of colours, one set of fonts, no network.

The law: what a colour says is said a second time, by lightness, a shape, a dash or a word; so nothing is lost in grey.
"""

from __future__ import annotations

import html
import json
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from attrs import evolve, field, frozen

from orchestrator.errors import UsageError

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
_SIDES = re.compile(r'\b(?:width|height)="(\d+)')
MOST_PIXELS = 8_000
"""Of a side of a PNG: more is no picture."""

_CONFIG: Spec = {
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


@frozen
class Picture:
    """One picture of a run. A notebook shows it by itself."""

    name: str
    title: str
    """What is seen, in a sentence."""
    spec: Spec = field(repr=False)
    """Vega-Lite, with the data in it; Altair reads it by `altair.Chart.from_dict`."""
    notes: tuple[str, ...] = ()
    """What is thinned or left out."""
    is_empty: bool = False
    """Whether it says that there is nothing to be seen."""

    def svg(self) -> str:
        """Return it as SVG: text stays text, nothing is loaded from elsewhere."""
        drawn: str = _converter().vegalite_to_svg(self.spec, allowed_base_urls=[])
        words = html.escape(self.title)
        head, _, rest = drawn.partition(">")
        return f'{head} role="img" aria-label="{words}"><title>{words}</title>{rest}'

    def png(self, scale: float = 2.0) -> bytes:
        """Return it as PNG, `scale` times as many pixels as the SVG has; fewer, if that would be more than `MOST_PIXELS`."""
        svg = self.svg()
        longest = max(int(side) for side in _SIDES.findall(svg.partition(">")[0]))
        drawn: bytes = _converter().svg_to_png(svg, scale=min(scale, MOST_PIXELS / longest))
        return drawn

    def save(self, path: str | Path) -> Path:
        """Write it to a file, as the ending of its name says: `.svg`, `.png`, or `.json` for Vega-Lite.

        Raises:
            UsageError: it ends with something else.
            OSError: it can not be written.
        """
        target = Path(path)
        ways: dict[str, Callable[[], bytes]] = {
            ".svg": lambda: self.svg().encode(),
            ".png": self.png,
            ".json": lambda: json.dumps(self.spec).encode(),
        }
        if (way := ways.get(target.suffix.lower())) is None:
            raise UsageError(
                f"picture {self.name!r} can not be written: expected a name that ends with "
                f"{', '.join(ways)}, was {target.name!r}; change the ending"
            )
        target.write_bytes(way())
        return target

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"image/svg+xml": self.svg(), "text/plain": self.title}


def sheet(name: str, title: str, subtitle: Sequence[str], body: Spec, notes: Sequence[str] = ()) -> Picture:
    """Return a picture with what is common to all around `body`."""
    head: Spec = {"text": _wrapped(title, 88)}
    if said := [line for text in (*subtitle, *notes) for line in _wrapped(text, 125)]:
        head["subtitle"] = said
    spec = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "title": head, **body, "config": _CONFIG}
    return Picture(name, title, spec, tuple(notes))


def nothing(name: str, why: str) -> Picture:
    """Return a picture that says there is nothing to be seen, and why."""
    text: Spec = {
        "data": {"values": [{}]},
        "width": WIDTH,
        "height": 60,
        "mark": {"type": "text", "color": FAINT, "fontSize": 13},
    }
    return evolve(sheet(name, why, (), {**text, "encoding": {"text": {"value": "nothing to draw"}}}), is_empty=True)


def values(rows: Sequence[Mapping[str, object]]) -> Spec:
    """Return data as Vega-Lite holds it."""
    return {"values": [dict(row) for row in rows]}


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, max_lines=3, placeholder=" …") or [""]


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError:
        raise UsageError(
            "a picture needs vl-convert: expected the extra `analysis`; pip install 'harness-orchestrator[analysis]'"
        ) from None
    return vl_convert
