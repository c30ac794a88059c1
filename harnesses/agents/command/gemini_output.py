"""Reads the JSON lines of `gemini --output-format stream-json`. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harnesses.agents.command.agent_output import SHOWN, EventList, ReadEvent, Reply
from harnesses.agents.command.output_json import as_text, inner, parsed, string
from harnesses.budgets.usage import UNUSED, Usage, count_of
from harnesses.features.agent_text import kept_part
from harnesses.features.feature_record import MAX_TEXT


class GeminiReading:
    """Reads the output of one run of Gemini CLI.

    Events: init (has the session id), message (of the user, or a part of one of the model), tool_use, tool_result, error,
    result (`status`, and `stats` of this run: seen with 0.61.0). An unknown session ends the program before init.
    """

    thread = ""

    def __init__(self) -> None:
        self._session: str | None = None
        self._model = ""
        self._parts: list[str] = []
        self._message = ""
        self._usage = UNUSED
        self._ended = False
        self._error: str | None = None
        self._told = EventList()

    @property
    def events(self) -> Sequence[ReadEvent]:
        """The events that the last line reported."""
        return self._told.events

    def line(self, text: str) -> str:
        """Parse one event."""
        self._told.begin_line()
        event = parsed(text)
        kind = string(event, "type")
        if kind == "message" and string(event, "role") == "assistant":
            self._take_part(string(event, "content"))
            return ""
        said = self._end_message()
        return "\n".join(part for part in (said, self._take(kind, event, text)) if part)[:SHOWN]

    def _take(self, kind: str, event: Mapping[str, Any], text: str) -> str:
        match kind:
            case "init":
                self._session, self._model = string(event, "session_id") or None, string(event, "model")
                return f"[init] session {self._session}"
            case "tool_use":
                tool, arguments = string(event, "tool_name"), as_text(event.get("parameters"), MAX_TEXT)
                self._told.started(tool, string(event, "tool_id"), arguments)
                return f"[{tool}] {arguments[:200]}"
            case "tool_result":
                error = string(inner(event, "error"), "message") if string(event, "status") == "error" else ""
                self._told.finished(string(event, "tool_id"), string(event, "output"), error=error)
                return f"[tool failed] {error}" if error else ""
            case "result":
                return self._end(event)
            case "error":
                return f"[error] {string(event, 'message')}"
            case "message":
                return ""
            case _:
                return text

    def _take_part(self, part: str) -> None:
        self._told.text(part)
        if sum(map(len, self._parts)) < MAX_TEXT:
            self._parts.append(part)

    def _end_message(self) -> str:
        said, self._parts = "".join(self._parts), []
        if said:
            self._message = said
            self._told.message(said, is_streamed=True)
        return said

    def _end(self, event: Mapping[str, Any]) -> str:
        stats = inner(event, "stats")
        self._usage = self._usage.max(_gemini_usage(stats))
        self._ended = True
        failed = string(event, "status") != "success"
        self._error = string(inner(event, "error"), "message") or "the turn failed" if failed else None
        return f"[turn failed] {self._error}" if failed else f"[turn completed] {self._usage.tokens} tokens"

    @property
    def usage(self) -> Usage:
        """The usage of this run, known at its end."""
        return self._usage

    def reply(self) -> Reply:
        """Return the outcome of the turn."""
        error = self._error if self._ended else "the output ended before the turn was completed"
        return Reply(
            message=kept_part("".join(self._parts) or self._message),
            session=self._session,
            tokens=self._usage.tokens,
            model=f"gemini:{self._model}" if self._model else "",
            error=None if error is None else kept_part(error),
            worked=self._session is not None,
        )


def _gemini_usage(stats: Mapping[str, Any]) -> Usage:
    # `total_tokens` includes thoughts and tool results, which the other two do not.
    read, written, cached = (count_of(stats.get(name)) for name in ("input_tokens", "output_tokens", "cached"))
    return Usage(
        input_tokens=read,
        output_tokens=written,
        cached_tokens=min(cached, read),
        tokens=max(read + written, count_of(stats.get("total_tokens"))),
    )
