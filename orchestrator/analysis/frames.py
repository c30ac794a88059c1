"""What the frames are made of: one query for each, over a `Source`, whichever it is.

The columns are a public interface: a new one may come, none goes or changes its meaning within a version.
"""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.analysis.sources import Source

VERSION = 1
"""Of the columns."""

_TOOK = ("work", "agent", "effects", "waiting", "held")
_TOOK_US = "STRUCT(" + ", ".join(f'"{name}" BIGINT' for name in (*_TOOK, "commit")) + ")"


def _steps(source: Source) -> str:
    fields = {
        "input": "JSON",
        "output": "JSON",
        "delta": "JSON",
        "summary": "VARCHAR",
        "took_us": _TOOK_US,
        "consumed": "BIGINT[]",
    }
    parts = ", ".join(
        f"CASE WHEN took_us IS NOT NULL THEN coalesce(took_us.{name}, 0) / 1e6 END AS {name}_s" for name in _TOOK
    )
    return f"""
        SELECT seq, "timestamp", run, harness, attempt, step AS step_number, input, output, delta, summary, {parts},
               took_us."commit" / 1e6 AS previous_commit_s, consumed
        FROM ({source.own(("step",), fields)})
    """


def _events(source: Source) -> str:
    return """
        SELECT seq, "timestamp", run, harness, attempt, step AS step_number, kind, body ->> '$.cause' AS cause,
               body ->> '$.error' AS error, body
        FROM records WHERE kind NOT IN ('step', 'intent', 'outcome')
    """


def _messages(source: Source) -> str:
    return f"""
        SELECT m.seq AS seq, m."timestamp" AS "timestamp", m.harness AS harness, m."from" AS sender, m.message AS message,
               s.step AS consumed_step
        FROM ({source.own(("message",), {"from": "VARCHAR", "message": "JSON"})}) m
        LEFT JOIN (SELECT harness, step, unnest(consumed) AS seq FROM ({source.own(("step",), {"consumed": "BIGINT[]"})})
                   WHERE consumed IS NOT NULL) s ON s.harness = m.harness AND s.seq = m.seq
    """


FRAMES: dict[str, Callable[[Source], str]] = {
    "steps": _steps,
    "events": _events,
    "messages": _messages,
}
"""The query of each frame, by its name."""
