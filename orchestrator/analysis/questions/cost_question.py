"""What was spent, and on what: money, tokens, turns, tool calls and time; by harness, pool and feature; and failed tries."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from attrs import frozen

from orchestrator.analysis.answers.answer import Answer, Cell, Table, listed, money, seconds, share, shown, times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.run_tables import OWN_TIMES, look, what_is_gone, what_was_copied
from orchestrator.analysis.presets.coding_questions import has_lists
from orchestrator.analysis.questions.record_scan import harnesses

Row = tuple[Cell, ...]
_MONEY = "DECIMAL(38, 18)"
_SPENT = f"""
    SELECT harness, step_number, pools, change, reservation,
           TRY_CAST(json_extract_string(spent, '$.money') AS {_MONEY}) AS money,
           TRY_CAST(json_extract_string(spent, '$.tokens') AS BIGINT) AS tokens,
           TRY_CAST(json_extract_string(spent, '$.turns') AS BIGINT) AS turns,
           TRY_CAST(json_extract_string(spent, '$.tool_calls') AS BIGINT) AS tool_calls,
           TRY_CAST(json_extract_string(spent, '$.steps') AS BIGINT) AS steps,
           TRY_CAST(json_extract_string(spent, '$.working_time_s') AS DOUBLE) AS working_time_s
    FROM budgets WHERE spent IS NOT NULL
