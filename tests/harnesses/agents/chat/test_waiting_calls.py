"""A call that has to wait for a person does not cut off the calls beside it."""

from __future__ import annotations

import pytest
import trio

from harnesses import LoadedContext
from harnesses.agents.chat.model_agent import ModelAgent
from harnesses.agents.tools.function_tool import tool
from harnesses.agents.tools.tool import ToolEffect
from harnesses.agents.tools.tool_policy import ToolPolicy
from harnesses.errors import Waiting
from tests.harnesses.agents.chat.scripted_model import calls, says, scripted


async def test_a_call_that_has_begun_ends_before_a_sibling_blocks_the_turn(autojump_clock: object) -> None:
    paid: list[str] = []

    @tool(effect=ToolEffect.READS)
    async def look() -> str:
        """Look."""
        await trio.sleep(0.1)
        raise Waiting("program missing")

    @tool(effect=ToolEffect.DANGEROUS)
    async def pay() -> str:
        """Pay."""
        await trio.sleep(0.5)
        paid.append("paid")
        return "paid"

    provider = scripted(says("", calls("pay", "{}", "a"), calls("look", "{}", "b")), says("done"))
    agent = ModelAgent(provider.client(), tools=[pay, look], policy=ToolPolicy(allow=["*"]))

    with pytest.raises(Waiting, match="program missing"):
        await agent.run(input="x", context=LoadedContext(None), step_number=1)
    assert paid == ["paid"]
