"""Totals of harnesses as bars.

cost       the cost of each, and how much of it went into tries that passed: money if recorded, else tokens, or time
shares     where the time went: a bar for all the time of each, divided by activity
failures   what went wrong, and how often: a bar for each kind of error of each, most frequent first
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from harnesses.charts.chart_theme import FAINT, INK, STEPS, WIDTH, Spec
from orchestrator.analysis.answers.answer import number, seconds, share, times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.pictures import chart_layers as chart
from orchestrator.analysis.pictures import picture_tables as tables

PARTS = {"tries that passed": STEPS[1], "everything else": STEPS[3], "tries that did not pass": "#f4e3b2"}
_UNITS = ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


@frozen
class Measure:
    """A measure of cost."""

    name: str
    rows: str
    """Query for harness, step and amount."""
    written: Callable[[float], str]


_SETTLED = """
    SELECT harness, step_number, (spent ->> '$.{field}')::DOUBLE AS amount FROM budgets
    WHERE change IN ('settled', 'overspent', 'forfeited', 'charged') AND spent IS NOT NULL
"""
MEASURES = (
    Measure("of money", _SETTLED.format(field="money"), lambda amount: f"{amount:,.2f}"),
    Measure("of money", "SELECT harness, step_number, money AS amount FROM drawn_tries", lambda amount: f"{amount:,.2f}"),
    Measure("tokens", _SETTLED.format(field="tokens"), lambda amount: number(round(amount))),
    Measure("tokens", "SELECT harness, step_number, tokens AS amount FROM drawn_tries", lambda amount: number(round(amount))),
    Measure(
        "of working time",
        "SELECT harness, step_number, work_s - waiting_s AS amount FROM step_times WHERE work_s > 0",
        seconds,
    ),
)
"""The first measure with recorded amounts is drawn."""
_COSTS = """
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


def cost(run: Run, harness: str | None = None) -> chart.Picture:
    """Draw cost by harness."""
    cast = tables.roll(run, harness)
    tables.read_tries(run)
    for measure in MEASURES:
        found = {row[0]: row[1:] for row in run.rows(_COSTS.format(rows=measure.rows), [list(cast.names)])}
        if found:
            return _picture(cast, measure, found, dict(run.rows(_PASSED)))
    return chart.nothing("cost", "No spending is recorded")


def _picture(
    cast: tables.Roll, measure: Measure, found: dict[str, tuple[float, ...]], passed: dict[str, int]
) -> chart.Picture:
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
    x = chart.channel("at:Q", title=axis_title, axis={"format": "~s", "tickCount": 6})
    said = [
        {
            "harness": cast.labels[name],
            "end": sum(found[name]) / unit_s,
            "said": _words(sum(found[name]), passed.get(name, 0), measure),
        }
        for name in order
    ]
    layers = [chart.stacked_bars(_cost_parts(cast, order, found, unit_s), PARTS, x), chart.words_after(said, "end:Q")]
    body = chart.rows_of([cast.labels[name] for name in order], tables.row_height(len(order)), layers, width=WIDTH - 120)
    rest = len(cast.names) - len(order)
    none = (f"{times(rest, 'harness', 'harnesses')} more without recorded spending",) if rest else ()
    return chart.sheet("cost", title, (key,) if key else (), body, (*none, *cast.notes))


def _cost_parts(
    cast: tables.Roll, order: list[str], found: dict[str, tuple[float, ...]], unit: float
) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name in order:
        at = 0.0
        for part, amount in zip(PARTS, (found[name][0], found[name][1], found[name][2]), strict=True):
            if amount:
                rows.append({"harness": cast.labels[name], "part": part, "at": at / unit, "end": (at + amount) / unit})
            at += amount
    return rows


def _unit(most_s: float) -> tuple[float, str]:
    """Return the largest unit of time of which there is at least one."""
    return next(((unit_s, unit) for unit_s, unit in _UNITS if most_s >= unit_s), _UNITS[-1])


def _words(total: float, passed: int, measure: Measure) -> str:
    each = f": {measure.written(total / passed)} a passed feature" if passed else ""
    return measure.written(total) + each


TIMES = {
    "own work": STEPS[0],
    "agent": STEPS[1],
    "effects": STEPS[2],
    "commit": STEPS[3],
    "waiting": STEPS[4],
    "held or backing off": "#ffffff",
}
"""Activities, from dark to light."""
_DARK = ("own work", "agent", "effects")
_LEAST_WRITTEN, _LEAST_NAMED = 0.045, 0.17
"""Minimum shares of a bar with room for a figure, and with room for a figure and a name."""
_TIME_SPENT = """
    SELECT harness, sum(greatest(work_us - agent_us - effects_us - waiting_us, 0)) / 1e6, sum(agent_us) / 1e6,
           sum(effects_us) / 1e6, sum(commit_us) / 1e6, sum(waiting_us) / 1e6,
           sum(held_us) / 1e6 + coalesce(sum(restart_delay_s), 0)
    FROM gathered LEFT JOIN drawn_attempts USING (harness, attempt)
    WHERE list_contains(?, harness) GROUP BY harness HAVING sum(work_us + commit_us) > 0
"""


