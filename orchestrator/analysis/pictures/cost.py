"""What each harness cost, and how much of that went into tries that passed: money if it is on record, else tokens, or time."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from orchestrator.analysis.pictures.names import row_height
from orchestrator.analysis.pictures.paper import FAINT, INK, STEPS, WIDTH, Picture, Spec, nothing, sheet, values
from orchestrator.analysis.pictures.roll import Roll, roll
from orchestrator.analysis.pictures.tables import read_tries
from orchestrator.analysis.run import Run
from orchestrator.analysis.wording import number, seconds, share, times

PARTS = {"tries that passed": STEPS[1], "everything else": STEPS[3], "tries that did not pass": "#f4e3b2"}
_WIDTH = WIDTH - 120
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
    rows = _rows(cast, order, found)
    axis = {"domain": False, "ticks": False}
    body: Spec = {
        "width": _WIDTH,
        "height": {"step": row_height(len(order))},
        "encoding": {
            "y": {
                "field": "harness",
                "type": "nominal",
                "sort": [cast.labels[name] for name in order],
                "title": None,
                "axis": axis,
            }
        },
        "layer": [_bars(rows, measure), _said(cast, order, found, passed, measure)],
    }
    rest = len(cast.names) - len(order)
    none = (f"{times(rest, 'harness', 'harnesses')} more with nothing of it on record",) if rest else ()
    return sheet("cost", title, (key,) if key else (), body, (*none, *cast.notes))


def _rows(cast: Roll, order: list[str], found: dict[str, tuple[float, ...]]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name in order:
        at = 0.0
        for part, amount in zip(PARTS, (found[name][0], found[name][1], found[name][2]), strict=True):
            if amount:
                rows.append({"harness": cast.labels[name], "part": part, "at": at, "end": at + amount})
            at += amount
    return rows


def _unit(most_s: float) -> tuple[float, str]:
    """Return the largest unit of time of which there is one at least."""
    return next(((unit_s, unit) for unit_s, unit in _UNITS if most_s >= unit_s), _UNITS[-1])


def _bars(rows: list[dict[str, object]], measure: Measure) -> Spec:
    used = [part for part in PARTS if any(row["part"] == part for row in rows)]
    scale = {"domain": used, "range": [PARTS[part] for part in used]}
    legend = {"title": None, "symbolType": "square", "symbolStrokeColor": FAINT, "symbolSize": 110} if len(used) > 1 else None
    unit_s, unit = _unit(max(float(str(row["end"])) for row in rows)) if measure.written is seconds else (1.0, "")
    title = measure.name.removeprefix("of ") + (f", {unit}" if unit else "")
    shown = [{**row, "at": float(str(row["at"])) / unit_s, "end": float(str(row["end"])) / unit_s} for row in rows]
    return {
        "data": values(shown),
        "mark": {"type": "bar", "height": {"band": 0.74}, "stroke": FAINT, "strokeWidth": 0.7},
        "encoding": {
            "x": {"field": "at", "type": "quantitative", "title": title, "axis": {"format": "~s", "tickCount": 6}},
            "x2": {"field": "end"},
            "color": {"field": "part", "type": "nominal", "scale": scale, "sort": used, "legend": legend},
        },
    }


def _said(cast: Roll, order: list[str], found: dict[str, tuple[float, ...]], passed: dict[str, int], measure: Measure) -> Spec:
    is_time = measure.written is seconds
    unit_s = _unit(max(map(sum, found.values())))[0] if is_time else 1.0
    rows = [
        {
            "harness": cast.labels[name],
            "end": sum(found[name]) / unit_s,
            "said": _words(sum(found[name]), passed.get(name, 0), measure),
        }
        for name in order
    ]
    return {
        "data": values(rows),
        "mark": {"type": "text", "align": "left", "dx": 6, "color": INK, "fontSize": 10.5},
        "encoding": {"x": {"field": "end", "type": "quantitative"}, "text": {"field": "said"}},
    }


def _words(total: float, passed: int, measure: Measure) -> str:
    each = f": {measure.written(total / passed)} a passed feature" if passed else ""
    return measure.written(total) + each
