"""The same agent with the OpenAI Agents SDK and its session on disk."""

import asyncio
import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner, SQLiteSession, function_tool, set_tracing_disabled
from counted_tool import add_line
from openai import AsyncOpenAI


@function_tool
def note(line: str) -> str:
    """Write a line to the notes."""
    return add_line(line)


async def main(url: str) -> None:
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    model = OpenAIChatCompletionsModel(model="gpt-4o", openai_client=client)
    agent = Agent(name="notes", instructions="Take notes.", tools=[note], model=model)
    session = SQLiteSession("notes", "session.db")
    result = await Runner.run(agent, "Begin.", session=session, max_turns=1_000)
    print(result.final_output)


asyncio.run(main(sys.argv[1]))
