"""Transcripts as text for people: wrapped, inert, long parts cut. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from decimal import Decimal

from attrs import frozen

from harnesses.agents.model.messages import Message, ModelUsage, Role, ToolCall, ToolResult
from harnesses.agents.model.transcript import Compaction, ModelRound, Transcript
from orchestrator.history.turn_transcripts import RecordedTurn
from orchestrator.text.json_text import stamp
from orchestrator.text.terminal_text import inert, one_line

_INDENT = "  "
_MOST_LINES = 40
"""Lines of one text that are shown, unless all are wanted."""
_MOST_CHARACTERS = 4_000


@frozen
class Layout:
    """How transcripts are shown."""

    width: int
    is_full: bool
    """Whether long texts are shown to their end."""


def turn_lines(turn: RecordedTurn, layout: Layout) -> Iterator[str]:
    """Yield a turn as lines: what it is, then its messages."""
    said = turn.transcript
    where = "" if turn.is_recorded else ", in progress" if not said.error else ""
    session = f", session {one_line(said.session, 60)}, turn {said.turn}" if said.session else ""
    who = one_line(said.agent or "an agent", 60)
    yield f"== step {turn.step_number}{where}: {who}{session} ({stamp(turn.timestamp)[:19].replace('T', ' ')}) =="
    if totals := _totals(said):
        yield totals
    rounds = {each.message: each for each in said.rounds}
    for place, message in enumerate(said.messages):
        for compaction in said.compactions:
            if compaction.message == place:
                yield from _compaction(compaction, layout)
        yield ""
        yield from _message(message, rounds.get(place), layout)
    for compaction in said.compactions:
        if compaction.message >= len(said.messages):
            yield from _compaction(compaction, layout)
    if said.error:
        yield ""
        yield f"ended without an answer: {one_line(said.error, 1000)}"


def _totals(said: Transcript) -> str:
    if not said.rounds:
        return ""
    failed = f" ({said.tool_errors} failed)" if said.tool_errors else ""
    calls = f"{said.tool_calls} tool call{'s' * (said.tool_calls != 1)}{failed}"
    ended = f"; {one_line(said.stop_reason, 40)}" if said.stop_reason else ""
    return f"{len(said.rounds)} model call{'s' * (len(said.rounds) != 1)}, {calls}; {_spent(said.usage, said.cost)}{ended}"


def _spent(usage: ModelUsage, cost: Decimal) -> str:
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    money = f", ${cost.normalize():f}" if cost else ""
    estimated = f" ({usage.estimated_tokens:,} tokens estimated)" if usage.estimated_tokens else ""
    return f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out{money}{estimated}"


def _message(message: Message, answered: ModelRound | None, layout: Layout) -> Iterator[str]:
    if message.role is Role.TOOL:
        for result in message.results:
            yield from _result(result, layout)
        return
    yield message.role.value + (f" ({_answered(answered)})" if answered is not None else "")
    for thinking in message.thinking:
        yield from _text(f"[thinking] {thinking.text or 'not shown by the provider'}", layout)
    if message.text:
        yield from _text(message.text, layout)
    for call in message.calls:
        yield from _call(call, layout)


def _answered(answered: ModelRound) -> str:
    tries = f", {answered.attempts} requests" if answered.attempts > 1 else ""
    reason = f", instead of the first model: {one_line(answered.reason, 200)}" if answered.reason else ""
    again = ", after a call that was cut off or failed, charged apart" if answered.is_repeated else ""
    return f"{one_line(answered.model, 80)}, {_spent(answered.usage, answered.cost)}{tries}{again}{reason}"


def _call(call: ToolCall, layout: Layout) -> Iterator[str]:
    yield from _text(f"-> {call.name} {call.arguments}", layout)


def _result(result: ToolResult, layout: Layout) -> Iterator[str]:
    yield f"tool {one_line(result.name, 80)}{' failed' if result.is_error else ''}"
    yield from _text(result.text, layout)


def _compaction(compaction: Compaction, layout: Layout) -> Iterator[str]:
    yield ""
    tokens = f", about {compaction.tokens_before:,} tokens to {compaction.tokens_after:,}" if compaction.tokens_before else ""
    yield f"-- compacted{tokens}: {one_line(compaction.reason, 300)} --"
    yield from _text(compaction.summary, layout)


def _text(text: str, layout: Layout) -> Iterator[str]:
    """Yield a text indented and wrapped, its end left out if it is long."""
    most = len(text) if layout.is_full else _MOST_CHARACTERS
    lines = inert(text[:most]).split("\n")
    shown = lines if layout.is_full else lines[:_MOST_LINES]
    for line in shown:
        yield from _wrapped(line.expandtabs(4), layout.width)
    left = len(text) - sum(len(line) + 1 for line in shown)
    if left > 1:
        yield f"{_INDENT}… {left:,} more characters; --full shows them"


def _wrapped(line: str, width: int) -> list[str]:
    if len(line) + len(_INDENT) <= width:
        return [f"{_INDENT}{line}".rstrip()]
    start = line[: len(line) - len(line.lstrip())][: width // 2]
    return textwrap.wrap(
        line.strip(),
        width,
        initial_indent=_INDENT + start,
        subsequent_indent=_INDENT + start,
        break_on_hyphens=False,
        replace_whitespace=False,
    )


def message_fields(turn: RecordedTurn) -> Iterator[Mapping[str, object]]:
    """Yield each message of a turn as the command shows it in JSON."""
    said = turn.transcript
    rounds = {each.message: each for each in said.rounds}
    compactions = {each.message: each for each in said.compactions}
    place = {"harness": turn.harness, "step_number": turn.step_number, "recorded": turn.is_recorded, "agent": said.agent}
    for index, message in enumerate(said.messages):
        answered = rounds.get(index)
        yield {
            **place,
            "scope": said.scope,
            "session": said.session,
            "turn": said.turn,
            "message": index,
            "role": message.role,
            "text": message.text,
            "thinking": message.thinking,
            "calls": message.calls,
            "results": message.results,
            "answered": answered,
            "compaction": compactions.get(index),
        }
