"""Begins runs and attempts at tasks, and ends attempts that are not validated. No I/O.

Invariant: an attempt counts from its claim, whatever happens to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from harnesses.features.agent_text import one_line
from harnesses.governance.contracts.contract import Recommendation, ValidatorStatus
from harnesses.governance.evidence.attempt_verdict import Claim, decide
from harnesses.governance.limits.guardrails import Guardrails
from harnesses.pipeline.pipeline_state import (
    MAX_PROMPT,
    Built,
    Json,
    MoveKind,
    PipelineState,
    StepDraft,
    agents_of,
    builder_name,
    note_of,
    record_of,
)
from harnesses.pipeline.plan.ids import TaskId
from harnesses.pipeline.plan.pipeline_plan import PipelinePlan
from harnesses.pipeline.prompts import builder_prompt
from harnesses.pipeline.run_folder.folder_text import event, run_id_of
from harnesses.pipeline.scheduling import Hold, most_attempts
from harnesses.pipeline.transitions import begin_attempt, block_task, end_attempt, record_submission, update_readiness
from harnesses.pipeline.verdicts import decision_event, find_exhausted, note_for, tripped_event
from harnesses.redaction.redactor import redact_text

CONTEXT_PRESSURE = 0.8
"""Fraction of the maximum prompt length from which an event reports it."""


def plan_run(plan: PipelinePlan, now: datetime) -> StepDraft:
    """Return the step that records the plan."""
    run_id = run_id_of(redact_text(plan.goal), now)
    state = update_readiness(plan.first_state(run_id, now))
    events = [
        event("run_started", now, run_id=run_id, goal=state.goal, mode=str(state.mode)),
        event("plan_created", now, tasks=[str(one.id) for one in state.plan], stages=[str(one.id) for one in state.stages]),
    ]
    note = f"{len(state.plan)} tasks for: {one_line(state.goal)}"
    return StepDraft(state=state, kind=MoveKind.PLAN, note=note, events=events)


def claim_task(
    state: PipelineState,
    claim: Claim,
    guardrails: Guardrails,
    now: datetime,
    *,
    memory: str = "",
    agents: tuple[str, str] | None = None,
    events: Sequence[Json] = (),
) -> StepDraft:
    """Begin an attempt.

    Args:
        memory: recalled memories of earlier work.
        agents: names of the previous attempt's agent and this one's, if they differ.
        events: events from before the claim.
    """
    id = TaskId(claim.task_id)
    record, task = record_of(state, id), note_of(state, id)
    prompt = builder_prompt(state, task, record, claim, memory)
    most, about = most_attempts(record, task, guardrails), {"task_id": str(id), "attempt": claim.attempt}
    builder, stages = builder_name(state, task), [str(stage) for stage in agents_of(state, task)]
    found = [
        *events,
        event("task_started", now, **about, max_attempts=most, agent=builder, stage_ids=stages),
        event("builder_task_prepared", now, **about, prompt=f"tasks/{id}/prompt.md"),
    ]
    if agents is not None:
        found.append(event("agent_escalated", now, **about, from_agent=agents[0], to_agent=agents[1]))
    if len(prompt) >= CONTEXT_PRESSURE * MAX_PROMPT:
        found.append(event("context_pressure", now, task_id=str(id), characters=len(prompt), limit=MAX_PROMPT))
    state = begin_attempt(state, claim, redact_prompt(prompt, claim), now)
    return StepDraft(state=state, kind=MoveKind.CLAIM, task=id, note=f"{id}: attempt {claim.attempt} of {most}", events=found)


def hold_task(state: PipelineState, hold: Hold, now: datetime) -> StepDraft:
    """Block a task that may not be claimed."""
    reason = hold.finding.reason
    return StepDraft(
        state=block_task(state, hold.task, reason, now),
        kind=MoveKind.BLOCK,
        task=hold.task,
        note=reason,
        events=[tripped_event(hold.task, hold.finding, now)],
        findings=[hold.finding],
    )


def refuse_start(state: PipelineState, id: TaskId, category: str, why: str, now: datetime) -> StepDraft:
    """Block a task that a person has refused to have claimed."""
    return StepDraft(
        state=block_task(state, id, why, now),
        kind=MoveKind.BLOCK,
        task=id,
        note=f"{id}: {why}",
        events=[event("approval_gate_blocked", now, task_id=str(id), category=category, reason=why)],
    )


def take_submission(state: PipelineState, id: TaskId, built: Built, now: datetime) -> StepDraft:
    """Record an agent's submission, which is not validated yet."""
    good = not (built.failure or built.problems)
    why = built.failure or "; ".join(built.problems)
    ended = event(
        "agent_completed" if good else "agent_failed",
        now,
        task_id=str(id),
        attempt=record_of(state, id).attempts,
        agent=builder_name(state, note_of(state, id)),
        artifacts=[one.path for one in built.kept],
        reason=one_line(why, 400) or None,
    )
    findings = [] if built.finding is None else [built.finding]
    return StepDraft(
        state=record_submission(state, id, built, now),
        kind=MoveKind.BUILD,
        task=id,
        note=f"{id}: submitted" if good else f"{id}: {one_line(why, 200)}",
        events=[ended, *(tripped_event(id, finding, now) for finding in findings)],
        findings=findings,
    )


def reclaim_task(state: PipelineState, id: TaskId, guardrails: Guardrails, now: datetime) -> StepDraft:
    """Give back a claim that was interrupted; its attempt counts."""
    record, task = record_of(state, id), note_of(state, id)
    most = most_attempts(record, task, guardrails)
    what = decide(ValidatorStatus.FAIL, Recommendation.RETRY_BUILDER, attempts=record.attempts, most=most)
    why = f"attempt {record.attempts} was interrupted before anything was submitted"
    findings = find_exhausted(task, what, record, most)
    return StepDraft(
        state=end_attempt(state, id, what.status, [f"cut_off: {why}"], "", note_for(what, why), now),
        kind=MoveKind.RECLAIM,
        task=id,
        note=f"{id}: {why}",
        events=[
            event("claim_reclaimed", now, task_id=str(id), attempt=record.attempts, reason=why),
            decision_event(id, what, now),
            *(tripped_event(id, finding, now) for finding in findings),
        ],
        findings=findings,
    )


def redact_prompt(prompt: str, claim: Claim) -> str:
    """Return a prompt without secrets, but with the nonce, which is not a secret."""
    mark = "nonce-goes-here"
    return redact_text(prompt.replace(claim.nonce, mark)).replace(mark, claim.nonce)
