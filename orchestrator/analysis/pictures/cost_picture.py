"""What each harness cost, and how much of that went into tries that passed: money if it is on record, else tokens, or time."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from harnesses.charts.chart_theme import STEPS, WIDTH
from orchestrator.analysis.answers.answer_wording import number, seconds, share, times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.pictures.chart_layers import channel, rows_of, stacked_bars, words_after
from orchestrator.analysis.pictures.picture_page import Picture, nothing, sheet
from orchestrator.analysis.pictures.picture_tables import read_tries
from orchestrator.analysis.pictures.roll_picture import Roll, roll, row_height

PARTS = {"tries that passed": STEPS[1], "everything else": STEPS[3], "tries that did not pass": "#f4e3b2"}
_UNITS = ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


@frozen
class Measure:
    """What is counted."""

    name: str
    rows: str
    """A query for harness, step and amount."""
    written: Callable[[float], str]


_SETTLED = """
    SELECT harness, step_number, (spent ->> '$.{field}')::DOUBLE AS amount FROM budgets
    WHERE change IN ('settled', 'forfeited', 'charged') AND spent IS NOT NULL
"""
MEASURES = (
    Measure("of money", _SETTLED.format(field="money"), lambda amount: f"{amount:,.2f}"),
    Measure("of money", "SELECT harness, step_number, money AS amount FROM drawn_tries", lambda amount: f"{amount:,.2f}"),
    Measure("tokens", _SETTLED.format(field="tokens"), lambda amount: number(round(amount))),
    Measure("tokens", "SELECT harness, step_number, tokens AS amount FROM drawn_tries", lambda amount: number(round(amount))),
    Measure(
        "of working time", "SELECT harness, step_number, work_s - waiting_s AS amount FROM steps WHERE work_s > 0", seconds
    ),
)
"""The first that is on record is drawn."""
_QUERY = """
    WITH spent AS ({rows}),
    tries AS (
        SELECT harness, step_number, bool_or(passed) AS passed FROM drawn_tries
        WHERE is_try AND passed IS NOT NULL GROUP BY ALL
    )
    SELECT harness, coalesce(sum(amount) FILTER (passed), 0), coalesce(sum(amount) FILTER (passed IS NULL), 0),
           coalesce(sum(amount) FILTER (NOT passed), 0)
    FROM spent LEFT JOIN tries USING (harness, step_number)
    WHERE amount > 0 AND list_contains(?, harness) GROUP BY harness
"""
_PASSED = "SELECT harness, passed FROM drawn_features"


def cost(run: Run, harness: str | None = None) -> Picture:
    """Draw cost by harness."""
    cast = roll(run, harness)
    read_tries(run)
    for measure in MEASURES:
        found = {row[0]: row[1:] for row in run.rows(_QUERY.format(rows=measure.rows), [list(cast.names)])}
        if found:
            return _picture(cast, measure, found, dict(run.rows(_PASSED)))
    return nothing("cost", "Nothing that was spent is on record")


def _picture(cast: Roll, measure: Measure, found: dict[str, tuple[float, ...]], passed: dict[str, int]) -> Picture:
    order = sorted(found, key=lambda name: -sum(found[name]))
    total = sum(map(sum, found.values()))
    first = order[0]
    most = (
        f"{share(sum(found[first]) / total)} of it by {cast.labels[first]}" if len(order) > 1 else f"by {cast.labels[first]}"
    )
    title = f"{measure.written(total)} {measure.name} in all, {most}"
    lost = sum(parts[2] for parts in found.values())
    key = f"{share(lost / total)} went into tries that did not pass" if lost else ""
    unit_s, unit = _unit(sum(found[first])) if measure.written is seconds else (1.0, "")
    axis_title = measure.name.removeprefix("of ") + (f", {unit}" if unit else "")
    x = channel("at:Q", title=axis_title, axis={"format": "~s", "tickCount": 6})
    said = [
        {
            "harness": cast.labels[name],
            "end": sum(found[name]) / unit_s,
            "said": _words(sum(found[name]), passed.get(name, 0), measure),
        }
        for name in order
    ]
    layers = [stacked_bars(_rows(cast, order, found, unit_s), PARTS, x), words_after(said, "end:Q")]
    body = rows_of([cast.labels[name] for name in order], row_height(len(order)), layers, width=WIDTH - 120)
    rest = len(cast.names) - len(order)
    none = (f"{times(rest, 'harness', 'harnesses')} more with nothing of it on record",) if rest else ()
    return sheet("cost", title, (key,) if key else (), body, (*none, *cast.notes))


def _rows(cast: Roll, order: list[str], found: dict[str, tuple[float, ...]], unit: float) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name in order:
        at = 0.0
        for part, amount in zip(PARTS, (found[name][0], found[name][1], found[name][2]), strict=True):
            if amount:
                rows.append({"harness": cast.labels[name], "part": part, "at": at / unit, "end": (at + amount) / unit})
            at += amount
    return rows


def _unit(most_s: float) -> tuple[float, str]:
    """Return the largest unit of time of which there is one at least."""
    return next(((unit_s, unit) for unit_s, unit in _UNITS if most_s >= unit_s), _UNITS[-1])


def _words(total: float, passed: int, measure: Measure) -> str:
    each = f": {measure.written(total / passed)} a passed feature" if passed else ""
    return measure.written(total) + each
