"""A provider, and an agent of a harness, with a real model on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import trio

from harnesses import BaseHarness
from harnesses.agents import ModelAgent
from harnesses.agents.model.messages import Message, ModelOptions, ModelRequest, ModelResponse, Role, StopReason
from harnesses.agents.model.providers.model_names import provider_for
from tests.small_model.small_model import SmallModel, is_installed

pytestmark = pytest.mark.skipif(not is_installed(), reason="the small model is not installed: python -m tests.small_model")


@pytest.fixture(scope="module")
def small_model() -> Iterator[SmallModel]:
    with SmallModel() as model:
        yield model


def request(text: str, max_tokens: int) -> ModelRequest:
    options = ModelOptions(max_tokens=max_tokens, temperature=0.0)
    return ModelRequest(model="smollm2", messages=(Message(role=Role.USER, text=text),), options=options)


async def test_a_real_model_streams_its_answer(small_model: SmallModel) -> None:
    provider, _ = provider_for("openai-chat:smollm2", base_url=small_model.url)
    async with provider.stream(request("What is the capital of France?", 16)) as events:
        *deltas, response = [event async for event in events]

    assert isinstance(response, ModelResponse)
    assert "Paris" in response.message.text
    assert len(deltas) > 3
    assert response.usage.input_tokens > 0 < response.usage.output_tokens


async def test_a_real_model_stops_at_its_limit_and_when_it_is_cancelled(small_model: SmallModel) -> None:
    provider, _ = provider_for("openai-chat:smollm2", base_url=small_model.url)
    async with provider.stream(request("Tell a long story.", 1_000)) as events:
        await anext(events)
    with trio.fail_after(60):  # the next one is answered, because the one before it was ended
        response = await provider.complete(request("Tell a long story.", 4))

    assert response.stop_reason is StopReason.MAX_TOKENS


class Asking(BaseHarness[int, str, str]):
    """Asks a model once."""

    def __init__(self, agent: ModelAgent) -> None:
        super().__init__(0)
        self.agent = agent

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        yield "capital", await self.run_agent(self.agent, "What is the capital of France?")


async def test_an_agent_of_a_harness_asks_a_real_model(small_model: SmallModel) -> None:
    options = ModelOptions(max_tokens=16, temperature=0.0)
    harness = Asking(ModelAgent("openai-chat:smollm2", base_url=small_model.url, options=options))
    await harness.run()

    assert "France" in str(harness.step_history[-1].output)
