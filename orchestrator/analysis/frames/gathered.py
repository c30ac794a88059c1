"""What most questions begin with, read from a run in one pass: each attempt with its figures, and what happened to it.

Temporary tables, made when they are first asked for:

gathered   a row for each attempt, and one (attempt 0) for what is said of a harness from outside: counts, first and last
           moment, sums of microseconds, and the time of each step as lists
heard      lifecycle events and what is on record of approvals: what they are, and their causes
lives      a row for each attempt: when it began and ended, and by what
said       as `heard`, with all fields that questions look at; read in a pass of its own

`ended_by` is the kind of the event; `taken_down` if it ended for the sake of a sibling; `killed` if nothing was recorded of
its end, but a later attempt; NULL if it may be under way, or was another harness's, whose steps a fork has taken over.
"""

from __future__ import annotations

from weakref import WeakSet

from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.sources.source_reading import KINDS
from orchestrator.events import EVENTS, Forked, Paused, Restarting, Resumed, Started


def _quoted(words: tuple[str, ...]) -> str:
    return ", ".join(f"'{word}'" for word in words)


LIFE = tuple(event.kind for event in EVENTS)
"""Kinds of lifecycle events."""
ENDS = tuple(event.kind for event in EVENTS if event not in (Started, Paused, Resumed, Restarting, Forked))
"""Kinds of events after which an attempt is over."""
APPROVALS = ("approval_requested", "approval_answered", "approval_used")
HEARD = ("seq", "timestamp", "step", "kind", "cause", "id")
"""Columns of `heard`, besides harness and attempt."""
_PARTS = ("work", "agent", "effects", "waiting", "commit", "held")
FIELDS = {
    "cause": "VARCHAR",
    "error": "VARCHAR",
    "delay_s": "DOUBLE",
    "due": "DOUBLE",
    "restarts": "VARCHAR",
    "period_s": "DOUBLE",
    "program_ended": "BOOLEAN",
    "paused": "BOOLEAN",
    "origin": "VARCHAR",
    "origin_step": "BIGINT",
    "id": "VARCHAR",
    "verdict": "VARCHAR",
    "by": "VARCHAR",
    "reason": "VARCHAR",
    "category": "VARCHAR",
    "summary": "VARCHAR",
    "expires_us": "BIGINT",
}
_LIVES = f"""
    CREATE OR REPLACE TEMP TABLE lives AS
    WITH told AS (
        SELECT harness, attempt, min("timestamp") FILTER (kind = 'started') AS began,
               min(step) FILTER (kind = 'started') AS after_step, bool_or(kind = 'restarting') AS is_restarted,
               arg_min({{'kind': kind, 'timestamp': "timestamp", 'cause': cause}}, seq)
                   FILTER (kind IN ({_quoted((*ENDS, "restarting"))})) AS "end"
        FROM heard WHERE attempt > 0 GROUP BY harness, attempt
    )
    SELECT g.harness AS harness, g.attempt AS attempt, coalesce(t.began, g.first) AS began,
           t.began IS NOT NULL AS is_started, t."end"."timestamp" AS ended, g.last AS last,
           coalesce(t.after_step, g.first_step - 1, 0) AS after_step,
           coalesce(g.last_step, t.after_step, 0) AS last_step, g.steps AS steps, t."end".cause AS cause,
           coalesce(t.is_restarted, false) AS is_restarted,
           CASE WHEN t."end".kind = 'restarting' THEN 'taken_down' WHEN t."end" IS NOT NULL THEN t."end".kind
                WHEN g.last_step <= f.step THEN NULL WHEN lead(g.attempt) OVER one IS NOT NULL THEN 'killed' END AS ended_by,
           lead(coalesce(t.began, g.first)) OVER one AS next_began
    FROM gathered g LEFT JOIN told t ON t.harness = g.harness AND t.attempt = g.attempt
    LEFT JOIN (SELECT harness, max(step) AS step FROM heard WHERE kind = 'forked' GROUP BY harness) f ON f.harness = g.harness
    WHERE g.attempt > 0 WINDOW one AS (PARTITION BY g.harness ORDER BY g.attempt)
"""
_gathered: WeakSet[Run] = WeakSet()
_said: WeakSet[Run] = WeakSet()


def gather(run: Run) -> None:
    """Make the tables `gathered`, `heard` and `lives`, unless they are there."""
    if run in _gathered:
        return
    if not run.source.stands(_sweep(run)) and not run.source.stands(_sweep(run, is_last=True)):
        raise AssertionError("a sweep that was prepared holds")
    run.rows("""
        CREATE OR REPLACE TEMP TABLE heard AS
        SELECT harness, attempt, unnest(told, max_depth := 2) FROM gathered WHERE told IS NOT NULL
    """)
    run.rows(_LIVES)
    _gathered.add(run)


def _sweep(run: Run, *, is_last: bool = False) -> tuple[int, int] | None:
    """Make `gathered`; return how many records it is of and the sum of their `seq`, None if it is to be tried again."""
    import duckdb

    took = "STRUCT(" + ", ".join(f'"{part}" BIGINT' for part in _PARTS) + ")"
    every = run.source.sweep(KINDS, {"took_us": took, "outcome": "VARCHAR", "cause": "VARCHAR", "id": "VARCHAR"})
    fields = ", ".join(f"'{name}': \"{name}\"" for name in HEARD)
    sums = ", ".join(f'coalesce(sum(took_us."{part}"), 0)::BIGINT AS {part}_us' for part in _PARTS)
    query = f"""
        CREATE OR REPLACE TEMP TABLE gathered AS
        SELECT harness, attempt, count(*) AS count, sum(seq) AS seqs, min("timestamp") AS first, max("timestamp") AS last,
               count(*) FILTER (kind = 'step') AS steps, min(step) FILTER (kind = 'step') AS first_step,
               max(step) FILTER (kind = 'step') AS last_step, count(*) FILTER (kind = 'intent') AS intents,
               histogram(outcome) FILTER (kind = 'outcome') AS outcomes, {sums},
               list(took_us."work") FILTER (took_us IS NOT NULL) AS works,
               list(took_us."commit") FILTER (took_us."commit" IS NOT NULL) AS commits,
               list({{{fields}}}) FILTER (kind IN ({_quoted((*LIFE, *APPROVALS))})) AS told
        FROM ({every}) GROUP BY harness, attempt
    """
    try:
        run.carry_out(query)
    except duckdb.InvalidInputException:
        if is_last:
            raise
        return None
    ((count, seqs),) = run.rows("SELECT coalesce(sum(count), 0)::BIGINT, coalesce(sum(seqs), 0)::HUGEINT FROM gathered")
    return count, seqs


def say(run: Run) -> None:
    """Make the table `said`, unless it is there."""
    if run not in _said:
        every = run.source.own((*LIFE, *APPROVALS), FIELDS)
        run.rows(f"CREATE OR REPLACE TEMP TABLE said AS {every}")
        _said.add(run)
