"""What a line of a command-line agent's output says it does: tool calls and messages. Pure.

    Claude Code   a block whose type ends with `tool_use`          an assistant message, by its id
    Codex CLI     an item, begun or completed, that is no talk     an item `agent_message`
    aider         `Applied edit to`                                `Tokens: … sent`, which ends each message
    others        nothing can be told

The law: what can not be understood but looks like a tool call counts as one: a line that is cut off for its length does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from attrs import frozen

from harnesses.agents.reading import AiderReading, ClaudeCodeReading, CodexReading, Reading, inner, parsed, string

_LOOKS_LIKE_TOOL = re.compile(r'"type"\s*:\s*"\w*tool_use"')
_LOOKS_LIKE_MESSAGE = re.compile(r'"type"\s*:\s*"assistant"')
_TALK = frozenset({"agent_message", "reasoning", "todo_list", "plan", "error"})


@frozen
class Deed:
    """Something that an agent does."""

    is_tool: bool
    """Whether it is a tool call; else a message."""
    id: str = ""
    """What it is known by, if it may be told of twice."""
    name: str = ""


Counter: TypeAlias = Callable[[str], Iterable[Deed]]


def counter_for(reading: Reading) -> Counter | None:
    """Return what tells the deeds in the lines that a reading reads; None if nothing can."""
    return next((counter for kind, counter in _COUNTERS if isinstance(reading, kind)), None)


def claude_code(line: str) -> Iterator[Deed]:
    event = parsed(line)
    if not event and line.lstrip().startswith("{"):
        yield from (Deed(True) for _ in _LOOKS_LIKE_TOOL.finditer(line))
        yield from (Deed(False) for _ in _LOOKS_LIKE_MESSAGE.findall(line)[:1])
    if string(event, "type") == "assistant":
        message = inner(event, "message")
        yield Deed(False, string(message, "id"))
        yield from (Deed(True, string(block, "id"), string(block, "name")) for block in _tools(message.get("content")))


def _tools(content: object) -> Iterator[Mapping[str, Any]]:
    for block in cast("list[object]", content) if isinstance(content, list) else ():
        known = cast("dict[str, Any]", block) if isinstance(block, dict) else {}
        if string(known, "type").endswith("tool_use"):
            yield known


def codex(line: str) -> Iterator[Deed]:
    event = parsed(line)
    item = inner(event, "item")
    kind = string(item, "type")
    if string(event, "type") == "item.completed" and kind == "agent_message":
        yield Deed(False, string(item, "id"))
    elif string(event, "type") in ("item.started", "item.completed") and kind and kind not in _TALK:
        yield Deed(True, string(item, "id"), kind)


def aider(line: str) -> Iterator[Deed]:
    if line.startswith("Applied edit to "):
        yield Deed(True, name="edit")
    elif line.startswith("Tokens: ") and " sent" in line:
        yield Deed(False)


_COUNTERS: tuple[tuple[type[Any], Counter], ...] = (
    (ClaudeCodeReading, claude_code),
    (CodexReading, codex),
    (AiderReading, aider),
)
