"""Where the time went: for each harness a bar of all its time, parted into what it was spent on."""

from __future__ import annotations

from orchestrator.analysis.pictures.names import row_height
from orchestrator.analysis.pictures.paper import FAINT, INK, STEPS, WIDTH, Picture, Spec, nothing, sheet, values
from orchestrator.analysis.pictures.roll import Roll, roll
from orchestrator.analysis.pictures.tables import read_attempts
from orchestrator.analysis.run import Run
from orchestrator.analysis.wording import seconds, share

PARTS = {
    "own work": STEPS[0],
    "agent": STEPS[1],
    "effects": STEPS[2],
    "commit": STEPS[3],
    "waiting": STEPS[4],
    "held or backing off": "#ffffff",
}
"""What time goes into, from dark to light."""
_DARK = ("own work", "agent", "effects")
_LEAST_WRITTEN, _LEAST_NAMED = 0.045, 0.17
"""Shares that have room for their figure, and for their name too."""
_QUERY = """
    SELECT harness, sum(greatest(work_us - agent_us - effects_us - waiting_us, 0)) / 1e6, sum(agent_us) / 1e6,
           sum(effects_us) / 1e6, sum(commit_us) / 1e6, sum(waiting_us) / 1e6,
           sum(held_us) / 1e6 + coalesce(sum(restart_delay_s), 0)
    FROM gathered LEFT JOIN drawn_attempts USING (harness, attempt)
    WHERE list_contains(?, harness) GROUP BY harness HAVING sum(work_us + commit_us) > 0
"""


def shares(run: Run, harness: str | None = None) -> Picture:
    """Draw where the time went."""
    cast = roll(run, harness)
    read_attempts(run)
    spent = {name: dict(zip(PARTS, parts, strict=True)) for name, *parts in run.rows(_QUERY, [list(cast.names)])}
    spent = {name: spent[name] for name in cast.names if sum(spent.get(name, {}).values()) > 0}
    if not spent:
        return nothing("shares", "No step has its times on record")
    rows = _rows(cast, spent)
    order = [cast.labels[name] for name in spent]
    axis = {"domain": False, "ticks": False}
    body: Spec = {
        "width": WIDTH,
        "height": {"step": row_height(len(spent))},
        "encoding": {"y": {"field": "harness", "type": "nominal", "sort": order, "title": None, "axis": axis}},
        "layer": [_bars(rows), _figures(rows), _totals(cast, spent)],
    }
    return sheet("shares", _title(spent), (), body, cast.notes)


def _title(spent: dict[str, dict[str, float]]) -> str:
    sums = {part: sum(parts[part] for parts in spent.values()) for part in PARTS}
    total = sum(sums.values())
    first, second = sorted(sums, key=lambda part: -sums[part])[:2]
    rest = f", {share(sums[second] / total)} {second}" if sums[second] else ""
    return f"Of {seconds(total)} of harnesses' time, {share(sums[first] / total)} was {first}{rest}"


def _rows(cast: Roll, spent: dict[str, dict[str, float]]) -> list[dict[str, object]]:
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


def _bars(rows: list[dict[str, object]]) -> Spec:
    used = [part for part in PARTS if any(row["part"] == part for row in rows)]
    scale = {"domain": used, "range": [PARTS[part] for part in used]}
    legend = {"title": None, "symbolType": "square", "symbolStrokeColor": FAINT, "symbolSize": 110}
    x = {
        "field": "at",
        "type": "quantitative",
        "title": "share of the harness's time",
        "axis": {"format": ".0%", "tickCount": 5},
    }
    return {
        "data": values(rows),
        "mark": {"type": "bar", "height": {"band": 0.74}, "stroke": FAINT, "strokeWidth": 0.7},
        "encoding": {
            "x": {**x, "scale": {"domain": [0, 1]}},
            "x2": {"field": "end"},
            "color": {"field": "part", "type": "nominal", "scale": scale, "sort": used, "legend": legend},
        },
    }


def _figures(rows: list[dict[str, object]]) -> Spec:
    return {
        "data": values([row for row in rows if row["said"]]),
        "mark": {"type": "text", "fontSize": 10.5},
        "encoding": {
            "x": {"field": "middle", "type": "quantitative"},
            "text": {"field": "said"},
            "color": {"field": "ink", "type": "nominal", "scale": None},
        },
    }


def _totals(cast: Roll, spent: dict[str, dict[str, float]]) -> Spec:
    rows = [{"harness": cast.labels[name], "said": seconds(sum(parts.values()))} for name, parts in spent.items()]
    return {
        "data": values(rows),
        "mark": {"type": "text", "align": "left", "color": FAINT},
        "encoding": {"x": {"value": WIDTH + 10}, "text": {"field": "said"}},
    }
