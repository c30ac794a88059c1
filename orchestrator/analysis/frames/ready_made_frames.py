"""The frames of ready-made harnesses.

features           the result of each try at a feature, or at a task of a pipeline, and set-backs
feature_standing   the status of each feature, or task of a pipeline, including those never tried
equity, trades     the value of a trading account after each step, and its fills; exact: `DECIMAL`, never a float

    is_try    status of a try                                           passed
    yes       passed, not_validated, chat_failed: it has no result      true or false
    yes       interrupted; failed: the validator or the merge           NULL: it does not count as a try
    yes       cut_off, needs_context: of a pipeline's task              false
    no        rechecked, set_back, blocked, unblocked                   NULL; `regressed` means that it passed before

Invariant: data on a feature comes from its harness's records; what an agent says counts for tokens and money only.
"""

from __future__ import annotations

from orchestrator.analysis.sources.copied_columns import Columns
from orchestrator.analysis.sources.source_reading import Source
from orchestrator.analysis.sources.store_source import StoreSource

MONEY = "DECIMAL(38, 18)"
"""As precise as any venue counts, with 20 digits before the point; larger amounts are NULL."""
_FIELDS = {"input": "JSON", "output": "JSON", "delta": "JSON", "took_us": "STRUCT(agent BIGINT, work BIGINT)"}
_HEAD = 'seq, "timestamp", run, harness, attempt, step'
_SHORT = 300
"""Limit on the characters of a reason."""
_GIVEN = """{"kind": "VARCHAR", "feature_id": "VARCHAR", "turn": "INTEGER", "streamed": "BOOLEAN",
    "task": "VARCHAR", "attempt": "INTEGER"}"""
_SAID = """{"status": "VARCHAR", "note": "VARCHAR", "duration_s": "DOUBLE", "events": ["JSON"],
    "result": {"tokens": "BIGINT", "commit": "VARCHAR"},
    "verdict": {"evidence": "VARCHAR", "validator": "VARCHAR", "commit": "VARCHAR"}}"""
_EVENT = """{"type": "VARCHAR", "task_id": "VARCHAR", "attempt": "INTEGER", "ts": "VARCHAR", "because_of": "VARCHAR",
    "validator": "VARCHAR", "cost": {"tokens": "BIGINT", "actual_usd": "VARCHAR"}}"""
_ORDERED = "^feature (.*): (un)?blocked by (?:message|order)"  # earlier versions wrote "order"


def copied(source: Source) -> Columns | None:
    """Return the columns of a store, if they were copied."""
    return source.copied if isinstance(source, StoreSource) else None


def exact(text: str) -> str:
    """Return the SQL that converts text to `MONEY`; NULL if it is not an amount.

    The fast path is for amounts of the usual length: a cast to 38 digits takes a hundred times as long (DuckDB 1.4.4).
    """
    short = rf"regexp_full_match({text}, '-?[0-9]{{1,12}}(\.[0-9]{{1,6}})?')"
    return f"CASE WHEN {short} THEN TRY_CAST({text} AS DECIMAL(18, 6))::{MONEY} ELSE TRY_CAST({text} AS {MONEY}) END"


def steps_query(source: Source) -> str:
    """Return the query for steps that can be a try, with their fields extracted; a small part of all steps.

    Tries that are in columns already are not among them: see `_turns`.
    """
    columns = copied(source)
    read = source.results(_FIELDS) if columns is None else columns.results(_FIELDS, "may_turn")
    return f"""
        SELECT {_HEAD}, took_us, given,
               -- A try changes nothing in its delta that is looked for but the standing of features.
               CASE WHEN given.kind IN ('turn', 'recheck', 'recover') AND given.task IS NULL AND given.streamed IS NULL
                    AND NOT contains(delta::VARCHAR, 'standings') THEN NULL ELSE delta END AS delta,
               json_transform(output, '{_SAID}') AS said
        FROM (SELECT *, json_transform(input, '{_GIVEN}') AS given FROM ({read}))
        WHERE given.kind IS NOT NULL OR given.streamed IS NOT NULL
    """


