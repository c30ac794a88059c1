"""Tests of `ModelClient`: retries by error class, fallback, escalation, and what a call costs."""

from __future__ import annotations

from decimal import Decimal

import pytest
import trio
from trio.testing import MockClock

from harnesses.agents.model.errors import (
    AuthenticationFailed,
    ContextTooLong,
    MalformedResponse,
    ProviderError,
    ProviderTimeout,
    ProviderUnavailable,
    RateLimited,
    RequestRejected,
    TransportFailed,
    UsageLimitReached,
)
from harnesses.agents.model.messages import ModelUsage, StreamRestarted
from harnesses.agents.model.model_client import ModelClient, is_local
from harnesses.agents.model.model_tries import CallMeter
from harnesses.agents.model.retry_policy import RetryPolicy
from harnesses.errors import HarnessMisuse, NotReady
from harnesses.timing.clock import WallClock
from tests.harnesses.agents.model.scripted_provider import ScriptedProvider, request, response, texts

PRICES = {"scripted:*": {"input": 10, "output": 50, "cached": 1, "max_output": 1_000, "context": 50_000}}
SEEDED = RetryPolicy(seed=7)


def client(*providers: ScriptedProvider, **options: object) -> ModelClient:
    names = ("small", "large", "largest")
    models = [(provider, name) for provider, name in zip(providers, names, strict=False)]
    return ModelClient(models, **{"prices": PRICES, "retry": SEEDED, **options})  # type: ignore[arg-type]


async def test_a_call_returns_the_answer_its_model_usage_and_cost(autojump_clock: MockClock) -> None:
    call = await client(ScriptedProvider()).call(request())
    assert call.response == response()
    assert (call.model, call.attempts, call.waited_s, call.reason) == ("scripted:small", 1, 0.0, "")
    assert (call.usage, call.cost) == (response().usage, Decimal("0.015"))


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("error", [AuthenticationFailed("401"), RequestRejected("400", status=400), ContextTooLong("400")])
async def test_a_rejected_request_is_sent_once(autojump_clock: MockClock, error: ProviderError, streams: bool) -> None:
    provider, fallback = ScriptedProvider([error]), ScriptedProvider()
    with pytest.raises(type(error)) as caught:
        await client(provider, fallback).call(request(), tell=(lambda event: None) if streams else None)
    assert caught.value is error
    assert (len(provider.sent), fallback.sent, trio.current_time()) == (1, [], 0.0)


@pytest.mark.parametrize("error", [ProviderTimeout("504"), MalformedResponse("not JSON")])
async def test_a_timeout_or_malformed_answer_is_tried_three_times(autojump_clock: MockClock, error: ProviderError) -> None:
    provider = ScriptedProvider([error] * 2)
    assert (await client(provider).call(request())).attempts == 3
    provider.script = [error] * 3
    with pytest.raises(type(error)):
        await client(provider).call(request())
    assert len(provider.sent) == 6


async def test_the_delays_of_one_seed_are_equal_and_jitter_below_their_caps(autojump_clock: MockClock) -> None:
    delays: list[list[float]] = []
    for seed in (1, 1, 2):
        provider = ScriptedProvider([ProviderTimeout("504")] * 9)
        await client(provider, retry=RetryPolicy(seed=seed, tries=10)).call(request())
        delays.append([later - earlier for earlier, later in zip(provider.times, provider.times[1:], strict=False)])
    assert delays[0] == pytest.approx(delays[1])
    assert delays[0] != pytest.approx(delays[2])
    caps = [min(5.0, 0.2 * 2**n) for n in range(9)]
    assert all(0 <= delay <= cap for one in delays for delay, cap in zip(one, caps, strict=True))


async def test_retry_after_is_waited_for_and_told(autojump_clock: MockClock) -> None:
    provider = ScriptedProvider([RateLimited("429", retry_after_s=17.5)])
    told: list[tuple[str, float]] = []
    call = await client(provider).call(request(), on_wait=lambda *wait: told.append(wait))
    assert provider.times == [0.0, 17.5]
    assert (call.attempts, call.waited_s) == (2, 17.5)
    assert told == [("scripted:small: 429", 17.5)]


async def test_a_used_up_quota_is_waited_for_until_it_resets(autojump_clock: MockClock) -> None:
    error = UsageLimitReached("quota", resets_at=WallClock().now() + 5 * 3600)
    provider = ScriptedProvider([error])
    assert (await client(provider).call(request())).attempts == 2
    assert provider.times[1] == pytest.approx(5 * 3600, abs=1)


async def test_a_quota_that_resets_too_late_blocks_at_once(autojump_clock: MockClock) -> None:
    provider = ScriptedProvider([UsageLimitReached("quota is used up", resets_at=WallClock().now() + 30 * 86400)])
    with pytest.raises(NotReady, match=r"scripted:small.*quota is used up"):
        await client(provider).call(request())
    assert trio.current_time() == 0.0


