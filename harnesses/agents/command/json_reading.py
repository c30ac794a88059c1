"""`JsonReading`: what the readings of programs that write JSON lines have in common. No I/O.

line ──► JSON object ──► `take` (of each program) ──► text for the log, events
                              └──► session, model, message, usage, error ──► `reply`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from harnesses.agents.command.agent_output import SHOWN, EventList, ReadEvent, Reply
from harnesses.agents.command.output_json import parsed, string
from harnesses.budgets.usage import UNUSED, Usage
from harnesses.features.agent_text import kept_part

CUT_OFF = "the output ended before the turn was completed"


class JsonReading:
    """Reads one run of a program whose lines are JSON objects; extend it by `take`, which sets what the reply is made of."""

    provider: ClassVar[str] = ""
    """Put before the model's name."""

    def __init__(self) -> None:
        self.session: str | None = None
        self.model = ""
        self.message = ""
        self.used: Usage = UNUSED
        self.ended = False
        """Whether the program said that the turn has ended; if it did not, the turn was cut off."""
        self.error: str | None = None
        self.told = EventList()

    @property
    def events(self) -> Sequence[ReadEvent]:
        """The events that the last line reported."""
        return self.told.events

    def line(self, text: str) -> str:
        """Parse one event."""
        self.told.begin_line()
        event = parsed(text)
        return self.take(string(event, "type"), event, text)[:SHOWN]

    def take(self, kind: str, event: Mapping[str, Any], text: str) -> str:
        """Take in one event, and return the text to log: `text` itself for a line that says nothing known."""
        raise NotImplementedError

    def say(self, message: str) -> str:
        """Take in a whole message of the agent."""
        self.message = message
        self.told.message(message)
        return message

    def end(self, error: str | None) -> str:
        """Take in the end of the turn, with its error if it failed."""
        self.ended, self.error = True, error
        if error is not None:
            return f"[turn failed] {error}"
        return f"[turn completed]{f' {self.used.tokens} tokens' if self.used.tokens else ''}"

    def reply(self) -> Reply:
        """Return the outcome of the turn."""
        error = self.error or (None if self.ended else CUT_OFF)
        return Reply(
            message=kept_part(self.message),
            session=self.session,
            tokens=self.used.tokens,
            model=f"{self.provider}:{self.model}" if self.provider and self.model else "",
            error=None if error is None else kept_part(error),
            worked=self.session is not None,
        )
