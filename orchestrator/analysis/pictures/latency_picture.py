"""How long steps take, on a logarithmic axis.

latency      for each harness a line of varying width, thick where many steps are
comparison   two runs side by side; a hollow sign is the first run, a full one the second
"""

from __future__ import annotations

import math
from typing import Any

from attrs import frozen

from harnesses.charts.chart_theme import ALARM, FAINT, INK, WIDTH, Spec
from orchestrator.analysis.answers.answer import seconds, times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.run_tables import gather
from orchestrator.analysis.pictures import chart_layers as chart
from orchestrator.analysis.pictures import picture_tables as tables

PER_DECADE = 8
_LEAST_S = 1e-6
"""Shorter durations are drawn with this length, the resolution of the clock."""
_BODY = "#7fa3c7"
_TIMED = "SELECT harness, unnest(works) / 1e6 AS took_s FROM gathered WHERE list_contains($names, harness)"
_BETWEEN = """
    SELECT harness, epoch_us("timestamp") / 1e6 - lag(epoch_us("timestamp") / 1e6) OVER (
        PARTITION BY harness, attempt ORDER BY seq) AS took_s
    FROM records WHERE kind IN ('step', 'started') AND list_contains($names, harness)
"""
_COUNTED = f"""
    WITH all_took AS MATERIALIZED ({{took}}),
    took AS (SELECT harness, greatest(took_s, {_LEAST_S}) AS took_s FROM all_took WHERE took_s IS NOT NULL),
    marks AS (
        SELECT harness, quantile_cont(took_s, [0.5, 0.95, 0.99]) AS marks, max(took_s) AS most FROM took GROUP BY harness
    )
    SELECT harness, floor(log10(took_s) * {PER_DECADE})::INTEGER AS bin, count(*), any_value(marks), any_value(most)
    FROM took JOIN marks USING (harness) GROUP BY ALL ORDER BY ALL
"""


@frozen
class Spread:
    """How long the steps of one harness took."""

    harness: str
    bins: dict[int, int]
    """Number of steps by power of ten, divided into `PER_DECADE` parts."""
    marks: tuple[float, float, float]
    """The 50th, 95th and 99th percentile, seconds."""
    most_s: float


def latency(run: Run, harness: str | None = None) -> chart.Picture:
    """Draw how long steps take."""
    cast = tables.roll(run, harness)
    found, notes = spreads(run, cast.names)
    if not found:
        return chart.nothing("latency", "No step has been recorded")
    named = [one.harness for one in found]
    order = [cast.labels[name] for name in cast.names if name in named]
    height = tables.row_height(len(found))
    body = chart.rows_of(
        order,
        height,
        [_bodies(cast, found, height), _marks(cast, found, height), *_said(cast, found)],
        width=WIDTH - 60,
    )
    key = "thicker: more of the harness's steps; long line: half take less; short line: 95 % take less; dot: 99 %"
    return chart.sheet("latency", _title(cast, found), (key,), body, (*notes, *cast.notes))


def spreads(run: Run, names: tuple[str, ...]) -> tuple[list[Spread], tuple[str, ...]]:
    """Return how long the steps of each harness took, and notes on that."""
    gather(run)
    notes: tuple[str, ...] = ()
    if not (rows := _rows(run, _TIMED, names)):
        rows, notes = _rows(run, _BETWEEN, names), ("no recorded times: measured from one step's record to the next",)
    bins: dict[str, dict[int, int]] = {}
    for name, bin, count, _, _ in rows:
        bins.setdefault(name, {})[bin] = count
    ends = {row[0]: (row[3], row[4]) for row in rows}
    return [Spread(name, bins[name], tuple(ends[name][0]), ends[name][1]) for name in names if name in bins], notes


def _rows(run: Run, took: str, names: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return run.rows(_COUNTED.format(took=took.replace("$names", "?")), [list(names)])


def _title(cast: tables.Roll, found: list[Spread]) -> str:
    slowest = max(found, key=lambda one: one.marks[0])
    half, _, last = slowest.marks
    who = cast.labels[slowest.harness] + (" is slowest" if len(found) > 1 else "")
    if last <= half * 1.05:
        return f"{who}: nearly all of its steps take {seconds(half)}"
    return f"{who}: half of its steps take over {seconds(half)}, one in a hundred over {seconds(last)}"


def axis(least: float, most: float) -> dict[str, Any]:
    """Return a logarithmic axis of durations, labelled with units; it covers at least one power of ten."""
    if (short := 10 / (most / least)) > 1:
        least, most = least / math.sqrt(short), most * math.sqrt(short)
    words = (
        "datum.value < 1e-3 ? format(datum.value * 1e6, ',.3~g') + ' µs' : "
        "datum.value < 1 ? format(datum.value * 1e3, ',.3~g') + ' ms' : "
        "datum.value < 120 ? format(datum.value, ',.3~g') + ' s' : "
        "datum.value < 7200 ? format(datum.value / 60, ',.3~g') + ' min' : "
        "datum.value < 172800 ? format(datum.value / 3600, ',.3~g') + ' h' : format(datum.value / 86400, ',.3~g') + ' d'"
    )
    return {
        "type": "quantitative",
        "title": "time of a step (powers of ten)",
        "scale": {"type": "log", "domain": [least, most], "nice": False},
        "axis": {"labelExpr": words, "values": _ticks(least, most), "labelOverlap": "greedy"},
    }


def _ticks(least: float, most: float) -> list[float]:
    """Return round durations as ticks: the fewer powers of ten, the more ticks for each."""
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))
    parts = (1, 2, 5) if high - low <= 3 else (1, 3) if high - low <= 6 else (1,)
    ticks = [part * 10.0**power for power in range(low, high + 1) for part in parts]
    return [tick for tick in ticks if least * 0.999 <= tick <= most * 1.001]


