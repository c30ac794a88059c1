"""`Transcript`: the conversation of one turn of an agent, as it is stored beside the step. Pure.

    one session   transcript of turn 1 ─► transcript of turn 2 ─► …     each has what was said in its own turn

Invariants: a transcript holds what was said in its turn, in order, and nothing of earlier turns; `carried_on` puts the turns
of a session together again. It is bounded: what does not fit is cut, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec
from attrs import evolve, field, fields, frozen, has

from harnesses.agents.model.messages import Message, ModelUsage, Role
from harnesses.redaction.redactor import MARK

KIND = "transcript"
"""The kind of attachment."""
MAX_CHARACTERS = 4_000_000
"""Maximum characters of the texts of one transcript; the longest texts are cut first."""
_NO_USAGE, _NO_COST = ModelUsage(), Decimal(0)
_SHORT = 2_000
"""Texts of at most so many characters are never cut."""


@frozen(kw_only=True)
class ModelRound:
    """One model call of a turn."""

    model: str
    """`provider:model` that answered."""
    message: int = 0
    """Position of its answer in the messages."""
    usage: ModelUsage = _NO_USAGE
    """Tokens of the call."""
    cost: Decimal = _NO_COST
    """In US dollars; 0 if the model has no price."""
    attempts: int = 1
    """Requests that were sent for it."""
    reason: str = ""
    """Why another model than the first was asked; empty if it was not."""
    is_repeated: bool = False
    """Whether an earlier attempt at it was cut off or has failed: what that has used is charged, and not part of `usage`."""


@frozen(kw_only=True)
class Compaction:
    """A summary that replaced everything said before, since the conversation had grown too long for the model."""

    reason: str
    """Why the conversation was compacted."""
    summary: str
    """The text that replaced the older messages."""
    message: int = 0
    """Position of the first message said after it; the model saw the summary instead of what is before."""
    tokens_before: int = 0
    """Estimated tokens of the conversation before it, and after it."""
    tokens_after: int = 0
    """Estimated tokens of the conversation after it."""


@frozen(kw_only=True)
class Transcript:
    """The conversation of one turn."""

    agent: str
    """Name of the agent."""
    model: str
    """`provider:model` that was asked first; empty if it is not known."""
    messages: tuple[Message, ...] = field(converter=tuple[Message, ...])
    """What was said in this turn: system prompt and task, then answers and tool results."""
    scope: str = ""
    """Prefix of the keys of its effects; names the call of the agent within the step, such as `coder#1/`."""
    session: str = ""
    """Id of the conversation that the turn belongs to; empty if it stands alone."""
    turn: int = 1
    """Number of the turn within its session."""
    work: str = ""
    """The try that the turn was made for, such as `parser:1`; empty if it was for none. A try without a verdict is made
    again, and its last turn counts."""
    stop_reason: str = ""
    """Why the model stopped last; empty while the turn is in progress."""
    error: str = ""
    """Why the turn ended without an answer; empty if it has one."""
    rounds: tuple[ModelRound, ...] = field(default=(), converter=tuple[ModelRound, ...])
    """The model calls, in order, including those for summaries."""
    compactions: tuple[Compaction, ...] = field(default=(), converter=tuple[Compaction, ...])
    """The summaries that replaced older messages, oldest first."""

    @property
    def usage(self) -> ModelUsage:
        """Tokens of all model calls."""
        return sum((each.usage for each in self.rounds), _NO_USAGE)

    @property
    def cost(self) -> Decimal:
        """Cost of all model calls, in US dollars."""
        return sum((each.cost for each in self.rounds), _NO_COST)

    @property
    def tool_calls(self) -> int:
        """Number of tool calls with a result, failed ones included."""
        return sum(len(message.results) for message in self.messages)

    @property
    def tool_errors(self) -> int:
        """Number of tool calls that failed."""
        return sum(result.is_error for message in self.messages for result in message.results)


def as_record(transcript: Transcript) -> dict[str, Any]:
    """Return what is attached to the step: totals for queries, then the parts; empty fields are left out."""
    said = _plain(evolve(transcript, messages=_within(transcript.messages)))
    parts = {name: said.pop(name, []) for name in ("rounds", "compactions", "messages")}
    totals = {
        "model_calls": len(transcript.rounds),
        "tool_calls": transcript.tool_calls,
        "tool_errors": transcript.tool_errors,
        **_plain(transcript.usage),
        "cost": str(transcript.cost),
        "message_count": len(transcript.messages),
    }
    return {**said, "turn": transcript.turn, **totals, **parts}


def from_record(record: Mapping[str, Any]) -> Transcript:
    """Read a transcript back from its record.

    Raises:
        ValueError: it is not the record of a transcript, for instance because what was said had to be withheld.
    """
    names = ("agent", "model", "messages", "scope", "session", "turn", "work", "stop_reason", "error", "rounds", "compactions")
    try:
        return msgspec.convert({name: record[name] for name in names if name in record}, Transcript, strict=False)
    except (msgspec.ValidationError, TypeError) as error:
        raise ValueError(f"not the record of a transcript: {error}") from error


def carried_on(transcripts: Sequence[Transcript], work: str = "") -> tuple[Message, ...]:
    """Return the messages with which the next turn of a session begins, without system prompts.

    Turns of tries that were made again are left out, as if they had not begun.

    Args:
        transcripts: the turns of the session so far, oldest first; those before the last compaction may be missing.
        work: `Transcript.work` of the next turn.
    """
    said: list[Message] = []
    counted = {transcript.work: transcript for transcript in transcripts if transcript.work != work}
    for transcript in transcripts:
        is_made_again = bool(transcript.work) and counted.get(transcript.work) is not transcript
        if is_made_again and not transcript.compactions:  # A summary stands for earlier turns too.
            continue
        start = 0
        if transcript.compactions:
            last = transcript.compactions[-1]
            said, start = [Message(role=Role.USER, text=last.summary)], last.message
        said += (_resent(message) for message in transcript.messages[start:] if message.role is not Role.SYSTEM)
    return tuple(said)


def _resent(message: Message) -> Message:
    """Return a message without the reasoning that a secret was removed from: it no longer fits its proof."""
    fits = tuple(part for part in message.thinking if MARK not in part.text and MARK not in part.proof)
    return message if len(fits) == len(message.thinking) else evolve(message, thinking=fits)


def _plain(value: object) -> Any:
    """Return a value as plain data, without the fields that have their default."""
    cls: Any = type(value)
    if has(cls):
        parts = ((each.name, getattr(value, each.name), each.default) for each in fields(cls))
        return {name: _plain(part) for name, part, default in parts if part != default}
    return [*map(_plain, value)] if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _within(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages with at most `MAX_CHARACTERS` of text: the longest texts are cut to one length."""
    lengths = sorted(len(text) for message in messages for text in _texts(message))
    if sum(lengths) <= MAX_CHARACTERS:
        return messages
    left, most = MAX_CHARACTERS, _SHORT
    for place, length in enumerate(lengths):
        share = left // (len(lengths) - place)
        if length > share:
            most = max(share, _SHORT)
            break
        left -= length
    return tuple(_cut(message, most) for message in messages)


def _texts(message: Message) -> list[str]:
    calls, results = [call.arguments for call in message.calls], [result.text for result in message.results]
    return [message.text, *(part.text for part in message.thinking), *calls, *results]


def _cut(message: Message, most: int) -> Message:
    def cut(text: str) -> str:
        return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} characters are left out)"

    return evolve(
        message,
        text=cut(message.text),
        thinking=tuple(evolve(part, text=cut(part.text)) for part in message.thinking),
        calls=tuple(evolve(call, arguments=cut(call.arguments)) for call in message.calls),
        results=tuple(evolve(result, text=cut(result.text)) for result in message.results),
    )
