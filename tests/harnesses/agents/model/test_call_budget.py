"""Model calls within the budget of a harness: reserved before, charged after, by what is known of a call that is cut off."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from harnesses import Agent, BaseHarness
from harnesses.agent import AgentRun
from harnesses.agents.chat.model_agent import ModelAgent
from harnesses.agents.model.call_budget import reserved
from harnesses.agents.model.errors import (
    AuthenticationFailed,
    ProviderTimeout,
    ProviderUnavailable,
    RateLimited,
    TransportFailed,
)
from harnesses.agents.model.messages import ModelResponse, ModelUsage
from harnesses.agents.model.model_client import ModelClient
from harnesses.agents.model.model_tries import Tell
from harnesses.agents.model.rate_limits import RateLimits
from harnesses.agents.model.retry_policy import RetryPolicy
from harnesses.budgets.budget import Budget, Spend
from orchestrator import Orchestrator
from orchestrator.errors import UsageError
from orchestrator.outcome import OutcomeKind
from orchestrator.store import MemoryStore, SqliteStore
from tests.harnesses.agents.model.scripted_provider import ScriptedProvider, request, response

PRICES = {"scripted:*": {"input": 10, "output": 50}}
ASKED = request("hello", max_tokens=100)
MOST = ModelClient([(ScriptedProvider(), "small")], prices=PRICES).most(ASKED)
REPORTS = ("tokens", "money")


def used(part: float) -> ModelUsage:
    """Return a usage that is a part of the most that `ASKED` may use."""
    return ModelUsage(input_tokens=int((MOST.tokens - 100) * part), output_tokens=int(100 * part))


class Asking(BaseHarness[int, int, str]):
    """Makes a model call in each step."""

    def __init__(self, provider: ScriptedProvider, steps: int = 1_000) -> None:
        super().__init__(0)
        self._client = ModelClient([(provider, "small")], prices=PRICES, retry=RetryPolicy(seed=1))
        self._steps = steps
        self.tell: Tell | None = None
        self._agent: Agent[int, int, str] = Agent(self._ask, reports=REPORTS)

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        for number in range(self.current_step + 1, self._steps + 1):
            yield number, await self.run_agent(self._agent, number)

    async def _ask(self, run: AgentRun[int, int]) -> str:
        async with reserved(run, self._client, ASKED) as meter:
            return (await self._client.call(ASKED, meter=meter, tell=self.tell)).response.message.text


def spent(store: MemoryStore, pool: str) -> Spend:
    return store.accounts()[pool].spent


async def test_a_call_is_charged_once_to_the_pools_and_to_the_usage_of_the_agents(autojump_clock: MockClock) -> None:
    store, usage = MemoryStore(), used(0.5)
    async with Orchestrator(store) as orchestrator:
        provider = ScriptedProvider([response(usage=usage) for _ in range(3)])
        budget = Budget(tokens=100 * MOST.tokens, money=Decimal(1))
        orchestrator.start(Asking(provider, steps=3), name="one", budget=budget)
    cost = 3 * (usage.input_tokens * 10 + usage.output_tokens * 50) / Decimal(1_000_000)
    assert spent(store, "harness/one") == Spend(tokens=3 * usage.total_tokens, money=cost)
    agents = spent(store, "agents/one")
    assert (agents.tokens, agents.money, agents.turns) == (3 * usage.total_tokens, cost, 3)
    assert not store.accounts()["harness/one"].reserved


async def test_a_call_whose_bound_does_not_fit_is_not_sent(autojump_clock: MockClock) -> None:
    store, provider = MemoryStore(), ScriptedProvider([response(usage=used(1)) for _ in range(9)])
    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Asking(provider), name="one", budget=Budget(money=MOST.money * 3 + Decimal("0.0001")))
        outcome = await handle.wait()
    assert outcome.kind is OutcomeKind.BUDGET_SPENT
    assert len(provider.sent) == 3
    assert spent(store, "harness/one").money <= MOST.money * 3


@pytest.mark.parametrize("error", [AuthenticationFailed("401"), ProviderTimeout("504")])
async def test_a_call_that_has_used_nothing_is_charged_nothing(autojump_clock: MockClock, error: Exception) -> None:
    store, provider = MemoryStore(), ScriptedProvider([error] * 3)
    with suppress(ExceptionGroup):
        async with Orchestrator(store) as orchestrator:
            orchestrator.start(Asking(provider), name="one", budget=Budget(money=Decimal(1)), restart="temporary")
    assert len(provider.sent) == (1 if isinstance(error, AuthenticationFailed) else 3)
    assert not spent(store, "harness/one")
    assert not store.accounts()["harness/one"].reserved


async def test_a_call_that_is_cut_off_is_charged_by_what_is_known_of_it(autojump_clock: MockClock) -> None:
    store, provider = MemoryStore(), ScriptedProvider(["Once upon a time", response()])
    harness = Asking(provider)
    async with Orchestrator(store) as orchestrator:
        budget = Budget(tokens=10 * MOST.tokens)
        handle = orchestrator.start(harness, name="one", budget=budget)
        harness.tell = lambda event: handle.stop(grace=0)
    assert 0 < spent(store, "harness/one").tokens < MOST.tokens


@pytest.mark.parametrize(
    ("script", "takes_s", "charged"),
    [
        ([], 100.0, MOST.tokens),
        ([RateLimited("429", retry_after_s=1_000)], 0.0, 0),
        ([ProviderUnavailable("503")] * 99, 0.0, 0),
        (
            ["Once upon", TransportFailed("cut"), ProviderUnavailable("503"), RateLimited("429", retry_after_s=1_000)],
            0.0,
            None,
        ),
    ],
)
async def test_a_kill_charges_the_whole_reservation_of_a_call_only_if_the_call_may_have_been_sent(
    autojump_clock: MockClock,
    tmp_path: Path,
    script: list[Exception | ModelResponse | str],
    takes_s: float,
    charged: int | None,
) -> None:
    store, budget = SqliteStore(tmp_path / "run.db"), Budget(tokens=10 * MOST.tokens)
    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Asking(ScriptedProvider(script, takes_s=takes_s)), name="one", budget=budget)
        await trio.sleep(50)
        assert store.accounts()["harness/one"].reserved
        with closing(sqlite3.connect(tmp_path / "run.db")) as live, closing(sqlite3.connect(tmp_path / "killed.db")) as killed:
            live.backup(killed)
        handle.stop(grace=0)
    left = SqliteStore(tmp_path / "killed.db")
    async with Orchestrator(left) as orchestrator:
        orchestrator.start(Asking(ScriptedProvider(), steps=0), name="one", budget=budget)
        await trio.sleep(1)
        tokens = left.accounts()["harness/one"].spent.tokens
    assert tokens == charged if charged is not None else 0 < tokens < MOST.tokens


async def test_what_a_call_holds_is_never_free_in_between(autojump_clock: MockClock) -> None:
    store, outage = MemoryStore(), [ProviderUnavailable("503"), RateLimited("429", retry_after_s=9)]
    providers = [ScriptedProvider([*outage, response(usage=used(0.5))], takes_s=1.0) for _ in range(2)]
    budget = Budget(tokens=MOST.tokens + 1)
    async with Orchestrator(store, budget=budget) as orchestrator:
        for number, provider in enumerate(providers):
            orchestrator.start(Asking(provider, steps=1), name=f"h{number}", restart="temporary")
    assert [len(provider.sent) for provider in providers] in ([3, 0], [0, 3])
    assert not store.accounts()["run"].reserved


async def test_a_budget_of_money_is_refused_at_start_for_a_model_without_a_price(autojump_clock: MockClock) -> None:
    provider = ScriptedProvider([response(usage=used(0.5))])
    told = r"budget of money cannot be enforced.*'scripted:small' is not in the price table"

    class Advised(Asking):
        def asked_agents(self) -> list[Agent[Any, Any, Any]]:
            return [ModelAgent(ModelClient([(provider, "small")]))]

    async with Orchestrator(MemoryStore()) as orchestrator:
        with pytest.raises(UsageError, match=told):
            orchestrator.start(Advised(provider), name="one", budget=Budget(money=Decimal(1)))
        orchestrator.start(Advised(provider, steps=1), name="two", budget=Budget(tokens=MOST.tokens))
    assert len(provider.sent) == 1


async def test_a_provider_that_uses_more_than_the_bound_stops_the_harness_before_its_next_call(
    autojump_clock: MockClock,
) -> None:
    store = MemoryStore()
    provider = ScriptedProvider([response(usage=used(1.5)), *[response(usage=used(0.1))] * 9])
    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Asking(provider), name="one", budget=Budget(tokens=int(1.2 * MOST.tokens)))
        outcome = await handle.wait()
    assert outcome.kind is OutcomeKind.BUDGET_SPENT
    assert len(provider.sent) == 1
    assert spent(store, "harness/one").tokens == used(1.5).total_tokens


@given(
    parts=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30),
    harnesses=st.integers(1, 100),
    calls=st.integers(0, 12),
    takes_s=st.sampled_from([0.0, 1.0]),
)
@settings(max_examples=8, deadline=None)
def test_a_shared_pool_is_never_exceeded(parts: list[float], harnesses: int, calls: int, takes_s: float) -> None:
    store, limit = MemoryStore(), MOST.money * calls + Decimal("0.0003")
    providers = [
        ScriptedProvider([response(usage=used(parts[(n + k) % len(parts)])) for k in range(40)], takes_s=takes_s)
        for n in range(harnesses)
    ]

    async def main() -> None:
        async with Orchestrator(store, budget=Budget(money=limit)) as orchestrator:
            for number, provider in enumerate(providers):
                orchestrator.start(Asking(provider, steps=20), name=f"h{number}", restart="temporary")

    trio.run(main, clock=MockClock(autojump_threshold=0))
    pool = max((account for account in store.accounts().values() if account.budget.money is not None), key=str)
    assert pool.spent.money <= limit
    assert not pool.reserved
    sent = sum(len(provider.sent) for provider in providers)
    assert sent >= min(calls, 20 * harnesses)


async def test_harnesses_take_turns_at_a_rate_limit_without_being_told_to(autojump_clock: MockClock) -> None:
    provider, order = ScriptedProvider(), list[str]()
    client = ModelClient([(provider, "small")], prices=PRICES, limits=RateLimits(requests_per_minute=60))

    class Flooding(BaseHarness[int, int, int]):
        async def execute(self) -> AsyncIterator[tuple[int, int]]:
            async with trio.open_nursery() as nursery:
                for number in range(30 if self.name == "greedy" else 3):
                    nursery.start_soon(self._ask, number)
            yield 0, 0

        async def _ask(self, number: int) -> None:
            await self.run_agent(Agent(self._call), number, key=f"call {number}")

        async def _call(self, run: AgentRun[int, int]) -> None:
            await client.call(ASKED)
            order.append(self.name)

    async with Orchestrator(MemoryStore()) as orchestrator:
        orchestrator.start(Flooding(0), name="greedy")
        await trio.sleep(3.5)
        begun = len(order)
        orchestrator.start(Flooding(0), name="modest")
    assert order[begun : begun + 7].count("modest") == 3
