"""Where the time went: for each harness a bar of all its time, parted into what it was spent on."""

from __future__ import annotations

from harnesses.charts.chart_theme import INK, STEPS
from orchestrator.analysis.answers.answer_wording import seconds, share
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.pictures.chart_layers import SMALL, channel, layer, rows_of, stacked_bars, words_beside
from orchestrator.analysis.pictures.picture_page import Picture, nothing, sheet
from orchestrator.analysis.pictures.picture_tables import read_attempts
from orchestrator.analysis.pictures.roll_picture import Roll, roll, row_height

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
    x = channel("at:Q", title="share of the harness's time", axis={"format": ".0%", "tickCount": 5}, scale={"domain": [0, 1]})
    totals = [{"harness": cast.labels[name], "said": seconds(sum(parts.values()))} for name, parts in spent.items()]
    figures = layer(
        [row for row in rows if row["said"]],
        {"type": "text", "fontSize": SMALL},
        x="middle:Q",
        text="said",
        color=channel("ink:N", scale=None),
    )
    body = rows_of(order, row_height(len(spent)), [stacked_bars(rows, PARTS, x), figures, words_beside(totals)])
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
