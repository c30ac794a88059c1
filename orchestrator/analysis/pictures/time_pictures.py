"""The activity of harnesses over the time of the run.

timeline     when each ran: a bar for each attempt, darker where more steps were recorded, and a sign for how it ended
restarts     of each with restarts, its attempts in alternating dark and light, and a cross for each crash
throughput   how many steps a second are recorded: all together above, and below a strip for each harness
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

from harnesses.charts.chart_theme import ALARM, DEEP, FAINT, INK, LIGHT, MID, STEPS, WIDTH, Spec
from harnesses.charts.time_axis import Span, moment
from orchestrator.analysis.answers.answer import number, seconds, times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.pictures import chart_layers as chart
from orchestrator.analysis.pictures import picture_tables as tables

_CHANCE = 3
"""Number of steps in an interval up to which differences between intervals are taken for chance."""
_LEVELS = ("few", "more", "most")
_LEVEL_INKS = ("#9fb3c8", MID, DEEP)


def timeline(run: Run, harness: str | None = None) -> chart.Picture:
    """Draw when each harness ran."""
    cast = tables.roll(run, harness)
    if not cast.names:
        return chart.nothing("timeline", "No harness has run")
    every, held = tables.spells(run, cast), tables.pauses(run, cast)
    found, notes = tables.thinned(every)
    count = tables.stretches(cast)
    totals = [{"harness": cast.labels[name], "said": times(steps, "step")} for name, steps in cast.steps.items()]
    between = [_timeline_bars(cast, found), _work(cast, run, count), _pauses(cast, held), _gaps(cast, found)]
    layers = [one for one in between if one["data"]["values"]]
    body = chart.rows_of(
        cast.order, tables.row_height(len(cast.names)), [*layers, _end_signs(cast, found), chart.words_beside(totals)]
    )
    stretch = seconds(cast.span.seconds / count)
    grey = f"darker: more steps in {stretch}, against the busiest {stretch} of the same harness; hollow: paused by an operator"
    return chart.sheet("timeline", _timeline_title(cast, every), (grey,), body, (*notes, *cast.notes))


def _timeline_title(cast: tables.Roll, found: list[tables.Spell]) -> str:
    crashes = sum(spell.end == "failed" for spell in found)
    last = {spell.harness: spell for spell in found}
    done = sum(spell.end in ("completed", "finished") for spell in last.values())
    who = times(len(cast.names), "harness", "harnesses")
    ends = f"{done:,} completed or finished, " if done else ""
    crashed = times(crashes, "crash", "crashes") if crashes else "no crash"
    return f"{who} made {times(cast.all_steps, 'step')} in {seconds(cast.span.seconds)}: {ends}{crashed}{_killed(found)}"


def _killed(found: list[tables.Spell]) -> str:
    """Return how often a program was killed, however many harnesses it had."""
    programs = len({spell.run for spell in found if spell.end == "killed"})
    return f"; a program was killed {times(programs, 'time')}" if programs else ""


def _timeline_bars(cast: tables.Roll, found: list[tables.Spell]) -> Spec:
    rows = [cast.row(one.harness, one.begin_us, one.end_us) for one in found]
    return chart.bars(rows, cast.span.x(), band=0.62, color=LIGHT, minBandSize=4, stroke=FAINT, strokeWidth=0.5)


def _work(cast: tables.Roll, run: Run, count: int) -> Spec:
    colours = {"domain": list(_LEVELS), "range": list(_LEVEL_INKS)}
    steps = chart.channel("steps:O", scale=colours, legend={"title": "steps", "symbolType": "square"})
    return chart.bars(list(_stretches(cast, run, count)), cast.span.x(), steps, band=0.62)


def _stretches(cast: tables.Roll, run: Run, count: int) -> Iterator[dict[str, Any]]:
    """Yield the intervals in which steps were made, merging similar neighbours."""
    begin, width = cast.span.begin_us, (cast.span.end_us - cast.span.begin_us) / count
    for name, busy in tables.pace(run, cast, count).items():
        most, start, previous = max(busy.values()), 0, -1
        for stretch in range(count + 1):
            steps = busy.get(stretch, 0)
            level = -1 if not steps else 0 if most <= _CHANCE else min(2, 3 * (steps - 1) // most)
            if level != previous:
                if previous >= 0:
                    row = cast.row(name, begin + start * width, begin + stretch * width)
                    yield {**row, "steps": _LEVELS[previous]}
                start, previous = stretch, level


def _pauses(cast: tables.Roll, held: list[tables.Spell]) -> Spec:
    rows = [cast.row(one.harness, one.begin_us, one.end_us) for one in held]
    return chart.bars(rows, cast.span.x(), band=0.3, color="white", stroke=INK, strokeWidth=0.8)


def _gaps(cast: tables.Roll, found: list[tables.Spell]) -> Spec:
    """Return the time between attempts, as dotted lines."""
    pairs = [(one, after) for one, after in itertools.pairwise(found) if one.harness == after.harness]
    rows = [cast.row(one.harness, one.end_us, after.begin_us) for one, after in pairs]
    return chart.layer(rows, {"type": "rule", "strokeDash": [2, 2], "color": FAINT}, x=cast.span.x(), x2="end")


def _end_signs(cast: tables.Roll, found: list[tables.Spell]) -> Spec:
    rows = [
        {"harness": cast.labels[one.harness], "at": cast.span.at(one.end_us), "ended": tables.SIGNS[one.end].words}
        for one in found
    ]
    used = [sign for sign in tables.SIGNS.values() if any(row["ended"] == sign.words for row in rows)]
    words = [sign.words for sign in used]
    shapes = {"domain": words, "range": [sign.shape for sign in used]}
    inks = {"domain": words, "range": [ALARM if sign.is_alarming else INK for sign in used]}
    point = {"type": "point", "size": 70, "filled": False, "strokeWidth": 1.8, "opacity": 1}
    shape, stroke = (chart.channel("ended:N", scale=scale, legend={"title": "attempt"}) for scale in (shapes, inks))
    return chart.layer(rows, point, x=cast.span.x(), shape=shape, stroke=stroke)


_SHADES = ("#6e8caa", LIGHT)
_LEAST_NAMED = 0.03
"""Minimum share of the picture's width for an attempt to be labelled with its number."""
_STORM_PARTS = 60
"""Crashes within one of this many parts of the time are one cross, with their number."""