"""
_TIMES = ", ".join(f"sum(round({part}_s * 1e6)::BIGINT) / 1e6 AS {part}_s" for part in ("work", "agent", "effects", "waiting"))
"""Sums of times, exact: microseconds are whole."""
_HARNESSES = ("harness", "steps", "work_s", "agent_s", "effects_s", "waiting_s", "turns", "tool_calls", "tokens", "money")
_PASSED = (
    *("harness", "passed", "tries", "money_per_pass", "tokens_per_pass", "agent_per_pass_s", "try_per_pass_s"),
    *("in_vain", "in_vain_money", "in_vain_tokens", "in_vain_agent_s", "in_vain_share"),
)
_FEATURES = "harness feature passed tries in_vain money tokens agent_s took_s"
_POOLS = "pool spends forfeited money tokens turns tool_calls steps working_time_s"
_CRASHES = "harness attempts crashed steps_of_crashed lost_s restart_delay_s"
_APPROVALS = "harness category asked approved denied unanswered waited_s waited_p50_s waited_max_s"
_HARNESSES_NOTE = (
    "Money, tokens, turns and tool calls are what was charged to budgets; where nothing was, tokens, tool calls and money "
    "are what agents reported, and turns the tries at features. work_s: from resumption to the step, of which agent_s in "
    "agents, effects_s in effects, waiting_s asleep or waiting; empty for steps of older versions, which do not say."
)
_PASSED_NOTE = (
    "in_vain: tries that did not pass, and those cut off. in_vain_share is of the money where it is known, else of the "
    "tokens, else of the time of the agents: then time is used in place of money."
)
_CRASHES_NOTE = (
    "No recorded step is lost: a crash costs the step in progress. lost_s: from the last step of such an attempt to its "
    "end; a killed attempt ended with the last record of its program, as far as is known."
)


@frozen
class Tries:
    """Cost of the tries at one feature, or of tries of one kind."""

    harness: str
    feature: str
    is_passed: bool
    """Whether the feature passes now."""
    tries: int
    in_vain: int
    money: Decimal | None
    tokens: int | None
    agent_s: float
    took_s: float
    in_vain_money: Decimal | None
    in_vain_tokens: int | None
    in_vain_agent_s: float


def answer(run: Run, *, harness: str | None = None) -> Answer:
    """Return what was spent, and on what."""
    run.expect()
    look(run)
    names = harnesses(run, harness)
    every, tries = _harnesses(run, harness), _tries(run, harness)
    tables = [Table("harnesses", _HARNESSES, every, " ".join(filter(None, (_HARNESSES_NOTE, what_was_copied(run, names)))))]
    per_pass = [
        _per_pass(name, [one for one in tries if one.harness == name]) for name in sorted({one.harness for one in tries})
    ]
    if tries:
        tables.append(Table("passed", _PASSED, per_pass, _PASSED_NOTE))
        dearest = sorted(
            tries, key=lambda one: (-(one.money or 0), -(one.tokens or 0), -one.agent_s, one.harness, one.feature)
        )
        tables.append(Table("features", _FEATURES, map(_feature, dearest)))
    pools, crashes, approvals = _pools(run), _crashes(run, harness), _approvals(run, harness)
    if pools:
        note = (
            "A spend is charged to each pool of its chain, so pools do not add up. forfeited: charged in full after a crash."
        )
        tables.append(Table("pools", _POOLS, pools, note))
    if crashes:
        tables.append(Table("crashes", _CRASHES, crashes, _CRASHES_NOTE))
    if approvals:
        note = "Until a person answered; requests without an answer are not included."
        tables.append(Table("approvals", _APPROVALS, approvals, note))
    return Answer("cost", tables, [*_sentences(every, per_pass, crashes, approvals), *what_is_gone(run, names)])


def _harnesses(run: Run, harness: str | None) -> list[Row]:
    worked = "" if has_lists(run) else "AND false"
    rows = run.rows(
        f"""
        WITH made AS (SELECT harness, {_TIMES} FROM {OWN_TIMES} GROUP BY harness),
        every AS (SELECT harness, count(*) AS steps FROM step_heads GROUP BY harness),
        charged AS (SELECT harness, sum(turns)::BIGINT AS turns, sum(tool_calls)::BIGINT AS tool_calls,
                           sum(tokens)::BIGINT AS tokens, sum(money) AS money FROM ({_SPENT}) GROUP BY harness),
        told AS (SELECT harness, count(*) FILTER (is_try) AS turns, sum(tool_calls)::BIGINT AS tool_calls,
                        sum(tokens)::BIGINT AS tokens, sum(money) AS money
                 FROM features JOIN remaining USING (harness) WHERE step_number > copied {worked} GROUP BY harness)
        SELECT harness, coalesce(e.steps, 0), m.work_s, m.agent_s, m.effects_s, m.waiting_s,
               coalesce(nullif(c.turns, 0), nullif(t.turns, 0)), coalesce(nullif(c.tool_calls, 0), t.tool_calls),
               coalesce(nullif(c.tokens, 0), t.tokens), coalesce(nullif(c.money, 0), t.money)
        FROM harnesses LEFT JOIN every e USING (harness) LEFT JOIN made m USING (harness)
        LEFT JOIN charged c USING (harness) LEFT JOIN told t USING (harness)
        WHERE harness = coalesce(?, harness) ORDER BY harness
        """,
        [harness],
    )
    return [(shown(row[0]), *row[1:9], money(row[9])) for row in rows]


def _tries(run: Run, harness: str | None) -> list[Tries]:
    if not has_lists(run):
        return []
    rows = run.rows(
        f"""
        WITH charged AS (SELECT harness, step_number, nullif(sum(money), 0) AS money, nullif(sum(tokens), 0)::BIGINT AS tokens
                         FROM ({_SPENT}) GROUP BY harness, step_number),
        tries AS (
            SELECT f.harness AS harness, f.feature AS feature, f.step_number AS step_number,
                   f.is_try AS is_try, f.is_try AND NOT coalesce(f.passed, false)
                   AS in_vain, coalesce(c.money, f.money) AS money, coalesce(c.tokens, f.tokens) AS tokens,
                   coalesce(f.agent_s, 0) AS agent_s, coalesce(f.duration_s, 0) AS took_s
            FROM features f LEFT JOIN charged c ON c.harness = f.harness AND c.step_number = f.step_number
        )
        SELECT harness, feature, any_value(s.status = 'passed' AND s.passed_step > r.copied),
               count(*) FILTER (t.is_try), count(*) FILTER (in_vain),
               sum(t.money), sum(t.tokens)::BIGINT, fsum(t.agent_s), fsum(took_s), sum(t.money) FILTER (in_vain),
               sum(t.tokens) FILTER (in_vain)::BIGINT, coalesce(fsum(t.agent_s) FILTER (in_vain), 0)
        FROM tries t JOIN feature_standing s USING (harness, feature) JOIN remaining r USING (harness)
        WHERE t.step_number > r.copied AND harness = coalesce(?, harness)
        GROUP BY harness, feature ORDER BY harness, feature
        """,
        [harness],
    )
    return [Tries(*row) for row in rows]


def _per_pass(name: str, tries: Sequence[Tries]) -> Row:
    passed = sum(one.is_passed for one in tries)
    spent, tokens = _sum([one.money for one in tries]), _sum([one.tokens for one in tries])
    vain_money, vain_tokens = _sum([one.in_vain_money for one in tries]), _sum([one.in_vain_tokens for one in tries])
    agent_s, vain_s = sum(one.agent_s for one in tries), sum(one.in_vain_agent_s for one in tries)
    told = next(
        (part for part in ((vain_money, spent), (vain_tokens, tokens), (vain_s, agent_s)) if part[1]),
        (None, None),
    )
    return (
        *(shown(name), passed, sum(one.tries for one in tries)),
        money(spent / passed if spent is not None and passed else None),
        *(None if tokens is None or not passed else tokens / passed, agent_s / passed if passed else None),
        sum(one.took_s for one in tries) / passed if passed else None,
        *(sum(one.in_vain for one in tries), money(vain_money), vain_tokens, vain_s),
        None if told[1] is None else float((told[0] or 0) / told[1]),
    )


def _feature(one: Tries) -> Row:
    head = (shown(one.harness), shown(one.feature), one.is_passed, one.tries, one.in_vain)
    return (*head, money(one.money), one.tokens, one.agent_s, one.took_s)


def _pools(run: Run) -> list[Row]:
    rows = run.rows(
        f"""
        SELECT pool, count(*), count(*) FILTER (change = 'forfeited'), sum(money), sum(tokens)::BIGINT, sum(turns)::BIGINT,
               sum(tool_calls)::BIGINT, sum(steps)::BIGINT, sum(working_time_s)
        FROM (SELECT *, unnest(pools) AS pool FROM ({_SPENT})) GROUP BY pool ORDER BY pool
        """
    )
    return [(shown(row[0]), *row[1:3], money(row[3]), *row[4:]) for row in rows]


def _crashes(run: Run, harness: str | None) -> list[Row]:
    rows = run.rows(
        """
        WITH lasts AS (SELECT harness, attempt, max("timestamp") AS last FROM step_heads GROUP BY harness, attempt)
        SELECT harness, count(*), count(*) FILTER (crashed), coalesce(sum(steps) FILTER (crashed), 0)::BIGINT,
               coalesce(sum(greatest(epoch(lived_until - coalesce(last, started)), 0)) FILTER (crashed), 0),
               coalesce(sum(restart_delay_s), 0)
        FROM (SELECT *, ended_by IN ('failed', 'gave_up', 'killed') AS crashed FROM attempts)
        LEFT JOIN (SELECT harness, attempt, lived_until FROM lives) USING (harness, attempt)
        LEFT JOIN lasts USING (harness, attempt) WHERE harness <> '' AND harness = coalesce(?, harness)
        GROUP BY harness HAVING bool_or(crashed) ORDER BY harness
        """,
        [harness],
    )
    return [(shown(row[0]), *row[1:]) for row in rows]


def _approvals(run: Run, harness: str | None) -> list[Row]:
    rows = run.rows(
        """
        SELECT harness, category, count(*), count(*) FILTER (verdict = 'approved'), count(*) FILTER (verdict = 'denied'),
               count(*) FILTER (verdict IS NULL), coalesce(sum(waited_s), 0), median(waited_s), max(waited_s)
        FROM approvals WHERE harness = coalesce(?, harness) GROUP BY harness, category ORDER BY harness, category
        """,
        [harness],
    )
    return [(shown(row[0]), shown(row[1] or ""), *row[2:]) for row in rows]


def _sentences(every: Sequence[Row], per_pass: Sequence[Row], crashes: Sequence[Row], approvals: Sequence[Row]) -> list[str]:
    said = [_said_of_all(every)]
    said += [_said_of_passes(row) for row in per_pass]
    said += [
        f"{row[0]}: {row[2]} of {times(int(str(row[1])), 'attempt')} crashed; {seconds(float(str(row[4])))} of work under way "
        f"were lost."
        for row in crashes
    ]
    if approvals:
        waited = sum(float(str(row[6])) for row in approvals)
        asked = sum(int(str(row[2])) for row in approvals)
        said.append(f"People were asked {times(asked, 'time')}, and took {seconds(waited)} to answer.")
    return said


def _said_of_all(every: Sequence[Row]) -> str:
    def total(column: str) -> Decimal:
        cells = (row[_HARNESSES.index(column)] for row in every)
        return sum((Decimal(str(one)) for one in cells if one is not None), start=Decimal(0))

    busy_s = max(float(total("work_s") - total("waiting_s")), 0.0)
    parts = [f"{times(len(every), 'harness', 'harnesses')} worked {seconds(busy_s)}, waiting not counted"]
    if agent_s := float(total("agent_s")):
        parts.append(f"{seconds(agent_s)} of it in agents")
    if tokens := total("tokens"):
        parts.append(f"{tokens:,} tokens")
    spent = total("money")
    parts.append(f"money: {spent.normalize():,f}" if spent else "no money is recorded, so time is used in its place")
    return "; ".join(parts) + "."


def _said_of_passes(row: Row) -> str:
    one = dict(zip(_PASSED, row, strict=True))
    head = f"{one['harness']}: {one['passed']} passed in {times(int(str(one['tries'])), 'try', 'tries')}"
    costs = [
        f"{one['money_per_pass']} of money" if one["money_per_pass"] is not None else "",
        f"{float(str(one['tokens_per_pass'])):,.0f} tokens" if one["tokens_per_pass"] is not None else "",
        f"{seconds(float(str(one['agent_per_pass_s'])))} of an agent" if one["agent_per_pass_s"] is not None else "",
    ]
    parts = [head, *([f"each took {listed(filter(None, costs))}"] if one["passed"] else [])]
    if one["in_vain"] and one["in_vain_share"] is not None:
        parts.append(
            f"{times(int(str(one['in_vain'])), 'try', 'tries')} in vain, {share(float(str(one['in_vain_share'])))} of it"
        )
    return "; ".join(parts) + "."


def _sum(amounts: Sequence[Any]) -> Any:
    """Return the sum of known amounts; None if none is known."""
    known = [one for one in amounts if one is not None]
    return sum(known[1:], start=known[0]) if known else None