def features(source: Source) -> str:
    """Return the query of the frame `features`."""
    return f"""
        WITH steps AS (SELECT * FROM feature_steps), {_worked(source)}, {_turns(copied(source))}, {_tasks()}, {_endings()}
        SELECT seq, "timestamp", run, harness, attempt, step AS step_number, kind, feature, turn, is_try, status, passed,
               regressed, blocked, left(reason, {_SHORT}) AS reason, validator, "commit", duration_s, agent_s, tokens, money,
               tool_calls
        FROM (SELECT * FROM turns UNION ALL BY NAME SELECT * FROM orders UNION ALL BY NAME SELECT * FROM judged
              UNION ALL BY NAME SELECT * FROM stale)
    """


def _worked(source: Source) -> str:
    """Return the query for how long the agent of each try took; an interrupted attempt may have recorded that earlier."""
    return f"""
        worked AS (
            SELECT harness, step, arg_max(TRY_CAST(json_extract_string(result, '$.duration_s') AS DOUBLE), seq) AS agent_s
            FROM ({source.own(("outcome",), {"key": "VARCHAR", "result": "JSON"})})
            WHERE starts_with(key, 'work ') GROUP BY harness, step
        )
    """


_TYPED = """CASE WHEN is_timed THEN {'agent': agent, 'work': work} END AS took_us,
    {'kind': given_kind, 'feature_id': feature_id, 'turn': turn} AS given, NULL AS delta,
    {'status': status, 'note': note, 'duration_s': duration_s, 'result': {'tokens': tokens, 'commit': made_commit},
     'verdict': {'evidence': evidence, 'validator': validator, 'commit': judged_commit}} AS said"""
"""The columns of `feature_steps`, as far as tries at features have them."""


def _turns(columns: Columns | None) -> str:
    """Return the query for the tries of a feature list, rechecks, and orders by people."""
    names = "took_us, {'kind': given.kind, 'feature_id': given.feature_id, 'turn': given.turn} AS given, delta"
    said = """{'status': said.status, 'note': said.note, 'duration_s': said.duration_s, 'result': said.result,
        'verdict': said.verdict} AS said"""
    typed = (
        ""
        if columns is None
        else f" UNION ALL SELECT {_HEAD}, took_us, given, delta, said FROM ({columns.typed(_TYPED, 'is_turn')})"
    )
    return f"""
        all_turns AS (SELECT {_HEAD}, {names}, {said} FROM steps WHERE given IS NOT NULL{typed}),
        turns AS (
            SELECT {_HEAD}, given.kind AS kind, given.feature_id AS feature, nullif(given.turn, 0) AS turn,
                   given.kind <> 'recheck' AS is_try,
                   CASE WHEN given.kind = 'recheck' AND said.status = 'passed' THEN 'rechecked' ELSE said.status END AS status,
                   CASE WHEN given.kind = 'recheck' THEN NULL WHEN said.status = 'passed' THEN true
                        WHEN said.status IN ('not_validated', 'chat_failed') THEN false END AS passed,
                   said.status = 'set_back' AS regressed,
                   list_contains(json_extract_string(delta, '$.in.standings.in.*.set.status'), 'blocked') IS true AS blocked,
                   coalesce(right(said.verdict.evidence, {_SHORT}), said.note) AS reason, said.verdict.validator AS validator,
                   coalesce(said.verdict."commit", said.result."commit") AS "commit", said.duration_s AS duration_s,
                   coalesce(worked.agent_s, took_us.agent / 1e6) AS agent_s, nullif(said.result.tokens, 0) AS tokens
            FROM all_turns LEFT JOIN worked USING (harness, step)
            WHERE given.kind IN ('turn', 'recheck', 'recover') AND given.feature_id IS NOT NULL AND said.status IS NOT NULL
        ),
        orders AS (
            SELECT {_HEAD}, 'orders' AS kind, regexp_extract(told, '{_ORDERED}', 1, 's') AS feature, false AS is_try,
                   regexp_extract(told, '{_ORDERED}', 2, 's') || 'blocked' AS status, false AS regressed,
                   regexp_extract(told, '{_ORDERED}', 2, 's') = '' AS blocked, told AS reason
            FROM (SELECT {_HEAD}, unnest(json_extract_string(delta, '$.in.progress.append[*].summary')) AS told FROM steps
                  WHERE given.streamed IS NOT NULL AND contains(said.note, 'blocked'))
            WHERE regexp_matches(told, '{_ORDERED}', 's')
        )
    """


