"""The frame `feature_standing`: where each feature, or task of a pipeline, stands; those too that were never tried."""

from __future__ import annotations

from orchestrator.analysis.sources.source_reading import Source

_LISTED = (
    "$.set.features[*].id",
    "$.in.features.append[*].id",
    "$.in.features.set.*.id",
    "$.set.plan[*].id.text",
    "$.in.plan.append[*].id.text",
)
"""Where the change of the state by a step names what is to be worked."""


def query(source: Source) -> str:
    """Return the query of the frame `feature_standing`, made of the frame `features`."""
    return f"""
        WITH lists AS (
            SELECT harness, step, delta FROM ({source.own(("step",), {"input": "JSON", "delta": "JSON"})})
            WHERE json_extract_string(input, '$.kind') IN ('initialize', 'amend', 'plan')
        ),
        listed AS (SELECT harness, feature, min(step) AS listed_step FROM ({_listed()}) GROUP BY harness, feature),
        tries AS (
            SELECT *, min(step_number) FILTER (passed) OVER (PARTITION BY harness, feature) AS first_pass FROM features
        ),
        told AS ({_told()})
        SELECT harness, feature, coalesce(told.status, 'pending') AS status, coalesce(tries, 0) AS tries, tries_to_pass,
               coalesce(interruptions, 0) AS interruptions, coalesce(regressions, 0) AS regressions, first_step, last_step,
               passed_step, first_at, passed_at, last_at, duration_s, agent_s, tokens, money, last_failure, listed_step
        FROM listed FULL JOIN told USING (harness, feature)
    """


def _told() -> str:
    return """
        SELECT harness, feature,
               arg_max(CASE WHEN passed OR status = 'rechecked' THEN 'passed' WHEN blocked THEN 'blocked' ELSE 'pending' END,
                       (step_number, seq)) FILTER (status NOT IN ('interrupted', 'failed')) AS status,
               count(*) FILTER (is_try AND passed IS NOT NULL) AS tries,
               nullif(count(*) FILTER (is_try AND passed IS NOT NULL AND step_number <= first_pass), 0) AS tries_to_pass,
               count(*) FILTER (is_try AND passed IS NULL) AS interruptions,
               count(*) FILTER (regressed) AS regressions, min(step_number) AS first_step, max(step_number) AS last_step,
               min("timestamp") AS first_at, max("timestamp") AS last_at, min("timestamp") FILTER (passed) AS passed_at,
               min(first_pass) AS passed_step, sum(duration_s) AS duration_s, sum(agent_s) AS agent_s,
               sum(tokens)::BIGINT AS tokens, sum(money) AS money,
               arg_max(reason, (step_number, seq))
                   FILTER (NOT passed OR regressed OR blocked OR status = 'failed') AS last_failure
        FROM tries GROUP BY harness, feature
    """


def _listed() -> str:
    one = "SELECT harness, step, unnest(json_extract_string(delta, '{}')) AS feature FROM lists"
    return " UNION ALL ".join(one.format(path) for path in _LISTED)