def _bodies(cast: tables.Roll, found: list[Spread], height: int) -> Spec:
    rows: list[dict[str, Any]] = [
        {
            "harness": cast.labels[one.harness],
            "least": 10 ** (bin / PER_DECADE),
            "most": 10 ** ((bin + 1) / PER_DECADE),
            "thick": max(count / max(one.bins.values()), 0.06),
        }
        for one in found
        for bin, count in one.bins.items()
    ]
    x = {"field": "least", **axis(min(row["least"] for row in rows), max(row["most"] for row in rows))}
    thick = chart.channel("thick:Q", scale={"domain": [0, 1], "range": [0, 0.82 * height]}, legend=None)
    return chart.layer(rows, {"type": "bar", "color": _BODY}, x=x, x2="most", size=thick)


def _marks(cast: tables.Roll, found: list[Spread], height: int) -> Spec:
    rows = [
        {"harness": cast.labels[one.harness], "half": one.marks[0], "most": one.marks[1], "last": one.marks[2]}
        for one in found
    ]
    tick = {"type": "tick", "color": INK, "opacity": 1}
    marks = [
        chart.layer(None, {**tick, "thickness": 2.4, "size": 0.92 * height}, x="half:Q"),
        chart.layer(None, {**tick, "thickness": 1.4, "size": 0.5 * height}, x="most:Q"),
        chart.layer(None, {"type": "point", "filled": True, "color": INK, "size": 26, "opacity": 1}, x="last:Q"),
    ]
    return {"data": chart.values(rows), "layer": marks}


def _said(cast: tables.Roll, found: list[Spread]) -> list[Spec]:
    """Return the figures to the right, in columns with headings."""
    columns = {"half": 48, "99 %": 108, "most": 168}
    rows = [
        {"harness": cast.labels[one.harness], "said": seconds(second), "at": WIDTH - 60 + at}
        for one in found
        for second, at in zip((one.marks[0], one.marks[2], one.most_s), columns.values(), strict=True)
    ]
    text = {"type": "text", "align": "right", "color": INK, "fontSize": chart.SMALL}
    place = chart.channel("at:Q", scale=None, axis=None)
    heads = [{"said": word, "at": WIDTH - 60 + at} for word, at in columns.items()]
    return [
        chart.layer(rows, text, x=place, text="said"),
        chart.layer(heads, {**text, "color": FAINT, "baseline": "bottom"}, x=place, y={"value": -4}, text="said"),
    ]


_SAME = 0.05
"""A smaller relative difference counts as none."""


def comparison(run: Run, other: Run, harness: str | None = None) -> chart.Picture:
    """Draw how long steps take in both runs."""
    cast = tables.roll(run, harness)
    before = {one.harness: one for one in spreads(run, cast.names)[0]}
    after = {one.harness: one for one in spreads(other, cast.names)[0]}
    both = [name for name in cast.names if name in before and name in after]
    if not both:
        return chart.nothing("comparison", "No harness has made steps in both runs")
    rest = len(set(before) | set(after)) - len(both)
    notes = (f"{times(rest, 'harness', 'harnesses')} made steps in the first run only",) if rest else ()
    body = _pairs(cast, [(before[name], after[name]) for name in both])
    key = "circles: half of the steps take less; triangles: 99 %; hollow: the first run, full: the second one"
    return chart.sheet("comparison", _comparison_title(cast, before, after, both), (key,), body, (*notes, *cast.notes))


def _comparison_title(cast: tables.Roll, before: dict[str, Spread], after: dict[str, Spread], both: list[str]) -> str:
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


def _pairs(cast: tables.Roll, pairs: list[tuple[Spread, Spread]]) -> Spec:
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
    shape = chart.channel("mark:N", scale={"domain": ["half", "99 %"], "range": ["circle", "triangle-up"]}, legend=None)
    ink = chart.channel("ink:N", scale=None)
    was, now = {"field": "was", **x}, {"field": "is", **x}
    point = {"type": "point", "size": 70, "opacity": 1, "strokeWidth": 1.6, "filled": True}
    hollow = {**point, "fill": "white", "color": FAINT}
    return {
        "width": WIDTH - 20,
        "height": {"step": max(26, tables.row_height(len(pairs))), "for": "position"},
        "data": chart.values(rows),
        "encoding": {
            "y": chart.names_axis([cast.labels[one.harness] for one, _ in pairs]),
            "yOffset": chart.channel("mark:N", sort=["half", "99 %"]),
        },
        "layer": [
            chart.layer(None, {"type": "rule", "strokeWidth": 1.4}, x=was, x2="is", color=ink),
            chart.layer(None, hollow, x=was, shape=shape, stroke={"value": INK}),
            chart.layer(None, point, x=now, shape=shape, color=ink),
        ],
    }


def _ink(one: Spread, other: Spread, at: int) -> str:
    return ALARM if other.marks[at] > one.marks[at] * (1 + _SAME) else INK
