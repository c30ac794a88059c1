"""Runs tool calls as a turn does, alone or in a harness."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from harnesses.agent import AgentRun
from harnesses.agents.model.messages import ToolCall, ToolResult
from harnesses.agents.tools.tool import Tool, ToolSetting, ToolSource
from harnesses.agents.tools.tool_policy import ToolPolicy
from harnesses.agents.tools.tool_runner import ToolBox, open_tools
from harnesses.step import LoadedContext


def agent_run(**how: Any) -> AgentRun[None, None]:
    """Return the run of an agent that is awaited alone."""
    return AgentRun(input=None, context=LoadedContext(state=None), step_number=1, **how)


def call_of(name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"call-{name}", name=name, arguments=msgspec.json.encode(arguments).decode())


class Caller:
    """Makes calls one after another, each under a key of its own."""

    def __init__(self, box: ToolBox) -> None:
        self.box = box
        self._made = 0

    async def __call__(self, name: str, /, **arguments: Any) -> ToolResult:
        self._made += 1
        return await self.box.run(call_of(name, **arguments), f"round/1/tool/{self._made}")


@asynccontextmanager
async def opened(
    *tools: Tool | ToolSource,
    directory: Path | None = None,
    policy: ToolPolicy | None = None,
    run: AgentRun[Any, Any] | None = None,
    **how: Any,
) -> AsyncGenerator[Caller, None]:
    """Open tools in a setting and yield a function that calls them."""
    timing = {name: how.pop(name) for name in ("timeout_s",) if name in how}
    setting = ToolSetting(run=run or agent_run(), directory=directory, **how)
    async with open_tools(tools, setting, policy, **timing) as box:
        yield Caller(box)
