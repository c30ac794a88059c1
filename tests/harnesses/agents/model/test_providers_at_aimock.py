"""Providers at a server that others wrote and that goes wrong on purpose: cut streams, malformed JSON, late answers."""

from __future__ import annotations

from typing import Any

import pytest

from harnesses.agents.model.errors import (
    MalformedResponse,
    ProviderTimeout,
    ProviderUnavailable,
    RateLimited,
    TransportFailed,
)
from harnesses.agents.model.messages import ModelUsage, StopReason
from harnesses.agents.model.providers.response_stream import CallLimits
from harnesses.agents.model.providers.sdk_provider import SdkProvider
from tests.harnesses.agents.model.provider_dialects import REQUEST, Dialect, each_dialect
from tests.model_server import ModelServer

LONG = "It rains. " * 100


def provider(dialect: Dialect, server: ModelServer, limits: CallLimits | None = None) -> SdkProvider:
    return dialect.make(server.anthropic_url if dialect.name == "anthropic" else server.openai_url, limits)


@each_dialect
@pytest.mark.parametrize("how", [{"truncateAfterChunks": 3}, {"latency": 30, "disconnectAfterMs": 100}])
async def test_a_cut_stream_fails(model_server: ModelServer, dialect: Dialect, how: dict[str, Any]) -> None:
    model_server.answers("hello", LONG, **how)

    with pytest.raises(TransportFailed):
        await provider(dialect, model_server).complete(REQUEST)


@each_dialect
@pytest.mark.parametrize(
    ("chaos", "kinds"),
    [
        ({"malformedRate": 1}, (MalformedResponse,)),
        ({"disconnectRate": 1}, (TransportFailed,)),
        ({"dropRate": 1}, (ProviderUnavailable,)),
        ({"rateLimitRate": 1}, (RateLimited,)),
    ],
    ids=["malformed", "disconnected", "dropped", "limited"],
)
async def test_chaos_has_its_classes(
    model_server: ModelServer, dialect: Dialect, chaos: dict[str, float], kinds: tuple[type[Exception], ...]
) -> None:
    model_server.answers("hello", LONG, chaos=chaos)

    with pytest.raises(kinds) as caught:
        await provider(dialect, model_server).complete(REQUEST)
    if kinds == (RateLimited,):
        assert caught.value.retry_after_s == 1.0  # type: ignore[attr-defined]


@each_dialect
@pytest.mark.parametrize(
    "how", [{"chaos": {"latencyMs": 3_000}}, {"streamingProfile": {"ttft": 3_000, "tps": 1_000}}], ids=["head", "first"]
)
async def test_a_slow_first_byte_times_out(model_server: ModelServer, dialect: Dialect, how: dict[str, Any]) -> None:
    model_server.answers("hello", LONG, **how)

    with pytest.raises(ProviderTimeout, match=r"within 0\.3 s"):
        await provider(dialect, model_server, CallLimits(first_byte_s=0.3, between_s=0.3)).complete(REQUEST)


@each_dialect
async def test_usage_and_the_limit_of_tokens_are_told(model_server: ModelServer, dialect: Dialect) -> None:
    counts = {"input_tokens": 11, "output_tokens": 7, "prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    model_server.reply({}, {"content": LONG, "usage": counts, "finishReason": "length"})

    response = await provider(dialect, model_server).complete(REQUEST)

    assert response.usage == ModelUsage(input_tokens=11, output_tokens=7)
    assert response.stop_reason is StopReason.MAX_TOKENS


@each_dialect
async def test_reasoning_goes_back_to_its_provider_with_its_proof(model_server: ModelServer, dialect: Dialect) -> None:
    model_server.reply({}, {"content": "Hi.", "reasoning": "A greeting."})

    response = await provider(dialect, model_server).complete(REQUEST)

    (thinking,) = response.message.thinking
    assert thinking.text == "A greeting."
    assert thinking.proof.startswith({"anthropic": "anthropic:", "openai": "openai:", "openai-chat": ""}[dialect.name])
