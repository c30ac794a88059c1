"""Events of an agent's turn, as they happen.

    thinking_delta*  text_delta*  tool_call_delta*  message_complete  tool_started  tool_finished  …  turn_complete

Invariant: a turn ends with `turn_complete`, which has its result; a turn without it has failed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, TypeVar

from attrs import frozen

ResultT = TypeVar("ResultT")


class TurnEventKind(StrEnum):
    """The kind of an event of a turn."""

    TEXT_DELTA = "text_delta"
    """A part of the answer's text."""
    THINKING_DELTA = "thinking_delta"
    """A part of the model's reasoning."""
    TOOL_CALL_DELTA = "tool_call_delta"
    """A part of a tool call's arguments, as JSON."""
    TOOL_STARTED = "tool_started"
    """A tool call has begun; `text` has its arguments."""
    TOOL_FINISHED = "tool_finished"
    """A tool call has ended, with its output or its error."""
    MESSAGE_COMPLETE = "message_complete"
    """An answer of the model is complete."""
    MESSAGE_RESTARTED = "message_restarted"
    """The request failed in mid-stream (`error`) and is made again: what was streamed of this message is superseded."""
    TOOL_ROUND_LIMIT = "tool_round_limit"
    """The agent reached the maximum number of tool rounds."""
    TURN_COMPLETE = "turn_complete"
    """The last event of a turn."""


@frozen(kw_only=True)
class TurnEvent(Generic[ResultT]):
    """An event of a turn."""

    kind: TurnEventKind
    """What happened."""
    text: str = ""
    """The new part of the text, of the reasoning or of a tool call's arguments; the whole message; or a tool's output."""
    tool: str = ""
    """Name of the tool, for events of tool calls."""
    call_id: str = ""
    """Id of the tool call, for events of tool calls."""
    error: str = ""
    """Error of a failed tool."""
    rounds: int = 0
    """Number of the model call within the turn, from 1; for `tool_round_limit`, the maximum number of tool rounds."""
    is_replayed: bool = False
    """Whether this happened before a restart, and is told again because the turn goes on after it."""
    result: ResultT | None = None
    """The result of the turn, for `turn_complete`."""

    @classmethod
    def complete(cls, result: ResultT) -> TurnEvent[ResultT]:
        """Return the event that ends a turn."""
        return cls(kind=TurnEventKind.TURN_COMPLETE, result=result)