def restarts(run: Run, harness: str | None = None) -> chart.Picture:
    """Draw attempts over time."""
    cast = tables.roll(run, harness)
    found = tables.spells(run, cast)
    by: dict[str, list[tables.Spell]] = {name: [] for name in cast.names}
    for one in found:
        by[one.harness].append(one)
    shaken = [name for name in cast.names if len(by[name]) > 1 or any(tables.SIGNS[one.end].is_alarming for one in by[name])]
    if not shaken:
        calm = f"{times(len(cast.names), 'harness', 'harnesses')}: no crash and no restart"
        return chart.nothing("restarts", calm if cast.names else "No harness has run")
    every = [one for one in found if one.harness in shaken]
    kept, notes = tables.thinned(every)
    order = [cast.labels[name] for name in shaken]
    layers = [_attempt_bars(cast, kept), _numbers(cast, kept), *_crosses(cast, every), _said(cast, by, shaken)]
    body = chart.rows_of(order, tables.row_height(len(shaken)), layers)
    rest = len(cast.names) - len(shaken)
    more = (f"{times(rest, 'harness', 'harnesses')} more ran without a crash or a restart",) if rest else ()
    key = "bars: attempts, with their numbers; cross: a crash, or as many as its figure says"
    return chart.sheet("restarts", _restarts_title(cast, every, shaken), (key, *more), body, (*notes, *cast.notes))


def _restarts_title(cast: tables.Roll, found: list[tables.Spell], shaken: list[str]) -> str:
    crashes = Counter(one.harness for one in found if one.end in ("failed", "gave_up"))
    who = times(len(shaken), "harness", "harnesses")
    if not crashes:
        return f"{who} of {len(cast.names):,} had more than one attempt; none crashed{_killed(found)}"
    (most, count), *others = crashes.most_common(2)
    if not others:
        return (
            f"{cast.labels[most]} crashed {times(count, 'time')} in {times(sum(o.harness == most for o in found), 'attempt')}"
            f"{_killed(found)}"
        )
    return (
        f"{times(crashes.total(), 'crash', 'crashes')} of {len(crashes):,} harnesses, {count:,} of them of {cast.labels[most]}"
        f"{_killed(found)}"
    )


def _attempt_bars(cast: tables.Roll, found: list[tables.Spell]) -> Spec:
    rows = [{**cast.row(one.harness, one.begin_us, one.end_us), "shade": _SHADES[one.attempt % 2]} for one in found]
    shade = chart.channel("shade:N", scale=None)
    return chart.bars(rows, cast.span.x(), shade, band=0.5, stroke=FAINT, strokeWidth=0.5)


def _numbers(cast: tables.Roll, found: list[tables.Spell]) -> Spec:
    least = _LEAST_NAMED * (cast.span.end_us - cast.span.begin_us)
    rows = [
        {"harness": cast.labels[one.harness], "at": cast.span.at((one.begin_us + one.end_us) / 2), "number": str(one.attempt)}
        for one in found
        if one.end_us - one.begin_us >= least
    ]
    return chart.layer(rows, {"type": "text", "fontSize": 10, "color": INK}, x=cast.span.x(), text="number")


