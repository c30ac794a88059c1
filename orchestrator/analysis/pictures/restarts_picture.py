"""Restarts and crashes: for each harness that had any its attempts, dark and light in turn, and a cross for each crash."""

from __future__ import annotations

from collections import Counter

from harnesses.charts.chart_theme import ALARM, FAINT, INK, LIGHT, Spec
from orchestrator.analysis.answers.answer_wording import times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.pictures.chart_layers import LEFT, bars, channel, layer, rows_of, words_beside
from orchestrator.analysis.pictures.picture_page import Picture, nothing, sheet
from orchestrator.analysis.pictures.roll_picture import Roll, roll, row_height, short
from orchestrator.analysis.pictures.spells_picture import CROSS, SIGNS, Spell, spells, thinned

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
    order = [cast.labels[name] for name in shaken]
    layers = [_bars(cast, kept), _numbers(cast, kept), *_crosses(cast, every), _said(cast, by, shaken)]
    body = rows_of(order, row_height(len(shaken)), layers)
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
    rows = [{**cast.row(one.harness, one.begin_us, one.end_us), "shade": _SHADES[one.attempt % 2]} for one in found]
    shade = channel("shade:N", scale=None)
    return bars(rows, cast.span.x(), shade, band=0.5, stroke=FAINT, strokeWidth=0.5)


def _numbers(cast: Roll, found: list[Spell]) -> Spec:
    least = _LEAST_NAMED * (cast.span.end_us - cast.span.begin_us)
    rows = [
        {"harness": cast.labels[one.harness], "at": cast.span.at((one.begin_us + one.end_us) / 2), "number": str(one.attempt)}
        for one in found
        if one.end_us - one.begin_us >= least
    ]
    return layer(rows, {"type": "text", "fontSize": 10, "color": INK}, x=cast.span.x(), text="number")


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
    figure = {**LEFT, "dx": 7, "dy": -9, "fontSize": 10, "color": ALARM, "fontWeight": "bold"}
    many = [row for row in rows if row["count"] != "1"]
    return [
        layer(rows, {**CROSS, "size": 90, "strokeWidth": 2.2}, x=cast.span.x()),
        layer(many, figure, x=cast.span.x(), text="count"),
    ]


def _said(cast: Roll, by: dict[str, list[Spell]], shaken: list[str]) -> Spec:
    said = {name: f"{times(len(by[name]), 'attempt')}, {SIGNS[by[name][-1].end].words}" for name in shaken}
    return words_beside([{"harness": cast.labels[name], "said": short(text, 40)} for name, text in said.items()])
