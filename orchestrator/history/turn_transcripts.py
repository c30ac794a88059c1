"""Transcripts of agents' turns: read from the store, or put together from the effects of a turn that is not recorded yet.

    coder#1/request          the first messages              a turn's effects, by which it resumes after a crash
    coder#1/round/1          the answer of the model
    coder#1/round/1/tool/2   the result of its second tool call
    coder#1/round/1/said     what the model was told then, such as why its answer did not fit
    coder#1/round/1/again    what it was told after the turn had failed

A transcript is recorded with its step. Until then, and for a turn that never ended, the effects show what was said so far.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from typing import Any, TypeVar

import msgspec
from attrs import frozen

from harnesses.agents.model.messages import Message, ModelResponse, ModelUsage, Role, ToolCall, ToolResult
from harnesses.agents.model.transcript import ModelRound, Transcript, from_record
from harnesses.effects.effect import EffectOutcome
from harnesses.effects.effect_scopes import agent_of
from harnesses.redaction.redactor import redact
from orchestrator.codec import decode
from orchestrator.errors import UsageError
from orchestrator.history.past_reader import Past, Source, find_harness, open_past, read_records
from orchestrator.records import EffectRecord, Record
from orchestrator.store.store_capabilities import Filed, Transcribed, full_body

T = TypeVar("T")
_NO_USAGE, _NO_COST = ModelUsage(), Decimal(0)
_REQUEST = re.compile(r"(.+/)request")
_PAGE = 100
WITHHELD = "what was said is not shown: its record could not be searched for secrets"


@frozen
class RecordedTurn:
    """A turn of an agent, and where it stands in the store."""

    harness: str
    """Name of the harness."""
    step_number: int
    """The step it belongs to, recorded or in progress."""
    seq: int
    """Position of its record; of a turn in progress, that of its first effect."""
    timestamp: datetime
    """When it was recorded; of a turn in progress, when it began."""
    is_recorded: bool
    """Whether the turn has ended and its step is recorded."""
    transcript: Transcript
    """What was said, with the model calls and their cost."""


def transcripts(
    source: Source, name: str, step: int | None = None, *, session: str | None = None, limit: int = _PAGE
) -> list[RecordedTurn]:
    """Return the turns of one step of a harness, oldest first, or its newest turns.

    Args:
        source: a store, or its path; it may be written to meanwhile.
        step: the step, recorded or in progress; None for any.
        session: only turns of this conversation.
        limit: maximum number of turns: the newest ones. Turns in progress are included only without a session.

    Raises:
        UnknownHarness: there is no such harness.
        StoreError: a file with messages is missing, or was changed.
        UsageError: the harness has no such step.
    """
    with open_past(source) as past:
        making = find_harness(past, name).current_step + 1
        if step is not None and not 1 <= step <= making:
            raise UsageError(f"harness {name!r} has no step {step}: expected a number from 1 to {making}, the one in progress")
        found = [_recorded(past, record) for record in _records(past, name, step, session, limit)]
        if session is None:
            found += _unrecorded(past, name, step, making, found)
    return sorted(found, key=lambda turn: (turn.step_number, turn.seq))[-limit:]


def _records(past: Past, name: str, step: int | None, session: str | None, limit: int) -> Sequence[Record]:
    if isinstance(past, Transcribed):
        return past.transcripts(name, step=step, session=session, limit=limit)
    records = [one for one in read_records(past) if one.kind == "transcript" and one.harness == name]
    chosen = [one for one in records if step in (None, one.step)]
    return [one for one in chosen if session is None or decode(one.body).get("session", "") == session][-limit:]


def _recorded(past: Past, record: Record) -> RecordedTurn:
    fields = decode(full_body(past, record.kind, record.body))
    try:
        transcript = from_record(fields)
    except ValueError:
        transcript = Transcript(agent="", model="", messages=[], error=WITHHELD)
    return RecordedTurn(record.harness, record.step, record.seq, record.timestamp, True, transcript)


def _unrecorded(past: Past, name: str, step: int | None, making: int, known: Sequence[RecordedTurn]) -> list[RecordedTurn]:
    """Return the turns of a step of which only effects are recorded: by default those of the step in progress."""
    wanted = making if step is None else step
    scopes = {(turn.step_number, turn.transcript.scope) for turn in known}
    effects = [one for one in past.effects(name, current=wanted == making) if one.step_number == wanted]
    denials, turns = _denials(past, name, wanted) if effects else {}, list[RecordedTurn]()
    for effect in effects:
        match = _REQUEST.fullmatch(effect.key)
        if match is not None and (wanted, match[1]) not in scopes:
            began = datetime.fromtimestamp(effect.time_us / 1e6, UTC)
            of_turn = {one.key: one for one in effects if one.key.startswith(match[1])}
            said = transcript_of(past, match[1], of_turn, denials)
            if said is not None:
                # What is asked of tools is recorded as the model wrote it.
                turns.append(RecordedTurn(name, wanted, effect.seq, began, False, redact(said)))
    return turns


def _denials(past: Past, name: str, step: int) -> dict[str, str]:
    """Return who has denied what of a step, by the keys of the effects; what was asked anew since is left out."""
    found: dict[str, str] = {}
    for record in past.approvals(name):
        if record.step_number == step:
            answer: dict[str, Any] = decode(record.case.answers[-1]) if record.case.answers else {}
            by, reason = answer.get("by", ""), answer.get("reason", "")
            is_denied = answer.get("verdict") == "denied"
            found[decode(record.case.request)["key"]] = f"denied by {by}: {reason}".rstrip(": ") if is_denied else ""
    return found


def _value(past: Past, effect: EffectRecord) -> Any:
    """Return the result of an effect, from its file if it is large."""
    return decode(past.read_file(effect.file)) if effect.file is not None and isinstance(past, Filed) else effect.result


@frozen(kw_only=True)
class _Begun:
    """The result of the effect with the first messages."""

    messages: list[Message]


@frozen(kw_only=True)
class _Answered:
    """The result of the effect of a model call."""

    response: ModelResponse
    model: str = ""
    usage: ModelUsage = _NO_USAGE
    cost: Decimal = _NO_COST
    attempts: int = 1
    reason: str = ""
    is_repeated: bool = False


@frozen(kw_only=True)
class _Done:
    """The result of the effect of a tool call."""

    text: str = ""
    is_error: bool = False


def transcript_of(
    past: Past, scope: str, effects: Mapping[str, EffectRecord], denials: Mapping[str, str]
) -> Transcript | None:
    """Put a transcript together from the effects of a turn and the denials of its calls, by key; None if it has not begun."""
    begun = _read(past, effects[f"{scope}request"], _Begun)
    if begun is None:
        return None
    messages, rounds, stop_reason = begun.messages, list[ModelRound](), ""
    for number in count(1):
        call = _read(past, effects.get(f"{scope}round/{number}"), _Answered)
        if call is None:
            break
        said, stop_reason = call.response.message, call.response.stop_reason.value
        rounds.append(
            ModelRound(
                model=call.model,
                message=len(messages),
                usage=call.usage,
                cost=call.cost,
                attempts=call.attempts,
                reason=call.reason,
                is_repeated=call.is_repeated,
            )
        )
        messages.append(said)
        if said.calls:
            keys = [f"{scope}round/{number}/tool/{place}" for place in range(1, len(said.calls) + 1)]
            results = [
                _result(past, call, effects.get(key), denials.get(key, "")) for call, key in zip(said.calls, keys, strict=True)
            ]
            messages.append(Message(role=Role.TOOL, results=tuple(result for result in results if result is not None)))
        for key in ("said", "again"):
            if (text := _read(past, effects.get(f"{scope}round/{number}/{key}"), str)) is not None:
                messages.append(Message(role=Role.USER, text=text))
    return Transcript(
        agent=agent_of(scope),
        model=rounds[0].model if rounds else "",
        messages=messages,
        scope=scope,
        stop_reason=stop_reason,
        rounds=rounds,
    )


def _read(past: Past, effect: EffectRecord | None, type: type[T]) -> T | None:
    """Return the result of an effect; None if it has none, or one that another program has recorded."""
    if effect is None:
        return None
    try:
        return msgspec.convert(_value(past, effect), type, strict=False)
    except msgspec.ValidationError:
        return None


def _result(past: Past, call: ToolCall, effect: EffectRecord | None, denial: str) -> ToolResult | None:
    """Return the result of a tool call; None if it has not begun, and was not denied."""
    if effect is None:
        return ToolResult(call_id=call.id, name=call.name, text=f"({denial})", is_error=True) if denial else None
    done = _read(past, effect, _Done) if effect.outcome is EffectOutcome.CONFIRMED else None
    if effect.outcome is EffectOutcome.BEGUN:
        text, is_error = "(no result is recorded yet)", False
    elif done is None:
        text, is_error = f"({effect.outcome.value}{': ' if effect.reason else ''}{effect.reason})", not effect.is_open
    else:
        text, is_error = done.text, done.is_error
    return ToolResult(call_id=call.id, name=call.name, text=text, is_error=is_error)
