"""Computes the new state of a pipeline: one function for each thing that can happen. No I/O.

Invariants: an attempt counts when it is claimed, and the count is never reduced; only a submission under the open claim is
validated; only `pass_with_proof` sets PASS; a task is READY only when everything it depends on passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from attrs import evolve

from harnesses.governance.evidence.attempt_verdict import Claim, TaskStatus
from harnesses.governance.evidence.evidence_ledger import Evidence
from harnesses.pipeline.pipeline_state import (
    MAX_ANSWER,
    MAX_ANSWERS,
    MAX_FAILED,
    MAX_FAILED_TEXT,
    Built,
    PipelineState,
    TaskRecord,
    record_of,
)
from harnesses.pipeline.plan.ids import PipelineInvalid, TaskId
from harnesses.pipeline.scheduling import waits_for

_IDLE = (TaskStatus.PENDING, TaskStatus.READY)
_CLOSED: dict[str, Any] = {"claim": None, "claimed_at": None, "built": None, "proven": False, "done": 0, "released": False}
"""Fields of a task without an open attempt."""


def change_task(state: PipelineState, id: TaskId, now: datetime, **fields: Any) -> PipelineState:
    """Return the state with fields of one task's record changed, and the readiness of all tasks updated."""
    tasks = tuple(evolve(task, **fields) if task.id == id else task for task in state.tasks)
    return update_readiness(evolve(state, tasks=tasks, updated_at=now))


def update_readiness(state: PipelineState) -> PipelineState:
    """Return the state in which exactly the tasks without open dependencies are READY."""
    statuses = {task.id: task.status for task in state.tasks}
    notes = {note.id: note for note in state.plan}
    tasks = tuple(
        evolve(task, status=status)
        if task.status in _IDLE and (status := waits_for(notes[task.id], statuses)) is not task.status
        else task
        for task in state.tasks
    )
    return evolve(state, tasks=tasks)


def built_of(record: TaskRecord) -> Built:
    """Return the submission under the open claim, with its contract, which the state stores once, in the record."""
    return evolve(record.built or Built(contract=""), contract=record.builder)


def begin_attempt(state: PipelineState, claim: Claim, prompt: str, now: datetime) -> PipelineState:
    """Begin an attempt."""
    begun = {"status": TaskStatus.IN_PROGRESS, "attempts": claim.attempt, "claim": claim, "claimed_at": now, "prompt": prompt}
    return change_task(state, TaskId(claim.task_id), now, **_CLOSED | begun, builder="", validation="", note="")


def record_submission(state: PipelineState, id: TaskId, built: Built, now: datetime) -> PipelineState:
    """Record the submission under the open claim."""
    held = evolve(built, contract="", kept=())
    return change_task(state, id, now, built=held, builder=built.contract, kept=built.kept)


def record_proof(state: PipelineState, id: TaskId, proof: Sequence[Evidence], validation: str, now: datetime) -> PipelineState:
    """Record that the work has passed validation, and that its actions are left."""
    return change_task(state, id, now, proven=True, proof=tuple(proof), validation=validation, failed=())


def record_action(state: PipelineState, id: TaskId, proof: Sequence[Evidence], now: datetime) -> PipelineState:
    """Record that one more action is done."""
    task = record_of(state, id)
    return change_task(state, id, now, done=task.done + 1, proof=(*task.proof, *proof))


def pass_with_proof(
    state: PipelineState, id: TaskId, proof: Sequence[Evidence], validation: str, now: datetime, step: int
) -> PipelineState:
    """Set a task to PASS, with its proof."""
    fields = {"proof": tuple(proof), "validation": validation or record_of(state, id).validation, "passed_step": step}
    return change_task(state, id, now, **_CLOSED, **fields, status=TaskStatus.PASS, failed=(), note="", remembered=False)


def end_attempt(
    state: PipelineState, id: TaskId, status: TaskStatus, failed: Iterable[str], validation: str, note: str, now: datetime
) -> PipelineState:
    """End an attempt that did not pass."""
    kept = tuple(one[:MAX_FAILED_TEXT] for one in failed)[:MAX_FAILED]
    fields = {"status": status, "failed": kept, "validation": validation or record_of(state, id).validation}
    return change_task(state, id, now, **_CLOSED, **fields, note=note, proof=())


def block_task(state: PipelineState, id: TaskId, note: str, now: datetime) -> PipelineState:
    """Block a task until a person decides."""
    return change_task(state, id, now, **_CLOSED, status=TaskStatus.BLOCKED, note=note)


def set_back(state: PipelineState, id: TaskId, why: str, now: datetime) -> tuple[PipelineState, tuple[TaskId, ...]]:
    """Set back a proven task and all tasks that depend on it; return the new state and their ids."""
    lost = {id}
    for _ in state.plan:
        lost |= {note.id for note in state.plan if lost & set(note.after)}
    back = tuple(task for task in state.tasks if task.id in lost and has_proof(task))
    for task in back:
        reason = why if task.id == id else f"task {id}, which it depends on, is no longer proven: {why}"
        fields = {"set_backs": task.set_backs + 1, "failed": (f"set back: {reason}"[:MAX_FAILED_TEXT],)}
        state = change_task(state, task.id, now, **_CLOSED, **fields, status=TaskStatus.PENDING, proof=(), remembered=False)
    return state, tuple(task.id for task in back)


def has_proof(task: TaskRecord) -> bool:
    """Return whether a task has a proof: it has passed, or has only its actions left."""
    return task.status is TaskStatus.PASS or task.proven


def mark_remembered(state: PipelineState, ids: Iterable[TaskId]) -> PipelineState:
    """Record that passed work was stored in the memory."""
    known = set(ids)
    tasks = tuple(evolve(task, remembered=True) if task.id in known else task for task in state.tasks)
    return evolve(state, tasks=tasks)


def unblock_task(state: PipelineState, id: TaskId, limit: int, now: datetime) -> PipelineState:
    """Release a task, with one additional attempt if it has none left.

    A blocked task keeps its status until it is claimed, which happens before tasks that never began.
    """
    task = record_of(state, id)
    if task.status not in (TaskStatus.BLOCKED, TaskStatus.NEEDS_CONTEXT):
        raise PipelineInvalid(f"task {str(id)!r} is {task.status}: expected one that is BLOCKED or NEEDS_CONTEXT")
    was_blocked = task.status is TaskStatus.BLOCKED
    status, granted = task.status if was_blocked else TaskStatus.PENDING, max(task.granted, task.attempts + 1 - limit)
    return change_task(state, id, now, status=status, released=was_blocked, note="", granted=granted)


def answer_task(state: PipelineState, id: TaskId, text: str, limit: int, now: datetime) -> PipelineState:
    """Give a task a person's answer, and release it."""
    if not text.strip() or len(text) > MAX_ANSWER:
        raise PipelineInvalid(f"its text: expected 1 to {MAX_ANSWER} characters, was {len(text)}")
    state = unblock_task(state, id, limit, now)
    return change_task(state, id, now, answers=(*record_of(state, id).answers, text)[-MAX_ANSWERS:])
