"""Tools whose calls are recorded in a cassette, or answered from it.

In a replay, a tool that changes files is still called, since the run needs its files, and the recorded answer is returned,
since the recorded conversation goes on with it. Other tools are only called if the cassette names them (`live`), and the
servers of tools are not started.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

import msgspec
import trio
from attrs import frozen

from harnesses.agents.model.cassette import Cassette, CassetteMiss
from harnesses.agents.model.messages import ToolDefinition
from harnesses.agents.tools.tool import Tool, ToolEffect, ToolError, ToolSetting, ToolSource
from harnesses.redaction.redactor import MARK


def recorded_tools(cassette: Cassette, tools: Iterable[Tool | ToolSource]) -> tuple[Tool | ToolSource, ...]:
    """Return tools that record their calls in a cassette, or take them from it."""
    wrapped: list[Tool | ToolSource] = []
    sources = 0
    for one in tools:
        given: Any = one
        if hasattr(given, "open"):
            wrapped.append(_RecordedSource(cassette, given, sources))
            sources += 1
        else:
            wrapped.append(_RecordedTool(cassette, given))
    return tuple(wrapped)


@frozen(kw_only=True)
class _Answer:
    """The recorded result of a call."""

    text: str
    is_error: bool = False


@frozen(kw_only=True)
class _Offer:
    """A tool that a source offered."""

    definition: ToolDefinition
    effect: ToolEffect
    server: str = ""


@frozen
class _RecordedTool:
    """A tool with a cassette."""

    _cassette: Cassette
    _tool: Tool

    def __getattr__(self, name: str) -> Any:
        # What a policy may ask of the tool, such as its `guard` or `server`.
        if name == "findings" and self._is_answered:
            raise AttributeError(name)
        return getattr(self._tool, name)

    @property
    def definition(self) -> ToolDefinition:
        return self._tool.definition

    @property
    def effect(self) -> ToolEffect:
        # A call that the cassette answers changes nothing: it may be repeated, and needs no approval.
        return ToolEffect.READS if self._is_answered else self._tool.effect

    @property
    def _is_answered(self) -> bool:
        is_live = self._tool.effect is ToolEffect.CHANGES_FILES or self._tool.definition.name in self._cassette.live
        return self._cassette.is_replaying and not is_live

    @property
    def timeout_s(self) -> float | None:
        return self._tool.timeout_s

    async def invoke(self, arguments: str, setting: ToolSetting) -> str:
        name = self._tool.definition.name
        asked = {"tool": name, "arguments": _read(arguments)}
        if self._cassette.is_replaying:
            if not self._is_answered:
                self._check_arguments(asked["arguments"])
            answer = msgspec.convert(self._cassette.take(asked, f"a call of the tool {name}"), _Answer)
            if self.effect is ToolEffect.CHANGES_FILES or name in self._cassette.live:
                await self._work(answer, arguments, setting)
            await trio.lowlevel.checkpoint()
            if answer.is_error:
                raise ToolError(answer.text)
            return answer.text
        try:
            text = await self._tool.invoke(arguments, setting)
        except ToolError as error:
            self._cassette.add(asked, _Answer(text=str(error), is_error=True))
            raise
        self._cassette.add(asked, _Answer(text=text))
        return text

    def _check_arguments(self, arguments: object) -> None:
        """Check that a call can be made as it was.

        Raises:
            CassetteMiss: its arguments held a secret, which was not recorded.
        """
        parts = cast("dict[str, object]", arguments) if isinstance(arguments, dict) else {"": arguments}
        if (where := next((name for name, value in parts.items() if MARK in f"{name}{value}"), None)) is not None:
            raise CassetteMiss(
                f"cassette {self._cassette.path}: the call of {self._tool.definition.name} cannot be made again: its argument "
                f"{where} held a secret, which was not recorded: expected the argument as it was, got {MARK!r}; "
                "record it anew without the secret"
            )

    async def _work(self, answer: _Answer, arguments: str, setting: ToolSetting) -> None:
        """Change the files as in the recording.

        Raises:
            CassetteMiss: it fails, and did not then, or the other way round.
        """
        try:
            await self._tool.invoke(arguments, setting)
            why = ""
        except ToolError as error:
            why = str(error)
        if bool(why) != answer.is_error:
            was, now = ("an error", "success") if answer.is_error else ("success", f"an error: {why:.200}")
            raise CassetteMiss(
                f"cassette {self._cassette.path}: the tool {self._tool.definition.name} does not work as recorded: "
                f"expected {was}, got {now}; begin with the files of the recording, or record it anew"
            )


@frozen
class _RecordedSource:
    """A source of tools with a cassette."""

    _cassette: Cassette
    _source: ToolSource
    _place: int

    def open(self, setting: ToolSetting) -> AbstractAsyncContextManager[Sequence[Tool]]:
        return self._replayed() if self._cassette.is_replaying else self._opened(setting)

    @asynccontextmanager
    async def _opened(self, setting: ToolSetting) -> AsyncGenerator[Sequence[Tool], None]:
        async with self._source.open(setting) as tools:
            offers = [
                _Offer(definition=tool.definition, effect=tool.effect, server=getattr(tool, "server", "")) for tool in tools
            ]
            self._cassette.add({"tools": self._place}, offers)
            yield [_RecordedTool(self._cassette, tool) for tool in tools]

    @asynccontextmanager
    async def _replayed(self) -> AsyncGenerator[Sequence[Tool], None]:
        found = self._cassette.take({"tools": self._place}, f"the tools of source {self._place + 1}")
        await trio.lowlevel.checkpoint()
        yield [_RecordedTool(self._cassette, _Absent(offer)) for offer in msgspec.convert(found, list[_Offer])]


@frozen
class _Absent:
    """A tool of a server that is not started."""

    _offer: _Offer
    timeout_s: float | None = None

    @property
    def definition(self) -> ToolDefinition:
        return self._offer.definition

    @property
    def effect(self) -> ToolEffect:
        # Files of a server that is not there cannot be changed by it.
        return ToolEffect.ACTS if self._offer.effect is ToolEffect.CHANGES_FILES else self._offer.effect

    @property
    def server(self) -> str:
        return self._offer.server

    async def invoke(self, arguments: str, setting: ToolSetting) -> str:
        raise ToolError(f"{self.definition.name} cannot be called in a replay")


def _read(arguments: str) -> object:
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return arguments
