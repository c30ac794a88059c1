"""Budgets of harnesses in an orchestrator: reserved before the spend, shared, waited for, and resumable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import trio

from harnesses import Agent, BaseHarness
from harnesses.agent import AgentRun
from harnesses.budgets.budget import NOTHING, UNLIMITED, Budget, Spend
from harnesses.budgets.pools import Account
from harnesses.errors import BudgetExhausted, DeadlineExceeded, StepTimeout
from orchestrator import Orchestrator
from orchestrator.errors import UsageError
from orchestrator.outcome import Outcome, OutcomeKind
from orchestrator.recording.budget_account import Pool
from orchestrator.store import MemoryStore, SqliteStore
from tests.orchestrator.scripted import to_the_end

Work = Callable[["Spender", int], Awaitable[Any]]


async def nothing(harness: Spender, number: int) -> int:
    """Do nothing."""
    return 0


class Spender(BaseHarness[int, int, Any]):
    """Makes so many steps, and does some work in each."""

    def __init__(self, work: Work = nothing, steps: int = 1_000_000) -> None:
        super().__init__(0)
        self._work = work
        self._steps = steps

    async def execute(self) -> AsyncIterator[tuple[int, Any]]:
        while self.state < self._steps:
            self.update_state(lambda count: count + 1)
            yield self.state, await self._work(self, self.state)


def spends(tokens: int, most: int = 10) -> Work:
    """Return work that spends so many tokens of the most that it could."""

    async def work(harness: Spender, number: int) -> int:
        async with harness.spending(tokens=most) as spend:
            await trio.sleep(0.1)
            spend.settle(tokens=tokens)
        return tokens

    return work


async def test_a_harness_ends_when_its_budget_is_spent_and_goes_on_with_a_raised_one(autojump_clock: Any) -> None:
    store = MemoryStore()

    outcomes: list[Outcome] = []
    for steps in (3, 3, 5):
        async with Orchestrator(store) as orchestrator:
            outcomes.append(await orchestrator.start(Spender(), name="one", budget=Budget(steps=steps)).wait())

    assert [(outcome.kind, outcome.step, outcome.ok) for outcome in outcomes] == [
        (OutcomeKind.BUDGET_SPENT, 3, True),
        (OutcomeKind.BUDGET_SPENT, 3, True),
        (OutcomeKind.BUDGET_SPENT, 5, True),
    ]
    assert "budget 'harness/one' does not allow 1 more of steps: limit 5, spent 5, reserved 0; raise" in outcomes[-1].cause
    assert store.accounts() == {"harness/one": Account(Budget(steps=5), Spend(steps=5))}


async def test_a_step_that_was_not_made_is_not_charged(autojump_clock: Any) -> None:
    async def fail(harness: Spender, number: int) -> int:
        if number == 3 and not failures:
            failures.append(number)
            raise ValueError("once")
        return 0

    failures: list[int] = []
    store = MemoryStore()
    async with Orchestrator(store) as orchestrator:
        outcome = await orchestrator.start(Spender(fail, steps=4), name="one", budget=Budget(steps=100)).wait()

    assert (outcome.kind, outcome.attempt) == (OutcomeKind.FINISHED, 2)
    assert store.accounts()["harness/one"] == Account(Budget(steps=100), Spend(steps=4))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_pool_is_shared_and_never_overshot(kind: str, tmp_path: Path, autojump_clock: Any) -> None:
    store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "run.db")
    with closing(store):
        async with Orchestrator(store) as orchestrator:
            pool = orchestrator.pool("all", Budget(tokens=1000))
            handles = [orchestrator.start(Spender(spends(7)), name=f"h{number}", budget=pool) for number in range(20)]
            outcomes = [await handle.wait() for handle in handles]

        assert {outcome.kind for outcome in outcomes} == {OutcomeKind.BUDGET_SPENT}
        spent = store.accounts()["pool/all"].spent.tokens
        assert sum(7 * outcome.step for outcome in outcomes) == spent
        # A spend is reserved with 10: at most 9 are left that nobody could ask for.
        assert 990 < spent <= 1000
        assert store.accounts()["pool/all"].reserved == NOTHING


async def test_every_budget_above_a_harness_is_charged(autojump_clock: Any) -> None:
    store = MemoryStore()
    async with Orchestrator(store, budget=Budget(tokens=1000)) as orchestrator:
        outer = orchestrator.supervisor("outer", budget=Budget(tokens=100))
        inner = orchestrator.supervisor("inner", parent=outer)
        pool = orchestrator.pool("all", Budget(), parent=orchestrator.pool("above", Budget(tokens=50)))
        orchestrator.start(Spender(spends(7), steps=2), name="pooled", budget=pool, supervisor=inner)
        orchestrator.start(Spender(spends(7), steps=1), name="own", budget=Budget(tokens=10))
        orchestrator.start(Spender(spends(7), steps=1), name="free")

    spent = {pool: account.spent.tokens for pool, account in store.accounts().items()}
    assert spent == {"run": 28, "supervisor/outer": 14, "pool/all": 14, "pool/above": 14, "harness/own": 7}


async def test_without_a_budget_spending_costs_nothing() -> None:
    store = MemoryStore()

    async def work(harness: Spender, number: int) -> int:
        assert harness.budget == UNLIMITED
        async with harness.spending(tokens=10**9, money=Decimal(10**9)) as spend:
            spend.settle(tokens=1)
        return 0

    async with Orchestrator(store) as orchestrator:
        outcome = await orchestrator.start(Spender(work, steps=2), name="one").wait()

    assert outcome.kind is OutcomeKind.FINISHED
    assert store.accounts() == {}
    assert "budget" not in {record.kind for record in store.records()}


async def test_what_is_not_settled_is_charged_in_full(autojump_clock: Any) -> None:
    async def work(harness: Spender, number: int) -> int:
        async with harness.spending(tokens=10, tool_calls=1):
            if number == 2:
                raise ValueError("in the midst of it")
        return 0

    store = MemoryStore()
    async with to_the_end(store) as (orchestrator, _):
        handle = orchestrator.start(Spender(work), name="one", budget=Budget(tokens=100), restart="temporary")

    assert handle.outcome is not None
    assert handle.outcome.kind is OutcomeKind.FAILED
    assert store.accounts()["harness/one"].spent == Spend(tokens=20, tool_calls=2)


async def test_an_overspend_is_charged_and_ends_the_harness_before_its_next_spend(autojump_clock: Any) -> None:
    store = MemoryStore()
    async with to_the_end(store) as (orchestrator, _):
        handle = orchestrator.start(Spender(spends(11)), name="one", budget=Budget(tokens=20), restart="temporary")

    assert handle.outcome is not None
    assert handle.outcome.kind is OutcomeKind.BUDGET_SPENT
    assert store.accounts()["harness/one"] == Account(Budget(tokens=20), Spend(tokens=11))
    assert any('"overspent"' in record.body and '"spent":{"tokens":11}' in record.body for record in store.records())


async def test_what_is_left_is_shown(autojump_clock: Any) -> None:
    async def work(harness: Spender, number: int) -> Any:
        async with harness.spending(tokens=10):
            during = harness.budget
        return [during.tokens, harness.budget.tokens, harness.budget.money]

    async with Orchestrator(budget=Budget(tokens=25)) as orchestrator:
        handle = orchestrator.start(Spender(work, steps=2), name="one", budget=Budget(money=Decimal(3)))
        await handle.wait()
        outputs = [record.output async for record in handle.steps()]

    assert outputs == [[15, 15, "3"], [5, 5, "3"]]


# waiting


async def test_what_others_have_reserved_is_waited_for(autojump_clock: Any) -> None:
    async def work(harness: Spender, number: int) -> float:
        async with harness.spending(tokens=8) as spend:
            begun = trio.current_time()
            await trio.sleep(2)
            spend.settle(tokens=2)
        return begun - start

    start = trio.current_time()
    async with Orchestrator() as orchestrator:
        pool = orchestrator.pool("all", Budget(tokens=12))
        handles = [orchestrator.start(Spender(work, steps=1), name=name, budget=pool) for name in ("one", "two", "three")]
        outcomes = [await handle.wait() for handle in handles]
        begun = [record.output for handle in handles async for record in handle.steps()]

    assert {outcome.kind for outcome in outcomes} == {OutcomeKind.FINISHED}
    assert sorted(begun) == [0, 2, 4]


async def test_a_thousand_who_wait_are_served_one_after_the_other(autojump_clock: Any) -> None:
    store = MemoryStore()
    async with Orchestrator(store) as orchestrator:
        pool = orchestrator.pool("all", Budget(tokens=1009))
        handles = [orchestrator.start(Spender(spends(1, most=10), steps=1), name=f"h{n}", budget=pool) for n in range(1000)]
        outcomes = [await handle.wait() for handle in handles]

    assert {outcome.kind for outcome in outcomes} == {OutcomeKind.FINISHED}
    assert store.accounts()["pool/all"].spent.tokens == 1000


async def test_who_waits_is_denied_when_nothing_comes_back(autojump_clock: Any) -> None:
    async with Orchestrator() as orchestrator:
        pool = orchestrator.pool("all", Budget(tokens=12))
        handles = [orchestrator.start(Spender(spends(8, most=8)), name=name, budget=pool) for name in ("one", "two")]
        outcomes = [await handle.wait() for handle in handles]

    assert sorted(outcome.step for outcome in outcomes) == [0, 1]
    assert {outcome.kind for outcome in outcomes} == {OutcomeKind.BUDGET_SPENT}


@pytest.mark.parametrize("budget", [Budget(tokens=8), Budget(steps=1)], ids=["within", "between"])
async def test_who_waits_ends_at_once_when_told_to(budget: Budget, autojump_clock: Any) -> None:
    async def hold(harness: Spender, number: int) -> int:
        async with harness.spending(tokens=8):
            await trio.sleep(1000)
        return 0

    async with Orchestrator() as orchestrator:
        pool = orchestrator.pool("all", budget)
        holder = orchestrator.start(Spender(hold), name="holder", budget=pool)
        await trio.sleep(1)
        waiter = orchestrator.start(Spender(hold), name="waiter", budget=pool)
        await trio.sleep(1)
        begin = trio.current_time()
        outcome = await waiter.stop()
        ended = trio.current_time()
        await holder.stop(grace=0)

    assert (outcome.kind, ended - begin) == (OutcomeKind.STOPPED, 0)


async def test_who_waits_for_a_step_ends_at_its_deadline(autojump_clock: Any) -> None:
    async def hold(harness: Spender, number: int) -> int:
        await trio.sleep(1000)
        return 0

    async with to_the_end() as (orchestrator, _):
        pool = orchestrator.pool("all", Budget(steps=1))
        holder = orchestrator.start(Spender(hold), name="holder", budget=pool)
        await trio.sleep(1)
        outcome = await orchestrator.start(Spender(hold), name="waiter", budget=pool, deadline_s=5).wait()
        ended = trio.current_time()
        await holder.stop(grace=0)

    assert isinstance(outcome.error, DeadlineExceeded)
    assert ended == 6


async def test_a_spend_of_nothing_is_not_kept(autojump_clock: Any) -> None:
    store = MemoryStore()
    async with Orchestrator(store) as orchestrator:
        orchestrator.start(Spender(spends(0, most=0), steps=1), name="one", budget=Budget(tokens=0))

    assert [record.kind for record in store.records()].count("budget") == 1


async def test_who_is_paused_keeps_nothing_from_others(autojump_clock: Any) -> None:
    async def second(harness: Spender, number: int) -> int:
        await trio.sleep(1)
        return number

    async with Orchestrator() as orchestrator:
        pool = orchestrator.pool("all", Budget(steps=3))
        paused = orchestrator.start(Spender(second), name="paused", budget=pool)
        await trio.sleep(0.5)
        await paused.pause()
        await trio.sleep(5)
        outcome = await orchestrator.start(Spender(second), name="other", budget=pool).wait()
        await paused.resume()

    assert (outcome.kind, outcome.step, paused.current_step) == (OutcomeKind.BUDGET_SPENT, 2, 1)
    assert paused.outcome is not None
    assert paused.outcome.kind is OutcomeKind.BUDGET_SPENT


async def test_who_can_not_wait_without_holding_up_others_is_denied(autojump_clock: Any) -> None:
    async def nested(harness: Spender, number: int) -> str:
        async with harness.spending(tokens=5):
            await trio.sleep(1)
            try:
                async with harness.spending(tokens=5):
                    return "both"
            except BudgetExhausted:
                return "one"

    async with Orchestrator() as orchestrator:
        pool = orchestrator.pool("all", Budget(tokens=10))
        handles = [orchestrator.start(Spender(nested, steps=1), name=name, budget=pool) for name in ("one", "two")]
        outputs = [record.output for handle in handles async for record in handle.steps()]

    assert outputs[0] == "one"
    assert len(outputs) == 2


# steps, turns, working time


async def test_a_turn_of_an_agent_is_charged(autojump_clock: Any) -> None:
    async def answer(run: AgentRun[int, int]) -> int:
        return run.input + 1

    async def work(harness: Spender, number: int) -> int:
        return await harness.run_agent(Agent(answer), number)

    store = MemoryStore()
    async with Orchestrator(store) as orchestrator:
        outcome = await orchestrator.start(Spender(work), name="one", budget=Budget(turns=3)).wait()

    assert (outcome.kind, outcome.step) == (OutcomeKind.BUDGET_SPENT, 3)
    assert store.accounts()["harness/one"].spent == Spend(turns=3)


async def test_a_step_is_cancelled_when_its_working_time_is_used_up(autojump_clock: Any) -> None:
    async def work(harness: Spender, number: int) -> int:
        await trio.sleep(4)
        return number

    store = MemoryStore()
    begin = trio.current_time()
    async with Orchestrator(store) as orchestrator:
        outcome = await orchestrator.start(Spender(work), name="one", budget=Budget(working_time_s=30)).wait()

    assert (outcome.kind, outcome.step) == (OutcomeKind.BUDGET_SPENT, 7)
    assert "its working time is used up; raise the budget, then `orchestrator start NAME`" in outcome.cause
    assert trio.current_time() - begin == 30
    assert store.accounts()["harness/one"] == Account(Budget(working_time_s=30), Spend(steps=7, working_time_s=30))


async def test_a_long_step_gets_slice_after_slice(autojump_clock: Any) -> None:
    async def work(harness: Spender, number: int) -> int:
        await trio.sleep(95)
        return number

    store = MemoryStore()
    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Spender(work, steps=1), name="one", budget=Budget(working_time_s=100))
        await trio.sleep(50)
        reserved_s = store.accounts()["harness/one"].reserved.working_time_s
        outcome = await handle.wait()

    assert outcome.kind is OutcomeKind.FINISHED
    assert reserved_s == 64  # four slices: the next one is asked for well before the last is used up
    assert store.accounts()["harness/one"].spent.working_time_s == 95


async def test_a_longer_working_time_is_no_longer_step_timeout(autojump_clock: Any) -> None:
    async def work(harness: Spender, number: int) -> int:
        await trio.sleep(95)
        return number

    begin = trio.current_time()
    async with to_the_end() as (orchestrator, _):
        budget = Budget(working_time_s=100)
        handle = orchestrator.start(Spender(work), name="one", budget=budget, step_timeout_s=33, restart="temporary")
        outcome = await handle.wait()

    assert isinstance(outcome.error, StepTimeout)
    assert trio.current_time() - begin == 33


async def test_working_time_is_shared_and_never_overshot(autojump_clock: Any) -> None:
    async def work(harness: Spender, number: int) -> int:
        await trio.sleep(3)
        return number

    store = MemoryStore()
    async with Orchestrator(store) as orchestrator:
        pool = orchestrator.pool("all", Budget(working_time_s=100))
        handles = [orchestrator.start(Spender(work), name=f"h{number}", budget=pool) for number in range(20)]
        outcomes = [await handle.wait() for handle in handles]

    assert {outcome.kind for outcome in outcomes} == {OutcomeKind.BUDGET_SPENT}
    assert store.accounts()["pool/all"] == Account(
        Budget(working_time_s=100), Spend(steps=sum(outcome.step for outcome in outcomes), working_time_s=100)
    )
    assert sum(outcome.step for outcome in outcomes) * 3 >= 95


# misuse


async def test_what_is_no_budget_is_refused() -> None:
    async with Orchestrator() as orchestrator:
        with pytest.raises(UsageError, match="budget of 'harness/one': expected a Budget, was 5"):
            orchestrator.start(Spender(), name="one", budget=5)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="name 'a/b'"):
            orchestrator.pool("a/b", Budget())

    with pytest.raises(UsageError, match="pool: the Orchestrator is not open"):
        orchestrator.pool("all", Budget())


def test_a_pool_is_charged_with_those_above_it() -> None:
    above = Pool("pool/above", Budget())

    assert Pool("pool/all", Budget(), above).chain == ("pool/all", "pool/above")


async def test_what_a_nested_supervisor_spent_is_still_counted_and_no_other_is_charged_with_it(autojump_clock: Any) -> None:
    store = MemoryStore()
    for limit, tokens in ((100, 70), (200, 77)):
        async with Orchestrator(store) as orchestrator:
            outer = orchestrator.supervisor("a", budget=Budget(tokens=1000))
            inner = orchestrator.supervisor("b", parent=outer, budget=Budget(tokens=limit))
            other = orchestrator.supervisor("a.b", budget=Budget(tokens=20))
            orchestrator.start(Spender(spends(7), steps=10 if tokens == 70 else 11), name="one", supervisor=inner)
            orchestrator.start(Spender(spends(7), steps=1), name="two", supervisor=other)

        spent = {pool: (account.budget.tokens, account.spent.tokens) for pool, account in store.accounts().items()}
        assert spent == {"supervisor/a": (1000, tokens), "supervisor/a/b": (limit, tokens), "supervisor/a.b": (20, 7)}
