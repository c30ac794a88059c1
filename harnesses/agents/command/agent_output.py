"""Parsers of the output of command-line agents, for the log and for the result of a turn. No I/O.

Invariant: malformed output never raises. Lines that cannot be parsed are logged as they are and have no other effect.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Protocol, cast, runtime_checkable

from attrs import frozen

from harnesses.budgets.usage import UNUSED, Usage, count_of, money_of
from harnesses.features.agent_text import kept_part
from harnesses.features.feature_record import MAX_TEXT

SHOWN = 2_000
"""Maximum characters of one line that are logged."""


@frozen(kw_only=True)
class Reply:
    """The result of one turn, as the agent's output reports it."""

    message: str = ""
    session: str | None = None
    tokens: int = 0
    """Tokens read and written, including cached ones."""
    usage: Usage = UNUSED
    """Usage of this run; of the whole conversation if the program reports only that total."""
    stop_reason: str = "end_turn"
    error: str | None = None
    """The error that the program reported; None if the turn ended normally."""
    worked: bool = True
    """Whether the agent did anything; if not, the turn can be started again."""


@runtime_checkable
class Reading(Protocol):
    """Parses the output of one turn."""

    def line(self, text: str) -> str:
        """Parse one line of standard output; return the text to log, or "" for none."""
        ...

    def reply(self) -> Reply:
        """Return the result of the turn, after the last line."""
        ...


@runtime_checkable
class UsageReading(Protocol):
    """A reading that knows the usage so far while the program is still running."""

    @property
    def usage(self) -> Usage:
        """Usage of this run, or of the whole conversation if `thread` is set. Tool calls are counted separately."""
        ...

    @property
    def thread(self) -> str:
        """The id of the conversation that `usage` totals; empty if `usage` covers this run alone."""
        ...


def innermost(reading: Reading) -> Reading:
    """Return the innermost of nested readings, following their `inner` attributes."""
    while isinstance(within := getattr(reading, "inner", None), Reading):
        reading = within
    return reading


class PlainReading:
    """Reads plain text; the last part of it becomes the message."""

    def __init__(self) -> None:
        self._last: deque[str] = deque(maxlen=200)

    def line(self, text: str) -> str:
        """Store the line."""
        self._last.append(text[-MAX_TEXT:])
        return text[:SHOWN]

    def reply(self) -> Reply:
        """Return the last part of the text as the message."""
        return Reply(message=kept_part("\n".join(self._last).strip()), worked=bool(self._last))


class ClaudeCodeReading:
    """Reads the JSON lines of `claude -p --output-format stream-json --verbose`.

    Events: system (the first has the session id), assistant, user, result. A result has `is_error`, and the reason in `result`
    or `errors`. When asked to resume an unknown session, the program ends with a result of 0 turns and without `result`.

    Each assistant message reports its usage; messages with the same id repeat. The result reports the total usage and, only
    there, the cost of this run.
    """

    thread = ""

    def __init__(self) -> None:
        self._messages: dict[str, Usage] = {}
        self._earlier = UNUSED
        self._total = UNUSED
        self._session: str | None = None
        self._result: Mapping[str, Any] | None = None
        self._worked = False

    def line(self, text: str) -> str:
        """Parse one event."""
        event = parsed(text)
        session = string(event, "session_id")
        self._session = session or self._session
        match string(event, "type"):
            case "assistant":
                self._worked = True
                self._take_usage(inner(event, "message"))
                return _content(inner(event, "message"))
            case "result":
                self._result = event
                used = _claude_usage(inner(event, "usage"))
                self._total = self._total.max(used + Usage(money=money_of(event.get("total_cost_usd"))))
                return f"[{string(event, 'subtype') or 'result'}] {string(event, 'result')}"[:SHOWN]
            case "system":
                return f"[{string(event, 'subtype') or 'system'}] session {session}"[:SHOWN]
            case "user" | "stream_event":
                return ""
            case _:
                return text[:SHOWN]

    def _take_usage(self, message: Mapping[str, Any]) -> None:
        id = string(message, "id")[:200]
        used = _claude_usage(inner(message, "usage"))
        if not id:
            self._earlier += used
            return
        self._messages[id] = self._messages.get(id, UNUSED).max(used)
        if len(self._messages) > _MOST_MESSAGES:
            self._earlier += self._messages.pop(next(iter(self._messages)))

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
        failed = bool(result.get("is_error")) or string(result, "subtype").startswith("error")
        return Reply(
            message=kept_part(said),
            session=self._session,
            tokens=_claude_usage(inner(result, "usage")).tokens,
            stop_reason=string(result, "stop_reason") or "end_turn",
            error=kept_part(f"{string(result, 'subtype')}: {said}") if failed else None,
            worked=self._worked,
        )


_MOST_MESSAGES = 64
"""Maximum messages remembered in case their usage is reported again."""


