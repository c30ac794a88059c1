"""Spending within a budget by a harness that runs alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest
import trio

from harnesses import BaseHarness
from harnesses.budgets.budget import UNLIMITED, Budget, Spend
from harnesses.errors import BudgetExhausted, HarnessMisuse
from harnesses.runtime import LocalRuntime

Work = Callable[["Alone"], Awaitable[Any]]


class Alone(BaseHarness[None, int, Any]):
    """Does the same in each step."""

    def __init__(self, work: Work) -> None:
        super().__init__(None)
        self._work = work

    async def execute(self) -> AsyncIterator[tuple[int, Any]]:
        while self.current_step < 100:
            yield self.current_step, await self._work(self)


def spent(runtime: LocalRuntime) -> Spend:
    assert runtime.till is not None
    (account,) = runtime.till.accounts()
    assert not account.reserved
    return account.spent


async def test_a_harness_makes_as_many_steps_as_it_may() -> None:
    async def work(harness: Alone) -> None:
        """Do nothing."""

    harness, runtime = Alone(work), LocalRuntime("one", budget=Budget(steps=3))

    with pytest.raises(BudgetExhausted, match="'one', step 4: budget 'one' does not allow 1 more of steps: limit 3, spent 3"):
        await harness.run(runtime)

    assert harness.current_step == 3
    assert spent(runtime) == Spend(steps=3)


async def test_it_goes_on_with_a_raised_budget() -> None:
    async def work(harness: Alone) -> None:
        """Do nothing."""

    harness, runtime = Alone(work), LocalRuntime("one", budget=Budget(steps=3))
    with pytest.raises(BudgetExhausted):
        await harness.run(runtime)
    assert runtime.till is not None

    runtime.till.fund(Budget(steps=5))
    with pytest.raises(BudgetExhausted):
        await harness.run(runtime)

    assert harness.current_step == 5


async def test_what_was_settled_is_charged() -> None:
    async def work(harness: Alone) -> None:
        async with harness.spending(tokens=10, money=Decimal("0.05")) as spend:
            spend.settle(tokens=4, money=Decimal("0.01"))

    runtime = LocalRuntime("one", budget=Budget(tokens=30))
    with pytest.raises(BudgetExhausted, match="does not allow 10 more of tokens"):
        await Alone(work).run(runtime)

    assert spent(runtime) == Spend(tokens=24, money=Decimal("0.06"))


async def test_a_spend_that_was_cut_off_is_charged_in_full() -> None:
    async def work(harness: Alone) -> None:
        async with harness.spending(tokens=10):
            raise ZeroDivisionError

    runtime = LocalRuntime("one", budget=Budget(tokens=30))
    with pytest.raises(ZeroDivisionError):
        await Alone(work).run(runtime)

    assert spent(runtime) == Spend(tokens=10)


async def test_a_spend_that_was_cancelled_before_it_began_is_not_charged(autojump_clock: Any) -> None:
    async def work(harness: Alone) -> None:
        with trio.move_on_after(0) as scope:
            async with harness.spending(tokens=10):
                raise AssertionError
        assert scope.cancelled_caught
        raise ZeroDivisionError

    runtime = LocalRuntime("one", budget=Budget(tokens=30))
    with pytest.raises(ZeroDivisionError):
        await Alone(work).run(runtime)

    assert spent(runtime) == Spend()


async def test_a_spend_is_settled_once() -> None:
    async def work(harness: Alone) -> None:
        async with harness.spending(tokens=10) as spend:
            spend.settle(tokens=1)
            spend.settle(tokens=1)

    with pytest.raises(HarnessMisuse, match=r"settled already with \{'tokens': 1\}: expected one call"):
        await Alone(work).run(LocalRuntime("one", budget=Budget(tokens=30)))


async def test_without_a_budget_nothing_is_limited() -> None:
    async def work(harness: Alone) -> None:
        assert harness.budget == UNLIMITED
        async with harness.spending(tokens=10**12) as spend:
            spend.settle(tokens=10**12)

    harness = Alone(work)
    await harness.run()

    assert harness.current_step == 100


async def test_what_is_left_is_shown_while_it_is_spent() -> None:
    seen: list[int | None] = []

    async def work(harness: Alone) -> None:
        async with harness.spending(tokens=10) as spend:
            seen.append(harness.budget.tokens)
            spend.settle(tokens=5)
        seen.append(harness.budget.tokens)

    with pytest.raises(BudgetExhausted):
        await Alone(work).run(LocalRuntime("one", budget=Budget(tokens=15)))

    assert seen == [5, 10, 0, 5]


async def test_a_step_that_works_for_too_long_is_cancelled(autojump_clock: Any) -> None:
    async def work(harness: Alone) -> None:
        await trio.sleep(3)

    harness, runtime = Alone(work), LocalRuntime("one", budget=Budget(working_time_s=10))
    with pytest.raises(BudgetExhausted, match="'one', step 4: its working time is used up; raise the budget"):
        await harness.run(runtime)

    assert trio.current_time() == 10
    assert spent(runtime) == Spend(steps=3, working_time_s=10)


async def test_a_step_that_does_not_let_go_is_recorded_and_the_last(autojump_clock: Any) -> None:
    async def work(harness: Alone) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(3)

    harness, runtime = Alone(work), LocalRuntime("one", budget=Budget(working_time_s=10))
    with pytest.raises(BudgetExhausted, match="its working time is used up"):
        await harness.run(runtime)

    assert harness.current_step == 4
    assert spent(runtime) == Spend(steps=4, working_time_s=10)


async def test_more_working_time_lets_it_go_on(autojump_clock: Any) -> None:
    async def work(harness: Alone) -> None:
        await trio.sleep(3)

    harness, runtime = Alone(work), LocalRuntime("one", budget=Budget(working_time_s=10))
    with pytest.raises(BudgetExhausted, match="its working time is used up"):
        await harness.run(runtime)
    assert runtime.till is not None

    runtime.till.fund(Budget(working_time_s=15))
    with pytest.raises(BudgetExhausted, match="its working time is used up"):
        await harness.run(runtime)

    assert harness.current_step == 4
    assert spent(runtime) == Spend(steps=4, working_time_s=15)