def shares(run: Run, harness: str | None = None) -> chart.Picture:
    """Draw where the time went."""
    cast = tables.roll(run, harness)
    tables.read_attempts(run)
    spent = {name: dict(zip(TIMES, parts, strict=True)) for name, *parts in run.rows(_TIME_SPENT, [list(cast.names)])}
    spent = {name: spent[name] for name in cast.names if sum(spent.get(name, {}).values()) > 0}
    if not spent:
        return chart.nothing("shares", "No step has recorded times")
    rows = _time_parts(cast, spent)
    order = [cast.labels[name] for name in spent]
    x = chart.channel(
        "at:Q", title="share of the harness's time", axis={"format": ".0%", "tickCount": 5}, scale={"domain": [0, 1]}
    )
    totals = [{"harness": cast.labels[name], "said": seconds(sum(parts.values()))} for name, parts in spent.items()]
    figures = chart.layer(
        [row for row in rows if row["said"]],
        {"type": "text", "fontSize": chart.SMALL},
        x="middle:Q",
        text="said",
        color=chart.channel("ink:N", scale=None),
    )
    body = chart.rows_of(
        order, tables.row_height(len(spent)), [chart.stacked_bars(rows, TIMES, x), figures, chart.words_beside(totals)]
    )
    return chart.sheet("shares", _shares_title(spent), (), body, cast.notes)


def _shares_title(spent: dict[str, dict[str, float]]) -> str:
    sums = {part: sum(parts[part] for parts in spent.values()) for part in TIMES}
    total = sum(sums.values())
    first, second = sorted(sums, key=lambda part: -sums[part])[:2]
    rest = f", {share(sums[second] / total)} {second}" if sums[second] else ""
    return f"Of {seconds(total)} of harnesses' time, {share(sums[first] / total)} was {first}{rest}"


def _time_parts(cast: tables.Roll, spent: dict[str, dict[str, float]]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name, parts in spent.items():
        at, total = 0.0, sum(parts.values())
        for part, amount in parts.items():
            if (part_share := amount / total) > 0:
                written = share(part_share) if part_share >= _LEAST_WRITTEN else ""
                rows.append(
                    {
                        "harness": cast.labels[name],
                        "part": part,
                        "at": at,
                        "end": at + part_share,
                        "middle": at + part_share / 2,
                        "said": f"{part} {written}" if part_share >= _LEAST_NAMED else written,
                        "ink": "white" if part in _DARK else INK,
                    }
                )
            at += part_share
    return rows


MOST_BARS = 20
_FAILED = """
    SELECT harness, coalesce(error, ended_by), count(*) AS crashes, coalesce(arg_max(cause, attempt), '')
    FROM drawn_attempts WHERE ended_by IN ('failed', 'gave_up') AND list_contains(?, harness)
    GROUP BY ALL ORDER BY crashes DESC, harness, 2
"""


def failures(run: Run, harness: str | None = None) -> chart.Picture:
    """Draw how often attempts failed, by error."""
    cast = tables.roll(run, harness)
    tables.read_attempts(run)
    found = run.rows(_FAILED, [list(cast.names)])
    if not found:
        return chart.nothing("failures", "No attempt has failed" if cast.names else "No harness has run")
    written = tables.labels(
        (f"{cast.labels[name]} · {tables.short(error, 24)}" for name, error, _, _ in found[:MOST_BARS]), 60
    )
    rows: list[dict[str, object]] = [
        {"what": what, "count": count, "said": f"{count:,}  {tables.short(cause, 60)}"}
        for what, (_, _, count, cause) in zip(written.values(), found, strict=False)
    ]
    gone = len(found) - len(rows)
    notes = (f"{times(gone, 'kind')} more, less frequent, not shown",) if gone else ()
    total, (name, error, most, _) = sum(row[2] for row in found), found[0]
    part = f"{most:,} of them" if most < total else "all of them" if total > 1 else "the one"
    title = f"{times(total, 'attempt')} failed, {part}: {cast.labels[name]}, {tables.short(error, 40)}"
    return chart.sheet(
        "failures",
        title,
        ("beside each bar: the count, and the message of the last failure",),
        _failure_bars(rows),
        (*notes, *cast.notes),
    )


def _failure_bars(rows: list[dict[str, object]]) -> Spec:
    most = max(int(str(row["count"])) for row in rows)
    axis = {"values": list(range(0, most + 1, max(1, -(-most // 5)))), "format": ",d"}
    return {
        "width": WIDTH // 2,
        "height": {"step": 24},
        "data": chart.values(rows),
        "encoding": {
            "y": chart.names_axis([row["what"] for row in rows], "what", labelLimit=400),
            "x": chart.channel("count:Q", title="failed attempts", axis=axis),
        },
        "layer": [chart.layer(None, {"type": "bar", "color": FAINT, "height": {"band": 0.6}}), chart.words_after(None, None)],
    }
