"""When each harness ran: a bar for each attempt, darker where more steps were recorded, and a sign for how it ended."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from harnesses.charts.chart_theme import ALARM, DEEP, FAINT, INK, LIGHT, MID, Spec
from orchestrator.analysis.answers.answer_wording import seconds, times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.pictures.chart_layers import bars, channel, layer, rows_of, words_beside
from orchestrator.analysis.pictures.picture_page import Picture, nothing, sheet
from orchestrator.analysis.pictures.picture_tables import pace, stretches
from orchestrator.analysis.pictures.roll_picture import Roll, roll, row_height
from orchestrator.analysis.pictures.spells_picture import SIGNS, Spell, pauses, spells, thinned

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
    totals = [{"harness": cast.labels[name], "said": times(steps, "step")} for name, steps in cast.steps.items()]
    between = [_bars(cast, found), _work(cast, run, count), _pauses(cast, held), _gaps(cast, found)]
    layers = [one for one in between if one["data"]["values"]]
    body = rows_of(cast.order, row_height(len(cast.names)), [*layers, _signs(cast, found), words_beside(totals)])
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
    rows = [cast.row(one.harness, one.begin_us, one.end_us) for one in found]
    return bars(rows, cast.span.x(), band=0.62, color=LIGHT, minBandSize=4, stroke=FAINT, strokeWidth=0.5)


def _work(cast: Roll, run: Run, count: int) -> Spec:
    colours = {"domain": list(_LEVELS), "range": list(_LEVEL_INKS)}
    steps = channel("steps:O", scale=colours, legend={"title": "steps", "symbolType": "square"})
    return bars(list(_stretches(cast, run, count)), cast.span.x(), steps, band=0.62)


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
                    row = cast.row(name, begin + start * width, begin + stretch * width)
                    yield {**row, "steps": _LEVELS[previous]}
                start, previous = stretch, level


def _pauses(cast: Roll, held: list[Spell]) -> Spec:
    rows = [cast.row(one.harness, one.begin_us, one.end_us) for one in held]
    return bars(rows, cast.span.x(), band=0.3, color="white", stroke=INK, strokeWidth=0.8)


def _gaps(cast: Roll, found: list[Spell]) -> Spec:
    """Return the time between an attempt and the next one, as a dotted line."""
    pairs = [(one, after) for one, after in itertools.pairwise(found) if one.harness == after.harness]
    rows = [cast.row(one.harness, one.end_us, after.begin_us) for one, after in pairs]
    return layer(rows, {"type": "rule", "strokeDash": [2, 2], "color": FAINT}, x=cast.span.x(), x2="end")


def _signs(cast: Roll, found: list[Spell]) -> Spec:
    rows = [
        {"harness": cast.labels[one.harness], "at": cast.span.at(one.end_us), "ended": SIGNS[one.end].words} for one in found
    ]
    used = [sign for sign in SIGNS.values() if any(row["ended"] == sign.words for row in rows)]
    words = [sign.words for sign in used]
    shapes = {"domain": words, "range": [sign.shape for sign in used]}
    inks = {"domain": words, "range": [ALARM if sign.is_alarming else INK for sign in used]}
    point = {"type": "point", "size": 70, "filled": False, "strokeWidth": 1.8, "opacity": 1}
    shape, stroke = (channel("ended:N", scale=scale, legend={"title": "attempt"}) for scale in (shapes, inks))
    return layer(rows, point, x=cast.span.x(), shape=shape, stroke=stroke)
