"""The queries of the frames, one for each, over any `Source`.

The columns are a public interface: within a version columns may be added, but none is removed or changes its meaning. A frame
with the name of a view in the store's file has the columns of that view, and more. Where several records describe one act,
such as an effect, the frame has one row for them. The lifecycle of harnesses is derived from lifecycle events and steps alone,
so that a log gives the same result as a store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from orchestrator.analysis.frames.ready_made_frames import (
    account_steps,
    equity,
    feature_standing,
    features,
    steps_query,
    trades,
)
from orchestrator.analysis.sources.source_reading import APPROVALS, ENDS, KINDS, LIFE, Source, among, typed


def effects(source: Source) -> str:
    """Return the query for one row per effect of each step: its newest intent and outcome."""
    fields = typed(
        "key:VARCHAR arguments:JSON idempotent:BOOLEAN keep:BOOLEAN outcome:VARCHAR result:JSON reason:VARCHAR by:VARCHAR"
    )
    return f"""
        WITH marks AS ({source.own(("intent", "outcome"), fields)}),
        intents AS (
            SELECT harness, step, key, max(seq) AS seq, count(*) AS tries,
                   arg_max({{'timestamp': "timestamp", 'run': run, 'attempt': attempt, 'arguments': arguments,
                             'idempotent': idempotent, 'keep': keep}}, seq) AS newest
            FROM marks WHERE kind = 'intent' GROUP BY harness, step, key
        ), outcomes AS (
            SELECT harness, step, key, max(seq) AS seq,
                   arg_max({{'timestamp': "timestamp", 'outcome': outcome, 'result': result, 'reason': reason,
                             'by': "by"}}, seq) AS newest,
                   list({{'seq': seq, 'timestamp': "timestamp"}} ORDER BY seq) FILTER (coalesce("by", '') = '') AS own
            FROM marks WHERE kind = 'outcome' GROUP BY harness, step, key
        ), told AS (
            SELECT i.seq AS seq, i.harness AS harness, i.step AS step, i.key AS key, i.tries AS tries, i.newest AS begun,
                   CASE WHEN o.seq > i.seq THEN o.newest END AS told,
                   list_filter(o.own, lambda one: one.seq > i.seq)[1]."timestamp" AS returned
            FROM intents i LEFT JOIN outcomes o ON o.harness = i.harness AND o.step = i.step AND o.key = i.key
        )
        SELECT seq, begun."timestamp" AS "timestamp", begun.run AS run, harness, begun.attempt AS attempt, step AS step_number,
               key, coalesce(told.outcome, 'begun') AS outcome, begun.arguments AS arguments, told.result AS result,
               coalesce(told.reason, '') AS reason, coalesce(begun.idempotent, false) AS idempotent,
               coalesce(begun.keep, false) AS keep, coalesce(told."by", '') AS settled_by, told."timestamp" AS ended,
               date_diff('microsecond', begun."timestamp", returned) / 1e6 AS took_s, tries
        FROM told
    """


def approvals(source: Source) -> str:
    """Return the query for one row per approval request: request, answer (a denial is final), and whether it was used."""
    fields = typed(
        "id:VARCHAR key:VARCHAR category:VARCHAR summary:VARCHAR arguments:JSON digest:VARCHAR expires_us:BIGINT "
        "verdict:VARCHAR by:VARCHAR reason:VARCHAR"
    )
    return f"""
        WITH said AS ({source.own(APPROVALS, fields)}),
        answers AS (
            SELECT id, arg_min({{'verdict': verdict, 'by': "by", 'reason': reason, 'timestamp': "timestamp"}},
                               (verdict <> 'denied', seq)) AS first
            FROM said WHERE kind = 'approval_answered' GROUP BY id
        ), uses AS (
            SELECT DISTINCT id FROM said WHERE kind = 'approval_used'
        )
        SELECT r.seq AS seq, r."timestamp" AS "timestamp", r.run AS run, r.harness AS harness, r.attempt AS attempt,
               r.step AS step_number, r.id AS id, r.key AS key, r.category AS category, r.summary AS summary,
               r.arguments AS arguments, r.digest AS digest, make_timestamp(r.expires_us) AS expires,
               a.first.verdict AS verdict, a.first."by" AS answered_by, a.first.reason AS reason, u.id IS NOT NULL AS used,
               a.first."timestamp" AS answered,
               date_diff('microsecond', r."timestamp", a.first."timestamp") / 1e6 AS waited_s
        FROM said r LEFT JOIN answers a ON a.id = r.id LEFT JOIN uses u ON u.id = r.id
        WHERE r.kind = 'approval_requested'
    """


def budgets(source: Source) -> str:
    """Return the query for one row per budget record: funded, reserved, settled, forfeited or charged."""
    fields = typed("change:VARCHAR pools:VARCHAR[] reservation:BIGINT amounts:JSON spent:JSON limits:JSON")
    return f"""
        SELECT seq, "timestamp", run, harness, attempt, step AS step_number, change, pools,
               CASE WHEN change = 'reserved' THEN seq ELSE reservation END AS reservation, amounts, spent, limits
        FROM ({source.own(("budget",), fields)})
    """


def attempts(source: Source) -> str:
    """Return the query for one row per started attempt, and how it ended.

    `ended_by` is the kind of the event; `taken_down` if it ended because of a sibling, which is not a crash; `killed` if there
    is no record of its end, but a later attempt; NULL if it may be running.
    """
    return f"""
        WITH said AS ({source.own(LIFE, typed("after_step:BIGINT cause:VARCHAR error:VARCHAR delay_s:DOUBLE"))}),
        starts AS (
            SELECT *, lead(seq) OVER (PARTITION BY harness ORDER BY seq) AS next_seq FROM said WHERE kind = 'started'
        ), ends AS (
            SELECT harness, attempt,
                   arg_min({{'kind': kind, 'timestamp': "timestamp", 'cause': cause, 'error': error}}, seq) AS first
            FROM said WHERE kind IN ({among((*ENDS, "restarting"))}) AND attempt > 0 GROUP BY harness, attempt
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
    """Return the query for one row per harness: its status as in `orchestrator.lifecycle`, and its progress."""
    return f"""
        WITH headers AS (SELECT * FROM ({source.own(KINDS, {})}) WHERE harness <> ''),
        said AS (
            SELECT harness, max(seq) AS last_seq, arg_max(kind, seq) AS newest, arg_max(attempt, seq) AS attempt,
                   arg_max(kind, seq) FILTER (kind NOT IN ('started', 'restarting')) AS held,
                   arg_max(kind, seq) FILTER (kind NOT IN ('paused', 'resumed')) AS awaits
            FROM headers WHERE kind IN ({among(LIFE)}) GROUP BY harness
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


VERSION = 1
"""Version of the columns."""

_TOOK = ("work", "agent", "effects", "waiting", "held")
_TOOK_US = "STRUCT(" + ", ".join(f'"{name}" BIGINT' for name in (*_TOOK, "commit")) + ")"


_TIMES = ", ".join(f"CASE WHEN took_us IS NOT NULL THEN coalesce(took_us.{name}, 0) / 1e6 END AS {name}_s" for name in _TOOK)


def _steps(source: Source) -> str:
    fields = typed("input:JSON output:JSON delta:JSON summary:VARCHAR consumed:BIGINT[]") | {"took_us": _TOOK_US}
    return f"""
        SELECT seq, "timestamp", run, harness, attempt, step AS step_number, input, output, delta, summary, {_TIMES},
               took_us."commit" / 1e6 AS previous_commit_s, consumed
        FROM ({source.own(("step",), fields)})
    """


def _step_heads(source: Source) -> str:
    return f"""
        SELECT seq, "timestamp", run, harness, attempt, step AS step_number FROM ({source.own(("step",), {})})
    """


def _step_times(source: Source) -> str:
    return f"""
        SELECT seq, "timestamp", run, harness, attempt, step AS step_number, {_TIMES},
               took_us."commit" / 1e6 AS previous_commit_s
        FROM ({source.own(("step",), {"took_us": _TOOK_US})})
    """


def _step_results(source: Source) -> str:
    read = source.results({"input": "JSON", "output": "JSON", "delta": "JSON"})
    return f'SELECT seq, "timestamp", run, harness, attempt, step AS step_number, input, output, delta FROM ({read})'


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


def _transcripts(source: Source) -> str:
    counts = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
    fields = typed(
        "agent:VARCHAR session:VARCHAR turn:BIGINT model:VARCHAR stop_reason:VARCHAR error:VARCHAR message_count:BIGINT "
        "model_calls:BIGINT tool_calls:BIGINT tool_errors:BIGINT cost:VARCHAR compactions:JSON file:JSON "
        + " ".join(f"{name}:BIGINT" for name in counts)
    )
    return f"""
        SELECT seq, "timestamp", run, harness, attempt, step AS step_number, agent, coalesce(session, '') AS session, turn,
               model, coalesce(stop_reason, '') AS stop_reason, coalesce(error, '') AS error, message_count AS messages,
               model_calls, tool_calls, tool_errors, {", ".join(f"coalesce({name}, 0) AS {name}" for name in counts)},
               TRY_CAST(cost AS DECIMAL(38, 18)) AS cost, coalesce(json_array_length(compactions), 0)::BIGINT AS compactions,
               file ->> '$.sha256' AS file
        FROM ({source.own(("transcript",), fields)})
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
    "transcripts": _transcripts,
    "budgets": budgets,
    "features": features,
    "feature_standing": feature_standing,
    "trades": trades,
    "equity": equity,
}
"""The query of each frame, by its name."""

MADE_OF: Mapping[str, tuple[str, ...]] = {
    "features": ("feature_steps",),
    "feature_standing": ("feature_steps", "features"),
}
"""The inputs of frames besides the source, in order of creation."""
PARTS: Mapping[str, Callable[[Source], str]] = {
    "account_steps": account_steps,
    "feature_steps": steps_query,
    "step_heads": _step_heads,
    "step_times": _step_times,
    "step_results": _step_results,
}
"""Inputs that are not frames themselves: the last three have the steps, with no more of their bodies than a question needs."""
KEPT = frozenset({"feature_steps", "features", "feature_standing"})
"""Small results of wide queries: computed once where possible, since recomputing them with others exhausts the memory."""
