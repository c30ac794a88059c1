"""Turns: what agents asked which models, what it cost, how turns ended, and what was said in the newest ones.

What was said comes from the transcripts. Messages of more than 64 kB are in files beside a store, which an analysis does not
read: `orchestrator transcript` shows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from orchestrator.analysis.answers.answer import Answer, Cell, Table, listed, moment, money, number, shown, times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.run_tables import look, what_is_gone, what_was_copied
from orchestrator.analysis.questions.record_scan import harnesses
from orchestrator.text.json_text import object_of
from orchestrator.text.terminal_text import one_line

_MOST, _NEWEST, _TEXT = 200, 20, 300
"""Limit on the turns of the table, on the newest turns whose messages are shown, and on the characters of a message."""
_SUMS = (
    "count(*) AS turns, count(*) FILTER (error <> '') AS without_answer, sum(model_calls)::BIGINT, sum(tool_calls)::BIGINT, "
    "sum(tool_errors)::BIGINT, sum(input_tokens)::BIGINT, sum(cached_tokens)::BIGINT, sum(output_tokens)::BIGINT, sum(cost), "
    "sum(compactions)::BIGINT"
)
_OWN = "list_contains(?, harness) AND {step} > coalesce((SELECT max(copied) FROM remaining m WHERE m.harness = t.harness), 0)"
"""Turns of a harness itself: those of steps that a fork has copied were taken, and paid, by its origin."""
_MODELS = f"""
    SELECT harness, agent, model, {_SUMS} FROM transcripts t WHERE {_OWN.format(step="step_number")}
    GROUP BY ALL ORDER BY sum(cost) DESC, turns DESC, harness, agent, model
"""
_TURNS = f"""
    SELECT harness, step_number, agent, session, turn, model, model_calls, tool_calls, tool_errors, input_tokens,
           output_tokens, cost, stop_reason, error, "timestamp"
    FROM transcripts t WHERE {_OWN.format(step="step_number")}
    ORDER BY cost DESC, input_tokens + output_tokens DESC, seq LIMIT {_MOST}
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
    models = [(*row[:11], money(row[11]), row[12]) for row in run.rows(_MODELS, [names])]
    turns = [
        (*row[:11], money(row[11]), row[12], one_line(row[13], _TEXT), moment(row[14])) for row in run.rows(_TURNS, [names])
    ]
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