async def test_an_outage_costs_no_try(autojump_clock: MockClock) -> None:
    provider = ScriptedProvider([ProviderUnavailable("503")] * 20)
    call = await client(provider).call(request())
    assert call.attempts == 21
    assert call.waited_s == pytest.approx(trio.current_time())
    assert trio.current_time() > 60


async def test_an_outage_that_lasts_too_long_blocks_the_harness(autojump_clock: MockClock) -> None:
    provider = ScriptedProvider(is_down=lambda request: ProviderUnavailable("503 overloaded"))
    with pytest.raises(NotReady, match="expected an answer within 1000 s, got: 503 overloaded"):
        await client(provider, max_wait_s=1_000).call(request())
    assert trio.current_time() == pytest.approx(1_000)
    assert len(provider.sent) < 60


async def test_a_request_that_alone_meets_an_outage_costs_tries(autojump_clock: MockClock) -> None:
    provider = ScriptedProvider(takes_s=1.0)
    poisoned = request("poison")
    provider.is_down = lambda request: ProviderUnavailable("500") if request.messages == poisoned.messages else None
    one = client(provider)

    async def others() -> None:
        while True:
            await one.call(request(), owner="other")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        with pytest.raises(ProviderUnavailable):
            await one.call(poisoned, owner="poisoned")
        nursery.cancel_scope.cancel()
    assert trio.current_time() < 120


async def test_a_stream_cut_in_the_middle_is_made_again_and_what_was_streamed_is_superseded(autojump_clock: MockClock) -> None:
    provider = ScriptedProvider(["Once ", "upon", TransportFailed("connection reset"), "Once ", "more", response("Once more")])
    told: list[object] = []
    call = await client(provider).call(request(), tell=told.append)
    assert call.response.message.text == "Once more"
    superseded = told.index(StreamRestarted("connection reset"))
    assert texts(told[:superseded]) == ["Once ", "upon"]
    assert texts(told[superseded:]) == ["Once ", "more"]
    assert told[-1] == call.response
    assert call.usage.input_tokens > response().usage.input_tokens
    assert call.usage.output_tokens > response().usage.output_tokens


async def test_streams_that_are_cut_again_and_again_fail_after_three_tries(autojump_clock: MockClock) -> None:
    provider = ScriptedProvider(["Once", TransportFailed("cut")] * 3)
    with pytest.raises(TransportFailed, match="cut"):
        await client(provider).call(request(), tell=lambda event: None)
    assert len(provider.sent) == 3


async def test_a_stream_that_stalls_times_out(autojump_clock: MockClock) -> None:
    provider = ScriptedProvider(takes_s=50.0)
    with pytest.raises(ProviderTimeout, match="within 20 s"):
        await client(provider, timeout_s=20.0).call(request(), tell=lambda event: None)
    assert len(provider.sent) == 3
    assert provider.under_way == 0


async def test_an_outage_beyond_the_bound_goes_to_the_fallback_at_once_for_later_calls(autojump_clock: MockClock) -> None:
    down = ScriptedProvider(is_down=lambda request: ProviderUnavailable("503"), id="scripted")
    fallback = ScriptedProvider(account="other", id="scripted")
    one = client(down, fallback, fallback_after_s=30)
    call = await one.call(request())
    assert trio.current_time() == pytest.approx(30)
    assert call.model == "scripted:large"
    assert call.reason == "scripted:small: not available for 30 s: 503"
    probes = len(down.sent)
    again = await one.call(request())
    assert trio.current_time() == pytest.approx(30)
    assert again.model == "scripted:large"
    assert len(down.sent) <= probes + 1


async def test_a_used_up_quota_goes_to_the_fallback_at_once(autojump_clock: MockClock) -> None:
    provider = ScriptedProvider([UsageLimitReached("quota", resets_at=WallClock().now() + 3600)])
    call = await client(provider, ScriptedProvider(account="other")).call(request())
    assert (call.model, trio.current_time()) == ("scripted:large", 0.0)
    assert "quota" in call.reason


async def test_a_refused_model_goes_to_the_fallback(autojump_clock: MockClock) -> None:
    provider = ScriptedProvider([RequestRejected("no such model", status=404)])
    call = await client(provider, ScriptedProvider(account="other")).call(request())
    assert (call.model, call.reason) == ("scripted:large", "scripted:small: no such model")


