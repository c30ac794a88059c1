"""A harness as a tool of another one's agent, in a run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from attrs import frozen

from harnesses import Agent, AgentRun, BaseHarness, HarnessMisuse, Request
from harnesses.agents.tools.ask_tool import ask_tool
from orchestrator import Orchestrator
from tests.harnesses.agents.tools.turn_tools import opened


@frozen
class Question:
    """What the librarian is asked."""

    title: str


class Librarian(BaseHarness[None, str, int]):
    accepts = (Question,)

    def __init__(self) -> None:
        super().__init__(None)
        self.asked: list[str] = []

    async def execute(self) -> AsyncIterator[Any]:
        while True:
            request = await self.receive(Request)
            self.asked.append(request.message.title)
            await self.reply(request, {"shelf": len(request.message.title)})
            yield request.message.title, len(self.asked)


class Reader(BaseHarness[None, str, Any]):
    async def execute(self) -> AsyncIterator[Any]:
        yield "read", await self.run_agent(Agent(self._read, name="reader"), None)

    async def _read(self, run: AgentRun[Any, Any]) -> list[str]:
        tools = [
            ask_tool("librarian", "Knows the shelves.", message=Question),
            ask_tool("nobody", "Is not there.", timeout_s=1, name="nobody"),
        ]
        async with opened(*tools, run=run) as call:
            return [
                (await call("ask_librarian", message={"title": "trio"})).text,
                (await call("ask_librarian", message={"title": "trio"})).text,
                (await call("ask_librarian", message="trio")).text,
                (await call("nobody", message="hello")).text,
            ]


async def test_an_agent_asks_another_harness_and_gets_its_reply():
    librarian = Librarian()
    async with Orchestrator() as orchestrator:
        running = orchestrator.start(librarian, name="librarian")
        reader = orchestrator.start(Reader(None), name="reader")
        steps = [step async for step in reader.steps()]
        await running.stop()

    texts: list[str] = steps[0].output
    assert texts[:2] == ['{"shelf":4}', '{"shelf":4}']
    assert librarian.asked == ["trio", "trio"]
    assert "argument `message`" in texts[2]
    assert "nobody" in texts[3]


async def test_an_agent_that_runs_alone_cannot_ask():
    with pytest.raises(HarnessMisuse, match="runs alone"):
        async with opened(ask_tool("librarian", "Knows the shelves.")) as call:
            await call("ask_librarian", message="hello")
