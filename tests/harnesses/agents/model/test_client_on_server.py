"""`ModelClient` with the vendors' own clients, against a model server that others wrote."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal

import pytest
import trio

from harnesses.agents.chat.model_agent import ModelAgent
from harnesses.agents.model.errors import AuthenticationFailed, RequestRejected
from harnesses.agents.model.messages import Message, ModelOptions, ModelRequest, Role, StreamRestarted, TextDelta
from harnesses.agents.model.model_client import ModelClient
from harnesses.agents.model.providers.credentials import Credential
from harnesses.agents.model.providers.model_names import provider_for
from harnesses.agents.model.rate_limits import RateLimits
from harnesses.agents.model.retry_policy import RetryPolicy
from harnesses.errors import NotReady
from orchestrator import Orchestrator
from orchestrator.store import MemoryStore
from tests.harnesses.agents.chat.test_turns_in_harnesses import Asking
from tests.model_server import ModelServer

QUICK = RetryPolicy(seed=1, base_s=0.01, probe_base_s=0.05, probe_cap_s=0.1)
VENDORS = ["anthropic:claude-opus-5-5", "openai:gpt-5.4", "openai-chat:gpt-4o"]


def client(server: ModelServer, *names: str, **options: object) -> ModelClient:
    def url(name: str) -> str:
        return server.anthropic_url if name.startswith("anthropic") else server.openai_url

    models = [provider_for(name, base_url=url(name), key=Credential("key-of-a-test")) for name in names]
    return ModelClient(models, retry=QUICK, **options)  # type: ignore[arg-type]


def request(text: str) -> ModelRequest:
    return ModelRequest(model="any", messages=(Message(role=Role.USER, text=text),), options=ModelOptions(max_tokens=500))


@pytest.mark.parametrize("vendor", VENDORS)
async def test_the_usage_that_the_server_reports_is_priced(model_server: ModelServer, vendor: str) -> None:
    usage = {"input_tokens": 160, "output_tokens": 8, "prompt_tokens": 160, "completion_tokens": 8}
    model_server.reply({"userMessage": "weather"}, {"content": "It rains.", "usage": usage})
    one, asked = client(model_server, vendor, prices={vendor: {"input": 10, "output": 50}}), request("The weather? " * 50)
    call = await one.call(asked)
    assert call.response.message.text == "It rains."
    assert (call.usage.input_tokens, call.usage.output_tokens, call.cost) == (160, 8, Decimal("0.002"))
    assert one.most(asked).money > call.cost


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_rate_limit_with_retry_after_is_waited_for(model_server: ModelServer, vendor: str) -> None:
    model_server.reply(
        {"userMessage": "hello", "sequenceIndex": 0},
        {"error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429, "retryAfter": 1},
    )
    model_server.answers("hello", "Here I am.")
    told: list[tuple[str, float]] = []
    began = trio.current_time()
    call = await client(model_server, vendor).call(request("hello"), on_wait=lambda why, s: told.append((why, s)))
    assert (call.attempts, call.response.message.text) == (2, "Here I am.")
    assert 1.0 <= trio.current_time() - began < 10
    assert len(told) == 1
    assert "slow down" in told[0][0]


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize(("status", "error"), [(401, AuthenticationFailed), (400, RequestRejected)])
async def test_a_rejected_request_is_sent_once(
    model_server: ModelServer, vendor: str, status: int, error: type[Exception]
) -> None:
    model_server.fails("hello", status)
    with pytest.raises(error):
        await client(model_server, vendor).call(request("hello"))
    assert len(model_server.requests()) == 1


@pytest.mark.parametrize("vendor", VENDORS)
async def test_an_outage_goes_to_the_fallback(model_server: ModelServer, vendor: str) -> None:
    model_server.reply({"userMessage": "hello", "model": "small"}, {"content": "From the other one."})
    model_server.fails("hello", 529 if vendor.startswith("anthropic") else 503)
    call = await client(model_server, vendor, "openai-chat:small", fallback_after_s=0.3).call(request("hello"))
    assert (call.model, call.response.message.text) == ("openai-chat:small", "From the other one.")
    assert vendor in call.reason
    assert 2 <= call.attempts < 20


async def test_an_outage_without_a_fallback_blocks_with_the_remedy(model_server: ModelServer) -> None:
    model_server.fails("hello", 503, "down for maintenance")
    with pytest.raises(NotReady, match=r"is not available.*name fallback models"):
        await client(model_server, VENDORS[0], max_wait_s=0.3).call(request("hello"))


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_stream_cut_in_the_middle_is_made_again(model_server: ModelServer, vendor: str) -> None:
    # With a latency, so that the parts before the cut are sent.
    cut_off = {"chunkSize": 4, "latency": 10, "truncateAfterChunks": 9}
    model_server.reply({"userMessage": "story", "sequenceIndex": 0}, {"content": "Once upon a time " * 9}, **cut_off)
    model_server.answers("story", "Once more", chunkSize=4)
    told: list[object] = []
    call = await client(model_server, vendor).call(request("story"), tell=told.append)
    assert call.response.message.text == "Once more"
    cut = next(place for place, event in enumerate(told) if isinstance(event, StreamRestarted))
    before, after = told[:cut], told[cut:]
    assert any(isinstance(event, TextDelta) for event in before)
    assert "".join(event.text for event in after if isinstance(event, TextDelta)) == "Once more"
    assert call.usage.input_tokens > call.response.usage.input_tokens


async def test_requests_of_many_harnesses_keep_to_the_concurrency(model_server: ModelServer) -> None:
    model_server.answers("hello", "Hi.", streamingProfile={"ttft": 100, "tps": 1_000})
    one = client(model_server, VENDORS[2], limits=RateLimits(concurrent=2))
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(one.call, request("hello"))
    assert trio.current_time() - began >= 0.3


@pytest.mark.parametrize(
    ("status", "error", "outcome", "requests"),
    [
        (401, {"type": "authentication_error"}, "blocked", 1),
        (400, {"type": "invalid_request_error"}, "blocked", 1),
        (404, {"type": "not_found_error"}, "blocked", 1),
        # The conversation is summarised, which fails too; what is left is sent once more.
        (400, {"code": "context_length_exceeded"}, "blocked", 3),
        # The server asks to wait for longer than `max_wait_s`.
        (429, {"type": "rate_limit_error"}, "blocked", 1),
        (429, {"code": "insufficient_quota"}, "blocked", 1),
        (503, {"type": "server_error"}, "blocked", range(2, 30)),
        # The two that cost tries: three for each attempt of the harness.
        (504, {"type": "timeout_error"}, "failed", 6),
    ],
)
async def test_what_becomes_of_a_harness_whose_requests_fail(
    model_server: ModelServer, status: int, error: dict[str, str], outcome: str, requests: int | range
) -> None:
    model_server.reply({}, {"error": {"message": "no", **error}, "status": status})
    agent = ModelAgent(client(model_server, VENDORS[2], max_wait_s=0.3))
    with suppress(ExceptionGroup):
        async with Orchestrator(MemoryStore(), intensity=1) as orchestrator:
            handle = orchestrator.start(Asking(agent, "hello"), name="asking")
            ended = await handle.wait()

    assert outcome in str(ended)
    assert len(model_server.requests()) in (requests if isinstance(requests, range) else (requests,))
