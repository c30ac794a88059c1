"""Reads the JSON lines of `cursor-agent --print --output-format stream-json`. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from harnesses.agents.command.agent_output import SHOWN, EventList, ReadEvent, Reply
from harnesses.agents.command.output_json import as_text, inner, parsed, string
from harnesses.features.agent_text import kept_part
from harnesses.features.feature_record import MAX_TEXT


class CursorReading:
    """Reads the output of one run of Cursor's agent, as its documentation describes it; it reports no usage.

    Events: system (has the session id), user, assistant (a whole message), tool_call (`started`, `completed`), result. A run
    that fails ends without a result, with its error on standard error.
    """

    def __init__(self) -> None:
        self._session: str | None = None
        self._model = ""
        self._message = ""
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
        return self._take(string(event, "type"), event, text)[:SHOWN]

    def _take(self, kind: str, event: Mapping[str, Any], text: str) -> str:
        match kind:
            case "system":
                self._session, self._model = string(event, "session_id") or None, string(event, "model")
                return f"[init] session {self._session}"
            case "assistant":
                self._message = _text_of(inner(event, "message"))
                self._told.message(self._message)
                return self._message
            case "tool_call":
                return self._take_call(event)
            case "result":
                self._ended = True
                self._message = string(event, "result") or self._message
                failed = event.get("is_error") is True
                self._error = self._message or "the turn failed" if failed else None
                return f"[turn failed] {self._error}" if failed else "[turn completed]"
            case "user":
                return ""
            case _:
                return text

    def _take_call(self, event: Mapping[str, Any]) -> str:
        """Report a call: `{"writeToolCall": {"args": …, "result": …}}`, or `{"function": {"name": …, "arguments": …}}`."""
        calls = inner(event, "tool_call")
        name = next(iter(calls), "")
        about = inner(calls, name)
        tool = string(about, "name") or name.removesuffix("ToolCall")
        arguments = as_text(about.get("args", about.get("arguments")), MAX_TEXT)
        if string(event, "subtype") == "started":
            self._told.started(tool, string(event, "call_id"), arguments)
            return f"[{tool}] {arguments[:200]}"
        result = inner(about, "result")
        failed = next((f"{key}: {as_text(found, MAX_TEXT)}" for key, found in result.items() if key != "success"), "")
        self._told.finished(string(event, "call_id"), as_text(result.get("success"), MAX_TEXT), tool=tool, error=failed)
        return f"[tool failed] {failed}" if failed else ""

    def reply(self) -> Reply:
        """Return the outcome of the turn."""
        error = self._error if self._ended else "the output ended before the turn was completed"
        return Reply(
            message=kept_part(self._message),
            session=self._session,
            model=f"cursor:{self._model}" if self._model else "",
            error=None if error is None else kept_part(error),
            worked=self._session is not None,
        )


def _text_of(message: Mapping[str, Any]) -> str:
    parts: object = message.get("content")
    blocks = cast("list[object]", parts) if isinstance(parts, list) else []
    return "".join(string(inner({"block": block}, "block"), "text") for block in blocks)
