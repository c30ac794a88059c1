"""A picture of a run, with what is common to all: a title that says what is seen, notes, and no network."""

from __future__ import annotations

import html
import json
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from harnesses.charts.chart_theme import CONFIG, FAINT, WIDTH, Spec
from orchestrator.errors import UsageError

_SIDES = re.compile(r'\b(?:width|height)="(\d+)')
MOST_PIXELS = 8_000
"""Of a side of a PNG: more is no picture."""


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
            OSError: it cannot be written.
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
    """Return a picture with what is common to all around `body`."""
    head: Spec = {"text": _wrapped(title, 88)}
    if said := [line for text in (*subtitle, *notes) for line in _wrapped(text, 125)]:
        head["subtitle"] = said
    spec = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "title": head, **body, "config": CONFIG}
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
