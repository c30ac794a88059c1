"""The same agent with this package."""

import sys

import trio
from counted_tool import add_line

from harnesses import BaseHarness
from harnesses.agents import ModelAgent
from orchestrator import Orchestrator


def note(line: str) -> str:
    """Write a line to the notes."""
    return add_line(line)


class Noting(BaseHarness[int, str, str]):
    async def execute(self):
        yield "Begin.", await self.run_agent(agent, "Begin.")


async def main() -> None:
    async with Orchestrator("run.db") as orchestrator:
        orchestrator.start(Noting(0), name="noting")


agent = ModelAgent("openai-chat:gpt-4o", base_url=sys.argv[1], tools=[note], system="Take notes.", max_rounds=1_000)
trio.run(main)
