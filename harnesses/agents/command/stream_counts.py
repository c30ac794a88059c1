"""Counts tool calls and messages in the output of a command-line agent. No I/O.

                  tool call                                        message
    Claude Code   a block whose type ends with `tool_use`          an assistant message, by its id
    Codex CLI     an item, started or completed, that is not talk  an item `agent_message`
    Gemini CLI    an event `tool_use`                              adjoining parts of one message of the assistant
    OpenCode      an event `tool_use`, by the id of the call       a finished step
    aider         `Applied edit to`                                `Tokens: … sent`, which ends each message
    others        not counted                                      not counted

Invariants: everything that looks like a tool call counts as one, anywhere in a line: in lists, in nested blocks, in truncated
lines. A tool result without a known call counts as a call. A call reported twice counts once, see `Deeds`. Usage is reported
once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeAlias, cast

from attrs import define, evolve, field, frozen

from harnesses.agents.command.agent_output import EventReading, ReadEvent, Reading, Reply, UsageReading, innermost
from harnesses.agents.command.aider_output import AiderReading
from harnesses.agents.command.claude_code_output import ClaudeCodeReading
from harnesses.agents.command.codex_output import ASKED, TALK, CodexReading
from harnesses.agents.command.gemini_output import GeminiReading
from harnesses.agents.command.opencode_output import OpenCodeReading
from harnesses.agents.command.output_json import inner, loaded, string
from harnesses.budgets.usage import UNUSED, Usage, count_of

_CALL = re.compile(r"\w*(?:tool_use|tool_call|function_call)")
_LOOKS_LIKE_TOOL = re.compile(
    r'"type"\s*:\s*"(\w*(?:tool_use|tool_call|function_call)|command_execution|file_change|web_search)"'
    r'(?:\s*,\s*"id"\s*:\s*"([^"]{1,200})")?'
)
_LOOKS_LIKE_MESSAGE = re.compile(r'"type"\s*:\s*"assistant"')
_LOOKS_LIKE_RESULT = re.compile(r'"type"\s*:\s*"\w*tool_result"')
_RESULT_OF = re.compile(r'"tool_use_id"\s*:\s*"([^"]{1,200})"')
_NOISE = re.compile(
    r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff\u200b-\u200f]"
)
_LETTER = re.compile(r"\\u00([2-7][0-9a-fA-F])")


@frozen
class Deed:
    """One tool call or message of an agent."""

    is_tool: bool
    """Whether it is a tool call; otherwise it is a message."""
    id: str = ""
    """The id by which repeated reports are recognised; empty if it is reported once."""
    name: str = ""
    asked: str = ""
    """A hash of the tool's input; "" if not known yet."""
    is_result: bool = False
    """Whether it is the result of a call; the call itself has normally been reported before."""


@define
class Deeds:
    """The deeds seen so far, to count repeated reports once: a tool call is identified by its id, name and input."""

    _messages: set[str] = field(factory=set[str])
    _asked: dict[tuple[str, str], set[str]] = field(factory=dict[tuple[str, str], set[str]])
    _ids: set[str] = field(factory=set[str])

    def is_new(self, deed: Deed) -> bool:
        """Return whether a deed has not been counted yet, and remember it."""
        id = deed.id[:200]
        if not id:
            return True
        if not deed.is_tool:
            known = id in self._messages
            self._messages.add(id)
            return not known
        known = id in self._ids
        self._ids.add(id)
        if deed.is_result:
            return not known
        told = self._asked.setdefault((id, deed.name), set())
        new = not told or (deed.asked not in told and deed.asked != "" and told != {""})
        told.discard("")
        told.add(deed.asked)
        return new


Counter: TypeAlias = Callable[[str], Iterable[Deed]]


def counter_for(reading: Reading) -> Counter | None:
    """Return a function that finds tool calls and messages in the lines of one run of this program; None if there is none."""
    return next((counter() for kind, counter in _COUNTERS if isinstance(reading, kind)), None)


def claude_code(line: str) -> Iterator[Deed]:
    events, objects = _read(line)
    if not events:
        yield from _guessed(line)
    for event in events:
        if string(event, "type") == "assistant":
            yield Deed(False, string(inner(event, "message"), "id"))
    yield from _blocks(objects)


def _blocks(objects: Iterable[Mapping[str, Any]]) -> Iterator[Deed]:
    for block in objects:
        kind = string(block, "type")
        if _CALL.fullmatch(kind):
            yield Deed(True, string(block, "id"), string(block, "name") or kind, _hash(block.get("input")))
        elif kind.endswith("tool_result"):
            yield Deed(True, string(block, "tool_use_id"), kind, is_result=True)


def codex(line: str) -> Iterator[Deed]:
    events, objects = _read(line)
    if not events:
        yield from _guessed(line)
    for event in events:
        item = inner(event, "item")
        kind = string(item, "type")
        if not string(event, "type").startswith("item."):
            yield from _blocks(objects)
        elif kind == "agent_message":
            if string(event, "type") == "item.completed":
                yield Deed(False, string(item, "id"))
        elif kind and kind not in TALK:
            yield Deed(True, string(item, "id"), kind, _hash({key: item[key] for key in ASKED if item.get(key)}))


