"""The questions of `docs/reference/questions.md`: what is asked, what is to be known of it, and the query."""

from __future__ import annotations

from attrs import frozen


@frozen
class Worked:
    """One question of the page."""

    title: str
    text: str
    query: str


QUESTIONS = (
    Worked(
        "What is there?",
        "Where each harness stands, and how much it has done.",
        """
SELECT harness, status, attempt, current_step, date_diff('second', first_timestamp, last_timestamp) AS seconds
FROM harnesses ORDER BY harness""",
    ),
    Worked(
        "Which step was the slowest of each harness, and why?",
        "`work_s` is all of it. What an agent, effects and waiting took of it is beside it; the rest is the harness's own.",
        """
SELECT harness, step_number, round(work_s, 2) AS work_s, round(agent_s, 2) AS agent_s,
       round(effects_s, 2) AS effects_s, round(waiting_s, 2) AS waiting_s, left(output, 40) AS output
FROM steps QUALIFY row_number() OVER (PARTITION BY harness ORDER BY work_s DESC, step_number) = 1
ORDER BY work_s DESC""",
    ),
    Worked(
        "How long did commits take, minute by minute?",
        "A step says how long the commit of the one before it took, so the last step of a harness tells nothing of its own.",
        """
SELECT time_bucket(INTERVAL 1 MINUTE, timestamp) AS minute, count(previous_commit_s) AS commits,
       round(1000 * median(previous_commit_s), 2) AS median_ms,
       round(1000 * quantile_cont(previous_commit_s, 0.99), 2) AS p99_ms, round(1000 * max(previous_commit_s), 2) AS max_ms
FROM steps GROUP BY minute ORDER BY minute""",
    ),
    Worked(
        "Which outputs come again and again?",
        "A harness that says the same many times in a row may be in a loop. The difference of two counts stays the same as "
        "long as nothing else comes between.",
        """
WITH told AS (
    SELECT harness, step_number, output,
           step_number - row_number() OVER (PARTITION BY harness, output ORDER BY step_number) AS streak
    FROM steps
)
SELECT harness, output, count(*) AS in_a_row, min(step_number) AS from_step, max(step_number) AS to_step
FROM told GROUP BY harness, output, streak HAVING count(*) >= 3 ORDER BY in_a_row DESC, from_step""",
    ),
    Worked(
        "How long do approvals wait, by category?",
        "From the request to the answer. What nobody has answered has no `waited_s`.",
        """
SELECT category, count(*) AS asked, count(*) FILTER (verdict = 'approved') AS approved,
       count(*) FILTER (verdict = 'denied') AS denied,
       round(median(waited_s), 1) AS median_s, round(max(waited_s), 1) AS max_s
FROM approvals GROUP BY category ORDER BY category""",
    ),
    Worked(
        "Which effects were tried more than once?",
        "Each try has an intent of its own on record; `tries` counts them.",
        """
SELECT harness, step_number, key, tries, outcome, idempotent, arguments, result
FROM effects WHERE tries > 1 ORDER BY seq""",
    ),
    Worked(
        "What of the state changes most often?",
        "A delta names what it sets; `in` leads further down, and is not gone into here.",
        """
WITH parts AS (
    SELECT harness, unnest(list_concat(json_keys(delta, '$.set'), json_keys(delta, '$.in'))) AS part FROM steps
)
SELECT harness, part, count(*) AS steps FROM parts GROUP BY ALL ORDER BY steps DESC, harness, part LIMIT 10""",
    ),
    Worked(
        "What did each feature cost until it passed?",
        "The seconds of agents and the tokens of every try, passed or not, of the features that stand as passed.",
        """
SELECT feature, tries, tries_to_pass, regressions, round(agent_s, 1) AS agent_s, tokens,
       round(sum(agent_s) OVER () / count(*) OVER (), 1) AS agent_s_per_passed,
       sum(tokens) OVER () // count(*) OVER () AS tokens_per_passed
FROM feature_standing WHERE status = 'passed' ORDER BY feature""",
    ),
    Worked(
        "What was spent on tries that did not pass?",
        "A try that was refused, and one whose work did not last: both were paid for.",
        """
SELECT feature, turn, status, round(agent_s, 1) AS agent_s, tokens, reason
FROM features WHERE NOT passed OR regressed ORDER BY seq""",
    ),
    Worked(
        "How deep did the equity fall, and for how long?",
        "The drawdown anew, from the equity alone, and beside it what the harness has said itself.",
        """
WITH tops AS (
    SELECT time, equity, max(equity) OVER (ORDER BY step_number) AS top, drawdown_share FROM equity
)
SELECT min(time)::DATE AS since, max(time)::DATE AS until, count(*) AS days, round(top, 2) AS top,
       round(min(equity), 2) AS bottom, round(max(1 - equity::DOUBLE / top::DOUBLE), 4) AS drawdown,
       round(max(drawdown_share), 4) AS said
FROM tops WHERE equity < top GROUP BY top ORDER BY drawdown DESC LIMIT 3""",
    ),
    Worked(
        "What was traded, and what did it cost?",
        "Money is `DECIMAL(38, 18)`, and sums of it are exact. Before two of them are multiplied, both are to be cast to "
        "something narrower, or DuckDB has no room for the digits.",
        """
SELECT symbol, side, count(*) AS fills, sum(quantity)::INTEGER AS units,
       round(sum(quantity::DECIMAL(18, 4) * price::DECIMAL(18, 4)), 2) AS turnover, round(sum(fee), 2) AS fees
FROM trades GROUP BY symbol, side ORDER BY symbol, side""",
    ),
    Worked(
        "Which messages were consumed late, or never?",
        "From the sending to the step that used it up.",
        """
SELECT m.seq, m.harness, m.message ->> '$.about' AS about, m.consumed_step,
       round(date_diff('microsecond', m.timestamp, s.timestamp) / 1e6, 1) AS waited_s
FROM messages m LEFT JOIN steps s ON s.harness = m.harness AND s.step_number = m.consumed_step
WHERE waited_s > 5 OR waited_s IS NULL ORDER BY waited_s DESC NULLS FIRST""",
    ),
    Worked(
        "Who was restarted how often within a minute?",
        "A window over time, not over rows.",
        """
SELECT harness, timestamp, cause, body ->> '$.delay_s' AS delay_s,
       count(*) OVER last_minute AS in_a_minute
FROM events WHERE kind = 'restarting'
WINDOW last_minute AS (
    PARTITION BY harness ORDER BY timestamp RANGE BETWEEN INTERVAL 1 MINUTE PRECEDING AND CURRENT ROW
) ORDER BY seq""",
    ),
    Worked(
        "How much time was lost to failures?",
        "From the end of an attempt to the beginning of the next one.",
        """
SELECT harness, count(*) AS failures, count(DISTINCT cause) AS causes,
       round(sum(date_diff('millisecond', ended, next_started)) / 1000, 1) AS lost_s
FROM (SELECT *, lead(started) OVER (PARTITION BY harness ORDER BY attempt) AS next_started FROM attempts)
WHERE ended_by = 'failed' GROUP BY harness ORDER BY lost_s DESC""",
    ),
    Worked(
        "Which steps came before each failure?",
        "The last two, and how long before it they were made.",
        """
SELECT f.harness, f.attempt, f.cause, s.step_number, s.output,
       round(date_diff('millisecond', s.timestamp, f.timestamp) / 1000, 1) AS before_s
FROM events f JOIN steps s ON s.harness = f.harness AND s.seq < f.seq AND s.attempt = f.attempt
WHERE f.kind = 'failed'
QUALIFY row_number() OVER (PARTITION BY f.seq ORDER BY s.seq DESC) <= 2
ORDER BY f.seq, s.seq""",
    ),
    Worked(
        "What did the trader know when another harness failed?",
        "An ASOF join finds the last step of the one before each failure of the other.",
        """
SELECT f.timestamp AS failed, f.harness, f.cause, t.step_number AS trading_step,
       t.output ->> '$.time' AS trading_day, t.output ->> '$.equity' AS equity
FROM (FROM events WHERE kind = 'failed') f
ASOF JOIN (FROM steps WHERE harness = 'trading') t ON f.seq >= t.seq
ORDER BY f.seq""",
    ),
    Worked(
        "Who did how much in which minute?",
        "PIVOT wants the values said, for otherwise it would be two statements.",
        """
PIVOT (SELECT harness, strftime(timestamp, '%H:%M') AS minute FROM steps)
ON minute IN ('09:00', '09:01', '09:02', '09:03') USING count(*) GROUP BY harness ORDER BY harness""",
    ),
    Worked(
        "When did nothing happen?",
        "The longest times between two steps of one harness, and what was on record of it meanwhile.",
        """
WITH gaps AS (
    SELECT harness, step_number, seq, lag(seq) OVER one AS last_seq,
           date_diff('millisecond', lag(timestamp) OVER one, timestamp) / 1000 AS gap_s
    FROM steps WINDOW one AS (PARTITION BY harness ORDER BY seq)
)
SELECT g.harness, g.step_number, round(g.gap_s, 1) AS gap_s,
       string_agg(DISTINCT e.kind, ', ' ORDER BY e.kind) AS meanwhile
FROM gaps g LEFT JOIN events e ON e.harness = g.harness AND e.seq BETWEEN g.last_seq AND g.seq
GROUP BY g.harness, g.step_number, g.gap_s ORDER BY g.gap_s DESC, g.harness, g.step_number LIMIT 5""",
    ),
    Worked(
        "What was reserved, and what of it was needed?",
        "What is reserved is kept from everybody else until it is settled.",
        """
SELECT harness, count(*) AS spends, sum((amounts ->> '$.money')::DECIMAL(9, 2)) AS reserved,
       sum((spent ->> '$.money')::DECIMAL(9, 2)) AS spent, sum((spent ->> '$.tokens')::INTEGER) AS tokens,
       round((sum((spent ->> '$.money')::DECIMAL(9, 2)) / reserved)::DOUBLE, 2) AS needed_share
FROM budgets WHERE change = 'settled' GROUP BY harness""",
    ),
    Worked(
        "What was on record around a failure?",
        "Everything of every harness, in its one order: `seq`.",
        """
SELECT r.seq, r.timestamp, r.harness, r.kind, left(r.body, 50) AS body
FROM records r, (SELECT min(seq) AS seq FROM events WHERE kind = 'failed') f
WHERE r.seq BETWEEN f.seq - 3 AND f.seq + 2 ORDER BY r.seq""",
    ),
)
