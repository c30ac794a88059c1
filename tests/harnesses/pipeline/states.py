"""Plans and states that the collaborators of a pipeline are built from, without a harness."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harnesses.governance import Guardrails, ValidatorContract
from harnesses.governance.contracts.contract import failed, passed
from harnesses.governance.evidence.attempt_verdict import Claim
from harnesses.pipeline import PipelineState, TaskId, each_stage
from harnesses.pipeline.pipeline_state import Built
from harnesses.pipeline.plan.pipeline_plan import PipelinePlan, make_plan
from harnesses.pipeline.task_attempts import plan_run
from harnesses.pipeline.transitions import begin_attempt, record_submission

from .scripted import stages

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
A, B = TaskId("a"), TaskId("b")


def plan_of(workspace: Path, *names: str, chain: bool = False, **options: Any) -> PipelinePlan:
    """Return a plan over stages of these names, a task for each."""
    given = stages(*names, chain=chain)
    options = {"goal": "try it", "mode": "interactive", "guardrails": Guardrails(), "run_folder": "run", **options}
    return make_plan(given, options.pop("tasks", each_stage(given)), workspace=workspace, **options)


def planned(plan: PipelinePlan) -> PipelineState:
    return plan_run(plan, NOW).state


def claim_of(id: TaskId, attempt: int = 1) -> Claim:
    return Claim(task_id=str(id), attempt=attempt, nonce=f"nonce {id} {attempt}")


def at_work(state: PipelineState, id: TaskId, attempt: int = 1) -> PipelineState:
    """Return the state in which an attempt at a task has begun."""
    return begin_attempt(state, claim_of(id, attempt), "do it", NOW)


def submitted(state: PipelineState, id: TaskId) -> PipelineState:
    """Return the state in which something was handed in for a task that is claimed."""
    return record_submission(state, id, Built(contract=""), NOW)


def verdict_of(id: TaskId, status: str = "PASS", recommendation: str = "none") -> ValidatorContract:
    check = passed("looked", "at all") if status == "PASS" else failed("looked", "it is wrong")
    return ValidatorContract(
        task_id=str(id),
        validator="v",
        status=status,
        checks=(check,),
        retry_recommendation=recommendation,
        nonce=claim_of(id).nonce,
    )
