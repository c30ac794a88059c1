"""The tools of a connected MCP server: read from its list, called, and their results as text.

What a server declares about its tools is not trusted where it would lower a guard:

    server                                      effect of its tools
    in a sandbox without network                changes_files: the sandbox holds it
    any other: destructiveHint                  dangerous
    any other                                   acts, for which the default policy asks
    `trusted`, with readOnlyHint                reads
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import trio
from attrs import frozen

from harnesses.agents.model.messages import ToolDefinition
from harnesses.agents.tools.coding_tools import held_by
from harnesses.agents.tools.function_tool import paths_in, read_object
from harnesses.agents.tools.tool import InvalidArguments, Tool, ToolEffect, ToolError, ToolSetting
from harnesses.data.json_depth import MAX_LEVELS, is_too_deep
from harnesses.diagnostics.control_characters import inert
from harnesses.diagnostics.error_groups import leaves
from harnesses.diagnostics.extras import load_extra
from harnesses.guard.command_model import Finding
from harnesses.guard.tool_calls import classify_call
from harnesses.redaction.redactor import redact_text

MAX_TOOLS = 500
"""Tools of one server; further ones are left out."""
_MOST_PAGES = 50
_MOST_DESCRIPTION = 8_000
_MOST_SCHEMA_BYTES = 100_000
_MOST_LOGGED = 10
"""Tools that are logged as left out at one reading of a list; the others are counted."""
_PAUSE_S = 1.0
"""Least seconds between two readings of a changed list."""
_NOT_AT_THE_TOP = ("anyOf", "oneOf", "allOf", "not", "enum")
"""Keywords that providers refuse at the top of a tool's schema."""
WHAT = "an MCP server"


class ListChanges:
    """Notes that a server's list of tools has changed."""

    def __init__(self) -> None:
        self.event = trio.Event()

    async def take(self, message: object) -> None:
        if type(message).__name__ == "ToolListChangedNotification":
            self.event.set()


@frozen(kw_only=True)
class ServedBy:
    """What the tools of a server have in common."""

    name: str
    """Name of the server."""
    is_trusted: bool
    """Whether to believe that a tool only reads."""
    is_held: bool
    """Whether a sandbox keeps the server from everything but files."""
    paths: tuple[str, ...] | None
    """Names of the arguments that are paths; None if any may be one."""


@frozen
class McpSession:
    """A connection to a server."""

    server: ServedBy
    client: Any
    setting: ToolSetting

    async def tools(self) -> list[Tool]:
        """Return the tools that the server lists; those that no model could call are left out, which is logged."""
        tools, left_out = dict[str, Tool](), list[str]()
        seen, cursor = set[str | None](), None
        while cursor not in seen and len(seen) < _MOST_PAGES and len(tools) < MAX_TOOLS:
            seen.add(cursor)
            page = await self.client.list_tools(cursor=cursor)
            for offered in page.tools:
                try:
                    if offered.name in tools:
                        raise ValueError("it is listed twice")
                    tools[offered.name] = self._tool(offered)
                except ValueError as error:
                    left_out.append(f"tool {offered.name!r:.100} is left out: {error}")
            cursor = page.next_cursor
        for words in left_out[:_MOST_LOGGED]:
            self.setting.run.log(f"[{self.server.name}: {words}]")
        if len(left_out) > _MOST_LOGGED:
            self.setting.run.log(f"[{self.server.name}: {len(left_out) - _MOST_LOGGED} more tools are left out]")
        return list(tools.values())[:MAX_TOOLS]

    def _tool(self, listed: Any) -> McpTool:
        if not re.search("[A-Za-z0-9]", listed.name):
            raise ValueError("its name is not valid: expected letters or digits")
        definition = ToolDefinition(
            name=re.sub(r"[^A-Za-z0-9_-]", "_", listed.name)[:64],
            description=inert(listed.description or listed.title or listed.name)[:_MOST_DESCRIPTION],
            input_schema=_checked_schema(listed.input_schema),
        )
        effect = _effect_of(listed.annotations, is_trusted=self.server.is_trusted, is_held=self.server.is_held)
        return McpTool(definition=definition, effect=effect, listed_name=listed.name, origin=self.server, client=self.client)

    async def follow(self, changes: ListChanges, tools: list[Tool]) -> None:
        """Read the list of tools again whenever it has changed."""
        while True:
            await changes.event.wait()
            changes.event = trio.Event()
            try:
                tools[:] = await self.tools()
            except Exception as error:
                self.setting.run.log(f"[{self.server.name}: its changed list of tools cannot be read: {plain(error)}]")
            await trio.sleep(_PAUSE_S)

    async def listen(self, changes: ListChanges) -> None:
        """Subscribe to changes of the list, where the protocol's version needs that."""
        capabilities = self.client.server_capabilities
        if not (capabilities.tools and capabilities.tools.list_changed):
            return
        try:
            async with self.client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    changes.event.set()
        except Exception:
            return  # Earlier versions send notifications unasked.


