"""The consequences of a verdict: a pass with its proof, actions to run first, or a failure for the next attempt. No I/O.

Invariants: a pass and its proof are one commit; what could not be inspected never passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from harnesses.features.agent_text import one_line
from harnesses.governance.contracts.contract import BuilderContract, Recommendation, ValidatorContract, ValidatorStatus, failed
from harnesses.governance.contracts.contract_json import to_json
from harnesses.governance.evidence.attempt_verdict import Claim, Decision, Retry, TaskStatus, follow, quality
from harnesses.governance.evidence.evidence_ledger import Evidence
from harnesses.governance.limits.guardrails import Guardrails
from harnesses.governor import Finding
from harnesses.pipeline.judging.case_judge import BY_RULES
from harnesses.pipeline.judging.evidence_entries import entry, proof_of
from harnesses.pipeline.judging.inspection import contract_of
from harnesses.pipeline.pipeline_state import (
    Json,
    MoveKind,
    PipelineState,
    StepDraft,
    TaskNote,
    TaskRecord,
    note_of,
    record_of,
)
from harnesses.pipeline.plan.ids import TaskId
from harnesses.pipeline.run_folder.folder_text import event
from harnesses.pipeline.scheduling import most_attempts
from harnesses.pipeline.transitions import built_of, end_attempt, pass_with_proof, record_proof
from harnesses.redaction.redactor import redact_text


def take_verdict(
    state: PipelineState,
    verdict: ValidatorContract,
    evidence: Sequence[Evidence],
    guardrails: Guardrails,
    *,
    actions: int,
    now: datetime,
    step: int,
) -> StepDraft:
    """Apply the verdict on the current attempt.

    Args:
        actions: number of the task's actions: it passes once they are done.
        step: the number of the step being made.
    """
    id = TaskId(verdict.task_id)
    record, task = record_of(state, id), note_of(state, id)
    assert record.claim is not None
    what = follow(verdict, attempts=record.attempts, most=most_attempts(record, task, guardrails))
    good = verdict.status is ValidatorStatus.PASS
    evidence = [*evidence, entry(record.claim, now, "validation", good, f"tasks/{id}/validation.json")]
    contract = contract_of(state, task, built_of(record))[0]
    events = [*_verdict_events(record, verdict, contract, now), decision_event(id, what, now)]
    if what.decision is not Decision.COMPLETE:
        return fail_attempt(state, verdict, what, guardrails, now, evidence=evidence, events=events)
    proof, validation = proof_of(evidence), to_json(verdict)
    if not actions:
        return pass_task(state, id, proof, now, step, validation=validation, evidence=evidence, events=events)
    return StepDraft(
        state=record_proof(state, id, proof, validation, now),
        kind=MoveKind.JUDGE,
        task=id,
        note=f"{id}: validated; {actions} actions left",
        events=events,
        evidence=evidence,
    )


def fail_attempt(
    state: PipelineState,
    verdict: ValidatorContract,
    what: Retry,
    guardrails: Guardrails,
    now: datetime,
    *,
    evidence: Sequence[Evidence],
    events: Sequence[Json],
    kind: MoveKind = MoveKind.JUDGE,
) -> StepDraft:
    """End an attempt that did not pass."""
    id = TaskId(verdict.task_id)
    record, task = record_of(state, id), note_of(state, id)
    most = most_attempts(record, task, guardrails)
    wrong = [f"{check.name}: {check.evidence}" for check in verdict.checks if not check.ok] + list(verdict.issues)
    # The least informative check comes last, because people are shown the first one.
    wrong = sorted(dict.fromkeys(map(redact_text, wrong)), key=lambda one: one.startswith("builder_contract_exists"))
    findings = find_exhausted(task, what, record, most)
    about = {"task_id": str(id), "attempt": record.attempts, "max_attempts": most}
    ends = [tripped_event(id, finding, now) for finding in findings] or [
        event("validation_failed", now, **about, issues=wrong[:5])
    ]
    note = note_for(what, one_line(wrong[0] if wrong else "no reason given", 300))
    return StepDraft(
        state=end_attempt(state, id, what.status, wrong, to_json(verdict), note, now),
        kind=kind,
        task=id,
        note=f"{id}: {what.status}: {one_line(wrong[0] if wrong else what.reason, 200)}",
        events=[*events, *ends],
        evidence=evidence,
        findings=findings,
    )


def pass_task(
    state: PipelineState,
    id: TaskId,
    proof: Sequence[Evidence],
    now: datetime,
    step: int,
    *,
    validation: str = "",
    evidence: Sequence[Evidence],
    events: Sequence[Json],
    kind: MoveKind = MoveKind.JUDGE,
) -> StepDraft:
    """Let a task pass; its proof is in the same commit."""
    began = record_of(state, id).claimed_at
    elapsed_ms = 0 if began is None else round((now - began).total_seconds() * 1000)
    ends = [
        event("stage_completed", now, task_id=str(id), stage_id=str(stage), elapsed_ms=elapsed_ms)
        for stage in note_of(state, id).stages
    ]
    return StepDraft(
        state=pass_with_proof(state, id, proof, validation, now, step),
        kind=kind,
        task=id,
        note=f"{id}: PASS",
        events=[*events, *ends],
        evidence=evidence,
    )


def not_judged(claim: Claim, problem: str) -> ValidatorContract:
    """Return a rejecting verdict for work that could not be inspected."""
    check = failed("judging", problem or "it could not be judged")
    return ValidatorContract(
        task_id=claim.task_id,
        validator=BY_RULES,
        status=ValidatorStatus.FAIL,
        checks=(check,),
        issues=(f"judging: {check.evidence}"[:120],),
        retry_recommendation=Recommendation.RETRY_BUILDER,
        nonce=claim.nonce,
    )


def find_exhausted(task: TaskNote, what: Retry, record: TaskRecord, most: int) -> list[Finding]:
    """Return a finding if a task has no attempt left."""
    if what.decision is not Decision.EXHAUSTED:
        return []
    name = "max_destructive_task_attempts" if task.destructive else "max_task_attempts"
    reason = f"{task.id}: {what.reason}"
    return [Finding(limit_name=name, current_value=str(record.attempts), limit_value=str(most), reason=reason)]


def note_for(what: Retry, why: str) -> str:
    """Return the note for the person who must decide about a task."""
    return why if what.status in (TaskStatus.BLOCKED, TaskStatus.NEEDS_CONTEXT) else ""


def tripped_event(id: TaskId, finding: Finding, now: datetime) -> Json:
    """Return the event of a guardrail; `limit` and `value` are for older readers."""
    return event(
        "guardrail_triggered",
        now,
        task_id=str(id),
        limit_name=finding.limit_name,
        current_value=finding.current_value,
        limit_value=finding.limit_value,
        reason=finding.reason,
        limit=finding.limit_value,
        value=finding.current_value,
    )


def decision_event(id: TaskId, what: Retry, now: datetime) -> Json:
    """Return the event of the decision after a verdict."""
    decision, status = str(what.decision), str(what.status)
    return event("retry_decision", now, task_id=str(id), decision=decision, status=status, reason=what.reason)


def _verdict_events(
    record: TaskRecord, verdict: ValidatorContract, contract: BuilderContract | None, now: datetime
) -> list[Json]:
    score, about = quality(verdict.checks), {"task_id": str(record.id), "attempt": record.attempts}
    status, checks = str(verdict.status), len(verdict.checks)
    events = [
        event("task_validated", now, **about, status=status, validator=verdict.validator, checks=checks, quality=score),
        event("quality_score_recorded", now, **about, score=score),
    ]
    if contract is not None and contract.cost:
        events.append(event("cost_recorded", now, **about, cost=dict(contract.cost)))
    return events
