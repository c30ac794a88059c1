"""Frames of what harnesses do in the world: effects, what they ask of people, and what they may spend.

Several records tell of one act, so each of these frames has a row for what they say together.
"""

from __future__ import annotations

from orchestrator.analysis.sources.source_reading import Source


def effects(source: Source) -> str:
    """One row for each effect of each step: its newest intent, and what became of that."""
    fields = {
        "key": "VARCHAR",
        "arguments": "JSON",
        "idempotent": "BOOLEAN",
        "outcome": "VARCHAR",
        "result": "JSON",
        "reason": "VARCHAR",
        "by": "VARCHAR",
    }
    return f"""
        WITH marks AS ({source.own(("intent", "outcome"), fields)}),
        intents AS (
            SELECT harness, step, key, max(seq) AS seq, count(*) AS tries,
                   arg_max({{'timestamp': "timestamp", 'run': run, 'attempt': attempt, 'arguments': arguments,
                             'idempotent': idempotent}}, seq) AS newest
            FROM marks WHERE kind = 'intent' GROUP BY harness, step, key
        ), outcomes AS (
            SELECT harness, step, key, max(seq) AS seq,
                   arg_max({{'timestamp': "timestamp", 'outcome': outcome, 'result': result, 'reason': reason,
                             'by': "by"}}, seq) AS newest
            FROM marks WHERE kind = 'outcome' GROUP BY harness, step, key
        ), told AS (
            SELECT i.seq AS seq, i.harness AS harness, i.step AS step, i.key AS key, i.tries AS tries, i.newest AS begun,
                   CASE WHEN o.seq > i.seq THEN o.newest END AS told
            FROM intents i LEFT JOIN outcomes o ON o.harness = i.harness AND o.step = i.step AND o.key = i.key
        )
        SELECT seq, begun."timestamp" AS "timestamp", begun.run AS run, harness, begun.attempt AS attempt, step AS step_number,
               key, coalesce(told.outcome, 'begun') AS outcome, begun.arguments AS arguments, told.result AS result,
               coalesce(told.reason, '') AS reason, coalesce(begun.idempotent, false) AS idempotent,
               coalesce(told."by", '') AS settled_by, told."timestamp" AS ended,
               date_diff('microsecond', begun."timestamp", told."timestamp") / 1e6 AS took_s, tries
        FROM told
    """


def approvals(source: Source) -> str:
    """One row for each request: what was asked, what was answered (a denial stands), and whether it was used."""
    fields = {
        "id": "VARCHAR",
        "key": "VARCHAR",
        "category": "VARCHAR",
        "summary": "VARCHAR",
        "arguments": "JSON",
        "digest": "VARCHAR",
        "expires_us": "BIGINT",
        "verdict": "VARCHAR",
        "by": "VARCHAR",
        "reason": "VARCHAR",
    }
    kinds = ("approval_requested", "approval_answered", "approval_used")
    return f"""
        WITH said AS ({source.own(kinds, fields)}),
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
    """One row for each record about a budget: a pool was funded; something was reserved, settled, forfeited or charged."""
    fields = {
        "change": "VARCHAR",
        "pools": "VARCHAR[]",
        "reservation": "BIGINT",
        "amounts": "JSON",
        "spent": "JSON",
        "limits": "JSON",
    }
    return f"""
        SELECT seq, "timestamp", run, harness, attempt, step AS step_number, change, pools,
               CASE WHEN change = 'reserved' THEN seq ELSE reservation END AS reservation, amounts, spent, limits
        FROM ({source.own(("budget",), fields)})
    """
