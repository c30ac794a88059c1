"""Building blocks of pictures: the common sheet, and layers of bars, text, and lines labelled at their ends.

A title states the finding, notes state what is left out, and no network access is needed. A channel is written in Altair's
shorthand, `at:Q` for a field and its type, or as in Vega-Lite. Lines differ in lightness, dashes and labels.
"""

from __future__ import annotations

import html
import json
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from harnesses.charts.chart_theme import CONFIG, FAINT, INK, STEPS, WIDTH, Spec
from harnesses.diagnostics.extras import install_command
from orchestrator.errors import UsageError

_SIDES = re.compile(r'\b(?:width|height)="(\d+)')
_TAG = re.compile(r'<[a-zA-Z](?:[^<>"]|"[^"]*")*>')
_OF_MARKS = re.compile(r' (?:aria-label|aria-roledescription|role)="[^"]*"')
"""What tells a screen reader of each mark; it reads the label of the picture, and no mark in a picture."""
_PLACES = re.compile(r' (?:d|transform|x|y|x1|x2|y1|y2|width|height)="[^"]*"')
_EXACT = re.compile(r"\d+\.\d{3,}(?:e-?\d+)?")
MOST_PIXELS = 8_000
"""Limit on the width and height of a PNG, pixels."""


@frozen
class Picture:
    """One picture of a run. A notebook shows it by itself."""

    name: str
    title: str
    """The finding, in a sentence."""
    spec: Spec = field(repr=False)
    """Vega-Lite, including the data; Altair reads it with `altair.Chart.from_dict`."""
    notes: tuple[str, ...] = ()
    """What is thinned or left out."""
    is_empty: bool = False
    """Whether it only says that there is nothing to show."""

    def svg(self) -> str:
        """Return it as SVG: text stays text, nothing external is loaded."""
        drawn: str = _converter().vegalite_to_svg(self.spec, allowed_base_urls=[])
        words = html.escape(self.title)
        head, _, rest = drawn.partition(">")
        return f'{head} role="img" aria-label="{words}"><title>{words}</title>{_TAG.sub(_shorten, rest)}'

    def png(self, scale: float = 2.0) -> bytes:
        """Return it as PNG with `scale` times the pixels of the SVG; fewer if that would exceed `MOST_PIXELS`."""
        svg = self.svg()
        longest = max(int(side) for side in _SIDES.findall(svg.partition(">")[0]))
        drawn: bytes = _converter().svg_to_png(svg, scale=min(scale, MOST_PIXELS / longest))
        return drawn

    def save(self, path: str | Path) -> Path:
        """Write the chart to a file in the format of its suffix: `.svg`, `.png`, or `.json` for Vega-Lite.

        Raises:
            UsageError: the file has another suffix.
            OSError: the file cannot be written.
        """
        target = Path(path)
        ways: dict[str, Callable[[], bytes]] = {
            ".svg": lambda: self.svg().encode(),
            ".png": self.png,
            ".json": lambda: json.dumps(self.spec).encode(),
        }
        if (way := ways.get(target.suffix.lower())) is None:
            raise UsageError(
                f"picture {self.name!r} cannot be written: expected a name that ends with "
                f"{', '.join(ways)}, was {target.name!r}; change the ending"
            )
        target.write_bytes(way())
        return target

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"image/svg+xml": self.svg(), "text/plain": self.title}


def sheet(name: str, title: str, subtitle: Sequence[str], body: Spec, notes: Sequence[str] = ()) -> Picture:
    """Return a picture with the common parts around `body`."""
    head: Spec = {"text": _wrapped(title, 88)}
    if said := [line for text in (*subtitle, *notes) for line in _wrapped(text, 125)]:
        head["subtitle"] = said
    spec = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "title": head, **body, "config": CONFIG}
    return Picture(name, title, spec, tuple(notes))


def nothing(name: str, why: str) -> Picture:
    """Return a picture that says that there is nothing to show, and why."""
    text: Spec = {
        "data": {"values": [{}]},
        "width": WIDTH,
        "height": 60,
        "mark": {"type": "text", "color": FAINT, "fontSize": 13},
    }
    return evolve(sheet(name, why, (), {**text, "encoding": {"text": {"value": "nothing to draw"}}}), is_empty=True)