@frozen(kw_only=True, eq=False)
class McpTool:
    """A tool of an MCP server."""

    definition: ToolDefinition
    effect: ToolEffect
    listed_name: str
    """The name that the server gave it."""
    timeout_s: float | None = None
    origin: ServedBy
    client: Any

    @property
    def server(self) -> str:
        """The name of its server."""
        return self.origin.name

    def paths(self, arguments: Mapping[str, Any]) -> Iterable[str] | None:
        """Return the paths that a call names; None if any argument may be one."""
        return None if self.origin.paths is None else paths_in(arguments, self.origin.paths)

    def findings(self, arguments: Mapping[str, Any], setting: ToolSetting) -> tuple[Finding, ...]:
        """Return why a call needs approval: what the command guard finds in its arguments."""
        call = {"tool_name": self.listed_name, "tool_input": arguments, "cwd": str(setting.directory or "")}
        allow = held_by(setting.sandbox) if self.origin.is_held else frozenset[str]()
        return classify_call(call, allow=allow) if self.effect is not ToolEffect.READS else ()

    def check(self, arguments: Mapping[str, Any], setting: ToolSetting) -> None:
        """Check that no argument is missing; the server checks the rest.

        Raises:
            InvalidArguments: one is.
        """
        required = msgspec.json.decode(self.definition.input_schema, type=dict[str, Any]).get("required") or ()
        if missing := [name for name in required if name not in arguments]:
            raise InvalidArguments(
                f"the call of {self.definition.name} was not made: argument `{missing[0]:.100}` is missing; add it"
            )

    async def invoke(self, arguments: str, setting: ToolSetting) -> str:
        """Call the tool; cancelling the call tells the server."""
        given = read_object(arguments)
        try:
            result = await self.client.call_tool(self.listed_name, given)
        except Exception as error:
            raise ToolError(f"MCP server {self.server!r}: {self.listed_name} has failed: {plain(error)}") from error
        text = "\n".join(map(_text_of, result.content))
        if not text and result.structured_content is not None:
            text = str(msgspec.json.encode(result.structured_content), "utf-8")
        if result.is_error:
            raise ToolError(inert(text) or f"MCP server {self.server!r}: {self.listed_name} has failed without a message")
        return text or "done"


def _effect_of(annotations: Any, *, is_trusted: bool, is_held: bool) -> ToolEffect:
    if is_trusted and annotations is not None and annotations.read_only_hint:
        return ToolEffect.READS
    if is_held:
        return ToolEffect.CHANGES_FILES
    return ToolEffect.DANGEROUS if annotations is not None and annotations.destructive_hint else ToolEffect.ACTS


def _checked_schema(schema: dict[str, Any]) -> str:
    """Return a tool's schema as JSON that providers accept.

    Raises:
        ValueError: it is not a schema.
    """
    validators: Any = load_extra("jsonschema.validators", "mcp", WHAT)
    try:
        validators.validator_for(schema).check_schema(schema)
    except Exception as error:
        raise ValueError(f"its schema is not valid: {str(error).splitlines()[0]:.200}") from error
    schema = {"properties": {}, **schema, "type": "object"}
    data = msgspec.json.encode({key: value for key, value in schema.items() if key not in _NOT_AT_THE_TOP})
    if len(data) > _MOST_SCHEMA_BYTES:
        raise ValueError(f"its schema has {len(data)} bytes: expected at most {_MOST_SCHEMA_BYTES}")
    if is_too_deep(text := str(data, "utf-8")):
        raise ValueError(f"its schema has more than {MAX_LEVELS} levels")
    return text


def _text_of(content: Any) -> str:
    """Return a part of a result as text."""
    match content.type:
        case "text":
            return str(content.text)
        case "resource":
            resource = content.resource
            return str(getattr(resource, "text", "") or f"[{resource.uri}: binary data]")
        case "resource_link":
            return f"[{content.uri}]"
        case kind:
            return f"[{kind} of type {getattr(content, 'mime_type', 'unknown')}, not shown]"


def plain(error: BaseException) -> str:
    """Return an error in a few words, inert and without secrets."""
    told = (f"{type(leaf).__name__}: {leaf}" if str(leaf) else type(leaf).__name__ for leaf in leaves(error))
    return inert(redact_text("; ".join(list(told)[:3])))[:1_000]
