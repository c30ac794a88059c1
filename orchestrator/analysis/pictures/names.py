"""Names of harnesses as a picture writes them: inert, short, and still each its own. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.text import one_line

WIDTH = 28
"""Characters of a name that are written: what is longer is cut in the middle, as its ends tell names apart."""
MOST_ROWS = 100
"""Harnesses that are shown one by one: as many rows are still read on a page."""


def labels(names: Iterable[str], width: int = WIDTH) -> dict[str, str]:
    """Return what is written for each name; no two are the same."""
    written: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        label = base = short(name, width) or "(no name)"
        count = 2
        while label in taken:
            label, count = f"{base} ({count})", count + 1
        taken.add(label)
        written[name] = label
    return written


def short(text: str, width: int = WIDTH) -> str:
    """Return text on one line, inert, with its middle left out if it is long."""
    flat = one_line(text, 10_000)
    if len(flat) <= width:
        return flat
    tail = (width - 1) // 3
    return f"{flat[: width - 1 - tail]}…{flat[-tail:]}"


def row_height(rows: int) -> int:
    """Return how high a row is, so that few are easily seen and many fit."""
    return max(13, min(34, 900 // max(rows, 1)))