def _tasks() -> str:
    """Return the query for the events of a pipeline's tasks, with the counts of each attempt."""
    return f"""
        moves AS (
            SELECT * FROM steps WHERE given.task IS NOT NULL AND given.kind IS NOT NULL AND said.events IS NOT NULL
        ),
        events AS (
            SELECT {_HEAD}, event.task_id AS feature, event.attempt AS turn, TRY_CAST(event.ts AS TIMESTAMP) AS ts, event
            FROM (SELECT {_HEAD}, unnest(list_transform(said.events, lambda one: json_transform(one, '{_EVENT}'))) AS event
                  FROM moves)
        ),
        tried AS (
            SELECT harness, feature, turn, min(ts) FILTER (event.type = 'task_started') AS begun,
                   epoch(max(ts) FILTER (event.type IN ('agent_completed', 'agent_failed')) -
                         min(ts) FILTER (event.type = 'task_started')) AS agent_s,
                   max(event.cost.tokens) AS tokens, max(TRY_CAST(event.cost.actual_usd AS {MONEY})) AS money
            FROM events WHERE turn IS NOT NULL GROUP BY harness, feature, turn
        ),
        counted AS (
            SELECT harness, given.task AS feature, given.attempt AS turn,
                   max(TRY_CAST(json_extract_string(delta, '$.in.tasks.in.*.set.built.tool_calls')[1] AS BIGINT)) AS tool_calls
            FROM moves WHERE given.kind = 'build' GROUP BY harness, feature, turn
        )
    """


def _endings() -> str:
    """Return the query for finished attempts at a pipeline's tasks, and for tasks that became stale."""
    return f"""
        endings AS (
            SELECT {_HEAD}, given.kind AS kind, given.task AS feature, nullif(given.attempt, 0) AS turn,
                   said.status AS outcome, said.note AS reason,
                   TRY_CAST(json_extract_string(said.events[-1], '$.ts') AS TIMESTAMP) AS ended,
                   list_filter(list_transform(said.events, lambda one: json_extract_string(one, '$.validator')),
                               lambda one: one IS NOT NULL)[-1] AS validator
            FROM moves WHERE given.kind IN ('judge', 'act', 'reclaim', 'block') AND said.status <> 'IN_PROGRESS'
        ),
        judged AS (
            SELECT {_HEAD}, kind, feature, turn, kind <> 'block' AS is_try,
                   CASE WHEN kind = 'block' THEN 'blocked' WHEN kind = 'reclaim' THEN 'cut_off'
                        WHEN outcome = 'PASS' THEN 'passed' WHEN outcome = 'NEEDS_CONTEXT' THEN 'needs_context'
                        ELSE 'not_validated' END AS status,
                   CASE WHEN kind <> 'block' THEN outcome = 'PASS' END AS passed, false AS regressed,
                   outcome IN ('BLOCKED', 'NEEDS_CONTEXT') AS blocked, reason, validator,
                   greatest(epoch(ended - begun), 0) AS duration_s, agent_s, tokens, money, tool_calls
            FROM endings LEFT JOIN tried USING (harness, feature, turn) LEFT JOIN counted USING (harness, feature, turn)
        ),
        stale AS (
            SELECT {_HEAD}, 'set_back' AS kind, feature, false AS is_try, 'set_back' AS status, true AS regressed,
                   false AS blocked, 'its evidence is stale because of ' || event.because_of AS reason
            FROM events WHERE event.type = 'evidence_stale'
        )
    """


_LISTED = (
    "$.set.features[*].id",
    "$.in.features.append[*].id",
    "$.in.features.set.*.id",
    "$.set.plan[*].id.text",
    "$.in.plan.append[*].id.text",
)
"""Paths in the delta of a step that list what is to be worked on."""


