"""Reads the JSON lines of `claude -p --output-format stream-json --verbose --include-partial-messages`. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harnesses.agents.command.agent_output import SHOWN, EventList, ReadEvent, Reply
from harnesses.agents.command.output_json import as_text, inner, objects_in, parsed, string, strings, total
from harnesses.budgets.usage import UNUSED, Usage, count_of, money_of
from harnesses.features.agent_text import kept_part
from harnesses.features.feature_record import MAX_TEXT

_MOST_MESSAGES = 64
"""Maximum messages remembered in case their usage is reported again."""

_MOST_DENIALS = 10

_PROGRESS = frozenset({"status", "thinking_tokens"})
"""System events that come with every message."""


class ClaudeCodeReading:
    """Reads the output of one run of Claude Code.

    Events: system (the first has the session id), stream_event (parts of a message, as the model's API sends them), assistant
    (each block of a message), user (results of tools), result. A result has `is_error`, and the reason in `result` or
    `errors`. When asked to resume an unknown session, the program ends with a result of 0 turns and without `result`.

    Each assistant message reports its usage; messages with the same id repeat. The result reports the usage and the cost of
    this run, also when it resumes a conversation: seen with 2.1.197. `usage` of a result counts the main agent,
    `modelUsage` also its helpers.
    """

    thread = ""

    def __init__(self) -> None:
        self._messages: dict[str, Usage] = {}
        self._earlier = UNUSED
        self._total = UNUSED
        self._session: str | None = None
        self._result: Mapping[str, Any] | None = None
        self._worked = False
        self._resets_at: float | None = None
        self._model = ""
        self._told = EventList()
        self._streamed = ""
        """Id of the message whose parts are reported."""
        self._call = ("", "")
        """Name and id of the tool call whose arguments are reported."""
        self._seen = ""
        """Id of the last message of the main agent."""

    def line(self, text: str) -> str:
        """Parse one event."""
        self._told.begin_line()
        event = parsed(text)
        session = string(event, "session_id")
        self._session = session or self._session
        match string(event, "type"):
            case "assistant":
                self._worked = True
                message = inner(event, "message")
                self._take_usage(string(message, "id"), inner(message, "usage"))
                self._take_blocks(message, is_main=event.get("parent_tool_use_id") is None)
                return _content(message)
            case "stream_event":
                if event.get("parent_tool_use_id") is None:
                    self._take_part(inner(event, "event"))
                return ""
            case "user":
                self._take_results(inner(event, "message"))
                return ""
            case "result":
                self._result = event
                self._total = self._total.max(_claude_total(event))
                kind = string(event, "subtype") or "result"
                kind = "failed" if event.get("is_error") is True and kind == "success" else kind
                return f"[{kind}]{_denials(event)} {string(event, 'result')}"[:SHOWN]
            case "rate_limit_event":
                about = inner(event, "rate_limit_info")
                at = about.get("resetsAt") if string(about, "status") == "rejected" else None
                self._resets_at = float(at) if isinstance(at, int | float) and 0 < at < 1e11 else None
                return "" if self._resets_at is None else f"[limit reached] {string(about, 'rateLimitType')}"[:SHOWN]
            case "system":
                kind = string(event, "subtype")
                self._model = string(event, "model") or self._model
                return "" if kind in _PROGRESS else f"[{kind or 'system'}] session {session}"[:SHOWN]
            case _:
                return text[:SHOWN]

    @property
    def events(self) -> Sequence[ReadEvent]:
        """The events that the last line reported."""
        return self._told.events

    def _take_usage(self, id: str, usage: Mapping[str, Any]) -> None:
        id, used = id[:200], _claude_usage(usage)
        if not id:
            self._earlier += used
            return
        self._messages[id] = self._messages.get(id, UNUSED).max(used)
        if len(self._messages) > _MOST_MESSAGES:
            self._earlier += self._messages.pop(next(iter(self._messages)))

    def _take_blocks(self, message: Mapping[str, Any], *, is_main: bool) -> None:
        id = string(message, "id")
        is_streamed = bool(id) and id == self._streamed
        if is_main and id != self._seen and not is_streamed:
            self._told.rounds += 1
        self._seen = id if is_main else self._seen
        for block in objects_in(message, "content"):
            match string(block, "type"):
                case "tool_use":
                    arguments = as_text(block.get("input"), MAX_TEXT)
                    self._told.started(string(block, "name"), string(block, "id"), arguments)
                case "text" if is_main:
                    self._told.message(string(block, "text"), is_streamed=is_streamed)
                case "thinking" if is_main and not is_streamed:
                    self._told.thinking(string(block, "thinking"))
                case _:
                    pass

    def _take_part(self, event: Mapping[str, Any]) -> None:
        """Take an event of the model's API."""
        block, delta = inner(event, "content_block"), inner(event, "delta")
        match string(event, "type"), string(block, "type") or string(delta, "type"):
            case "message_start", _:
                self._streamed = string(inner(event, "message"), "id")
                self._told.rounds += 1
            case "message_delta", _:
                # The assistant events have only the output tokens that were known when the message began.
                self._take_usage(self._streamed, inner(event, "usage"))
            case "content_block_start", "tool_use":
                self._call = string(block, "name"), string(block, "id")
            case "content_block_delta", "text_delta":
                self._told.text(string(delta, "text"))
            case "content_block_delta", "thinking_delta":
                self._told.thinking(string(delta, "thinking"))
            case "content_block_delta", "input_json_delta":
                self._told.arguments(*self._call, string(delta, "partial_json"))
            case _:
                pass

    def _take_results(self, message: Mapping[str, Any]) -> None:
        for block in objects_in(message, "content"):
            if string(block, "type") == "tool_result":
                said = string(block, "content") or "\n".join(string(part, "text") for part in objects_in(block, "content"))
                error = said or "error" if block.get("is_error") is True else ""
                self._told.finished(string(block, "tool_use_id"), said, error=error)

    @property
    def usage(self) -> Usage:
        """The sum over the messages, or the total of the result if that is larger."""
        told = sum(self._messages.values(), start=self._earlier)
        return self._total if self._total.tokens >= told.tokens else told.max(self._total)

    def reply(self) -> Reply:
        """Return the result event as a reply."""
        if self._result is None:
            return Reply(session=self._session, error="the output ended without a result event", worked=self._worked)
        result = self._result
        said = string(result, "result") or "; ".join(strings(result, "errors"))
        kind = string(result, "subtype")
        failed = bool(result.get("is_error")) or kind.startswith("error")
        return Reply(
            message=kept_part(f"{said}\n{denied.strip()}" if (denied := _denials(result)) else said),
            session=self._session,
            tokens=self._total.tokens,
            model=f"anthropic:{self._model}" if self._model else "",
            stop_reason=string(result, "stop_reason") or "end_turn",
            error=kept_part(f"{kind}: {said}" if kind != "success" else said) if failed else None,
            resets_at=self._resets_at,
            worked=self._worked,
        )


def _claude_usage(usage: Mapping[str, Any]) -> Usage:
    cached = count_of(usage.get("cache_read_input_tokens"))
    read = total(usage, ("input_tokens", "cache_creation_input_tokens")) + cached
    return Usage(input_tokens=count_of(read), output_tokens=count_of(usage.get("output_tokens")), cached_tokens=cached)


def _claude_total(result: Mapping[str, Any]) -> Usage:
    """Return the usage of a whole run: of the main agent, or of all models if that is more."""
    by_model = inner(result, "modelUsage")
    used = sum((_model_usage(inner(by_model, name)) for name in by_model), start=UNUSED)
    return used.max(_claude_usage(inner(result, "usage"))) + Usage(money=money_of(result.get("total_cost_usd")))


def _model_usage(usage: Mapping[str, Any]) -> Usage:
    cached = count_of(usage.get("cacheReadInputTokens"))
    read = total(usage, ("inputTokens", "cacheCreationInputTokens")) + cached
    return Usage(input_tokens=count_of(read), output_tokens=count_of(usage.get("outputTokens")), cached_tokens=cached)


def _denials(result: Mapping[str, Any]) -> str:
    """Return which tool calls were refused for want of a permission, each with its command or path; empty for none."""
    asked = [(string(one, "tool_name"), inner(one, "tool_input")) for one in objects_in(result, "permission_denials")]
    told = [f"{tool} {as_text(given.get('command') or given.get('file_path'), 100)}".strip() for tool, given in asked]
    return f" [no permission for: {'; '.join(dict.fromkeys(told[:_MOST_DENIALS]))}]" if told else ""


def _content(message: Mapping[str, Any]) -> str:
    """Return the text of an assistant message and its tool calls, for the log."""
    said: list[str] = []
    for block in objects_in(message, "content"):
        if string(block, "type") == "tool_use":
            said.append(f"[{string(block, 'name')}] {as_text(block.get('input'), 200)}")
        else:
            said.append(string(block, "text"))
    return "\n".join(part for part in said if part)[:SHOWN]
