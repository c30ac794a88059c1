"""Reads the JSON lines of `codex exec --json`. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from harnesses.agents.command.agent_output import Reply
from harnesses.agents.command.json_reading import JsonReading
from harnesses.agents.command.output_json import as_text, inner, objects_in, string
from harnesses.budgets.usage import Usage, count_of
from harnesses.features.feature_record import MAX_TEXT

TALK = frozenset({"agent_message", "reasoning", "todo_list", "plan", "error"})
"""Items that are no tool calls."""
ASKED = ("command", "query", "server", "tool", "arguments", "changes")
"""Keys of an item that have the same value when it starts and when it is completed."""


class CodexReading(JsonReading):
    """Reads the output of one run of Codex CLI.

    Events: thread.started (has the id), turn.started, item.*, turn.completed (has the usage), turn.failed, error. Codex may
    retry after an error event, so it counts only if the turn is not completed.

    The usage covers the whole thread so far, including earlier runs: in openai/codex, `TokenUsage` of exec_events.rs is built
    from the thread's `total_token_usage`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._worked = False

    def take(self, kind: str, event: Mapping[str, Any], text: str) -> str:
        match kind:
            case "thread.started":
                self.session = string(event, "thread_id") or None
                return f"[thread] {self.session}"
            case "item.completed":
                self._worked, self.error = True, None
                return self._item(inner(event, "item"))
            case "item.started":
                self._begin(inner(event, "item"))
                return ""
            case "turn.started":
                # An unknown conversation ends before this.
                self._worked = True
                return ""
            case "turn.completed":
                self.ended, self.error = True, None
                self.used = self.used.max(_codex_usage(inner(event, "usage")))
                return f"[turn completed] {self.used.tokens} tokens in this thread"
            case "turn.failed":
                self.ended = False
                self.error = string(inner(event, "error"), "message") or "the turn failed"
                return f"[turn failed] {self.error}"
            case "error":
                said = string(event, "message") or "an error"
                self.error = None if self.ended else said
                return f"[error] {said}"
            case "item.updated" | "item.plan.delta":
                return ""
            case _:
                return text

    @property
    def usage(self) -> Usage:
        """The usage of the whole thread so far."""
        return self.used

    @property
    def thread(self) -> str:
        """The thread's id; empty if it has none, and then the usage covers this run alone."""
        return f"codex/{self.session[:200]}" if self.session else ""

    def _begin(self, item: Mapping[str, Any]) -> None:
        kind = string(item, "type")
        if kind and kind not in TALK:
            asked = {key: item[key] for key in ASKED if item.get(key)}
            self.told.started(kind, string(item, "id"), as_text(asked, MAX_TEXT))

    def _item(self, item: Mapping[str, Any]) -> str:
        kind = string(item, "type")
        if kind == "agent_message":
            return self.say(string(item, "text"))
        said = string(item, "command") or _tool_or_paths(item) or string(item, "text") or string(item, "message")
        if kind == "reasoning":
            self.told.thinking(string(item, "text"))
        elif kind not in TALK:
            self._begin(item)
            self._finish(item)
        return f"[{kind}] {said}"

    def _finish(self, item: Mapping[str, Any]) -> None:
        output = string(item, "aggregated_output") or as_text(item.get("result"), MAX_TEXT)
        status = string(item, "status")
        why = string(inner(item, "error"), "message") or (f"exit code {code}" if (code := item.get("exit_code")) else status)
        self.told.finished(string(item, "id"), output, error=why if status in ("failed", "declined") else "")

    def reply(self) -> Reply:
        """Return the outcome of the turn."""
        return evolve(super().reply(), is_total=bool(self.session), worked=self._worked)


def _tool_or_paths(item: Mapping[str, Any]) -> str:
    """Return the tool of a call with its arguments, the changed paths, or the query of an item; empty if it has none."""
    if tool := string(item, "tool"):
        return f"{string(item, 'server')}.{tool} {as_text(item.get('arguments'), 200)}".strip(". ")
    changes = [f"{string(one, 'kind')} {string(one, 'path')}".strip() for one in objects_in(item, "changes")]
    return ", ".join(changes) or string(item, "query")


def _codex_usage(usage: Mapping[str, Any]) -> Usage:
    # Cached tokens are included in the input tokens, reasoning tokens in the output tokens.
    read, written, cached = (count_of(usage.get(f"{kind}_tokens")) for kind in ("input", "output", "cached_input"))
    return Usage(input_tokens=read, output_tokens=written, cached_tokens=min(cached, read))