@pytest.mark.parametrize(("failures", "model"), [(0, "small"), (1, "small"), (2, "large"), (4, "largest"), (99, "largest")])
async def test_failed_tries_escalate_to_the_next_model(autojump_clock: MockClock, failures: int, model: str) -> None:
    provider = ScriptedProvider()
    call = await client(provider, provider, provider).call(request(), failures=failures)
    assert call.model == f"scripted:{model}"
    assert provider.sent[0][1].model == model
    assert call.reason == (f"{failures} tries have failed" if failures > 1 else "")


async def test_escalation_can_be_turned_off(autojump_clock: MockClock) -> None:
    provider = ScriptedProvider()
    assert (await client(provider, provider, escalate_after=None).call(request(), failures=9)).model == "scripted:small"


async def test_the_bound_covers_the_dearest_model_and_the_real_cost(autojump_clock: MockClock) -> None:
    prices = {"scripted:small": {"input": 1, "output": 2}, "scripted:large": {"input": 10, "output": 50}}
    provider = ScriptedProvider([response(usage=ModelUsage(input_tokens=10, output_tokens=100))])
    one = client(provider, provider, prices=prices)
    most = one.most(request("hello", max_tokens=100))
    call = await one.call(request("hello", max_tokens=100), failures=2)
    assert call.cost == Decimal("0.0051")
    assert most.money >= call.cost
    assert most.tokens >= call.usage.total_tokens


async def test_a_call_that_is_cut_off_tells_what_it_is_known_to_have_used(autojump_clock: MockClock) -> None:
    provider = ScriptedProvider(["a long beginning of an answer", *[""] * 9])
    meter = CallMeter()
    with trio.CancelScope() as scope:
        await client(provider).call(request(), tell=lambda event: scope.cancel(), meter=meter)
    assert scope.cancelled_caught
    assert meter.attempts == 1
    assert meter.usage.output_tokens > 0
    assert meter.usage.estimated_tokens == meter.usage.total_tokens
    assert meter.cost > 0


@pytest.mark.parametrize("told", [ModelUsage(), ModelUsage(input_tokens=7), ModelUsage(output_tokens=7)])
async def test_what_a_provider_does_not_report_is_estimated_charged_and_marked(
    autojump_clock: MockClock, told: ModelUsage
) -> None:
    one, asked = client(ScriptedProvider([response("an answer", told)])), request("a question " * 50)
    call = await one.call(asked)
    assert call.response.usage == told
    assert call.usage.input_tokens == told.input_tokens or 300 < call.usage.input_tokens <= one.most(asked).tokens
    assert call.usage.output_tokens == told.output_tokens or 5 <= call.usage.output_tokens <= 100
    assert call.cost > 0
    assert call.usage.estimated_tokens == call.usage.total_tokens - told.total_tokens


async def test_a_call_that_is_cut_off_before_its_answer_began_is_charged_its_input(autojump_clock: MockClock) -> None:
    meter, provider = CallMeter(), ScriptedProvider(takes_s=50.0)
    with trio.move_on_after(10):
        await client(provider).call(request("a question " * 50), meter=meter)
    assert meter.usage.input_tokens == meter.usage.estimated_tokens > 300
    assert meter.cost > 0


async def test_a_call_cancelled_before_it_was_sent_has_used_nothing(autojump_clock: MockClock) -> None:
    meter = CallMeter()
    provider = ScriptedProvider([RateLimited("429", retry_after_s=50)])
    with trio.move_on_after(10):
        await client(provider).call(request(), meter=meter)
    assert (meter.usage, meter.cost, meter.attempts) == (ModelUsage(), 0, 1)


def test_a_model_without_a_price_reports_no_money_and_says_what_to_do() -> None:
    one = client(ScriptedProvider(), prices={})
    assert (one.unpriced, one.reports) == (("scripted:small",), ("tokens",))
    assert "pass prices={'scripted:small': {'input'" in one.remedy
    assert one.most(request()).tokens > 100
    assert (client(ScriptedProvider()).reports, client(ScriptedProvider()).remedy) == (("tokens", "money"), "")


def test_a_model_of_unknown_name_on_this_machine_is_free() -> None:
    one = client(ScriptedProvider(account="http://127.0.0.1:8080/v1 1234"), prices={})
    assert one.unpriced == ()
    assert one.most(request()).money == 0


@pytest.mark.parametrize(
    ("account", "local"),
    [
        ("http://localhost:1/v1 0", True),
        ("http://[::1]:8000/", True),
        ("https://api.openai.com/v1 0", False),
        ("http://127.0.0.1.example.com", False),
        ("", False),
    ],
)
def test_local_is_what_is_on_loopback(account: str, local: bool) -> None:
    assert is_local(account) is local


@pytest.mark.parametrize("options", [{"escalate_after": 0}, {"timeout_s": -1}, {"max_wait_s": float("nan")}])
def test_invalid_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(HarnessMisuse, match=next(iter(options))):
        client(ScriptedProvider(), **options)
