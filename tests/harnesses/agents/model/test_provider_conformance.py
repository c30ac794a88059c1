"""Every provider passes the conformance suite, also one that somebody else wrote; one that breaks a rule does not."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import evolve

from harnesses.agents.model.errors import ProviderUnavailable
from harnesses.agents.model.messages import ModelRequest, Role, StreamEvent
from harnesses.agents.model.provider import ModelProvider
from harnesses.agents.model.provider_conformance import check_provider
from harnesses.agents.model.providers.anthropic_provider import AnthropicProvider
from harnesses.agents.model.providers.credentials import Credential
from harnesses.agents.model.providers.openai_chat_provider import OpenAIChatProvider
from harnesses.agents.model.providers.openai_responses_provider import OpenAIResponsesProvider
from tests.harnesses.agents.model.conformance_server import AimockServer
from tests.harnesses.agents.model.ollama_provider import LineReader, OllamaProvider
from tests.model_server import ModelServer

SECRET = "sk-conformance-0123456789abcdef"


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda url: AnthropicProvider(base_url=url, key=Credential(SECRET)), ""),
        (lambda url: OpenAIChatProvider(base_url=url, key=Credential(SECRET)), "/v1"),
        (lambda url: OpenAIResponsesProvider(base_url=url, key=Credential(SECRET)), "/v1"),
    ],
    ids=["anthropic", "openai-chat", "openai"],
)
async def test_a_provider_on_a_vendors_sdk_conforms(
    model_server: ModelServer, make: Callable[[str], ModelProvider], path: str
) -> None:
    await check_provider(make, AimockServer(model_server, f"{model_server.url}{path}"), model="some-model", secret=SECRET)


async def test_a_third_provider_is_one_module(model_server: ModelServer) -> None:
    await check_provider(OllamaProvider, AimockServer(model_server, model_server.url), model="some-model")


class Silent(OllamaProvider):
    """Does not say that an answer was cut off."""

    def reader(self, request: ModelRequest) -> LineReader:
        return SilentReader(self.id, request)


class SilentReader(LineReader):
    """Takes any end for the end of the answer."""

    def end(self) -> bool:
        return True


class Twice:
    """Repeats the last event."""

    def __init__(self, events: AsyncIterator[StreamEvent]) -> None:
        self.events = events
        self.last: list[StreamEvent] = []

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self

    async def __anext__(self) -> StreamEvent:
        event = await anext(self.events, None)
        if event is None and self.last:
            return self.last.pop()
        if event is None:
            raise StopAsyncIteration
        self.last = [event]
        return event


class Repeating(OllamaProvider):
    """Gives the answer twice."""

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[StreamEvent], None]:
        async with super().stream(request) as events:
            yield Twice(events)


class Blunt(OllamaProvider):
    """Takes every failure for an outage."""

    async def failed(self, response: Any) -> Exception:
        return ProviderUnavailable("no", provider=self.id, status=response.status_code)


class Careless(OllamaProvider):
    """Goes on reading when its caller has left."""

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[StreamEvent], None]:
        async with super().stream(request) as events:
            try:
                yield events
            finally:
                with trio.move_on_after(2.5, shield=True):
                    async for _ in events:
                        pass


class Forgetful(OllamaProvider):
    """Sends only the last tool result."""

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[StreamEvent], None]:
        kept = [message for message in request.messages if message.role is not Role.TOOL]
        async with super().stream(evolve(request, messages=kept)) as events:
            yield events


class Chatty(OllamaProvider):
    """Shows its key."""

    def __repr__(self) -> str:
        return SECRET


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        (Silent, "an answer that is cut must raise"),
        (Repeating, "there must be exactly one response"),
        (Blunt, "status 400 must raise RequestRejected"),
        (Forgetful, "all results must be sent"),
        (Careless, "must end within 2 s"),
        (Chatty, "the key must not be in repr"),
    ],
)
async def test_a_provider_that_breaks_a_rule_does_not_pass(
    model_server: ModelServer, provider: type[OllamaProvider], message: str
) -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(AssertionError, match=message), allow_unwrapped=True, flatten_subgroups=True):
        await check_provider(provider, AimockServer(model_server, model_server.url), model="some-model", secret=SECRET)
