"""Reads the JSON lines of `codex exec --json`. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harnesses.agents.command.agent_output import SHOWN, EventList, ReadEvent, Reply
from harnesses.agents.command.output_json import as_text, inner, objects_in, parsed, string
from harnesses.budgets.usage import UNUSED, Usage, count_of
from harnesses.features.agent_text import kept_part
from harnesses.features.feature_record import MAX_TEXT

TALK = frozenset({"agent_message", "reasoning", "todo_list", "plan", "error"})
"""Items that are no tool calls."""
ASKED = ("command", "query", "server", "tool", "arguments", "changes")
"""Keys of an item that have the same value when it starts and when it is completed."""


class CodexReading:
    """Reads the output of one run of Codex CLI.

    Events: thread.started (has the id), turn.started, item.*, turn.completed (has the usage), turn.failed, error. Codex may
    retry after an error event, so it counts only if the turn is not completed.

    The usage covers the whole thread so far, including earlier runs: in openai/codex, `TokenUsage` of exec_events.rs is built
    from the thread's `total_token_usage`.
    """

    def __init__(self) -> None:
        self._thread: str | None = None
        self._message = ""
        self._usage = UNUSED
        self._completed = False
        self._error: str | None = None
        self._worked = False
        self._told = EventList()

    @property
    def events(self) -> Sequence[ReadEvent]:
        """The events that the last line reported."""
        return self._told.events

    def line(self, text: str) -> str:
        """Parse one event."""
        self._told.begin_line()
        event = parsed(text)
        match string(event, "type"):
            case "thread.started":
                self._thread = string(event, "thread_id") or None
                return f"[thread] {self._thread}"[:SHOWN]
            case "item.completed":
                self._worked, self._error = True, None
                return self._item(inner(event, "item"))
            case "item.started":
                self._begin(inner(event, "item"))
                return ""
            case "turn.started":
                # An unknown conversation ends before this.
                self._worked = True
                return ""
            case "turn.completed":
                self._completed = True
                self._usage = self._usage.max(_codex_usage(inner(event, "usage")))
                return f"[turn completed] {self._usage.tokens} tokens in this thread"
            case "turn.failed":
                self._completed = False
                self._error = string(inner(event, "error"), "message") or "the turn failed"
                return f"[turn failed] {self._error}"[:SHOWN]
            case "error":
                self._error = string(event, "message") or "an error"
                return f"[error] {self._error}"[:SHOWN]
            case "item.updated" | "item.plan.delta":
                return ""
            case _:
                return text[:SHOWN]

    @property
    def usage(self) -> Usage:
        """The usage of the whole thread so far."""
        return self._usage

    @property
    def thread(self) -> str:
        """The thread's id; empty if it has none, and then the usage covers this run alone."""
        return f"codex/{self._thread[:200]}" if self._thread else ""

    def _begin(self, item: Mapping[str, Any]) -> None:
        kind = string(item, "type")
        if kind and kind not in TALK:
            asked = {key: item[key] for key in ASKED if item.get(key)}
            self._told.started(kind, string(item, "id"), as_text(asked, MAX_TEXT))

    def _item(self, item: Mapping[str, Any]) -> str:
        kind = string(item, "type")
        if kind == "agent_message":
            self._message = string(item, "text")
            self._told.message(self._message)
            return self._message[:SHOWN]
        said = string(item, "command") or _tool_or_paths(item) or string(item, "text") or string(item, "message")
        if kind == "reasoning":
            self._told.thinking(string(item, "text"))
        elif kind not in TALK:
            self._begin(item)
            self._end(item)
        return f"[{kind}] {said}"[:SHOWN]

    def _end(self, item: Mapping[str, Any]) -> None:
        output = string(item, "aggregated_output") or as_text(item.get("result"), MAX_TEXT)
        status = string(item, "status")
        why = string(inner(item, "error"), "message") or (f"exit code {code}" if (code := item.get("exit_code")) else status)
        self._told.finished(string(item, "id"), output, error=why if status in ("failed", "declined") else "")

    def reply(self) -> Reply:
        """Return the outcome of the turn."""
        error = None if self._completed else self._error or "the output ended before the turn was completed"
        return Reply(
            message=kept_part(self._message),
            session=self._thread,
            tokens=self._usage.tokens,
            is_total=bool(self._thread),
            error=None if error is None else kept_part(error),
            worked=self._worked,
        )


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
