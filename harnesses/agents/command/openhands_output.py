"""Reads the events of `openhands --headless --json`. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from harnesses.agents.command.agent_output import Reply
from harnesses.agents.command.json_reading import JsonReading
from harnesses.agents.command.output_json import as_text, inner, objects_in, string
from harnesses.features.feature_record import MAX_TEXT

_MARK = "--JSON Event--"
_MOST = 4 * MAX_TEXT
"""Characters of an event that are kept; a longer one is not read."""
_SESSION = re.compile(r"Conversation ID:[^0-9a-fA-F]{0,20}([0-9a-fA-F-]{32,36})\b")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class OpenHandsReading(JsonReading):
    """Reads the output of one run of OpenHands, as its documentation and source describe it; it reports no usage.

    An event is a line `--JSON Event--` and an indented JSON object, which ends with a line `}`; or one line. Its `kind`:
    MessageEvent, ActionEvent (a tool call), ObservationEvent, AgentErrorEvent (a call that failed), UserRejectObservation,
    ConversationErrorEvent. The conversation's id is in plain text at the end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] | None = None
        self._length = 0
        self._worked = False

    def line(self, text: str) -> str:
        """Take in one line; an event is read with its last one."""
        if text.strip() == _MARK:
            self.told.begin_line()
            self._lines, self._length = [], 0
            return ""
        if self._lines is None:
            if found := _SESSION.search(_COLOUR.sub("", text)):
                self.session = found[1]
            return super().line(text)
        self.told.begin_line()
        self._length += len(text)
        if self._length <= _MOST:
            self._lines.append(text)
        if text.rstrip() != "}":
            return ""
        lines, self._lines = self._lines, None
        return super().line("\n".join(lines)) if self._length <= _MOST else "[event] too long to read"

    def take(self, kind: str, event: Mapping[str, Any], text: str) -> str:
        kind = string(event, "kind")
        self._worked = self._worked or (bool(kind) and kind != "ConversationErrorEvent")
        match kind:
            case "MessageEvent":
                if string(event, "source") != "agent":
                    return ""
                self.ended = True
                return self.say(_text_of(inner(event, "llm_message"), "content"))
            case "ActionEvent":
                return self._act(event)
            case "ObservationEvent" | "UserRejectObservation" | "AgentErrorEvent":
                return self._observe(event)
            case "ConversationErrorEvent":
                return self.end(string(event, "detail") or string(event, "code") or "the conversation failed")
            case _:
                return "" if kind else text

    def _act(self, event: Mapping[str, Any]) -> str:
        tool, action = string(event, "tool_name"), inner(event, "action")
        self.told.thinking(string(event, "reasoning_content") or _text_of(event, "thought"))
        # The tool `finish` ends a turn: its message is the agent's last one.
        self.ended = tool == "finish"
        if self.ended:
            return self.say(string(action, "message"))
        arguments = as_text({key: value for key, value in action.items() if key != "kind"}, MAX_TEXT)
        self.told.started(tool, string(event, "tool_call_id"), arguments)
        return f"[{tool}] {arguments[:200]}"

    def _observe(self, event: Mapping[str, Any]) -> str:
        if (tool := string(event, "tool_name")) == "finish":
            return ""
        seen = inner(event, "observation")
        output = _text_of(seen, "content")
        error = string(event, "error") or string(event, "rejection_reason")
        if seen.get("is_error") is True:
            error = output or "error"
        self.told.finished(string(event, "tool_call_id"), output, tool=tool, error=error)
        return f"[tool failed] {error}" if error else ""

    def reply(self) -> Reply:
        """Return the outcome of the turn."""
        return evolve(super().reply(), worked=self._worked)


def _text_of(event: Mapping[str, Any], key: str) -> str:
    return string(event, key) or "".join(string(part, "text") for part in objects_in(event, key))
