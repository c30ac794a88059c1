"""When each harness ran: a bar for each attempt, darker where more steps were recorded, and a sign for how it ended."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from orchestrator.analysis.pictures.names import row_height
from orchestrator.analysis.pictures.pace import pace, stretches
from orchestrator.analysis.pictures.paper import (
    ALARM,
    DEEP,
    FAINT,
    INK,
    LIGHT,
    MID,
    WIDTH,
    Picture,
    Spec,
    nothing,
    sheet,
    values,
)
from orchestrator.analysis.pictures.roll import Roll, roll
from orchestrator.analysis.pictures.spells import SIGNS, Spell, pauses, spells, thinned
from orchestrator.analysis.run import Run
from orchestrator.analysis.wording import seconds, times

_CHANCE = 3
"""Where no stretch has more steps than these, it is chance which has more."""
_LEVELS = ("few", "more", "most")
_LEVEL_INKS = ("#9fb3c8", MID, DEEP)


def timeline(run: Run, harness: str | None = None) -> Picture:
    """Draw when each harness ran."""
    cast = roll(run, harness)
    if not cast.names:
        return nothing("timeline", "No harness has run")
    every, held = spells(run, cast), pauses(run, cast)
    found, notes = thinned(every)
    count = stretches(cast)
    layers = [
        _bars(cast, found),
        _work(cast, run, count),
        _pauses(cast, held),
        _gaps(cast, found),
        _signs(cast, found),
        _said(cast),
    ]
    rows = {
        "field": "harness",
        "type": "nominal",
        "sort": cast.order,
        "title": None,
        "axis": {"domain": False, "ticks": False},
    }
    body: Spec = {
        "width": WIDTH,
        "height": {"step": row_height(len(cast.names))},
        "encoding": {"y": rows},
        "layer": [layer for layer in layers if layer],
    }
    stretch = seconds(cast.span.seconds / count)
    grey = f"stronger: more steps in {stretch}, against the busiest {stretch} of the same harness; hollow: held by an operator"
    return sheet("timeline", _title(cast, every), (grey,), body, (*notes, *cast.notes))


def _title(cast: Roll, found: list[Spell]) -> str:
    crashes = sum(spell.end in ("failed", "killed") for spell in found)
    last = {spell.harness: spell for spell in found}
    done = sum(spell.end in ("completed", "exhausted") for spell in last.values())
    who = times(len(cast.names), "harness", "harnesses")
    ends = f"{done:,} came to an end of their own, " if done else ""
    crashed = times(crashes, "crash", "crashes") if crashes else "no crash"
    return f"{who} made {times(cast.all_steps, 'step')} in {seconds(cast.span.seconds)}: {ends}{crashed}"


def _bars(cast: Roll, found: list[Spell]) -> Spec:
    rows = [
        {"harness": cast.labels[one.harness], "at": cast.span.at(one.begin_us), "end": cast.span.at(one.end_us)}
        for one in found
    ]
    bar = {"type": "bar", "color": LIGHT, "height": {"band": 0.62}, "minBandSize": 4, "stroke": FAINT, "strokeWidth": 0.5}
    return {"data": values(rows), "mark": bar, "encoding": {"x": cast.span.x(), "x2": {"field": "end"}}}


def _work(cast: Roll, run: Run, count: int) -> Spec:
    rows = list(_stretches(cast, run, count))
    colours = {"domain": list(_LEVELS), "range": list(_LEVEL_INKS)}
    legend = {"title": "steps", "symbolType": "square"}
    return (
        {
            "data": values(rows),
            "mark": {"type": "bar", "height": {"band": 0.62}},
            "encoding": {
                "x": cast.span.x(),
                "x2": {"field": "end"},
                "color": {"field": "steps", "type": "ordinal", "scale": colours, "legend": legend},
            },
        }
        if rows
        else {}
    )


def _stretches(cast: Roll, run: Run, count: int) -> Iterator[dict[str, Any]]:
    """Yield where steps were made, neighbours that are alike as one."""
    begin, width = cast.span.begin_us, (cast.span.end_us - cast.span.begin_us) / count
    for name, busy in pace(run, cast, count).items():
        most, start, previous = max(busy.values()), 0, -1
        for stretch in range(count + 1):
            steps = busy.get(stretch, 0)
            level = -1 if not steps else 0 if most <= _CHANCE else min(2, 3 * (steps - 1) // most)
            if level != previous:
                if previous >= 0:
                    at, end = (cast.span.at(begin + index * width) for index in (start, stretch))
                    yield {"harness": cast.labels[name], "at": at, "end": end, "steps": _LEVELS[previous]}
                start, previous = stretch, level


def _pauses(cast: Roll, held: list[Spell]) -> Spec:
    rows = [
        {"harness": cast.labels[one.harness], "at": cast.span.at(one.begin_us), "end": cast.span.at(one.end_us)}
        for one in held
    ]
    bar = {"type": "bar", "color": "white", "height": {"band": 0.3}, "stroke": INK, "strokeWidth": 0.8}
    return {"data": values(rows), "mark": bar, "encoding": {"x": cast.span.x(), "x2": {"field": "end"}}} if rows else {}


def _gaps(cast: Roll, found: list[Spell]) -> Spec:
    """Return the time between an attempt and the next one, as a dotted line."""
    rows = [
        {"harness": cast.labels[one.harness], "at": cast.span.at(one.end_us), "end": cast.span.at(after.begin_us)}
        for one, after in itertools.pairwise(found)
        if one.harness == after.harness
    ]
    rule = {"type": "rule", "strokeDash": [2, 2], "color": FAINT}
    return {"data": values(rows), "mark": rule, "encoding": {"x": cast.span.x(), "x2": {"field": "end"}}} if rows else {}


def _signs(cast: Roll, found: list[Spell]) -> Spec:
    rows = [
        {"harness": cast.labels[one.harness], "at": cast.span.at(one.end_us), "ended": SIGNS[one.end].words} for one in found
    ]
    used = [sign for sign in SIGNS.values() if any(row["ended"] == sign.words for row in rows)]
    words = [sign.words for sign in used]
    shapes = {"domain": words, "range": [sign.shape for sign in used]}
    inks = {"domain": words, "range": [ALARM if sign.is_alarming else INK for sign in used]}
    return {
        "data": values(rows),
        "mark": {"type": "point", "size": 70, "filled": False, "strokeWidth": 1.8, "opacity": 1},
        "encoding": {
            "x": cast.span.x(),
            "shape": {"field": "ended", "type": "nominal", "scale": shapes, "legend": {"title": "attempt"}},
            "stroke": {"field": "ended", "type": "nominal", "scale": inks, "legend": {"title": "attempt"}},
        },
    }


def _said(cast: Roll) -> Spec:
    rows = [{"harness": cast.labels[name], "said": times(steps, "step")} for name, steps in cast.steps.items()]
    text = {"type": "text", "align": "left", "color": FAINT}
    return {
        "data": values(rows),
        "mark": text,
        "encoding": {"x": {"value": WIDTH + 14}, "text": {"field": "said"}},
    }