def _claude_usage(usage: Mapping[str, Any]) -> Usage:
    cached = count_of(usage.get("cache_read_input_tokens"))
    read = total(usage, ("input_tokens", "cache_creation_input_tokens")) + cached
    return Usage(input_tokens=count_of(read), output_tokens=count_of(usage.get("output_tokens")), cached_tokens=cached)


class CodexReading:
    """Reads the JSON lines of `codex exec --json`.

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

    def line(self, text: str) -> str:
        """Parse one event."""
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
                self._usage = self._usage.max(_codex_usage(inner(event, "usage")))
                return f"[turn completed] {self._usage.tokens} tokens in this thread"
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

    @property
    def usage(self) -> Usage:
        """The usage of the whole thread so far."""
        return self._usage

    @property
    def thread(self) -> str:
        """The thread's id; empty if it has none, and then the usage covers this run alone."""
        return f"codex/{self._thread[:200]}" if self._thread else ""

    def _item(self, item: Mapping[str, Any]) -> str:
        kind = string(item, "type")
        if kind == "agent_message":
            self._message = string(item, "text")
            return self._message[:SHOWN]
        said = string(item, "command") or string(item, "text") or string(item, "message")
        return f"[{kind}] {said}"[:SHOWN]

    def reply(self) -> Reply:
        """Return the outcome of the turn."""
        error = None if self._completed else self._error or "the output ended before the turn was completed"
        return Reply(
            message=kept_part(self._message),
            session=self._thread,
            tokens=self._usage.tokens,
            error=None if error is None else kept_part(error),
            worked=self._worked,
        )


def _codex_usage(usage: Mapping[str, Any]) -> Usage:
    # Cached tokens are included in the input tokens, reasoning tokens in the output tokens.
    read, written, cached = (count_of(usage.get(f"{kind}_tokens")) for kind in ("input", "output", "cached_input"))
    return Usage(input_tokens=read, output_tokens=written, cached_tokens=min(cached, read))


_AIDER_TOKENS = re.compile(
    r"^Tokens: ([\d.,]+)([kM]?) sent,.*?([\d.,]+)([kM]?) received(?:.*?Cost: \$(\d{1,9}(?:\.\d{1,12})?) message)?"
)


class AiderReading(PlainReading):
    """Reads the text of `aider --message-file`, which reports tokens and cost after each message."""

    thread = ""

    def __init__(self) -> None:
        super().__init__()
        self._usage = UNUSED

    def line(self, text: str) -> str:
        """Store the line, and add the tokens and cost that it reports."""
        if found := _AIDER_TOKENS.match(text):
            sent, sent_unit, received, received_unit, cost = found.groups()
            read, written = _number(sent, sent_unit), _number(received, received_unit)
            self._usage += Usage(input_tokens=read, output_tokens=written, money=money_of(Decimal(cost or 0)))
        return super().line(text)

    def reply(self) -> Reply:
        """Return the last part of the text. Aider reports an unreachable model only in that text."""
        reply = super().reply()
        return Reply(message=reply.message, tokens=self._usage.tokens, worked=reply.worked)

    @property
    def usage(self) -> Usage:
        """The sum over the messages so far."""
        return self._usage


def _number(digits: str, unit: str) -> int:
    try:
        return count_of(round(float(digits.replace(",", "")) * {"": 1, "k": 1_000, "M": 1_000_000}[unit]))
    except (ValueError, OverflowError):
        return 0


def _content(message: Mapping[str, Any]) -> str:
    """Return the text of an assistant message and its tool calls, for the log."""
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
    """Return the JSON object in a line; an empty mapping if the line is not one."""
    value, _ = loaded(text)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


@lru_cache(maxsize=1)
def loaded(text: str) -> tuple[object, Sequence[Mapping[str, Any]]]:
    """Return the JSON value of a line and all objects in it, including those hidden by a duplicate key.

    Returns None and no objects if the line is not JSON. The last line is cached, because several callers parse the same line
    in turn; do not mutate the result.
    """
    objects: list[Mapping[str, Any]] = []

    def take(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        objects.append(made)
        return made

    try:
        return json.loads(text, object_pairs_hook=take), objects
    except (ValueError, RecursionError):
        return None, ()


def string(event: Mapping[str, Any], key: str) -> str:
    """Return the string under a key, or ""."""
    value: object = event.get(key)
    return value if isinstance(value, str) else ""


def strings(event: Mapping[str, Any], key: str) -> list[str]:
    """Return the strings in the list under a key."""
    value: object = event.get(key)
    return [part for part in cast("list[object]", value) if isinstance(part, str)] if isinstance(value, list) else []


def inner(event: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the object under a key, or an empty one."""
    value: object = event.get(key)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def total(usage: Mapping[str, Any], keys: tuple[str, ...]) -> int:
    """Return the sum of the numbers under the given keys."""
    values: list[object] = [usage.get(key) for key in keys]
    return sum(value for value in values if isinstance(value, int) and not isinstance(value, bool) and value > 0)