def gemini() -> Counter:
    """Return the counter of one run: a message comes in parts, without an id."""
    is_message = False

    def count(line: str) -> Iterator[Deed]:
        nonlocal is_message
        events, objects = _read(line)
        if not events:
            yield from _guessed(line)
        for event in events:
            was_message, is_message = is_message, string(event, "type") == "message" and string(event, "role") != "user"
            if is_message and not was_message:
                yield Deed(False)
            if string(event, "type") == "tool_use":
                name = string(event, "tool_name") or "tool_use"
                yield Deed(True, string(event, "tool_id"), name, _hash(event.get("parameters")))
            elif string(event, "type") == "tool_result":
                yield Deed(True, string(event, "tool_id"), "tool_result", is_result=True)
            else:
                yield from _blocks(objects)

    return count


def opencode(line: str) -> Iterator[Deed]:
    events, objects = _read(line)
    if not events:
        yield from _guessed(line)
    for event in events:
        part = inner(event, "part")
        if string(event, "type") == "step_finish":
            yield Deed(False, string(part, "id"))
        elif string(event, "type") == "tool_use":
            yield Deed(
                True, string(part, "callID"), string(part, "tool") or "tool_use", _hash(inner(part, "state").get("input"))
            )
        else:
            yield from _blocks(objects)


def aider(line: str) -> Iterator[Deed]:
    line = _NOISE.sub("", line)
    if line.startswith("Applied edit to "):
        yield Deed(True, name="edit")
    elif line.startswith("Tokens: ") and " sent" in line:
        yield Deed(False)


def _read(line: str) -> tuple[list[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
    """Return the events in a line and all objects in them; see `loaded`."""
    text = _NOISE.sub("", line)
    begin = min((place for place in (text.find("{"), text.find("[")) if place >= 0), default=0)
    value, objects = loaded(text[begin:])
    items: list[object] = cast("list[object]", value) if isinstance(value, list) else [value]
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)], objects


def _guessed(line: str) -> Iterator[Deed]:
    """Yield the deeds that a line which is not valid JSON seems to report."""
    text = _LETTER.sub(_letter, _NOISE.sub("", line))
    calls = list(_LOOKS_LIKE_TOOL.finditer(text))
    yield from (Deed(True, call[2] or "", call[1], _hash(text)) for call in calls)
    yield from (Deed(False) for _ in _LOOKS_LIKE_MESSAGE.findall(text)[:1])
    if _LOOKS_LIKE_RESULT.search(text):
        yield from (Deed(True, id, "tool_result", is_result=True) for id in _RESULT_OF.findall(text))


def _letter(found: re.Match[str]) -> str:
    char = chr(int(found[1], 16))
    return char if char.isalnum() or char == "_" else found[0]


def _hash(value: object) -> str:
    if not value:
        return ""
    try:
        return sha256(json.dumps(value, sort_keys=True).encode("utf-8", "backslashreplace")).hexdigest()[:32]
    except RecursionError:
        return "deep"


_COUNTERS: tuple[tuple[type[Any], Callable[[], Counter]], ...] = (
    (ClaudeCodeReading, lambda: claude_code),
    (CodexReading, lambda: codex),
    (GeminiReading, gemini),
    (OpenCodeReading, lambda: opencode),
    (AiderReading, lambda: aider),
)


class MeteredReading:
    """Wraps the reading of one run, and reports usage and events as the lines are read.

    Args:
        report: called with the usage since the last report, or with a thread and its total.
        tell: called with each event.
    """

    def __init__(self, inner: Reading, report: Callable[..., None], tell: Callable[[ReadEvent], None] | None = None) -> None:
        self._inner = inner
        self._report = report
        self._tell = tell
        innermost_one = innermost(inner)
        self._meter = innermost_one if isinstance(innermost_one, UsageReading) else None
        self._events = innermost_one if isinstance(innermost_one, EventReading) and tell is not None else None
        self._tells = counter_for(innermost_one)
        self._deeds = Deeds()
        self._told = UNUSED
        self._tool_calls = 0

    def line(self, text: str) -> str:
        """Parse one line and report new usage, even if parsing fails; return the text to log."""
        try:
            return self._inner.line(text)
        finally:
            self._look(text)

    def reply(self) -> Reply:
        """Return the result of the turn, and report any usage known only now."""
        reply = self._inner.reply()
        if self._meter is None and (tokens := count_of(reply.tokens)):
            self._send(Usage(tokens=tokens).beyond(self._told))
            self._told = self._told.max(Usage(tokens=tokens))
        return evolve(reply, usage=self._told + Usage(tool_calls=self._tool_calls))

    def _look(self, text: str) -> None:
        if self._events is not None and self._tell is not None:
            for event in self._events.events:
                self._tell(event)
        if self._tells is not None:
            calls = sum(1 for deed in self._tells(text) if deed.is_tool and self._deeds.is_new(deed))
            self._tool_calls += calls
            self._send(Usage(tool_calls=calls))
        if self._meter is not None and (now := self._meter.usage) != self._told:
            thread = self._meter.thread
            new, self._told = (now if thread else now.beyond(self._told)), now
            self._send(new, thread)

    def _send(self, usage: Usage, thread: str = "") -> None:
        if usage:
            self._report(usage, thread=thread)