def _crosses(cast: tables.Roll, found: list[tables.Spell]) -> list[Spec]:
    part = (cast.span.end_us - cast.span.begin_us) / _STORM_PARTS
    storms: dict[tuple[str, int], list[int]] = {}
    for one in found:
        if tables.SIGNS[one.end].is_alarming and one.end != "killed":
            storms.setdefault((one.harness, int((one.end_us - cast.span.begin_us) / part)), []).append(one.end_us)
    rows = [
        {"harness": cast.labels[name], "at": cast.span.at(sum(ends) / len(ends)), "count": str(len(ends))}
        for (name, _), ends in storms.items()
    ]
    figure = {**chart.LEFT, "dx": 7, "dy": -9, "fontSize": 10, "color": ALARM, "fontWeight": "bold"}
    many = [row for row in rows if row["count"] != "1"]
    return [
        chart.layer(rows, {**tables.CROSS, "size": 90, "strokeWidth": 2.2}, x=cast.span.x()),
        chart.layer(many, figure, x=cast.span.x(), text="count"),
    ]


def _said(cast: tables.Roll, by: dict[str, list[tables.Spell]], shaken: list[str]) -> Spec:
    said = {name: f"{times(len(by[name]), 'attempt')}, {tables.SIGNS[by[name][-1].end].words}" for name in shaken}
    return chart.words_beside([{"harness": cast.labels[name], "said": tables.short(text, 40)} for name, text in said.items()])


_UNITS = ((1.0, "a second"), (60.0, "a minute"), (3600.0, "an hour"), (86_400.0, "a day"), (365.25 * 86_400, "a year"))


def throughput(run: Run, harness: str | None = None) -> chart.Picture:
    """Draw steps per second over time."""
    cast = tables.roll(run, harness)
    if not cast.all_steps:
        return chart.nothing("throughput", "No step has been recorded")
    count = tables.stretches(cast, 120)
    counts = tables.pace(run, cast, count)
    width_s = cast.span.seconds / count
    total = [sum(row.get(stretch, 0) for row in counts.values()) for stretch in range(count)]
    is_alone = len(cast.names) == 1
    body: Spec = _total(cast.span, total, width_s, is_alone=is_alone)
    if not is_alone:
        body = {"vconcat": [body, _strips(cast, counts, width_s, _unit(total, width_s))], "spacing": 14, "bounds": "flush"}
    key = f"counted in stretches of {seconds(width_s)}" + (
        "; below, each harness: a gap is a stretch without a step" * (len(counts) > 1)
    )
    return chart.sheet("throughput", _throughput_title(cast.span, total, width_s), (key,), body, cast.notes)


def _unit(total: list[int], width_s: float) -> tuple[float, str]:
    """Return the smallest unit of time with more than one step."""
    mean = sum(total) / (len(total) * width_s)
    return next(((unit_s, name) for unit_s, name in _UNITS if mean * unit_s >= 1), _UNITS[-1])


def _throughput_title(span: Span, total: list[int], width_s: float) -> str:
    most = max(range(len(total)), key=total.__getitem__)
    busiest = moment(int(span.begin_us + most * width_s * 1e6))
    when = busiest[:10] if span.seconds > 3 * 86_400 else busiest[11:19]
    if len([one for one in total if one]) == 1:
        return f"{times(sum(total), 'step')}, at about {when} UTC"
    unit_s, unit = _unit(total, width_s)
    mean, top = number(sum(total) / span.seconds * unit_s), number(total[most] / width_s * unit_s)
    return f"{mean} steps {unit} on average, {top} at the busiest, about {when} UTC"


def _total(span: Span, total: list[int], width_s: float, *, is_alone: bool) -> Spec:
    unit_s, unit = _unit(total, width_s)
    rows = [{**_stretch(span, index, width_s), "rate": steps / width_s * unit_s} for index, steps in enumerate(total)]
    y = chart.channel("rate:Q", title=f"steps {unit}, in all", axis={"tickCount": 5})
    bar = {"type": "bar", "color": DEEP, "binSpacing": 0, "strokeWidth": 0}
    x = span.x(is_written=is_alone)
    return {"width": WIDTH, "height": 150, **chart.layer(rows, bar, x=x, x2="end", y=y, y2={"datum": 0})}


def _strips(cast: tables.Roll, counts: dict[str, dict[int, int]], width_s: float, unit: tuple[float, str]) -> Spec:
    rows = [
        {"harness": cast.labels[name], **_stretch(cast.span, stretch, width_s), "rate": steps / width_s * unit[0]}
        for name, found in counts.items()
        for stretch, steps in found.items()
    ]
    lightness = {"type": "log", "range": list(reversed(STEPS)), "interpolate": "rgb"}
    legend = {"title": f"steps {unit[1]}", "orient": "bottom", "gradientLength": 220, "tickCount": 4}
    rate = chart.channel("rate:Q", scale=lightness, legend=legend)
    strips = chart.bars(rows, cast.span.x(), rate, band=0.8, binSpacing=0)
    return chart.rows_of(cast.order, tables.row_height(len(cast.names)), [strips])


def _stretch(span: Span, index: int, width_s: float) -> dict[str, float]:
    begin = span.begin_us + index * width_s * 1e6
    return {"at": span.at(begin), "end": span.at(begin + width_s * 1e6)}
