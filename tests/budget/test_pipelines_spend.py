"""G14: a pipeline ends when its agents have spent its budget, loses no report, and goes on with a larger one."""

from __future__ import annotations

from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from harnesses.agent import Agent, AgentRun
from harnesses.budgets.budget import Budget
from harnesses.budgets.usage import Usage
from harnesses.governance import EvidencePolicy, Grade, Guardrails
from harnesses.governance.limits.guardrail_watch import terms
from harnesses.pipeline import PipelineHarness, each_stage
from orchestrator import Orchestrator
from orchestrator.codec import decode
from orchestrator.outcome import Outcome
from orchestrator.store import SqliteReader
from tests.budget.agents import books_of
from tests.kill.pipeline_child import STAGES, build, judge

BUILT, JUDGED = Usage(input_tokens=80, output_tokens=20, money=Decimal("0.40")), Usage(tokens=10, money=Decimal("0.05"))
TERMS = ({"budget": Budget(tokens=250)}, terms(Guardrails(max_cost=Decimal(1))))


@frozen
class Work:
    """A pipeline whose agents note what they report, in a folder."""

    folder: Path

    @property
    def told(self) -> Usage:
        place = self.folder / "told"
        lines = place.read_text().splitlines() if place.exists() else []
        return sum((USAGES[line] for line in lines), Usage())

    def pipeline(self) -> PipelineHarness:
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        reports = ["tokens", "money"]
        return PipelineHarness(
            STAGES,
            each_stage(STAGES),
            agents=Agent(self.build, name="builder", reports=reports),
            validators=Agent(self.judge, name="validator", reports=reports),
            workspace=work,
            goal="four stages",
            evidence_policy=EvidencePolicy(Grade.OBSERVED),
        )

    async def build(self, run: AgentRun[Any, Any]) -> object:
        self.report(run, "built")
        return await build(run)

    async def judge(self, run: AgentRun[Any, Any]) -> object:
        self.report(run, "judged")
        return await judge(run)

    def report(self, run: AgentRun[Any, Any], what: str) -> None:
        with (self.folder / "told").open("a") as file:
            file.write(f"{what}\n")
        run.charge(USAGES[what])

    async def live(self, **options: Any) -> Outcome:
        async with Orchestrator(self.folder / "run.db", handle_signals=False) as orchestrator:
            return await orchestrator.start(self.pipeline(), name="work", **options).wait()

    def passed(self) -> int:
        with closing(SqliteReader(self.folder / "run.db")) as reader:
            step = reader.harnesses()[0].current_step
            tasks = decode(reader.state_at("work", step))["tasks"]
        return sum(task["status"] == "PASS" for task in tasks)


USAGES = {"built": BUILT, "judged": JUDGED}


@pytest.mark.parametrize("limit", TERMS, ids=["tokens", "max_cost"])
async def test_a_pipeline_stops_at_its_limit_loses_no_report_and_goes_on_with_more(tmp_path: Path, limit: Any) -> None:
    work = Work(tmp_path)

    spent = await work.live(**limit)
    first, passed = work.told, work.passed()
    at_limit = books_of(tmp_path / "run.db")
    again = await work.live(**limit)
    asked_again = work.told != first
    raised = await work.live(budget=Budget(tokens=10_000, money=Decimal(100)))

    assert str(spent.kind) == str(again.kind) == "budget_spent", (spent, again)
    assert "raise the budget and start again" in spent.cause
    assert 0 < passed < len(STAGES)
    assert not asked_again
    for account in (at_limit["harness/work"], at_limit["agents/work"]):
        assert (account.spent.tokens, account.spent.money) == (first.tokens, first.money)
    assert str(raised.kind) == "completed", raised
    assert work.passed() == len(STAGES)
    total = books_of(tmp_path / "run.db")["agents/work"].spent
    assert (total.tokens, total.money) == (work.told.tokens, work.told.money)
