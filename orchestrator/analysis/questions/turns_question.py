"""Turns: what agents asked which models, what it cost, how turns ended, and what was said in the newest ones.

What was said comes from the transcripts. Messages of more than 64 kB are in files beside a store, which an analysis does not
read: `orchestrator transcript` shows them. A turn whose step is not recorded is put together from its effects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from orchestrator.analysis.answers.answer import Answer, Cell, Table, listed, moment, money, number, shown, times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.run_tables import look, what_is_gone, what_was_copied
from orchestrator.analysis.questions.record_scan import harnesses
from orchestrator.analysis.sources.source_reading import typed
from orchestrator.text.json_text import object_of
from orchestrator.text.terminal_text import one_line

_MOST, _NEWEST, _TEXT = 200, 20, 300
"""Limit on the turns of the table, on the newest turns whose messages are shown, and on the characters of a message."""
_OWN = "list_contains(?, harness) AND {step} > coalesce((SELECT max(copied) FROM remaining m WHERE m.harness = t.harness), 0)"
"""Turns of a harness itself: those of steps that a fork has copied were taken, and paid, by its origin."""
_TOKENS = ("input_tokens", "cached_tokens", "output_tokens")
_UNKNOWN = "its step is not recorded: it failed, or is under way"
_FIELDS = typed(
    "agent:VARCHAR model:VARCHAR scope:VARCHAR session:VARCHAR turn:BIGINT stop_reason:VARCHAR error:VARCHAR "
    "tool_calls:BIGINT tool_errors:BIGINT compactions:JSON rounds:JSON"
)
_RECORDED = """
    CREATE OR REPLACE TEMP TABLE agent_turns AS
    SELECT seq, harness, step AS step_number, "timestamp", agent, coalesce(scope, '') AS scope,
           coalesce(session, '') AS session, turn, model, coalesce(stop_reason, '') AS stop_reason,
           coalesce(error, '') AS error, tool_calls, tool_errors,
           coalesce(json_array_length(compactions), 0)::BIGINT AS compactions, rounds::JSON[] AS rounds
    FROM ({transcripts}) t WHERE {own}
"""
_BEGUN = """
    INSERT INTO agent_turns
    WITH marks AS (
        SELECT *, regexp_extract(key, '^(.+/)(request|round/([0-9]+)(/tool/[0-9]+)?)$',
                                 ['scope', 'what', 'number', 'tool']) AS part
        FROM (SELECT seq, harness, step AS step_number, "timestamp", kind, key, result FROM ({effects})) e
        JOIN (SELECT harness, max(last_step) AS last_step FROM lives GROUP BY harness) USING (harness)
        WHERE step_number = last_step + 1 AND list_contains(?, harness)
    ), made AS (
        SELECT *, TRY_CAST(part.number AS INTEGER) AS number, part.tool <> '' AS is_tool, kind = 'outcome' AS is_outcome,
               kind = 'outcome' AND part.number <> '' AND part.tool = '' AND json_type(result) = 'OBJECT' AS is_answer
        FROM marks WHERE part.scope <> ''
    )
    SELECT min(seq), harness, step_number, min("timestamp"), any_value(regexp_extract(part.scope, '([^/#]+)[^/]*/$', 1)),
           part.scope AS scope, '', NULL, coalesce(arg_min(result ->> '$.model', number) FILTER (is_answer), ''), '',
           '{unknown}', count(DISTINCT key) FILTER (is_tool),
           count(*) FILTER (is_outcome AND is_tool AND (result ->> '$.is_error') = 'true'), 0,
           coalesce(list(result ORDER BY number) FILTER (is_answer), [])
    FROM made GROUP BY harness, step_number, part.scope
    HAVING bool_or(part.what = 'request')
       AND (harness, step_number, part.scope) NOT IN (SELECT (harness, step_number, scope) FROM agent_turns)
"""
_ROUNDS = f"""
    CREATE OR REPLACE TEMP TABLE agent_rounds AS
    SELECT seq, harness, agent, coalesce(r ->> '$.model', '') AS model, TRY_CAST(r ->> '$.cost' AS DECIMAL(38, 18)) AS cost,
           {", ".join(f"coalesce(TRY_CAST(r ->> '$.usage.{name}' AS BIGINT), 0) AS {name}" for name in _TOKENS)}, place
    FROM (SELECT seq, harness, agent, step_number, unnest(rounds) AS r, generate_subscripts(rounds, 1) AS place
          FROM agent_turns)
    LEFT JOIN (SELECT harness, max(origin_step) AS origin_step, arg_max(rounds, seq) AS copied
               FROM ({{forks}}) WHERE rounds > 0 GROUP BY harness) USING (harness)
    WHERE step_number IS DISTINCT FROM origin_step + 1 OR place > copied
"""
"""The model calls of a harness itself: the first ones of a step may be those of its origin."""
_SUMS = ", ".join(f"sum({name})::BIGINT AS {name}" for name in _TOKENS)
_MODELS = f"""
    WITH spent AS (
        SELECT harness, agent, model, count(*) AS model_calls, {_SUMS}, sum(cost) AS cost FROM agent_rounds GROUP BY ALL
    ), taken AS (
        SELECT harness, agent, coalesce(f.model, t.model) AS model, count(*) AS turns,
               count(*) FILTER (error <> '') AS without_answer, sum(tool_calls)::BIGINT AS tool_calls,
               sum(tool_errors)::BIGINT AS tool_errors, sum(compactions)::BIGINT AS compactions
        FROM agent_turns t LEFT JOIN (SELECT seq, arg_min(model, place) AS model FROM agent_rounds GROUP BY seq) f USING (seq)
        GROUP BY ALL
    )
    SELECT harness, agent, model, coalesce(turns, 0) AS turns, coalesce(without_answer, 0), coalesce(model_calls, 0),
           coalesce(tool_calls, 0), coalesce(tool_errors, 0), coalesce(input_tokens, 0), coalesce(cached_tokens, 0),
           coalesce(output_tokens, 0), cost, coalesce(compactions, 0)
    FROM taken FULL JOIN spent USING (harness, agent, model)
    ORDER BY coalesce(cost, 0) DESC, turns DESC, harness, agent, model
