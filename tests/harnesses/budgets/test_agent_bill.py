"""What agents report is charged once, at once, and stops them at a limit; what cannot be held is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import trio

from harnesses import BaseHarness
from harnesses.agent import Agent, AgentRun
from harnesses.budgets.budget import Budget
from harnesses.budgets.usage import Usage
from harnesses.errors import BudgetExhausted, HarnessMisuse
from harnesses.features.feature import TurnResult
from harnesses.governance.limits.counted_agent import counted
from harnesses.runtime import LocalRuntime
from orchestrator import Orchestrator


class Asking(BaseHarness[int, int, object]):
    """Asks an agent once in each step."""

    def __init__(self, agent: Any, *, reserves: int = 0, steps: int = 1, declares: bool = False) -> None:
        super().__init__(0)
        self.agent, self.reserves, self.steps, self.declares = agent, reserves, steps, declares
        self.answers: list[Any] = []

    def asked_agents(self) -> tuple[Any, ...]:
        return (self.agent,) if self.declares else ()

    async def execute(self) -> AsyncIterator[tuple[int, object]]:
        for step in range(self.steps):
            if self.reserves:
                async with self.spending(tokens=self.reserves) as spend:
                    self.answers.append(await self.run_agent(self.agent, step))
                    spend.settle(tokens=self.reserves)
            else:
                self.answers.append(await self.run_agent(self.agent, step))
            yield step, None


async def run(harness: Asking, budget: Budget) -> LocalRuntime:
    runtime = LocalRuntime("asking", budget=budget)
    await harness.run(runtime)
    return runtime


def spent(runtime: LocalRuntime) -> Any:
    assert runtime.till is not None
    return runtime.till.accounts()[0].spent


def charging(*usages: Usage, thread: str = "", after: Callable[[], None] = lambda: None) -> Agent[Any, Any, Any]:
    async def work(run: AgentRun[Any, Any]) -> TurnResult:
        for usage in usages:
            run.charge(usage, thread=thread)
            await trio.sleep(1)
        after()
        return TurnResult(message="done")

    return Agent(work, name="worker", reports=["tokens", "tool_calls", "money"])


async def test_an_agent_at_its_limit_is_cancelled_and_what_it_reported_is_charged(autojump_clock: object) -> None:
    ended: list[bool] = []
    agent = charging(*[Usage(tokens=60)] * 5, after=lambda: ended.append(True))
    runtime = LocalRuntime("asking", budget=Budget(tokens=100))

    with pytest.raises(BudgetExhausted, match="limit 100 tokens, spent 120, 60 of it just reported"):
        await Asking(agent).run(runtime)

    assert spent(runtime).tokens == 120
    assert not ended


async def test_an_agent_that_catches_its_cancellation_does_not_answer_all_the_same(autojump_clock: object) -> None:
    async def stubborn(run: AgentRun[Any, Any]) -> str:
        run.charge(Usage(tokens=200))
        with trio.CancelScope(shield=True):
            await trio.sleep(1)
        return "done"

    with pytest.raises(BudgetExhausted):
        await run(Asking(Agent(stubborn)), Budget(tokens=100))


async def test_an_error_of_an_agent_over_its_limit_is_the_budgets(autojump_clock: object) -> None:
    async def failing(run: AgentRun[Any, Any]) -> str:
        run.charge(Usage(tokens=200))
        raise ValueError("it was cut off")

    with pytest.raises(BudgetExhausted) as caught:
        await run(Asking(Agent(failing)), Budget(tokens=100))
    within = caught.value.__cause__
    assert within is not None
    assert isinstance(within.__cause__, ValueError)


async def test_a_report_that_meets_the_limit_is_within_it_and_the_next_turn_is_not_begun(autojump_clock: object) -> None:
    agent = charging(Usage(tokens=100))
    harness = Asking(agent, steps=2)

    with pytest.raises(BudgetExhausted, match="nothing is left of its budget of tokens: limit 100, spent 100"):
        await run(harness, Budget(tokens=100))

    assert len(harness.answers) == 1


@pytest.mark.parametrize(("reports", "spent_tokens"), [((100, 250, 400), 400), ((100, 250, 250), 250), ((400, 150), 550)])
async def test_of_a_thread_what_it_has_grown_is_charged(
    reports: tuple[int, ...], spent_tokens: int, autojump_clock: object
) -> None:
    agents = iter([charging(Usage(tokens=total), thread="t") for total in reports])

    class Several(Asking):
        async def run_agent(self, agent: Any, input: Any) -> Any:
            return await super().run_agent(next(agents), input)

    runtime = await run(Several(None, steps=len(reports)), Budget(tokens=10_000))

    assert spent(runtime).tokens == spent_tokens


async def test_the_usage_of_an_answer_is_charged_if_nothing_was_reported_before(autojump_clock: object) -> None:
    async def answer(run: AgentRun[Any, Any]) -> TurnResult:
        return TurnResult(tokens=70)

    harness = Asking(Agent(answer), steps=2)
    runtime = LocalRuntime("asking", budget=Budget(tokens=100))

    with pytest.raises(BudgetExhausted):
        await harness.run(runtime)

    assert spent(runtime).tokens == 140


async def test_what_a_harness_settles_itself_is_not_charged_twice(autojump_clock: object) -> None:
    agent = charging(Usage(tokens=50, tool_calls=2, money=Decimal("0.1")))

    runtime = await run(Asking(agent, reserves=80), Budget(tokens=100, tool_calls=10))

    assert (spent(runtime).tokens, spent(runtime).tool_calls, spent(runtime).money) == (80, 2, Decimal("0.1"))


async def test_an_agent_that_cannot_be_told_where_to_report_works_as_before(autojump_clock: object) -> None:
    class Older(Agent[Any, Any, Any]):
        async def run(self, *, input: Any, log: Any = None, **told: Any) -> Any:  # type: ignore[override]
            assert "charge" in told
            return "done"

    class Oldest:
        name = "oldest"

        async def run(
            self, *, input: Any, context: Any, step_number: int, step_history: Any, constraints: Any, log: Any
        ) -> str:
            return "done"

    for agent in (Older(charging), Oldest()):  # type: ignore[arg-type]
        harness = Asking(agent)
        await run(harness, Budget(turns=1))
        assert harness.answers == ["done"]


@pytest.mark.parametrize(("declares", "reports", "calls"), [(True, [], 0), (False, ["money"], 0), (False, [], 1)])
async def test_a_limit_that_cannot_be_held_is_refused_alone_too(declares: bool, reports: list[str], calls: int) -> None:
    """At the start; before an agent that the harness had not declared is asked; or once it has answered without a report."""
    asked: list[str] = []

    async def silent(run: AgentRun[Any, Any]) -> str:
        asked.append("")
        return ""

    agent = Agent(silent, name="silent", reports=reports)
    with pytest.raises(HarnessMisuse, match=r"its budget of tokens.* cannot be enforced: .* got 'silent', which"):
        await run(Asking(agent, declares=declares), Budget(tokens=9, money=Decimal(1), steps=3, turns=3))
    assert len(asked) == calls


def test_what_cannot_be_reported_cannot_be_declared() -> None:
    with pytest.raises(HarnessMisuse, match="reports: expected some of money, tokens, tool_calls, got 'turns'"):
        Agent(charging, reports=["turns"])  # type: ignore[arg-type]


# calls of counted tools


def calling(calls: int, *, told: Usage | None = None, answered: Usage | None = None) -> tuple[Agent[Any, Any, Any], list[int]]:
    """Return an agent that makes calls of a counted tool, and reports them besides; and the calls that were made."""
    made: list[int] = []

    @counted
    async def search(number: int) -> None:
        made.append(number)
        await trio.sleep(1)

    async def work(run: AgentRun[Any, Any]) -> TurnResult:
        for number in range(calls):
            await search(number)
        if told is not None:
            run.charge(told)
        return TurnResult(message="done", usage=answered)

    return Agent(work, name="caller", reports=["tokens", "tool_calls"]), made


async def test_calls_of_a_counted_tool_are_charged_and_the_one_too_many_is_not_made(autojump_clock: object) -> None:
    agent, made = calling(5)

    with pytest.raises(BudgetExhausted, match="tool_calls: limit 2, spent 2;"):
        await run(Asking(agent), Budget(tool_calls=2))

    assert made == [0, 1]


async def test_an_agent_whose_tools_are_counted_is_held_though_it_declares_nothing(autojump_clock: object) -> None:
    agent, _ = calling(2)

    runtime = await run(Asking(Agent(agent.answer, name="undeclared")), Budget(tool_calls=9))

    assert spent(runtime).tool_calls == 2


@pytest.mark.parametrize("reported", ["told", "answered"])
@pytest.mark.parametrize(("said", "charged"), [(0, 3), (2, 3), (3, 3), (5, 5)])
async def test_calls_that_are_counted_and_reported_are_charged_once(
    reported: str, said: int, charged: int, autojump_clock: object
) -> None:
    agent, _ = calling(3, **{reported: Usage(tokens=10, tool_calls=said)})

    runtime = await run(Asking(agent), Budget(tool_calls=9, tokens=100))

    assert (spent(runtime).tool_calls, spent(runtime).tokens) == (charged, 10)


async def test_an_agent_that_goes_on_after_its_last_call_is_refused_each_further_one(autojump_clock: object) -> None:
    agent, made = calling(2)

    async def stubborn(run: AgentRun[Any, Any]) -> str:
        for _ in range(3):
            with suppress(BudgetExhausted), trio.CancelScope(shield=True):
                await agent.answer(run)
        return "done"

    with pytest.raises(BudgetExhausted):
        await run(Asking(Agent(stubborn, reports=["tool_calls"])), Budget(tool_calls=1))

    assert made == [0]


async def test_calls_of_counted_tools_at_once_are_charged_as_many_as_are_made(autojump_clock: object) -> None:
    agent, made = calling(1)

    async def at_once(run: AgentRun[Any, Any]) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(agent.answer, run)

    runtime = LocalRuntime("asking", budget=Budget(tool_calls=3))
    with pytest.raises(BudgetExhausted):
        await Asking(Agent(at_once, reports=["tool_calls"])).run(runtime)

    assert (len(made), spent(runtime).tool_calls) == (3, 3)


async def test_a_call_that_is_not_made_is_not_charged_and_each_more_allows_one_more(
    tmp_path: Path, autojump_clock: object
) -> None:
    agent, made = calling(2)
    for limit in (1, 2, 3):
        async with Orchestrator(tmp_path / "run.db", handle_signals=False) as orchestrator:
            handle = orchestrator.start(Asking(agent), name="asking", budget=Budget(tool_calls=limit))
            assert str((await handle.wait()).kind) == "budget_spent"

        assert len(made) == limit


async def test_counted_calls_end_a_harness_at_its_budget_and_go_on_with_a_larger_one(
    tmp_path: Path, autojump_clock: object
) -> None:
    agent, made = calling(2)
    outcomes: list[str] = []
    for limit in (3, 3, 9):
        async with Orchestrator(tmp_path / "run.db", handle_signals=False) as orchestrator:
            handle = orchestrator.start(Asking(agent, steps=2), name="asking", budget=Budget(tool_calls=limit))
            outcomes.append(str((await handle.wait()).kind))

    assert outcomes == ["budget_spent", "budget_spent", "finished"]
    assert made[:3] == [0, 1, 0]
