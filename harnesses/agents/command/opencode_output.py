"""Reads the JSON lines of `opencode run --format json`. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harnesses.agents.command.agent_output import SHOWN, EventList, ReadEvent, Reply
from harnesses.agents.command.output_json import as_text, inner, parsed, string
from harnesses.budgets.usage import UNUSED, Usage, count_of, money_of
from harnesses.features.agent_text import kept_part
from harnesses.features.feature_record import MAX_TEXT


class OpenCodeReading:
    """Reads the output of one run of OpenCode.

    Events, each with the session id and a `part`: step_start and step_finish around each model call (the latter with its
    tokens and cost), text, reasoning, tool_use (when the tool has ended), error. An unknown session ends the program without
    an event. Seen with 1.18.33.
    """

    thread = ""

    def __init__(self) -> None:
        self._session: str | None = None
        self._message = ""
        self._usage = UNUSED
        self._completed = False
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
        self._session = string(event, "sessionID") or self._session
        part = inner(event, "part")
        match string(event, "type"):
            case "step_start":
                self._completed = False
                self._told.rounds += 1
                return ""
            case "text":
                self._message = string(part, "text")
                self._told.message(self._message)
                return self._message[:SHOWN]
            case "reasoning":
                self._told.thinking(string(part, "text"))
                return f"[reasoning] {string(part, 'text')}"[:SHOWN]
            case "tool_use":
                return self._tool(part)[:SHOWN]
            case "step_finish":
                self._usage += _opencode_usage(part)
                # Its other reasons are "tool-calls", after which it goes on, and "length", "error" and the like.
                self._completed = string(part, "reason") == "stop"
                return f"[step finished] {self._usage.tokens} tokens"
            case "error":
                error = inner(event, "error")
                self._error = string(inner(error, "data"), "message") or string(error, "name") or "an error"
                return f"[error] {self._error}"[:SHOWN]
            case _:
                return text[:SHOWN]

    def _tool(self, part: Mapping[str, Any]) -> str:
        tool, call_id, state = string(part, "tool"), string(part, "callID"), inner(part, "state")
        arguments = as_text(state.get("input"), MAX_TEXT)
        error = string(state, "error") or "error" if string(state, "status") == "error" else ""
        self._told.started(tool, call_id, arguments)
        self._told.finished(call_id, string(state, "output"), error=error)
        return f"[{tool}] {arguments[:200]}{f' failed: {error}' if error else ''}"

    @property
    def usage(self) -> Usage:
        """The sum over the model calls so far. It leaves out the short call by which the program names a conversation."""
        return self._usage

    def reply(self) -> Reply:
        """Return the outcome of the turn."""
        error = self._error or (None if self._completed else "the output ended before the turn was completed")
        return Reply(
            message=kept_part(self._message),
            session=self._session,
            tokens=self._usage.tokens,
            error=None if error is None else kept_part(error),
            worked=self._session is not None,
        )


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
