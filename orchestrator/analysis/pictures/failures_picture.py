"""What went wrong, and how often: a bar for each kind of error of each harness, the most frequent ones first."""

from __future__ import annotations

from harnesses.charts.chart_theme import FAINT, WIDTH, Spec
from orchestrator.analysis.answers.answer_wording import times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.pictures.chart_layers import channel, layer, names_axis, words_after
from orchestrator.analysis.pictures.picture_page import Picture, nothing, sheet, values
from orchestrator.analysis.pictures.picture_tables import read_attempts
from orchestrator.analysis.pictures.roll_picture import labels, roll, short

MOST_BARS = 20
_QUERY = """
    SELECT harness, coalesce(error, ended_by), count(*) AS crashes, coalesce(arg_max(cause, attempt), '')
    FROM drawn_attempts WHERE ended_by IN ('failed', 'killed', 'gave_up') AND list_contains(?, harness)
    GROUP BY ALL ORDER BY crashes DESC, harness, 2
"""


def failures(run: Run, harness: str | None = None) -> Picture:
    """Draw how often attempts failed, by error."""
    cast = roll(run, harness)
    read_attempts(run)
    found = run.rows(_QUERY, [list(cast.names)])
    if not found:
        return nothing("failures", "No attempt has failed" if cast.names else "No harness has run")
    written = labels((f"{cast.labels[name]} · {short(error, 24)}" for name, error, _, _ in found[:MOST_BARS]), 60)
    rows: list[dict[str, object]] = [
        {"what": what, "count": count, "said": f"{count:,}  {short(cause, 60)}"}
        for what, (_, _, count, cause) in zip(written.values(), found, strict=False)
    ]
    gone = len(found) - len(rows)
    notes = (f"{times(gone, 'kind')} more, less frequent, not shown",) if gone else ()
    total, (name, error, most, _) = sum(row[2] for row in found), found[0]
    part = f"{most:,} of them" if most < total else "all of them" if total > 1 else "the one"
    title = f"{times(total, 'attempt')} failed, {part}: {cast.labels[name]}, {short(error, 40)}"
    return sheet(
        "failures", title, ("beside each bar: the count, and what the last of them said",), _body(rows), (*notes, *cast.notes)
    )


def _body(rows: list[dict[str, object]]) -> Spec:
    most = max(int(str(row["count"])) for row in rows)
    axis = {"values": list(range(0, most + 1, max(1, -(-most // 5)))), "format": ",d"}
    return {
        "width": WIDTH // 2,
        "height": {"step": 24},
        "data": values(rows),
        "encoding": {
            "y": names_axis([row["what"] for row in rows], "what", labelLimit=400),
            "x": channel("count:Q", title="failed attempts", axis=axis),
        },
        "layer": [layer(None, {"type": "bar", "color": FAINT, "height": {"band": 0.6}}), words_after(None, None)],
    }
