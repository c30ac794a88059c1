"""What the frames are made of: one query for each, over a `Source`, whichever it is.

The columns are a public interface: a new one may come, none goes or changes its meaning within a version. Where a frame is
called like a view of the store's file, its columns are those of that view, and more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from orchestrator.analysis.frames import features_frame as features
from orchestrator.analysis.frames import status_frame as standing
from orchestrator.analysis.frames.acts_frame import approvals, budgets, effects
from orchestrator.analysis.frames.features_frame import steps_query
from orchestrator.analysis.frames.life_frame import attempts, harnesses
from orchestrator.analysis.frames.trading_frames import equity, trades
from orchestrator.analysis.sources.source_reading import Source

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
    return f"""
        SELECT seq, "timestamp", run, harness, attempt, step AS step_number, kind, body ->> '$.cause' AS cause,
               body ->> '$.error' AS error, body
        FROM ({source.but(("step", "intent", "outcome"))})
    """


def _messages(source: Source) -> str:
    return f"""
        SELECT m.seq AS seq, m."timestamp" AS "timestamp", m.harness AS harness, m."from" AS sender, m.message AS message,
               s.step AS consumed_step, m.message AS body
        FROM ({source.own(("message",), {"from": "VARCHAR", "message": "JSON"})}) m
        LEFT JOIN (SELECT harness, step, unnest(consumed) AS seq FROM ({source.own(("step",), {"consumed": "BIGINT[]"})})
                   WHERE consumed IS NOT NULL) s ON s.harness = m.harness AND s.seq = m.seq
    """


def _outputs(source: Source) -> str:
    return f"""
        SELECT seq, "timestamp", run, harness, attempt, step AS step_number, line, coalesce(source, '') AS source
        FROM ({source.own(("output",), {"line": "VARCHAR", "source": "VARCHAR"})})
    """


def _attachments(source: Source) -> str:
    return f"""
        SELECT seq, "timestamp", run, harness, attempt, step AS step_number, kind, body
        FROM ({source.but(("step", "intent", "outcome", "output", "message"))})
        WHERE kind IN ('evidence', 'task', 'guardrail', 'child')
    """


FRAMES: dict[str, Callable[[Source], str]] = {
    "steps": _steps,
    "events": _events,
    "messages": _messages,
    "effects": effects,
    "approvals": approvals,
    "attempts": attempts,
    "harnesses": harnesses,
    "outputs": _outputs,
    "attachments": _attachments,
    "budgets": budgets,
    "features": features.query,
    "feature_standing": standing.query,
    "trades": trades,
    "equity": equity,
}
"""The query of each frame, by its name."""

MADE_OF: Mapping[str, tuple[str, ...]] = {
    "features": ("feature_steps",),
    "feature_standing": ("feature_steps", "features"),
}
"""What frames are made of besides what the source gives, the first first."""
PARTS: Mapping[str, Callable[[Source], str]] = {"feature_steps": steps_query}
"""What is no frame."""
KEPT = frozenset({"feature_steps", "features"})
"""What is small and takes a wide query: made once, where that can be, for together with others it takes all the memory."""
