"""Two runs side by side: how long the steps of each harness take; a hollow sign is the first run, a full one the second."""

from __future__ import annotations

from harnesses.charts.chart_theme import ALARM, FAINT, INK, WIDTH, Spec
from orchestrator.analysis.answers.answer_wording import seconds, times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.pictures.chart_layers import channel, layer, names_axis
from orchestrator.analysis.pictures.latency_picture import Spread, axis, spreads
from orchestrator.analysis.pictures.picture_page import Picture, nothing, sheet, values
from orchestrator.analysis.pictures.roll_picture import Roll, roll, row_height

_SAME = 0.05
"""A difference below this part is none."""


def comparison(run: Run, other: Run, harness: str | None = None) -> Picture:
    """Draw how long steps take in both runs."""
    cast = roll(run, harness)
    before = {one.harness: one for one in spreads(run, cast.names)[0]}
    after = {one.harness: one for one in spreads(other, cast.names)[0]}
    both = [name for name in cast.names if name in before and name in after]
    if not both:
        return nothing("comparison", "No harness has made steps in both runs")
    rest = len(set(before) | set(after)) - len(both)
    notes = (f"{times(rest, 'harness', 'harnesses')} made steps in the first run only",) if rest else ()
    body = _body(cast, [(before[name], after[name]) for name in both])
    key = "circles: half of the steps take less; triangles: 99 %; hollow: the first run, full: the second one"
    return sheet("comparison", _title(cast, before, after, both), (key,), body, (*notes, *cast.notes))


def _title(cast: Roll, before: dict[str, Spread], after: dict[str, Spread], both: list[str]) -> str:
    ratios = {name: after[name].marks[0] / before[name].marks[0] for name in both}
    slower = [name for name in both if ratios[name] > 1 + _SAME]
    faster = [name for name in both if ratios[name] < 1 - _SAME]
    most = max(both, key=lambda name: max(ratios[name], 1 / ratios[name]))
    if not slower and not faster:
        return f"The steps of {times(len(both), 'harness', 'harnesses')} take as long as before"
    word = "slower" if ratios[most] > 1 else "faster"
    return (
        f"Of {times(len(both), 'harness', 'harnesses')} {len(slower):,} slower and {len(faster):,} faster; most of all "
        f"{cast.labels[most]}, {word}: {seconds(before[most].marks[0])} before, {seconds(after[most].marks[0])} now"
    )


def _body(cast: Roll, pairs: list[tuple[Spread, Spread]]) -> Spec:
    rows = [
        {
            "harness": cast.labels[one.harness],
            "mark": mark,
            "was": one.marks[at],
            "is": other.marks[at],
            "ink": _ink(one, other, at),
        }
        for one, other in pairs
        for at, mark in ((0, "half"), (2, "99 %"))
    ]
    every = [float(row[key]) for row in rows for key in ("was", "is")]  # type: ignore[arg-type]
    x = axis(min(every) / 1.3, max(every) * 1.3)
    shape = channel("mark:N", scale={"domain": ["half", "99 %"], "range": ["circle", "triangle-up"]}, legend=None)
    ink = channel("ink:N", scale=None)
    was, now = {"field": "was", **x}, {"field": "is", **x}
    point = {"type": "point", "size": 70, "opacity": 1, "strokeWidth": 1.6, "filled": True}
    hollow = {**point, "fill": "white", "color": FAINT}
    return {
        "width": WIDTH - 20,
        "height": {"step": max(26, row_height(len(pairs))), "for": "position"},
        "data": values(rows),
        "encoding": {
            "y": names_axis([cast.labels[one.harness] for one, _ in pairs]),
            "yOffset": channel("mark:N", sort=["half", "99 %"]),
        },
        "layer": [
            layer(None, {"type": "rule", "strokeWidth": 1.4}, x=was, x2="is", color=ink),
            layer(None, hollow, x=was, shape=shape, stroke={"value": INK}),
            layer(None, point, x=now, shape=shape, color=ink),
        ],
    }


def _ink(one: Spread, other: Spread, at: int) -> str:
    return ALARM if other.marks[at] > one.marks[at] * (1 + _SAME) else INK
