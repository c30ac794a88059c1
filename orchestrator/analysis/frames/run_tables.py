"""The tables that most questions start from, read from a run in one pass: each attempt with its figures, and its events.

Temporary tables, created when they are first needed:

gathered   a row for each attempt, and one (attempt 0) for records about a harness from outside: counts, first and last
           moment, sums of microseconds, and the time of each step as lists
heard      lifecycle events and approval records: kinds and causes
lives      a row for each attempt: when it began and ended, and by what; `lived_until`, when it was last alive as far as known:
           its end, or without one the last record of any attempt of the same program, but not after the next attempt began
said       as `heard`, with all fields that questions need; read in a separate pass
remaining  a row for each harness: its oldest existing step, how many are missing after that, and the last copied one:
           runs are pruned, logs begin late, forks have steps of another harness
kept       a row for each attempt of the harness itself, as the basis of rates. If its first steps are gone it begins with the
           oldest existing one, and `rated` counts the steps after that one

`ended_by` is the kind of the event; `taken_down` if it ended because of a sibling; `killed` if there is no record of its end,
but a later attempt; NULL if it may be running, or belongs to another harness, whose steps a fork has copied.

Invariant: no sum of time or money and no rate includes copied steps, or time whose steps are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from weakref import WeakSet

from orchestrator.analysis.frames.analysis_run import Run, once_a_run
from orchestrator.analysis.sources import StoreSource
from orchestrator.analysis.sources.source_reading import APPROVALS, ENDS, KINDS, LIFE, among, typed
from orchestrator.text.terminal_text import one_line

HEARD = ("seq", "timestamp", "step", "kind", "cause", "id")
"""Columns of `heard`, besides harness and attempt."""
_PARTS = ("work", "agent", "effects", "waiting", "commit", "held")
FIELDS = typed(
    "cause:VARCHAR error:VARCHAR delay_s:DOUBLE due:DOUBLE restarts:VARCHAR period_s:DOUBLE program_ended:BOOLEAN "
    "paused:BOOLEAN origin:VARCHAR origin_step:BIGINT id:VARCHAR verdict:VARCHAR by:VARCHAR reason:VARCHAR "
    "category:VARCHAR summary:VARCHAR expires_us:BIGINT"
)
_LIVES = f"""
    CREATE OR REPLACE TEMP TABLE lives AS
    WITH told AS (
        SELECT harness, attempt, min("timestamp") FILTER (kind = 'started') AS began,
               min(step) FILTER (kind = 'started') AS after_step, bool_or(kind = 'restarting') AS is_restarted,
               arg_min({{'kind': kind, 'timestamp': "timestamp", 'cause': cause}}, seq)
                   FILTER (kind IN ({among((*ENDS, "restarting"))})) AS "end"
        FROM heard WHERE attempt > 0 GROUP BY harness, attempt
    )
    SELECT g.harness AS harness, g.attempt AS attempt, coalesce(t.began, g.first) AS began,
           t.began IS NOT NULL AS is_started, t."end"."timestamp" AS ended, g.last AS last,
           coalesce(t.after_step, g.first_step - 1, 0) AS after_step,
           coalesce(g.last_step, t.after_step, 0) AS last_step, g.steps AS steps, t."end".cause AS cause,
           coalesce(t.is_restarted, false) AS is_restarted,
           CASE WHEN t."end" IS NOT NULL THEN t."end"."timestamp" WHEN g.last_step <= f.step THEN g.last
                WHEN lead(g.run) OVER one = g.run THEN g.last
                ELSE greatest(g.last, least(max(g.own_last) OVER (PARTITION BY g.run),
                                            lead(coalesce(t.began, g.first)) OVER one)) END AS lived_until,
           g.run AS run,
           CASE WHEN t."end".kind = 'restarting' THEN 'taken_down' WHEN t."end" IS NOT NULL THEN t."end".kind
                WHEN g.last_step <= f.step THEN NULL WHEN lead(g.attempt) OVER one IS NOT NULL THEN 'killed' END AS ended_by,
           lead(coalesce(t.began, g.first)) OVER one AS next_began
    FROM gathered g LEFT JOIN told t ON t.harness = g.harness AND t.attempt = g.attempt
    LEFT JOIN (SELECT harness, max(step) AS step FROM heard WHERE kind = 'forked' GROUP BY harness) f ON f.harness = g.harness
    WHERE g.attempt > 0 WINDOW one AS (PARTITION BY g.harness ORDER BY g.attempt)