def feature_standing(source: Source) -> str:
    """Return the query of the frame `feature_standing`, made from the frame `features` and the steps that it is made from."""
    return f"""
        WITH lists AS (SELECT harness, step, delta FROM feature_steps WHERE given.kind IN ('initialize', 'amend', 'plan')),
        listed AS (SELECT harness, feature, min(step) AS listed_step FROM ({_listed()}) GROUP BY harness, feature),
        tries AS (
            SELECT *, min(step_number) FILTER (passed) OVER (PARTITION BY harness, feature) AS first_pass FROM features
        ),
        told AS ({_features_told()})
        SELECT harness, feature, coalesce(told.status, 'pending') AS status, coalesce(tries, 0) AS tries, tries_to_pass,
               coalesce(interruptions, 0) AS interruptions, coalesce(regressions, 0) AS regressions, first_step, last_step,
               passed_step, first_at, passed_at, last_at, duration_s, agent_s, tokens, money, last_failure, listed_step
        FROM listed FULL JOIN told USING (harness, feature)
    """


def _features_told() -> str:
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


_TRADED = """{"time": "VARCHAR", "equity": "VARCHAR", "cash": "VARCHAR", "drawdown": "VARCHAR", "risk": "VARCHAR",
    "latched": "VARCHAR", "quiet": [{"time": "VARCHAR", "equity": "VARCHAR", "drawdown": "VARCHAR"}]}"""
_BARS = """unnest(list_append(
    coalesce(said.quiet, []), {'time': said.time, 'equity': said.equity, 'drawdown': said.drawdown})) AS one"""
"""A row for each bar of a step: those in which only prices changed, then the last."""
_STEP_FIELDS = {"input": "JSON", "output": "JSON", "delta": "JSON"}


def equity(source: Source) -> str:
    """Return the query of the frame `equity`."""
    return f"""
        SELECT seq, "timestamp", run, harness, attempt, step AS step_number, time, {exact("equity")} AS equity,
               {exact("cash")} AS cash,
               CASE WHEN equity::DOUBLE > 0 THEN 1 - cash::DOUBLE / equity::DOUBLE END AS exposure_share,
               drawdown::DOUBLE AS drawdown_share, risk, coalesce(latched, '') <> '' AS latched,
               json_extract(output, '$.positions') AS positions
        FROM ({told(source)})
    """


def told(source: Source) -> str:
    """Return a query for the bars of trading harnesses: their time, and values as recorded, as text; a step may have several.

    A bar of several has the output and delta of their step, which have no fill, no order and no split.
    """
    columns, values = copied(source), "equity, cash, drawdown, risk, latched"
    results = source.results(_STEP_FIELDS) if columns is None else columns.results(_STEP_FIELDS, "may_trade")
    rows = f"""
        SELECT {_HEAD}, output, delta, one.time AS bar, one.equity AS equity, said.cash AS cash, one.drawdown AS drawdown,
               said.risk AS risk, said.latched AS latched
        FROM (SELECT *, {_BARS} FROM (SELECT *, json_transform(output, '{_TRADED}') AS said FROM ({results})))
    """
    if columns is not None:
        trades = columns.typed(f'output, delta, "at" AS bar, {values}', "is_trade")
        rows += f" UNION ALL SELECT {_HEAD}, output, delta, bar, {values} FROM ({trades})"
    return f"""
        SELECT *, TRY_CAST(bar AS TIMESTAMP) AS time FROM ({rows})
        WHERE TRY_CAST(bar AS TIMESTAMP) IS NOT NULL AND {exact("equity")} IS NOT NULL AND {exact("cash")} IS NOT NULL
            AND risk IS NOT NULL AND TRY_CAST(drawdown AS DOUBLE) IS NOT NULL
    """


_SAID_OF_ACCOUNTS = """{"time": "VARCHAR", "equity": "VARCHAR", "cash": "VARCHAR", "refused": ["JSON"],
    "cancelled": [{"refused": "VARCHAR"}], "reports": [{"status": "VARCHAR"}], "drawdown": "VARCHAR",
    "quiet": [{"time": "VARCHAR", "equity": "VARCHAR", "drawdown": "VARCHAR"}]}"""
_SPLIT = r"""'"split": *"(1[^"]|[^1])'"""
"""Matches a split other than 1 in a slice."""


