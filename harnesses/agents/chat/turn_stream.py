"""`RoundStream`: makes the events of a streamed model call into events of the turn. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from harnesses.agents.model.messages import StreamEvent, StreamRestarted, TextDelta, ThinkingDelta, ToolCallDelta
from harnesses.turn_events import TurnEvent, TurnEventKind


@frozen
class RoundStream:
    """Passes on the events of one model call."""

    _tell: Callable[[object], None]
    _number: int
    """Number of the model call within the turn."""

    def tell(self, event: StreamEvent | StreamRestarted) -> None:
        """Pass on an event. The turn itself reports the end of the answer, once it is recorded."""
        told: TurnEvent[Any]
        match event:
            # Not `TurnEvent[Any](…)`, which takes twice as long: there is one for each part of an answer.
            case TextDelta(text):
                told = TurnEvent(kind=TurnEventKind.TEXT_DELTA, text=text, rounds=self._number)
            case ThinkingDelta(text):
                told = TurnEvent(kind=TurnEventKind.THINKING_DELTA, text=text, rounds=self._number)
            case ToolCallDelta(call_id, name, arguments):
                kind = TurnEventKind.TOOL_CALL_DELTA
                told = TurnEvent(kind=kind, text=arguments, tool=name, call_id=call_id, rounds=self._number)
            case StreamRestarted(reason):
                told = TurnEvent(kind=TurnEventKind.MESSAGE_RESTARTED, error=reason, rounds=self._number)
            case _:
                return
        self._tell(told)