"""
_FIELDS_HEARD = ", ".join(f"'{name}': \"{name}\"" for name in HEARD)
_TOLD = (*LIFE, *APPROVALS)
_GATHERED = f"""
    CREATE OR REPLACE TEMP TABLE gathered AS
    SELECT harness, attempt, count(*) AS count, sum(seq) AS seqs, min("timestamp") AS first, max("timestamp") AS last,
           count(*) FILTER (kind = 'step') AS steps, min(step) FILTER (kind = 'step') AS first_step,
           max(step) FILTER (kind = 'step') AS last_step,
           max(run) FILTER (run <> '') AS run, max("timestamp") FILTER (run <> '' AND attempt > 0) AS own_last,
           list({{{_FIELDS_HEARD}}})
               FILTER (kind IN ({among(_TOLD)})) AS told
"""


@once_a_run
def gather(run: Run) -> None:
    """Create the tables `gathered`, `heard` and `lives`, unless they exist."""
    if not run.source.stands(_sweep(run)) and not run.source.stands(_sweep(run, is_last=True)):
        raise AssertionError("a prepared sweep must be valid")
    _derive(run)


def outline(run: Run) -> None:
    """Create the same tables, unless they exist; of a store without figures from the bodies of steps, which takes a quarter.

    A question that needs those columns calls `gather` before, and fails otherwise, since they do not exist.
    """
    if not isinstance(run.source, StoreSource):
        gather(run)
    elif run not in _derived:
        rest = tuple(kind for kind in KINDS if kind not in _TOLD)
        read = run.source.own(_TOLD, {"cause": "VARCHAR", "id": "VARCHAR"}), run.source.sweep(rest, {})
        both = " UNION ALL BY NAME ".join(f"({query})" for query in read)
        run.carry_out(f"{_GATHERED} FROM ({both}) GROUP BY harness, attempt")
        _derive(run)


_derived: WeakSet[Run] = WeakSet()
"""Runs that have the tables."""


def _derive(run: Run) -> None:
    _derived.add(run)
    run.rows("""
        CREATE OR REPLACE TEMP TABLE heard AS
        SELECT harness, attempt, unnest(told, max_depth := 2) FROM gathered WHERE told IS NOT NULL
    """)
    run.rows(_LIVES)


def _sweep(run: Run, *, is_last: bool = False) -> tuple[int, int] | None:
    """Create `gathered`; return the number of its records and the sum of their `seq`, None if it must be tried again."""
    import duckdb

    took = "STRUCT(" + ", ".join(f'"{part}" BIGINT' for part in _PARTS) + ")"
    every = run.source.sweep(KINDS, {"took_us": took, "outcome": "VARCHAR", "cause": "VARCHAR", "id": "VARCHAR"})
    sums = ", ".join(f'coalesce(sum(took_us."{part}"), 0)::BIGINT AS {part}_us' for part in _PARTS)
    query = f"""
        {_GATHERED}, count(*) FILTER (kind = 'intent') AS intents,
               histogram(outcome) FILTER (kind = 'outcome') AS outcomes, {sums},
               list(took_us."work") FILTER (took_us IS NOT NULL) AS works,
               list(took_us."commit") FILTER (took_us."commit" IS NOT NULL) AS commits
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


@once_a_run
def say(run: Run) -> None:
    """Create the table `said`, unless it exists."""
    run.rows(f"CREATE OR REPLACE TEMP TABLE said AS {run.source.own(_TOLD, FIELDS)}")


