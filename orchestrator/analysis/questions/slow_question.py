"""What took long: the slowest steps, effects and commits, and the longest times without a step in a running attempt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from orchestrator.analysis.answers.answer import Answer, Cell, Table, moment, number, seconds, share
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.run_tables import OWN_TIMES, gather, look, what_is_gone
from orchestrator.analysis.questions.record_scan import harnesses

MOST = 20
"""Default limit on the rows of each table."""
_PARTS = ("agent", "effects", "waiting", "own")
_COLUMNS = "harness step attempt work_s times_median most_in agent_s effects_s waiting_s own_s timestamp"
_DOING = {"agent": "in an agent", "effects": "in effects", "waiting": "waiting", "own": "in its own code"}
_STEPS = f"""
    WITH usual AS (
        SELECT harness, quantile_cont(took / 1e6, 0.5) AS median
        FROM (SELECT harness, unnest(works) AS took FROM gathered) GROUP BY harness
    ), slowest AS (
        SELECT harness, step_number, attempt, "timestamp", work_s, agent_s, effects_s, waiting_s,
               round(greatest(0, work_s - agent_s - effects_s - waiting_s), 6) AS own_s
        FROM {OWN_TIMES} WHERE work_s > 0 AND list_contains(?, harness) ORDER BY work_s DESC, seq LIMIT ?
    )
    SELECT s.*, u.median FROM slowest s LEFT JOIN usual u ON u.harness = s.harness ORDER BY work_s DESC, "timestamp"
"""
_SINCE = """
    WITH took AS (
        SELECT harness, step_number, attempt, s."timestamp" AS "timestamp", seq,
               date_diff('microsecond', coalesce(lag(s."timestamp") OVER one, began), s."timestamp") / 1e6 AS took_s
        FROM (SELECT seq, "timestamp", harness, attempt, step_number FROM step_heads) s
        JOIN (SELECT harness, attempt, began FROM lives WHERE is_started) USING (harness, attempt)
        WHERE list_contains(?, harness) WINDOW one AS (PARTITION BY harness, attempt ORDER BY seq)
    ), usual AS (SELECT harness, quantile_cont(took_s, 0.5) AS median FROM took GROUP BY harness)
    SELECT harness, step_number, attempt, "timestamp", took_s, NULL, NULL, NULL, NULL, median
    FROM took JOIN usual USING (harness) WHERE took_s > 0 ORDER BY took_s DESC, seq LIMIT ?
"""
_AGENTS = f"""
    SELECT harness, step_number, attempt, "timestamp", agent_s, work_s FROM {OWN_TIMES}
    WHERE agent_s > 0 AND list_contains(?, harness) ORDER BY agent_s DESC, seq LIMIT ?
"""
_COMMITS = f"""
    SELECT harness, step_number - 1, attempt, "timestamp", previous_commit_s FROM {OWN_TIMES}
    WHERE previous_commit_s > 0 AND list_contains(?, harness) ORDER BY previous_commit_s DESC, seq LIMIT ?
"""
_EFFECTS = """
    SELECT harness, step_number, attempt, key, "timestamp", took_s, outcome, tries FROM effects
    WHERE took_s > 0 AND list_contains(?, harness) ORDER BY took_s DESC, seq LIMIT ?
"""
_STALLS = """
    WITH moments AS (
        SELECT harness, attempt, "timestamp" AS moment, step_number AS step FROM (
            SELECT harness, attempt, "timestamp", step_number FROM step_heads WHERE list_contains($names, harness))
        UNION ALL SELECT harness, attempt, began, after_step FROM lives WHERE is_started AND list_contains($names, harness)
        UNION ALL
        SELECT harness, attempt, CASE WHEN ended_by IS NULL AND run = newest THEN $now ELSE lived_until END, last_step + 1
        FROM lives, (SELECT arg_max(run, own_last) AS newest FROM gathered) WHERE is_started AND list_contains($names, harness)
    )
    SELECT harness, attempt, step, earlier, moment, date_diff('microsecond', earlier, moment) / 1e6 AS took_s FROM (
        SELECT *, lag(moment) OVER (PARTITION BY harness, attempt ORDER BY step, moment) AS earlier FROM moments
    ) WHERE earlier < moment ORDER BY took_s DESC, harness, step LIMIT $limit
"""


def answer(run: Run, *, harness: str | None = None, limit: int = MOST) -> Answer:
    """Return what took longest.

    Raises:
        UsageError: there is no such harness.
    """
    run.expect()
    gather(run)
    names = harnesses(run, harness)
    look(run)
    given = [names, limit]
    steps, note = run.rows(_STEPS, given), ""
    if not steps:
        steps, note = run.rows(_SINCE, given), "no times of parts are recorded: measured from the last record of the attempt"
    now = run.rows("SELECT max(last) FROM gathered")[0][0]
    stalls = run.execute(_STALLS, {"names": names, "now": now, "limit": limit}).fetchall()
    tables = (
        Table("steps", _COLUMNS, map(_step, steps), note),
        Table(
            "effects",
            "harness step attempt key took_s outcome tries timestamp",
            [(*row[:4], *row[5:], moment(row[4])) for row in run.rows(_EFFECTS, given)],
        ),
        Table(
            "agents",
            "harness step attempt agent_s work_s timestamp",
            [(*row[:3], *row[4:], moment(row[3])) for row in run.rows(_AGENTS, given)],
        ),
        Table(
            "commits",
            "harness step attempt commit_s timestamp",
            [(*row[:3], row[4], moment(row[3])) for row in run.rows(_COMMITS, given)],
            "a commit is known from the step after it",
        ),
        Table(
            "stalls",
            "harness attempt step duration_s begin end",
            [(*row[:3], row[5], moment(row[3]), moment(row[4])) for row in stalls],
            "the longest times without a step in a running attempt; step: the one in progress",
        ),
    )
    return Answer("slow", tables, [*_sentences(steps, stalls), *what_is_gone(run, names)])


def _most_in(row: Sequence[Any]) -> str:
    parts = dict(zip(_PARTS, row[5:9], strict=True))
    return "" if parts["own"] is None else max(parts, key=lambda part: parts[part])


def _step(row: Sequence[Any]) -> tuple[Cell, ...]:
    name, step, attempt, at, work_s, *parts, median = row
    ratio = work_s / median if median else None
    return (name, step, attempt, work_s, ratio, _most_in(row) or None, *parts, moment(at))


def _sentences(steps: Sequence[Any], stalls: Sequence[Any]) -> Iterator[str]:
    if not steps:
        yield "No step took any time." if stalls else "No step is recorded yet."
    for row in steps[:3]:
        name, step, _, _, work_s, *parts, median = row
        usual = f", {number(work_s / median)} times its median" if median and work_s >= 2 * median else ""
        most = _most_in(row)
        where = f"; {share(max(parts) / work_s)} of it {_DOING[most]}" if most else ""
        yield f"{name}: step {step} took {seconds(work_s)}{usual}{where}."
    if stalls:
        name, attempt, step, begin, _, took_s = stalls[0]
        since = f"{name} made no step for {seconds(took_s)} from {moment(begin)} on"
        yield f"{since}, in attempt {attempt}, while step {step} was being made."
