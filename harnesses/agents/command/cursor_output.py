"""Reads the JSON lines of `cursor-agent --print --output-format stream-json`. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from harnesses.agents.command.json_reading import JsonReading
from harnesses.agents.command.output_json import as_text, inner, string
from harnesses.features.feature_record import MAX_TEXT


class CursorReading(JsonReading):
    """Reads the output of one run of Cursor's agent, as its documentation describes it; it reports no usage.

    Events: system (has the session id), user, assistant (a whole message), tool_call (`started`, `completed`), result. A run
    that fails ends without a result, with its error on standard error.
    """

    provider = "cursor"

    def take(self, kind: str, event: Mapping[str, Any], text: str) -> str:
        match kind:
            case "system":
                self.session, self.model = string(event, "session_id") or None, string(event, "model")
                return f"[init] session {self.session}"
            case "assistant":
                return self.say(_text_of(inner(event, "message")))
            case "tool_call":
                return self._take_call(event)
            case "result":
                self.message = string(event, "result") or self.message
                return self.end(self.message or "the turn failed" if event.get("is_error") is True else None)
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
            self.told.started(tool, string(event, "call_id"), arguments)
            return f"[{tool}] {arguments[:200]}"
        result = inner(about, "result")
        failed = next((f"{key}: {as_text(found, MAX_TEXT)}" for key, found in result.items() if key != "success"), "")
        self.told.finished(string(event, "call_id"), as_text(result.get("success"), MAX_TEXT), tool=tool, error=failed)
        return f"[tool failed] {failed}" if failed else ""


def _text_of(message: Mapping[str, Any]) -> str:
    parts: object = message.get("content")
    blocks = cast("list[object]", parts) if isinstance(parts, list) else []
    return "".join(string(inner({"block": block}, "block"), "text") for block in blocks)
