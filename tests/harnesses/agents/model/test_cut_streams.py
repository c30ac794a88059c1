"""Those who follow a harness are told that what was streamed is superseded."""

from __future__ import annotations

from collections.abc import AsyncIterator

from trio.testing import MockClock

from harnesses import BaseHarness
from harnesses.agents.chat.model_agent import ModelAgent
from harnesses.agents.model.errors import TransportFailed
from harnesses.agents.model.messages import ModelUsage
from harnesses.agents.model.model_client import ModelClient
from harnesses.turn_events import TurnEventKind
from orchestrator import Orchestrator
from orchestrator.store import MemoryStore
from tests.harnesses.agents.model.scripted_provider import ScriptedProvider, response


async def test_a_follower_is_told_that_a_cut_message_is_superseded(autojump_clock: MockClock) -> None:
    answer = response("Once more", ModelUsage(input_tokens=10, output_tokens=2))
    provider = ScriptedProvider(["Once upon a time. ", TransportFailed("the connection was cut"), "Once more", answer])
    agent = ModelAgent(ModelClient([(provider, "small")]))

    class Asking(BaseHarness[int, str, str]):
        async def execute(self) -> AsyncIterator[tuple[str, str]]:
            yield "story", await self.run_agent(agent, "story")

    async with Orchestrator(MemoryStore()) as orchestrator:
        told = [one.event async for one in orchestrator.start(Asking(0), name="one").turn_events()]
    kinds = [event.kind for event in told]
    cut = kinds.index(TurnEventKind.MESSAGE_RESTARTED)
    assert told[cut].error == "the connection was cut"
    assert [
        "".join(event.text for event in part if event.kind is TurnEventKind.TEXT_DELTA) for part in (told[:cut], told[cut:])
    ] == ["Once upon a time. ", "Once more"]
    assert kinds[-2:] == [TurnEventKind.MESSAGE_COMPLETE, TurnEventKind.TURN_COMPLETE]
