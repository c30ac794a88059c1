"""Queries to begin with."""

from __future__ import annotations

EXAMPLES = (
    ("which harness has done how much", "SELECT harness, count(*) AS steps, max(timestamp) AS last FROM steps GROUP BY ALL"),
    (
        "the slowest steps, and where their time went",
        "SELECT harness, step_number, work_s, agent_s, effects_s, waiting_s FROM steps ORDER BY work_s DESC LIMIT 10",
    ),
    (
        "why attempts ended",
        "SELECT ended_by, error, cause, count(*) AS attempts FROM attempts GROUP BY ALL ORDER BY attempts DESC",
    ),
    (
        "outputs that come again and again",
        "SELECT harness, output, count(*) AS times FROM steps GROUP BY ALL HAVING times > 2 ORDER BY times DESC LIMIT 10",
    ),
    ("what was begun more than once", "SELECT harness, step_number, key, tries, outcome FROM effects WHERE tries > 1"),
    (
        "how long people are waited for",
        "SELECT category, count(*) AS asked, median(waited_s) AS median_s FROM approvals GROUP BY ALL ORDER BY median_s DESC",
    ),
    ("a field of an output", "SELECT step_number, output ->> '$.status' AS status FROM steps WHERE harness = 'NAME'"),
    ("every view and its columns", "SELECT view, column_name, type, unit, meaning FROM views"),
)
"""What each is about, and the query."""
