"""Every provider passes the conformance suite, also one that somebody else wrote; one that breaks a rule does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harnesses.agents.model.provider import ModelProvider
from harnesses.agents.model.provider_conformance import check_provider
from harnesses.agents.model.providers.anthropic_provider import AnthropicProvider
from harnesses.agents.model.providers.credentials import Credential
from harnesses.agents.model.providers.openai_chat_provider import OpenAIChatProvider
from harnesses.agents.model.providers.openai_responses_provider import OpenAIResponsesProvider
from tests.harnesses.agents.model.conformance_server import AimockServer
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