"""
_TURNS = f"""
    SELECT harness, step_number, agent, session, turn, coalesce(s.model, t.model), coalesce(model_calls, 0), tool_calls,
           tool_errors, coalesce(input_tokens, 0), coalesce(output_tokens, 0), s.cost, stop_reason, error, "timestamp"
    FROM agent_turns t LEFT JOIN (
        SELECT seq, arg_min(model, place) AS model, count(*) AS model_calls, {_SUMS}, sum(cost) AS cost
        FROM agent_rounds GROUP BY seq
    ) s USING (seq)
    ORDER BY coalesce(s.cost, 0) DESC, coalesce(input_tokens, 0) + coalesce(output_tokens, 0) DESC, seq LIMIT {_MOST}
"""
_SAID = f"""
    SELECT harness, step, body::VARCHAR FROM records t WHERE kind = 'transcript' AND {_OWN.format(step="step")}
    ORDER BY seq DESC LIMIT {_NEWEST}
"""
_COUNTS = "turns without_answer model_calls tool_calls tool_errors input_tokens cached_tokens output_tokens cost compactions"
_COST = "cost in US dollars; 0 for models without a price."


def answer(run: Run, *, harness: str | None = None) -> Answer:
    """Return the turns of agents, the most expensive first.

    Raises:
        UsageError: there is no such harness.
    """
    run.expect(once=True)
    names = harnesses(run, harness)
    look(run)
    _read(run, names)
    models = [(*row[:11], money(row[11]), row[12]) for row in run.rows(_MODELS)]
    turns = [(*row[:11], money(row[11]), row[12], one_line(row[13], _TEXT), moment(row[14])) for row in run.rows(_TURNS)]
    said = [row for record in reversed(run.rows(_SAID, [names])) for row in _said(*record)]
    tables = (
        Table(
            "models", f"harness agent model {_COUNTS}", models, " ".join(filter(None, (_COST, what_was_copied(run, names))))
        ),
        Table(
            "turns",
            "harness step agent session turn model model_calls tool_calls tool_errors input_tokens output_tokens cost "
            "stop_reason error timestamp",
            turns,
            f"the most expensive {_MOST}; {_COST}",
        ),
        Table(
            "messages",
            "harness step agent message role text",
            said,
            f"of the newest {_NEWEST} turns; `orchestrator transcript` shows all that was said",
        ),
    )
    return Answer("turns", tables, [*_sentences(models, turns), *what_is_gone(run, names)])


def _read(run: Run, names: list[str]) -> None:
    """Create `agent_turns`, the turns with their model calls, and `agent_rounds`, the calls that no fork has copied."""
    own = run.source.own
    run.rows(_RECORDED.format(transcripts=own(("transcript",), _FIELDS), own=_OWN.format(step="step")), [names])
    effects = own(("intent", "outcome"), {"key": "VARCHAR", "result": "JSON"})
    run.rows(_BEGUN.format(effects=effects, unknown=_UNKNOWN), [names])
    run.rows(_ROUNDS.format(forks=own(("forked",), {"origin_step": "BIGINT", "rounds": "BIGINT"})))


def _said(harness: str, step: int, body: str) -> Iterator[tuple[Cell, ...]]:
    """Yield what was said in a turn."""
    fields = object_of(body)
    place = (harness, step, shown(str(fields.get("agent", ""))))
    messages = fields.get("messages")
    if not isinstance(messages, list):
        yield (*place, None, "", "its messages are in a file beside the store, or encrypted")
        return
    for index, message in enumerate(cast("list[object]", messages)):
        parts: Mapping[str, Any] = cast("Mapping[str, Any]", message) if isinstance(message, dict) else {}
        yield (*place, index, shown(str(parts.get("role", ""))), one_line(" ".join(_words(parts)), _TEXT))


def _words(message: Mapping[str, Any]) -> Iterator[str]:
    yield str(message.get("text", ""))[: 2 * _TEXT]
    for call in message.get("calls", ()):
        yield f"-> {call.get('name')} {call.get('arguments', '{}')}"[: 2 * _TEXT]
    for result in message.get("results", ()):
        yield f"{result.get('name')}{' failed' if result.get('is_error') else ''}: {result.get('text', '')}"[: 2 * _TEXT]


def _sentences(models: Sequence[Sequence[Any]], turns: Sequence[Sequence[Any]]) -> Iterator[str]:
    if not models:
        yield "No turn of an agent is recorded."
        return
    for harness, agent, model, count, without, calls, tools, failed, read, _, written, cost, _ in models[:5]:
        ends = f", {number(without)} of them without an answer" if without else ""
        wrong = f" ({number(failed)} failed)" if failed else ""
        price = f", {cost} US dollars" if cost not in (None, "0") else ""
        yield (
            f"{shown(harness)}: {shown(agent)} took {times(count, 'turn')}{ends}, with {times(calls, 'call')} of "
            f"{shown(model)} and {times(tools, 'tool call')}{wrong}: {number(read)} tokens read, "
            f"{number(written)} written{price}."
        )
    unanswered = [f"step {row[1]} of {shown(row[0])} ({row[13]})" for row in turns if row[13]]
    if unanswered:
        yield f"Turns without an answer: {listed(unanswered, 3)}."
