"""Reads the JSON lines of `opencode run --format json`. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harnesses.agents.command.json_reading import JsonReading
from harnesses.agents.command.output_json import as_text, inner, string
from harnesses.budgets.usage import Usage, count_of, money_of
from harnesses.features.feature_record import MAX_TEXT


class OpenCodeReading(JsonReading):
    """Reads the output of one run of OpenCode.

    Events, each with the session id and a `part`: step_start and step_finish around each model call (the latter with its
    tokens and cost), text, reasoning, tool_use (when the tool has ended), error. An unknown session ends the program without
    an event. Seen with 1.18.33.
    """

    thread = ""

    def take(self, kind: str, event: Mapping[str, Any], text: str) -> str:
        self.session = string(event, "sessionID") or self.session
        part = inner(event, "part")
        match kind:
            case "step_start":
                self.ended = False
                self.told.rounds += 1
                return ""
            case "text":
                return self.say(string(part, "text"))
            case "reasoning":
                self.told.thinking(string(part, "text"))
                return f"[reasoning] {string(part, 'text')}"
            case "tool_use":
                return self._tool(part)
            case "step_finish":
                self.used += _opencode_usage(part)
                # Its other reasons are "tool-calls", after which it goes on, and "length", "error" and the like.
                self.ended = string(part, "reason") == "stop"
                return f"[step finished] {self.used.tokens} tokens"
            case "error":
                error = inner(event, "error")
                self.error = string(inner(error, "data"), "message") or string(error, "name") or "an error"
                return f"[error] {self.error}"
            case _:
                return text

    def _tool(self, part: Mapping[str, Any]) -> str:
        tool, call_id, state = string(part, "tool"), string(part, "callID"), inner(part, "state")
        arguments = as_text(state.get("input"), MAX_TEXT)
        error = string(state, "error") or "error" if string(state, "status") == "error" else ""
        self.told.started(tool, call_id, arguments)
        self.told.finished(call_id, string(state, "output"), error=error)
        return f"[{tool}] {arguments[:200]}{f' failed: {error}' if error else ''}"

    @property
    def usage(self) -> Usage:
        """The sum over the model calls so far. It leaves out the short call by which the program names a conversation."""
        return self.used


def _opencode_usage(part: Mapping[str, Any]) -> Usage:
    # Cached tokens are not included in the input tokens, nor reasoning tokens in the output tokens.
    tokens = inner(part, "tokens")
    cache = inner(tokens, "cache")
    cached = count_of(cache.get("read"))
    return Usage(
        input_tokens=count_of(count_of(tokens.get("input")) + cached + count_of(cache.get("write"))),
        output_tokens=count_of(count_of(tokens.get("output")) + count_of(tokens.get("reasoning"))),
        cached_tokens=cached,
        money=money_of(part.get("cost")),
    )