def values(rows: Sequence[Mapping[str, object]]) -> Spec:
    """Return inline data in Vega-Lite's format."""
    return {"values": [dict(row) for row in rows]}


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, max_lines=3, placeholder=" …") or [""]


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError:
        raise UsageError(f"a picture needs vl-convert: expected the extra `analysis`; {install_command('analysis')}") from None
    return vl_convert


Rows = Sequence[Mapping[str, object]]
_TYPES = {"Q": "quantitative", "N": "nominal", "O": "ordinal"}
SMALL = 10.5
"""Font size of the figures in and beside bars, pixels."""
LEFT: Spec = {"type": "text", "align": "left"}


def channel(shorthand: str, **more: object) -> Spec:
    """Return a channel: `at:Q` is the quantitative field `at`; N is nominal, O ordinal."""
    field, _, type = shorthand.partition(":")
    return {"field": field, **({"type": _TYPES[type]} if type else {}), **more}


def layer(rows: Rows | None, mark: Spec, **channels: Spec | str) -> Spec:
    """Return a layer with one mark for each row; None uses the rows of the surrounding layers."""
    encoding = {name: channel(one) if isinstance(one, str) else one for name, one in channels.items()}
    return {**({} if rows is None else {"data": values(rows)}), "mark": mark, "encoding": encoding}


def names_axis(order: Sequence[object], field: str = "harness", **axis: object) -> Spec:
    """Return the axis of names, from top to bottom, without lines."""
    return channel(f"{field}:N", sort=order, title=None, axis={"domain": False, "ticks": False, **axis})


def rows_of(order: Sequence[object], height: int, layers: Sequence[Spec], *, width: int = WIDTH) -> Spec:
    """Return layers over one row for each harness."""
    return {"width": width, "height": {"step": height}, "encoding": {"y": names_axis(order)}, "layer": list(layers)}


def bars(rows: Rows, x: Spec, color: Spec | None = None, /, *, band: float, **style: object) -> Spec:
    """Return bars from `x` to the field `end`, which fill the fraction `band` of their rows."""
    return layer(
        rows, {"type": "bar", "height": {"band": band}, **style}, x=x, x2="end", **({"color": color} if color else {})
    )


def stacked_bars(rows: Rows, parts: Mapping[str, str], x: Spec) -> Spec:
    """Return bars stacked by the field `part`, each part in its colour, with a legend above if there are several.

    Args:
        parts: the colour of each part, in order.
    """
    used = [part for part in parts if any(row["part"] == part for row in rows)]
    legend = {"title": None, "symbolType": "square", "symbolStrokeColor": FAINT, "symbolSize": 110} if len(used) > 1 else None
    scale = {"domain": used, "range": [parts[part] for part in used]}
    return bars(rows, x, channel("part:N", scale=scale, sort=used, legend=legend), band=0.74, stroke=FAINT, strokeWidth=0.7)


def words_after(rows: Rows | None, x: str | None) -> Spec:
    """Return labels from the field `said` after the ends of the bars; without `x`, at the position of the layers around."""
    place = {} if x is None else {"x": channel(x)}
    return layer(rows, {**LEFT, "dx": 6, "color": INK, "fontSize": SMALL}, **place, text="said")


def words_beside(rows: Rows) -> Spec:
    """Return labels from the field `said`, to the right of the picture."""
    return layer(rows, {**LEFT, "color": FAINT}, x={"value": WIDTH + 14}, text="said")


MOST_LINES = 5
"""Limit on the lines of a picture: more cannot be told apart in grey."""
MOST_POINTS = 1_000
"""Limit on the points of a line: more than a picture has pixels for."""
STYLES: tuple[tuple[str, list[int]], ...] = (
    (STEPS[0], []),
    (STEPS[2], [7, 3]),
    ("#c4661f", [2, 2]),
    (STEPS[3], [10, 3, 2, 3]),
    ("#8d96a0", [4, 1]),
)
"""Colour and dashes of each line."""


def drawn(lines: dict[str, list[tuple[float, float]]], x: Spec, y: Spec, *, is_stepped: bool, height: int) -> Spec:
    """Return the layers of some lines, by name; each labelled at its end."""
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
    """Return the labels at the ends of the lines, moved apart where they would overlap."""
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


def _shorten(tag: re.Match[str]) -> str:
    """Return a tag of a drawing without what nobody sees: places beyond a hundredth of a pixel, and words for each mark."""
    return _PLACES.sub(lambda place: _EXACT.sub(_rounded, place[0]), _OF_MARKS.sub("", tag[0]))


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
