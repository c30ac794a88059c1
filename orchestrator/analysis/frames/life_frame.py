"""Frames of how harnesses live: their attempts, and where each of them stands.

Derived from lifecycle events and steps alone, so that they say the same of a log as of a store.
"""

from __future__ import annotations

from orchestrator.analysis.sources.source_reading import KINDS, Source
from orchestrator.events import EVENTS, Forked, Paused, Restarting, Resumed, Started

_BETWEEN = (Started, Paused, Resumed, Restarting, Forked)
_ENDS = ", ".join(f"'{event.kind}'" for event in EVENTS if event not in _BETWEEN)
_EVENT = {
    "after_step": "BIGINT",
    "cause": "VARCHAR",
    "error": "VARCHAR",
    "delay_s": "DOUBLE",
}
_KINDS = tuple(event.kind for event in EVENTS)


def attempts(source: Source) -> str:
    """One row for each attempt that was started, and how it ended.

    `ended_by` is the kind of the event; `taken_down` if it ended for the sake of a sibling, which is no crash; `killed` if
    nothing was recorded of its end, but a later attempt; NULL if it may be under way.
    """
    return f"""
        WITH said AS ({source.own(_KINDS, _EVENT)}),
        starts AS (
            SELECT *, lead(seq) OVER (PARTITION BY harness ORDER BY seq) AS next_seq FROM said WHERE kind = 'started'
        ), ends AS (
            SELECT harness, attempt,
                   arg_min({{'kind': kind, 'timestamp': "timestamp", 'cause': cause, 'error': error}}, seq) AS first
            FROM said WHERE kind IN ({_ENDS}, 'restarting') AND attempt > 0 GROUP BY harness, attempt
        ), again AS (
            SELECT harness, attempt, arg_max(delay_s, seq) AS delay_s
            FROM said WHERE kind = 'restarting' GROUP BY harness, attempt
        ), made AS (
            SELECT harness, attempt, count(*) AS steps, max(step) AS last_step
            FROM ({source.own(("step",), {})}) GROUP BY harness, attempt
        )
        SELECT s.seq AS seq, s.run AS run, s.harness AS harness, s.attempt AS attempt, s."timestamp" AS started,
               e.first."timestamp" AS ended,
               date_diff('microsecond', s."timestamp", e.first."timestamp") / 1e6 AS took_s,
               coalesce(s.after_step, 0) AS after_step, coalesce(m.last_step, s.after_step, 0) AS last_step,
               coalesce(m.steps, 0) AS steps,
               CASE WHEN e.first.kind = 'restarting' THEN 'taken_down' WHEN e.first.kind IS NOT NULL THEN e.first.kind
                    WHEN s.next_seq IS NOT NULL THEN 'killed' END AS ended_by,
               e.first.cause AS cause, e.first.error AS error, a.delay_s AS restart_delay_s
        FROM starts s LEFT JOIN ends e ON e.harness = s.harness AND e.attempt = s.attempt
        LEFT JOIN again a ON a.harness = s.harness AND a.attempt = s.attempt
        LEFT JOIN made m ON m.harness = s.harness AND m.attempt = s.attempt
    """


def harnesses(source: Source) -> str:
    """One row for each harness: its status in the words of `orchestrator.lifecycle`, and how far it has come."""
    return f"""
        WITH headers AS (SELECT * FROM ({source.own(KINDS, {})}) WHERE harness <> ''),
        said AS (
            SELECT harness, max(seq) AS last_seq, arg_max(kind, seq) AS newest, arg_max(attempt, seq) AS attempt,
                   arg_max(kind, seq) FILTER (kind NOT IN ('started', 'restarting')) AS held,
                   arg_max(kind, seq) FILTER (kind NOT IN ('paused', 'resumed')) AS awaits
            FROM headers WHERE kind IN ({", ".join(f"'{kind}'" for kind in _KINDS)}) GROUP BY harness
        ), seen AS (
            SELECT harness, min(seq) AS seq, min("timestamp") AS first_timestamp, max("timestamp") AS last_timestamp,
                   count(*) FILTER (kind = 'step') AS steps, coalesce(max(step) FILTER (kind = 'step'), 0) AS current_step,
                   max(attempt) AS attempt
            FROM headers GROUP BY harness
        )
        SELECT s.seq AS seq, s.harness AS harness,
               CASE WHEN l.newest IS NULL OR l.newest = 'forked' THEN 'new'
                    WHEN l.newest IN ('started', 'restarting') AND l.held = 'paused' THEN 'paused'
                    WHEN l.newest = 'resumed' AND l.awaits = 'restarting' THEN 'backing_off'
                    WHEN l.newest IN ('started', 'resumed') THEN 'running'
                    WHEN l.newest = 'restarting' THEN 'backing_off' ELSE l.newest END AS status,
               coalesce(l.attempt, s.attempt) AS attempt, s.current_step AS current_step, s.steps AS steps,
               s.first_timestamp AS first_timestamp, s.last_timestamp AS last_timestamp
        FROM seen s LEFT JOIN said l ON l.harness = s.harness
    """
