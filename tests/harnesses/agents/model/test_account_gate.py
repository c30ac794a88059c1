"""Many harnesses at one gate: few probes during an outage, turns by harness, limits that hold, and cancellation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from harnesses.agents.model.account_gate import AccountGate, account_gate
from harnesses.agents.model.errors import ProviderUnavailable, RateLimited
from harnesses.agents.model.messages import ModelRequest, ModelUsage
from harnesses.agents.model.model_client import ModelClient
from harnesses.agents.model.rate_limits import RateLimits, TokenBucket
from harnesses.agents.model.retry_policy import RetryPolicy
from tests.harnesses.agents.model.scripted_provider import ScriptedProvider, request, response

SEEDED = RetryPolicy(seed=3)
FREE = {"scripted:*": {"input": 0, "output": 0}}


def client(provider: ScriptedProvider, **limits: int) -> ModelClient:
    return ModelClient([(provider, "small")], retry=SEEDED, prices=FREE, limits=RateLimits(**limits))


def down_until(moment: float) -> Callable[[ModelRequest], Exception | None]:
    return lambda request: ProviderUnavailable("529 overloaded") if trio.current_time() < moment else None


async def ask_all(clients: dict[str, ModelClient], each: int = 1) -> list[str]:
    """Have each harness make calls side by side; return the harnesses in the order of their answers."""
    answered: list[str] = []

    async def ask(owner: str, one: ModelClient) -> None:
        await one.call(request(), owner=owner)
        answered.append(owner)

    async with trio.open_nursery() as nursery:
        for owner, one in clients.items():
            for _ in range(each):
                nursery.start_soon(ask, owner, one)
    return answered


async def test_a_hundred_harnesses_make_few_probes_during_an_outage(autojump_clock: MockClock) -> None:
    provider = ScriptedProvider(is_down=down_until(600), takes_s=0.5)
    answered = await ask_all({f"h{n}": client(provider) for n in range(100)})
    assert len(answered) == 100
    during = [when for when in provider.times if 0 < when < 600]
    assert len([when for when in provider.times if when == 0]) == 100
    assert len(during) <= 40
    assert trio.current_time() < 700


async def test_harnesses_that_come_during_an_outage_send_nothing_but_probes(autojump_clock: MockClock) -> None:
    provider = ScriptedProvider(is_down=down_until(300))
    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(partial(client(provider).call, request(), owner=f"h{number}"))
            await trio.sleep(1)
    assert len([when for when in provider.times if when < 300]) <= 25


async def test_after_an_outage_the_requests_grow_from_one_at_a_time(autojump_clock: MockClock) -> None:
    provider = ScriptedProvider(is_down=down_until(100), takes_s=1.0)
    await ask_all({f"h{n}": client(provider) for n in range(64)})
    after = [when for when in provider.times if when >= 99]
    seconds = [sum(1 for when in after if start <= when < start + 1) for start in (after[0], after[0] + 1, after[0] + 2)]
    assert seconds == [1, 2, 4]


async def test_a_rate_limit_holds_all_harnesses_until_the_time_that_the_provider_names(autojump_clock: MockClock) -> None:
    provider = ScriptedProvider([RateLimited("429", retry_after_s=20.0)])
    one = client(provider)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(one.call, request(), owner="first"))
        await trio.sleep(1)
        for number in range(50):
            nursery.start_soon(partial(one.call, request(), owner=f"h{number}"))
    assert provider.times[:2] == [0.0, 20.0]
    assert len(provider.times) == 52


async def test_a_harness_with_many_requests_delays_another_by_at_most_one(autojump_clock: MockClock) -> None:
    provider = ScriptedProvider()
    one = client(provider, requests_per_minute=60)
    order: list[str] = []

    async def ask(owner: str) -> None:
        await one.call(request(), owner=owner)
        order.append(owner)

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(ask, "greedy")
        await trio.sleep(2.5)
        begun = len(order)
        for _ in range(5):
            nursery.start_soon(ask, "modest")
    assert order[begun : begun + 10].count("modest") == 5


@given(rate=st.integers(1, 600), calls=st.integers(1, 60))
@settings(max_examples=25, deadline=None)
def test_the_limit_of_requests_holds_in_every_minute(rate: int, calls: int) -> None:
    provider = ScriptedProvider()

    async def main() -> None:
        await ask_all({f"h{n}": client(provider, requests_per_minute=rate) for n in range(calls)})

    trio.run(main, clock=MockClock(autojump_threshold=0))
    most = rate + max(1, rate // 10)
    assert all(sum(1 for when in provider.times if start <= when < start + 60) <= most for start in provider.times)
    if calls > rate // 10 + 1:
        assert provider.times[-1] == pytest.approx((calls - max(1.0, rate / 10)) * 60 / rate)


async def test_the_limit_of_tokens_is_corrected_by_what_was_used(autojump_clock: MockClock) -> None:
    small = ModelUsage(input_tokens=5, output_tokens=5)
    provider = ScriptedProvider([response(usage=small) for _ in range(600)])
    one = client(provider, tokens_per_minute=6_000)
    for _ in range(600):
        await one.call(request(max_tokens=500))
    # 6,000 tokens were used, though 600 * 500 and more were estimated.
    assert 50 <= trio.current_time() <= 120


async def test_requests_larger_than_the_burst_go_one_by_one_at_the_rate(autojump_clock: MockClock) -> None:
    provider = ScriptedProvider([response(usage=ModelUsage(input_tokens=3_000)) for _ in range(4)])
    one = client(provider, tokens_per_minute=6_000)
    for _ in range(4):
        await one.call(request(max_tokens=3_000))
    assert provider.times[-1] == pytest.approx(90, rel=0.1)


async def test_no_more_requests_are_under_way_than_allowed(autojump_clock: MockClock) -> None:
    provider = ScriptedProvider(takes_s=1.0)
    await ask_all({f"h{n}": client(provider, concurrent=7) for n in range(50)})
    assert provider.most_under_way == 7
    assert trio.current_time() == pytest.approx(8)


@pytest.mark.parametrize("cancelled_at", [0.0, 0.25, 1.5, 3.0])
async def test_a_cancelled_wait_leaves_its_place_to_others(autojump_clock: MockClock, cancelled_at: float) -> None:
    provider = ScriptedProvider([RateLimited("429", retry_after_s=2.0)], takes_s=0.5)
    one = client(provider, concurrent=1)
    async with trio.open_nursery() as nursery:
        scopes: list[trio.CancelScope] = []

        async def ask(owner: str) -> None:
            with trio.CancelScope() as scope:
                scopes.append(scope)
                await one.call(request(), owner=owner)

        for number in range(3):
            nursery.start_soon(ask, f"h{number}")
        await trio.sleep(cancelled_at)
        for scope in scopes[:2]:
            scope.cancel()
        await one.call(request(), owner="last")
    assert provider.under_way == 0
    assert trio.current_time() < 6


async def test_a_probe_that_is_cancelled_lets_the_next_one_go(autojump_clock: MockClock) -> None:
    provider = ScriptedProvider([RateLimited("429", retry_after_s=10.0)], takes_s=5.0)
    one = client(provider)
    with trio.move_on_after(17):
        await one.call(request(), owner="first")
    assert provider.times == [0.0, 15.0]
    await one.call(request(), owner="second")
    assert provider.times == [0.0, 15.0, 17.0]


async def test_clients_of_one_account_and_model_share_a_gate_with_the_tightest_limits(autojump_clock: MockClock) -> None:
    def gate(account: str, model: str, **limits: int) -> AccountGate:
        return account_gate("scripted", account, model, SEEDED, RateLimits(**limits))

    assert gate("one", "small", concurrent=5) is gate("one", "small", requests_per_minute=3)
    assert gate("one", "small") is not gate("two", "small")
    assert gate("one", "small") is not gate("one", "large")


def test_gates_end_with_their_run() -> None:
    async def main() -> AccountGate:
        return account_gate("scripted", "one", "small", SEEDED, RateLimits())

    assert trio.run(main) is not trio.run(main)


@given(st.lists(st.tuples(st.floats(0, 30), st.floats(0, 200), st.floats(-1, 1)), max_size=40))
def test_a_bucket_never_grants_more_than_its_rate_and_burst(uses: list[tuple[float, float, float]]) -> None:
    bucket = TokenBucket(600, 0.0)
    now = taken = largest = 0.0
    for later, amount, kept in uses:
        now = max(now + later, bucket.ready_at(amount, now + later))
        bucket.take(amount, now)
        back = amount * max(kept, 0.0)
        bucket.give_back(back, now)
        taken += amount - back
        largest = max(largest, amount)
        assert taken <= 60 + now * 10 + largest + 1e-6
