"""What the output of a command-line agent says: for the log, and at the end of a turn. No input or output.

The law: output is never trusted to be well formed. What is not understood is passed on as it is, and changes nothing.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol, cast

from attrs import frozen

from harnesses.features.record import MAX_TEXT
from harnesses.features.texts import kept_part

SHOWN = 2_000
"""Characters of one line that are logged."""


@frozen(kw_only=True)
class Reply:
    """What an agent has said by the end of its turn."""

    message: str = ""
    session: str | None = None
    tokens: int = 0
    """All that were read or written, those that came from a cache included."""
    stop_reason: str = "end_turn"
    error: str | None = None
    """What it reported as an error; None if the turn came to its end."""
    worked: bool = True
    """Whether it did anything; if not, the turn can be begun anew."""


class Reading(Protocol):
    """Reads the output of one turn."""

    def line(self, text: str) -> str:
        """Take in a line of standard output; return what to log of it, "" for nothing."""
        ...

    def reply(self) -> Reply:
        """Return what was said, when the output is at its end."""
        ...


class PlainReading:
    """Text for people: the end of it is the message."""

    def __init__(self) -> None:
        self._last: deque[str] = deque(maxlen=200)

    def line(self, text: str) -> str:
        """Keep the line."""
        self._last.append(text[-MAX_TEXT:])
        return text[:SHOWN]

    def reply(self) -> Reply:
        """Return the end of the text."""
        return Reply(message=kept_part("\n".join(self._last).strip()), worked=bool(self._last))


class ClaudeCodeReading:
    """JSON lines of `claude -p --output-format stream-json --verbose`.

    system (its first has the session), assistant, user, result. A result says `is_error`, and in `result` or `errors` why.
    Asked to resume what it does not know, it ends with a result of 0 turns that names no `result`.
    """

    def __init__(self) -> None:
        self._session: str | None = None
        self._result: Mapping[str, Any] | None = None
        self._worked = False

    def line(self, text: str) -> str:
        """Take in an event."""
        event = parsed(text)
        session = string(event, "session_id")
        self._session = session or self._session
        match string(event, "type"):
            case "assistant":
                self._worked = True
                return _content(inner(event, "message"))
            case "result":
                self._result = event
                return f"[{string(event, 'subtype') or 'result'}] {string(event, 'result')}"[:SHOWN]
            case "system":
                return f"[{string(event, 'subtype') or 'system'}] session {session}"[:SHOWN]
            case "user" | "stream_event":
                return ""
            case _:
                return text[:SHOWN]

    def reply(self) -> Reply:
        """Return what the result says."""
        if self._result is None:
            return Reply(session=self._session, error="its output ended without a result", worked=self._worked)
        result = self._result
        said = string(result, "result") or "; ".join(strings(result, "errors"))
        failed = bool(result.get("is_error")) or string(result, "subtype").startswith("error")
        counted = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
        return Reply(
            message=kept_part(said),
            session=self._session,
            tokens=total(inner(result, "usage"), counted),
            stop_reason=string(result, "stop_reason") or "end_turn",
            error=kept_part(f"{string(result, 'subtype')}: {said}") if failed else None,
            worked=self._worked,
        )


class CodexReading:
    """JSON lines of `codex exec --json`.

    thread.started (has the id), turn.started, item.*, turn.completed (has the usage), turn.failed, error. An error may be
    followed by another try of its own; it counts if nothing comes of that.
    """

    def __init__(self) -> None:
        self._thread: str | None = None
        self._message = ""
        self._tokens = 0
        self._completed = False
        self._error: str | None = None
        self._worked = False

    def line(self, text: str) -> str:
        """Take in an event."""
        event = parsed(text)
        match string(event, "type"):
            case "thread.started":
                self._thread = string(event, "thread_id") or None
                return f"[thread] {self._thread}"[:SHOWN]
            case "item.completed":
                self._worked, self._error = True, None
                return self._item(inner(event, "item"))
            case "turn.completed":
                self._completed = True
                self._tokens += total(inner(event, "usage"), ("input_tokens", "output_tokens"))
                return f"[turn completed] {self._tokens} tokens"
            case "turn.failed":
                self._completed = False
                self._error = string(inner(event, "error"), "message") or "the turn failed"
                return f"[turn failed] {self._error}"[:SHOWN]
            case "error":
                self._error = string(event, "message") or "an error"
                return f"[error] {self._error}"[:SHOWN]
            case "turn.started" | "item.started" | "item.updated" | "item.plan.delta":
                return ""
            case _:
                return text[:SHOWN]

    def _item(self, item: Mapping[str, Any]) -> str:
        kind = string(item, "type")
        if kind == "agent_message":
            self._message = string(item, "text")
            return self._message[:SHOWN]
        said = string(item, "command") or string(item, "text") or string(item, "message")
        return f"[{kind}] {said}"[:SHOWN]

    def reply(self) -> Reply:
        """Return what the thread has come to."""
        error = None if self._completed else self._error or "its output ended before the turn was completed"
        return Reply(
            message=kept_part(self._message),
            session=self._thread,
            tokens=self._tokens,
            error=None if error is None else kept_part(error),
            worked=self._worked,
        )


_AIDER_TOKENS = re.compile(r"^Tokens: ([\d.,]+)([kM]?) sent,.*?([\d.,]+)([kM]?) received")


class AiderReading(PlainReading):
    """Text of `aider --message-file`, which now and then says how many tokens it took."""

    def __init__(self) -> None:
        super().__init__()
        self._tokens = 0

    def line(self, text: str) -> str:
        """Keep the line, and count."""
        if found := _AIDER_TOKENS.match(text):
            sent, sent_unit, received, received_unit = found.groups()
            self._tokens += _number(sent, sent_unit) + _number(received, received_unit)
        return super().line(text)

    def reply(self) -> Reply:
        """Return the end of the text. That a model could not be reached aider says in words alone."""
        reply = super().reply()
        return Reply(message=reply.message, tokens=self._tokens, worked=reply.worked)


def _number(digits: str, unit: str) -> int:
    try:
        return round(float(digits.replace(",", "")) * {"": 1, "k": 1_000, "M": 1_000_000}[unit])
    except ValueError:
        return 0


def _content(message: Mapping[str, Any]) -> str:
    """Return what an assistant says and which tools it uses."""
    said: list[str] = []
    blocks: object = message.get("content")
    for block in cast("list[object]", blocks) if isinstance(blocks, list) else ():
        if isinstance(block, dict):
            known = cast("dict[str, Any]", block)
            if string(known, "type") == "tool_use":
                said.append(f"[{string(known, 'name')}] {json.dumps(known.get('input'), ensure_ascii=False)[:200]}")
            else:
                said.append(string(known, "text"))
    return "\n".join(part for part in said if part)[:SHOWN]


def parsed(text: str) -> Mapping[str, Any]:
    """Return the JSON object that a line is, or an empty one."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def string(event: Mapping[str, Any], key: str) -> str:
    """Return a string that an object has, or ""."""
    value: object = event.get(key)
    return value if isinstance(value, str) else ""


def strings(event: Mapping[str, Any], key: str) -> list[str]:
    """Return the strings of a list that an object has."""
    value: object = event.get(key)
    return [part for part in cast("list[object]", value) if isinstance(part, str)] if isinstance(value, list) else []


def inner(event: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return an object that an object has, or an empty one."""
    value: object = event.get(key)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def total(usage: Mapping[str, Any], keys: tuple[str, ...]) -> int:
    """Return the sum of the numbers that an object has under some keys."""
    values: list[object] = [usage.get(key) for key in keys]
    return sum(value for value in values if isinstance(value, int) and not isinstance(value, bool) and value > 0)
