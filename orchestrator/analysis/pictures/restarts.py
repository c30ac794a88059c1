"""Restarts and crashes: for each harness that had any its attempts, dark and light in turn, and a cross for each crash."""

from __future__ import annotations

from collections import Counter

from orchestrator.analysis.pictures.names import row_height, short
from orchestrator.analysis.pictures.paper import ALARM, FAINT, INK, LIGHT, WIDTH, Picture, Spec, nothing, sheet, values
from orchestrator.analysis.pictures.roll import Roll, roll
from orchestrator.analysis.pictures.spells import SIGNS, Spell, spells, thinned
from orchestrator.analysis.run import Run
from orchestrator.analysis.wording import times

_SHADES = ("#6e8caa", LIGHT)
_LEAST_NAMED = 0.03
"""The part of the picture that an attempt is long that has its number written in it."""
_STORM_PARTS = 60
"""Crashes within one such part of the time are one cross, with their number."""


def restarts(run: Run, harness: str | None = None) -> Picture:
    """Draw attempts over time."""
    cast = roll(run, harness)
    found = spells(run, cast)
    by: dict[str, list[Spell]] = {name: [] for name in cast.names}
    for one in found:
        by[one.harness].append(one)
    shaken = [name for name in cast.names if len(by[name]) > 1 or any(SIGNS[one.end].is_alarming for one in by[name])]
    if not shaken:
        return nothing("restarts", _calm(cast))
    every = [one for one in found if one.harness in shaken]
    kept, notes = thinned(every)
    axis = {"domain": False, "ticks": False}
    order = [cast.labels[name] for name in shaken]
    body: Spec = {
        "width": WIDTH,
        "height": {"step": row_height(len(shaken))},
        "encoding": {"y": {"field": "harness", "type": "nominal", "sort": order, "title": None, "axis": axis}},
        "layer": [_bars(cast, kept), _numbers(cast, kept), *_crosses(cast, every), _said(cast, by, shaken)],
    }
    rest = len(cast.names) - len(shaken)
    more = (f"{times(rest, 'harness', 'harnesses')} more ran without a crash or a restart",) if rest else ()
    key = "bars: attempts, with their numbers; cross: a crash, or as many as its figure says"
    return sheet("restarts", _title(cast, every, shaken), (key, *more), body, (*notes, *cast.notes))


def _calm(cast: Roll) -> str:
    return f"{times(len(cast.names), 'harness', 'harnesses')}: no crash and no restart" if cast.names else "No harness has run"


def _title(cast: Roll, found: list[Spell], shaken: list[str]) -> str:
    crashes = Counter(one.harness for one in found if one.end in ("failed", "killed", "gave_up"))
    who = times(len(shaken), "harness", "harnesses")
    if not crashes:
        return f"{who} of {len(cast.names):,} had more than one attempt; none crashed"
    (most, count), *others = crashes.most_common(2)
    if not others:
        return (
            f"{cast.labels[most]} crashed {times(count, 'time')} in {times(sum(o.harness == most for o in found), 'attempt')}"
        )
    return (
        f"{times(crashes.total(), 'crash', 'crashes')} of {len(crashes):,} harnesses, {count:,} of them of {cast.labels[most]}"
    )


def _bars(cast: Roll, found: list[Spell]) -> Spec:
    rows = [
        {
            "harness": cast.labels[one.harness],
            "at": cast.span.at(one.begin_us),
            "end": cast.span.at(one.end_us),
            "shade": _SHADES[one.attempt % 2],
        }
        for one in found
    ]
    colour = {"field": "shade", "type": "nominal", "scale": None}
    bar = {"type": "bar", "height": {"band": 0.5}, "stroke": FAINT, "strokeWidth": 0.5}
    return {"data": values(rows), "mark": bar, "encoding": {"x": cast.span.x(), "x2": {"field": "end"}, "color": colour}}


def _numbers(cast: Roll, found: list[Spell]) -> Spec:
    least = _LEAST_NAMED * (cast.span.end_us - cast.span.begin_us)
    rows = [
        {"harness": cast.labels[one.harness], "at": cast.span.at((one.begin_us + one.end_us) / 2), "number": str(one.attempt)}
        for one in found
        if one.end_us - one.begin_us >= least
    ]
    encoding = {"x": cast.span.x(), "text": {"field": "number"}}
    return {"data": values(rows), "mark": {"type": "text", "fontSize": 10, "color": INK}, "encoding": encoding}


def _crosses(cast: Roll, found: list[Spell]) -> list[Spec]:
    part = (cast.span.end_us - cast.span.begin_us) / _STORM_PARTS
    storms: dict[tuple[str, int], list[int]] = {}
    for one in found:
        if SIGNS[one.end].is_alarming:
            storms.setdefault((one.harness, int((one.end_us - cast.span.begin_us) / part)), []).append(one.end_us)
    rows = [
        {"harness": cast.labels[name], "at": cast.span.at(sum(ends) / len(ends)), "count": str(len(ends))}
        for (name, _), ends in storms.items()
    ]
    cross = {"type": "point", "shape": SIGNS["failed"].shape, "size": 90, "color": ALARM, "strokeWidth": 2.2, "opacity": 1}
    figure = {"type": "text", "dx": 7, "dy": -9, "align": "left", "fontSize": 10, "color": ALARM, "fontWeight": "bold"}
    many = [row for row in rows if row["count"] != "1"]
    return [
        {"data": values(rows), "mark": cross, "encoding": {"x": cast.span.x()}},
        {"data": values(many), "mark": figure, "encoding": {"x": cast.span.x(), "text": {"field": "count"}}},
    ]


def _said(cast: Roll, by: dict[str, list[Spell]], shaken: list[str]) -> Spec:
    rows = [
        {
            "harness": cast.labels[name],
            "said": short(f"{times(len(by[name]), 'attempt')}, {SIGNS[by[name][-1].end].words}", 40),
        }
        for name in shaken
    ]
    text = {"type": "text", "align": "left", "color": FAINT}
    return {"data": values(rows), "mark": text, "encoding": {"x": {"value": WIDTH + 14}, "text": {"field": "said"}}}
