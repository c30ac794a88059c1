"""Mends answers of an MCP server, so that a part which the `mcp` package refuses does not take the rest with it.

    tools/list    a tool that is not valid is left out, which is logged
    tools/call    content of an unknown kind becomes a sentence that names it

The package validates an answer as a whole, by the version of the protocol; here each part of one that it would refuse is
validated alone. Invariant: an answer that is valid stays as it is.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

from attrs import define

from harnesses.diagnostics.control_characters import inert
from harnesses.diagnostics.extras import load_extra

_MOST_LOGGED = 10
"""Tools of one answer that are logged as left out; the others are counted."""
_LATER = "2026-07-28"
"""The version of a server that does not name one as it is initialised."""


@asynccontextmanager
async def mended(transport: Any, log: Callable[[str], object]) -> AsyncGenerator[tuple[Any, Any], None]:
    """Yield the streams of a transport of the `mcp` package; the answers in the first are mended.

    Args:
        log: called with a sentence about what is left out.
    """
    async with transport as (incoming, outgoing):
        yield _Answers(incoming, log), outgoing


@define(eq=False)
class _Answers:
    """A stream of messages from a server."""

    stream: Any
    log: Callable[[str], object]
    version: str = _LATER

    def __getattr__(self, name: str) -> Any:
        # Such as `aclose`, and the context of the sender.
        return getattr(self.stream, name)

    async def __aenter__(self) -> _Answers:
        await self.stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self.stream.__aexit__(*error)

    def __aiter__(self) -> _Answers:
        return self

    async def __anext__(self) -> Any:
        return self._mend(await self.stream.__anext__())

    async def receive(self) -> Any:
        return self._mend(await self.stream.receive())

    def _mend(self, item: Any) -> Any:
        result = getattr(getattr(item, "message", None), "result", None)
        if isinstance(result, dict):
            answer = cast("dict[str, Any]", result)
            self.version = str(answer.get("protocolVersion", self.version))
            if isinstance(answer.get("tools"), list):
                self._mend_tools(answer)
            elif isinstance(answer.get("content"), list):
                self._mend_content(answer)
        return item

    def _mend_tools(self, answer: dict[str, Any]) -> None:
        why = self._problems("tools/list", answer, "tools")
        for place in list(why)[:_MOST_LOGGED]:
            self.log(f"tool {_name_of(answer['tools'][place], 'name')!r:.100} is left out: it is not valid: {why[place]}")
        if len(why) > _MOST_LOGGED:
            self.log(f"{len(why) - _MOST_LOGGED} more tools are left out, which are not valid")
        answer["tools"] = [tool for place, tool in enumerate(answer["tools"]) if place not in why]

    def _mend_content(self, answer: dict[str, Any]) -> None:
        for place in self._problems("tools/call", answer, "content"):
            words = f"[content of the kind {_name_of(answer['content'][place], 'type')!r:.60}, which cannot be shown]"
            answer["content"][place] = {"type": "text", "text": inert(words)}

    def _problems(self, method: str, answer: Mapping[str, Any], key: str) -> dict[int, str]:
        """Return what is wrong with the parts of an answer, by their places; empty if it is valid without changes."""
        if not self._problem(method, answer):
            return {}
        parts = enumerate(answer[key])
        return {place: problem for place, part in parts if (problem := self._problem(method, {**answer, key: [part]}))}

    def _problem(self, method: str, answer: Mapping[str, Any]) -> str:
        """Return what is wrong with an answer; empty if it is valid, or the version has no such answer."""
        methods: Any = load_extra("mcp_types.methods", "mcp", "an MCP server")
        try:
            methods.validate_server_result(method, self.version, answer)
        except KeyError:
            return ""
        except (ValueError, RecursionError) as error:
            return _first(error)
        return ""


def _first(error: Exception) -> str:
    """Return the first problem that a validation has found."""
    found: Any = getattr(error, "errors", None)
    if found is None:
        return inert(f"{type(error).__name__}: {error}")[:200]
    first = found(include_input=False, include_url=False, include_context=False)[0]
    return inert(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")[:200]


def _name_of(part: object, key: str) -> str:
    return str(cast("dict[str, Any]", part).get(key, "")) if isinstance(part, dict) else ""
