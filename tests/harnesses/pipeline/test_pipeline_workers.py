"""Workers beside the loop, with agents that are asked by a function of the test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import trio
from attrs import frozen
from trio.testing import MockClock

from harnesses.errors import BudgetExhausted
from harnesses.governance import Evidence
from harnesses.pipeline import PipelineState, TaskId
from harnesses.pipeline.judging.case_judge import Case, Judged
from harnesses.pipeline.plan.pipeline_plan import PipelinePlan
from harnesses.pipeline.workers import BuildResult, Halt, JudgingResult, Result, Workers, assign_agents

from .scripted import Builders, honest, judging
from .states import NOW, A, B, at_work, claim_of, plan_of, planned, submitted, verdict_of

ORDER = (A, B)


@frozen
class FakeJudge:
    """Says what it is told of every case."""

    verdict: Any
    evidence: tuple[Evidence, ...] = ()

    async def judge(self, case: Case, ask: Any, now: Any) -> Judged:
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return Judged(verdict=self.verdict, evidence=self.evidence)


def workers_in(
    nursery: trio.Nursery, plan: PipelinePlan, ask: Callable[..., Awaitable[object]], judge: Any = None, limit_s: float = 60.0
) -> Workers:
    agents = assign_agents(plan, Builders(), judging())
    return Workers(nursery, plan, agents, judge, ask=ask, now=lambda: NOW, limit_s=limit_s)


async def result_of(workers: Workers) -> Result:
    while (result := await workers.arrived(ORDER)) is None:
        await workers.wait()
    return result


async def build(tmp_path: Path, ask: Callable[..., Awaitable[object]], limit_s: float = 60.0) -> Result:
    plan = plan_of(tmp_path, "a", "b")
    async with trio.open_nursery() as nursery:
        workers = workers_in(nursery, plan, ask, limit_s=limit_s)
        workers.claims.add(claim_of(A).nonce)
        workers.start_building(at_work(planned(plan), A))
        return await result_of(workers)


async def test_what_an_agent_hands_in_is_its_contract_and_the_content_that_it_speaks_of(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async def ask(agent: Any, work: Any) -> object:
        return honest(work)

    result = await build(tmp_path, ask)

    assert isinstance(result, BuildResult)
    assert (result.task, result.nonce, result.built.problems) == (A, claim_of(A).nonce, ())
    assert {one.path for one in result.built.subject} == {"run/artifacts/stages/a/a.json"}
    assert [one.path for one in result.built.kept] == ["artifacts/stages/a/a.json"]


async def test_an_agent_that_raises_has_failed_and_harms_nobody(tmp_path: Path, autojump_clock: MockClock) -> None:
    async def ask(agent: Any, work: Any) -> object:
        raise RuntimeError("no idea")

    result = await build(tmp_path, ask)

    assert isinstance(result, BuildResult)
    assert result.built.failure == "RuntimeError: no idea"


async def test_an_agent_that_takes_too_long_is_cut_off(tmp_path: Path, autojump_clock: MockClock) -> None:
    async def ask(agent: Any, work: Any) -> object:
        return await trio.sleep_forever()

    result = await build(tmp_path, ask, limit_s=5.0)

    assert isinstance(result, BuildResult)
    assert "expected it to end within 5 s" in result.built.failure


async def test_an_order_to_the_harness_is_no_result_of_the_attempt(tmp_path: Path, autojump_clock: MockClock) -> None:
    async def ask(agent: Any, work: Any) -> object:
        raise BudgetExhausted("nothing left")

    result = await build(tmp_path, ask)

    assert isinstance(result, Halt)
    assert isinstance(result.error, BudgetExhausted)


async def nobody(agent: Any, work: Any) -> object:
    return await trio.sleep_forever()


async def test_only_claims_of_these_workers_are_worked_and_each_once(tmp_path: Path, autojump_clock: MockClock) -> None:
    asked: list[TaskId] = []

    async def ask(agent: Any, work: Any) -> object:
        asked.append(work.task.id)
        return await trio.sleep_forever()

    plan = plan_of(tmp_path, "a", "b")
    state = at_work(at_work(planned(plan), A), B)
    async with trio.open_nursery() as nursery:
        workers = workers_in(nursery, plan, ask)
        workers.claims.add(claim_of(B).nonce)
        for _ in range(2):
            workers.start_building(state)
            await trio.sleep(1)
        nursery.cancel_scope.cancel()

    assert asked == [B]
    assert workers.working == {B: claim_of(B).nonce}


async def test_of_results_that_arrive_together_the_plans_first_is_first(tmp_path: Path, autojump_clock: MockClock) -> None:
    async def ask(agent: Any, work: Any) -> object:
        await trio.sleep(1)
        return "nothing"

    plan = plan_of(tmp_path, "a", "b")
    state = at_work(at_work(planned(plan), A), B)
    async with trio.open_nursery() as nursery:
        workers = workers_in(nursery, plan, ask)
        workers.claims |= {claim_of(A).nonce, claim_of(B).nonce}
        workers.start_building(state)
        arrived = [(await result_of(workers)).task for _ in ORDER]

    assert arrived == [A, B]
    assert [workers.finish(Halt(id, BudgetExhausted(""))) for id in ORDER] == [claim_of(A).nonce, claim_of(B).nonce]
    assert (workers.working, workers.claims) == ({}, set())


async def judge(tmp_path: Path, verdict: object) -> Result:
    plan = plan_of(tmp_path, "a", "b")
    state: PipelineState = submitted(at_work(planned(plan), A), A)
    async with trio.open_nursery() as nursery:
        workers = workers_in(nursery, plan, nobody, FakeJudge(verdict))
        workers.start_judging(state, A)
        return await result_of(workers)


async def test_a_verdict_is_handed_over_with_the_claim_that_it_is_of(tmp_path: Path, autojump_clock: MockClock) -> None:
    result = await judge(tmp_path, verdict_of(A))

    assert isinstance(result, JudgingResult)
    assert (result.nonce, result.judged) == (claim_of(A).nonce, Judged(verdict=verdict_of(A), evidence=()))


async def test_that_something_can_not_be_judged_is_a_result(tmp_path: Path, autojump_clock: MockClock) -> None:
    failed, halted = await judge(tmp_path, OSError("disk full")), await judge(tmp_path, BudgetExhausted("spent"))

    assert failed == JudgingResult(A, claim_of(A).nonce, None, "OSError: disk full")
    assert isinstance(halted, Halt)
