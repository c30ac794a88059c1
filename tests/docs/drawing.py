"""Text and boxes as SVG on a light background, the same to the last byte wherever it is drawn."""

from __future__ import annotations

from html import escape

MONO = "DejaVu Sans Mono, Menlo, Consolas, monospace"
SANS = "DejaVu Sans, Helvetica, Arial, sans-serif"
INK, FAINT, PAPER = "#1f2933", "#61707f", "#fbfcfd"
BLUE, GREEN, AMBER, GREY = "#e3eefb", "#e2f4e6", "#fdf1d8", "#eef1f4"
BLUE_LINE, GREEN_LINE, AMBER_LINE, GREY_LINE = "#5b8fcb", "#4f9d66", "#c79a3c", "#9aa7b4"
LINE = "#8794a1"


def text(x: float, y: float, words: str, *, size: int = 13, font: str = SANS, fill: str = INK, extra: str = "") -> str:
    """Return a line of text; `y` is its base line."""
    return f'<text x="{x:g}" y="{y:g}" font-family="{font}" font-size="{size}" fill="{fill}"{extra}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, *, fill: str = PAPER, line: str = LINE) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" fill="{fill}" stroke="{line}"/>'


def arrow(points: list[tuple[float, float]], *, line: str = LINE) -> str:
    """Return a line through points with a head at the last."""
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{line}" stroke-width="1.2" marker-end="url(#head)"/>'


def picture(width: float, height: float, parts: list[str], title: str) -> str:
    """Return the whole file."""
    head = (
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0,1 L9,5 L0,9 z" fill="{LINE}"/></marker></defs>'
    )
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
            f'height="{height:g}" role="img" aria-label="{escape(title)}">',
            f"<title>{escape(title)}</title>",
            head,
            f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>',
            *parts,
            "</svg>\n",
        )
    )
