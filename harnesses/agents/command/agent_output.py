"""Readings: parsers of the output of a command-line agent, for the log, for those who follow it, and for the result of a turn.

No I/O. Invariant: malformed output never raises. Lines that cannot be parsed are logged as they are and have no other effect.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from attrs import frozen

from harnesses.budgets.usage import UNUSED, Usage
from harnesses.data.newest import keep_newest
from harnesses.features.agent_text import kept_part, storable
from harnesses.features.feature_record import MAX_TEXT
from harnesses.turn_events import TurnEvent, TurnEventKind

SHOWN = 2_000
"""Maximum characters of one line that are logged."""
ReadEvent: TypeAlias = TurnEvent[Any]
"""An event without a result."""


@frozen(kw_only=True)
class Reply:
    """The result of one turn, as the agent's output reports it."""

    message: str = ""
    """The last message of the agent."""
    session: str | None = None
    """Id of the conversation, with which the next turn resumes it; None if there is none."""
    tokens: int = 0
    """Tokens read and written, including cached ones."""
    usage: Usage = UNUSED
    """Usage of this run; of the whole conversation if the program reports only that total."""
    is_total: bool = False
    """Whether `usage` is that of the whole conversation."""
    model: str = ""
    """The model that answered, as `provider:model`; empty if the output does not say."""
    stop_reason: str = "end_turn"
    """Why the agent stopped, in the program's own words."""
    error: str | None = None
    """The error that the program reported; None if the turn ended normally."""
    resets_at: float | None = None
    """When a used-up limit ends, in seconds since 1970, if the program says so in a field of its own."""
    worked: bool = True
    """Whether the agent did anything; if not, the turn can be started again."""


@runtime_checkable
class Reading(Protocol):
    """Parses the output of one turn."""

    def line(self, text: str) -> str:
        """Parse one line of standard output; return the text to log, or "" for none."""
        ...

    def reply(self) -> Reply:
        """Return the result of the turn, after the last line."""
        ...


@runtime_checkable
class UsageReading(Protocol):
    """A reading that knows the usage so far while the program is still running."""

    @property
    def usage(self) -> Usage:
        """Usage of this run, or of the whole conversation if `thread` is set. Tool calls are counted separately."""
        ...

    @property
    def thread(self) -> str:
        """The id of the conversation that `usage` totals; empty if `usage` covers this run alone."""
        ...


@runtime_checkable
class EventReading(Protocol):
    """A reading that knows what the agent does while the program is still running."""

    @property
    def events(self) -> Sequence[ReadEvent]:
        """The events that the last line reported, in order."""
        ...


def innermost(reading: Reading) -> Reading:
    """Return the innermost of nested readings, following their `inner` attributes."""
    while isinstance(within := getattr(reading, "inner", None), Reading):
        reading = within
    return reading


class PlainReading:
    """Reads plain text; the last part of it becomes the message."""

    def __init__(self) -> None:
        self._last: deque[str] = deque(maxlen=200)
        self.events: Sequence[ReadEvent] = ()

    def line(self, text: str) -> str:
        """Store the line."""
        self._last.append(text[-MAX_TEXT:])
        self.events = (TurnEvent(kind=TurnEventKind.TEXT_DELTA, text=f"{storable(text[:MAX_TEXT])}\n"),)
        return text[:SHOWN]

    def reply(self) -> Reply:
        """Return the last part of the text as the message."""
        return Reply(message=kept_part("\n".join(self._last).strip()), worked=bool(self._last))


_MOST_CALLS = 256
"""Maximum tool calls in progress whose names are remembered."""


class EventList:
    """Collects the events of one line at a time, and remembers the names of tool calls in progress."""

    def __init__(self) -> None:
        self.rounds = 0
        """Number of the model call, from 1; 0 if the program does not report them."""
        self._tools: dict[str, str] = {}
        self._events: list[ReadEvent] = []

    def begin_line(self) -> None:
        self._events = []

    @property
    def events(self) -> Sequence[ReadEvent]:
        return self._events

    def text(self, text: str) -> None:
        self._add(TurnEventKind.TEXT_DELTA, text)

    def thinking(self, text: str) -> None:
        self._add(TurnEventKind.THINKING_DELTA, text)

    def message(self, text: str, *, is_streamed: bool = False) -> None:
        """Report a whole message, and its text as one delta if the program has not reported the parts before."""
        if not is_streamed:
            self.text(text)
        self._add(TurnEventKind.MESSAGE_COMPLETE, text)

    def arguments(self, tool: str, call_id: str, text: str) -> None:
        """Report a part of a tool call's arguments."""
        self._add(TurnEventKind.TOOL_CALL_DELTA, text, tool=tool, call_id=call_id)

    def started(self, tool: str, call_id: str, text: str) -> None:
        """Report a tool call, with its arguments; nothing if it is known already."""
        if call_id and call_id in self._tools:
            return
        keep_newest(self._tools, call_id, tool, _MOST_CALLS)
        self._events.append(self._event(TurnEventKind.TOOL_STARTED, text, tool=tool, call_id=call_id))

    def finished(self, call_id: str, text: str, *, tool: str = "", error: str = "") -> None:
        """Report the end of a tool call: its output, or its error."""
        known = tool or self._tools.get(call_id, "")
        self._events.append(self._event(TurnEventKind.TOOL_FINISHED, text, tool=known, call_id=call_id, error=error))

    def _add(self, kind: TurnEventKind, text: str, **more: str) -> None:
        if text:
            self._events.append(self._event(kind, text, **more))

    def _event(self, kind: TurnEventKind, text: str, *, tool: str = "", call_id: str = "", error: str = "") -> ReadEvent:
        return TurnEvent(
            kind=kind,
            text=storable(text[:MAX_TEXT]),
            tool=storable(tool[:_MOST_NAME]),
            call_id=storable(call_id[:_MOST_NAME]),
            error=storable(error[:MAX_TEXT]),
            rounds=self.rounds,
        )


_MOST_NAME = 200