def account_steps(source: Source) -> str:
    """Return the query for the bars of trading accounts: their time, worth of the account, and what changed it."""
    columns = copied(source)
    fields = {"input": "JSON", "output": "JSON"}
    rows = f"""
        SELECT harness, step, one.time AS bar_time, one.equity AS equity, said.cash AS cash,
               coalesce(len(said.refused), 0)
               + coalesce(len(list_filter(said.cancelled, lambda each: each.refused <> '')), 0) AS refused,
               coalesce(len(list_filter(said.reports, lambda each: each.status = 'expired')), 0) AS expired, input, output,
               json_extract_string(output, '$.fills[0].fill.fill_id') IS NOT NULL AS is_filled,
               json_type(output, '$.adopted') = 'OBJECT' AS is_adopted, true AS is_split
        FROM (SELECT *, {_BARS} FROM (SELECT *, json_transform(output, '{_SAID_OF_ACCOUNTS}') AS said
              FROM ({source.results(fields) if columns is None else columns.results(fields, "may_trade")})))
    """
    if columns is not None:
        typed = "equity, cash, refused, expired, input, output, is_filled, is_adopted, is_split"
        trades = columns.typed(f'"at" AS bar_time, {typed}', "is_trade")
        rows += f" UNION ALL SELECT harness, step, bar_time, {typed} FROM ({trades})"
    return f"""
        SELECT harness, step AS step_number, TRY_CAST(bar_time AS TIMESTAMP) AS time, equity,
               TRY_CAST(cash AS DOUBLE) AS cash, refused, expired,
               CASE WHEN is_split AND regexp_matches(input::VARCHAR, {_SPLIT}) THEN input END AS split,
               CASE WHEN is_filled THEN json_extract(output, '$.fills') END AS fills,
               CASE WHEN is_adopted THEN json_extract_string(output, '$.cash') END AS adopted_cash,
               CASE WHEN is_adopted THEN json_extract(output, '$.positions') END AS adopted_positions,
               CASE WHEN is_adopted THEN json_extract_string(output, '$.adopted.shared') END AS adopted_shared
        FROM ({rows}) WHERE TRY_CAST(bar_time AS TIMESTAMP) IS NOT NULL AND TRY_CAST(equity AS DOUBLE) IS NOT NULL
            AND TRY_CAST(cash AS DOUBLE) IS NOT NULL
    """


_REALISED = "coalesce(json_extract_string(delta, '$.in.book.set.realised'), json_extract_string(delta, '$.set.book.realised'))"
"""The realised gain of all sales so far, where a step has changed it."""
_FILLS = """[{"fill": {"fill_id": "VARCHAR", "client_id": "VARCHAR", "symbol": "VARCHAR", "side": "VARCHAR",
    "units": "VARCHAR", "price": "VARCHAR", "fee": "VARCHAR", "time": "VARCHAR"}, "wanted_by": "VARCHAR"}]"""


def trades(source: Source) -> str:
    """Return the query of the frame `trades`.

    `realised` is what a sale gained over the average cost of the units sold, before fees. The book keeps one value per step:
    it is NULL for each of several sales in one step.
    """
    return f"""
        WITH steps AS ({told(source)}),
        gains AS (
            SELECT harness, step, total, total - lag(total) OVER (PARTITION BY harness ORDER BY step) AS gain
            FROM (SELECT harness, step, {exact(_REALISED)} AS total FROM steps) WHERE total IS NOT NULL
        ),
        fills AS (
            SELECT *, made.fill AS fill,
                   count(*) FILTER (made.fill.side = 'sell') OVER (PARTITION BY harness, step) AS sales
            FROM (
                SELECT seq, "timestamp", run, harness, attempt, step, time AS bar_time,
                       unnest(json_transform(json_extract(output, '$.fills'), '{_FILLS}')) AS made
                FROM steps WHERE json_extract_string(output, '$.fills[0].fill.fill_id') IS NOT NULL
            )
        )
        SELECT seq, "timestamp", run, harness, attempt, step AS step_number, TRY_CAST(fill.time AS TIMESTAMP) AS time,
               bar_time, fill.symbol AS symbol, fill.side AS side, {exact("fill.units")} AS quantity,
               {exact("fill.price")} AS price, {exact("fill.fee")} AS fee,
               (CASE WHEN fill.side = 'buy' OR (sales = 1 AND total IS NULL) THEN 0 WHEN sales = 1 THEN gain END)::{MONEY}
                   AS realised,
               fill.client_id AS order_id, fill.fill_id AS fill_id, made.wanted_by AS wanted_by
        FROM fills LEFT JOIN gains USING (harness, step)
    """