_OWN = "(SELECT s.* FROM {} s JOIN remaining r ON r.harness = s.harness WHERE s.step_number > r.copied)"
OWN_HEADS, OWN_TIMES = _OWN.format("step_heads"), _OWN.format("step_times")
"""The steps that the harness made itself, when, and with their times; needs `look`."""
_SHOWN = 5
"""Limit on the harnesses that get a sentence each."""
_REMAINING = """
    CREATE OR REPLACE TEMP TABLE remaining AS
    SELECT g.harness AS harness, coalesce(min(g.first_step), 1) AS first_step,
           coalesce(max(g.last_step) - min(g.first_step) + 1 - sum(g.steps), 0)::BIGINT AS missing,
           coalesce(any_value(f.step), 0) AS copied
    FROM gathered g LEFT JOIN (SELECT harness, max(step) AS step FROM heard WHERE kind = 'forked' GROUP BY harness) f
        ON f.harness = g.harness
    WHERE g.harness <> '' GROUP BY g.harness
"""
_LIVED = """
    SELECT l.*, g.first_step,
           (l.is_started OR g.first_step = 1) AND coalesce(g.first_step = l.after_step + 1, true) AS is_whole
    FROM lives l JOIN gathered g ON g.harness = l.harness AND g.attempt = l.attempt
    JOIN remaining r ON r.harness = l.harness WHERE coalesce(g.last_step > r.copied, l.is_started)
"""
_KEPT = """
    CREATE OR REPLACE TEMP TABLE kept AS
    SELECT harness, attempt, began AS since, lived_until AS until, steps - (NOT is_started)::INTEGER AS rated
    FROM ({lived}) WHERE is_whole
"""
_CUT = """
    INSERT INTO kept SELECT l.harness, l.attempt, min(s."timestamp"), any_value(l.lived_until), count(*) - 1
    FROM ({lived}) l JOIN (SELECT harness, attempt, "timestamp" FROM step_heads) s
        ON s.harness = l.harness AND s.attempt = l.attempt
    WHERE NOT l.is_whole GROUP BY l.harness, l.attempt
"""


@once_a_run
def look(run: Run) -> None:
    """Create the tables `remaining` and `kept`, unless they exist."""
    outline(run)
    run.carry_out(_REMAINING)
    run.carry_out(_KEPT.format(lived=_LIVED))
    if run.rows(f"SELECT 1 FROM ({_LIVED}) WHERE NOT is_whole LIMIT 1"):
        run.rows(_CUT.format(lived=_LIVED))


def what_is_gone(run: Run, names: Iterable[str] | None = None) -> Iterator[str]:
    """Yield a sentence for each harness whose records are incomplete."""
    look(run)
    wanted = None if names is None else set(names)
    rows = run.rows("SELECT harness, first_step FROM remaining WHERE first_step > 1 ORDER BY harness")
    found = [(name, first) for name, first in rows if wanted is None or name in wanted]
    how = "was pruned" if isinstance(run.source, StoreSource) else "is not recorded here from its beginning"
    for name, first in found[:_SHOWN]:
        yield f"{one_line(name)} {how}: steps before {first} are gone; the figures cover the rest."
    if len(found) > _SHOWN:
        yield f"The same holds for {len(found) - _SHOWN} more: their first steps are gone."


def what_was_copied(run: Run, names: Iterable[str] | None = None) -> str:
    """Return a note on copied steps of forks; empty if there are none."""
    look(run)
    wanted = None if names is None else set(names)
    rows = run.rows("SELECT harness, copied FROM remaining WHERE copied > 0 AND first_step <= copied ORDER BY harness")
    found = [f"{one_line(name)} up to {copied}" for name, copied in rows if wanted is None or name in wanted]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"Steps copied by a fork count in no time, money or rate: {', '.join(found[:_SHOWN])}{more}." if found else ""
