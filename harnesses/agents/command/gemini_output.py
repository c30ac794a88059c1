"""Reads the JSON lines of `gemini --output-format stream-json`. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harnesses.agents.command.agent_output import Reply
from harnesses.agents.command.json_reading import JsonReading
from harnesses.agents.command.output_json import as_text, inner, string
from harnesses.budgets.usage import Usage, count_of
from harnesses.features.feature_record import MAX_TEXT


class GeminiReading(JsonReading):
    """Reads the output of one run of Gemini CLI.

    Events: init (has the session id), message (of the user, or a part of one of the model), tool_use, tool_result, error,
    result (`status`, and `stats` of this run: seen with 0.61.0). An unknown session ends the program before init.
    """

    thread = ""

    provider = "gemini"

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[str] = []

    def take(self, kind: str, event: Mapping[str, Any], text: str) -> str:
        if kind == "message" and string(event, "role") == "assistant":
            self._take_part(string(event, "content"))
            return ""
        said = self._end_message()
        return "\n".join(part for part in (said, self._take_other(kind, event, text)) if part)

    def _take_other(self, kind: str, event: Mapping[str, Any], text: str) -> str:
        match kind:
            case "init":
                self.session, self.model = string(event, "session_id") or None, string(event, "model")
                return f"[init] session {self.session}"
            case "tool_use":
                tool, arguments = string(event, "tool_name"), as_text(event.get("parameters"), MAX_TEXT)
                self.told.started(tool, string(event, "tool_id"), arguments)
                return f"[{tool}] {arguments[:200]}"
            case "tool_result":
                error = string(inner(event, "error"), "message") if string(event, "status") == "error" else ""
                self.told.finished(string(event, "tool_id"), string(event, "output"), error=error)
                return f"[tool failed] {error}" if error else ""
            case "result":
                self.used = self.used.max(_gemini_usage(inner(event, "stats")))
                failed = string(event, "status") != "success"
                return self.end(string(inner(event, "error"), "message") or "the turn failed" if failed else None)
            case "error":
                return f"[error] {string(event, 'message')}"
            case "message":
                return ""
            case _:
                return text

    def _take_part(self, part: str) -> None:
        self.told.text(part)
        if sum(map(len, self._parts)) < MAX_TEXT:
            self._parts.append(part)

    def _end_message(self) -> str:
        said, self._parts = "".join(self._parts), []
        if said:
            self.message = said
            self.told.message(said, is_streamed=True)
        return said

    @property
    def usage(self) -> Usage:
        """The usage of this run, known at its end."""
        return self.used

    def reply(self) -> Reply:
        """Return the outcome of the turn."""
        self._end_message()
        return super().reply()


def _gemini_usage(stats: Mapping[str, Any]) -> Usage:
    # `total_tokens` includes thoughts and tool results, which the other two do not.
    read, written, cached = (count_of(stats.get(name)) for name in ("input_tokens", "output_tokens", "cached"))
    return Usage(
        input_tokens=read,
        output_tokens=written,
        cached_tokens=min(cached, read),
        tokens=max(read + written, count_of(stats.get("total_tokens"))),
    )
