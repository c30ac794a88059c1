"""What the state of a pipeline becomes when something happens. Pure.

The laws: an attempt is counted when it is claimed, and never taken back; what is judged is what was handed in under the claim
that is open; only `passed` makes a PASS; nobody is READY before all that they wait for pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from attrs import evolve

from harnesses.governance.claiming import Claim
from harnesses.governance.evidence import Evidence
from harnesses.governance.retry import TaskStatus
from harnesses.pipeline.errors import PipelineInvalid
from harnesses.pipeline.ids import TaskId
from harnesses.pipeline.planning import waits_for
from harnesses.pipeline.record import (
    MAX_ANSWER,
    MAX_ANSWERS,
    MAX_FAILED,
    MAX_FAILED_TEXT,
    Built,
    PipelineState,
    TaskNote,
    TaskRecord,
)

_IDLE = (TaskStatus.PENDING, TaskStatus.READY)


def record_of(state: PipelineState, id: TaskId) -> TaskRecord:
    """Return what is known of a task."""
    return next(task for task in state.tasks if task.id == id)


def note_of(state: PipelineState, id: TaskId) -> TaskNote:
    """Return what a task is."""
    return next(note for note in state.plan if note.id == id)


def changed(state: PipelineState, id: TaskId, change: Callable[[TaskRecord], TaskRecord], now: datetime) -> PipelineState:
    """Return the state with the record of one task changed, and all others as ready as they are then."""
    tasks = tuple(change(task) if task.id == id else task for task in state.tasks)
    return settled(evolve(state, tasks=tasks, updated_at=now))


def settled(state: PipelineState) -> PipelineState:
    """Return the state in which those are READY, and only those, that wait for nothing any more."""
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
    """Return what was handed in under the claim that is open; in the state its contract stands once, in the record."""
    return evolve(record.built or Built(contract=""), contract=record.builder)


def claimed(state: PipelineState, claim: Claim, prompt: str, now: datetime) -> PipelineState:
    """Begin an attempt."""
    return changed(
        state,
        TaskId(claim.task_id),
        lambda task: evolve(
            task,
            status=TaskStatus.IN_PROGRESS,
            attempts=claim.attempt,
            claim=claim,
            claimed_at=now,
            released=False,
            built=None,
            proven=False,
            done=0,
            prompt=prompt,
            builder="",
            validation="",
            note="",
        ),
        now,
    )


def handed_in(state: PipelineState, id: TaskId, built: Built, now: datetime) -> PipelineState:
    """Take in what was built under the claim that is open."""
    held = evolve(built, contract="", kept=())
    return changed(state, id, lambda task: evolve(task, built=held, builder=built.contract, kept=built.kept), now)


def proven(state: PipelineState, id: TaskId, proof: Sequence[Evidence], validation: str, now: datetime) -> PipelineState:
    """Note that the work is good, and that its deeds are to be done."""
    return changed(
        state,
        id,
        lambda task: evolve(task, proven=True, proof=tuple(proof), validation=validation, failed=()),
        now,
    )


def acted(state: PipelineState, id: TaskId, proof: Sequence[Evidence], now: datetime) -> PipelineState:
    """Note that one more deed is done."""
    return changed(state, id, lambda task: evolve(task, done=task.done + 1, proof=(*task.proof, *proof)), now)


def passed(
    state: PipelineState, id: TaskId, proof: Sequence[Evidence], validation: str, now: datetime, step: int
) -> PipelineState:
    """Let a task pass, by its proof."""
    return changed(
        state,
        id,
        lambda task: evolve(
            _closed(task),
            status=TaskStatus.PASS,
            proof=tuple(proof),
            validation=validation or task.validation,
            failed=(),
            note="",
            remembered=False,
            passed_step=step,
        ),
        now,
    )


def not_passed(
    state: PipelineState,
    id: TaskId,
    status: TaskStatus,
    failed: Iterable[str],
    validation: str,
    note: str,
    now: datetime,
) -> PipelineState:
    """End an attempt that was not found good."""
    told = tuple(one[:MAX_FAILED_TEXT] for one in failed)[:MAX_FAILED]
    return changed(
        state,
        id,
        lambda task: evolve(
            _closed(task), status=status, failed=told, validation=validation or task.validation, note=note, proof=()
        ),
        now,
    )


def blocked(state: PipelineState, id: TaskId, note: str, now: datetime) -> PipelineState:
    """Hold a task until a person decides."""
    return changed(state, id, lambda task: evolve(_closed(task), status=TaskStatus.BLOCKED, note=note, released=False), now)


def set_back(state: PipelineState, id: TaskId, why: str, now: datetime) -> tuple[PipelineState, tuple[TaskId, ...]]:
    """Take a pass back, or a proof whose deeds are to be done, and those of all that wait for it, directly or not; return
    their ids too."""
    lost = {id}
    for _ in state.plan:
        lost |= {note.id for note in state.plan if lost & set(note.after)}
    back = tuple(task.id for task in state.tasks if task.id in lost and stands(task))
    for each in back:
        told = why if each == id else f"task {id}, which it waits for, is not proven any more: {why}"
        state = changed(state, each, lambda task, told=told: _set_back(task, told), now)  # type: ignore[misc]
    return state, back


def stands(task: TaskRecord) -> bool:
    """Return whether a task rests on a proof: it has passed, or waits for its deeds."""
    return task.status is TaskStatus.PASS or task.proven


def _set_back(task: TaskRecord, why: str) -> TaskRecord:
    return evolve(
        _closed(task),
        status=TaskStatus.PENDING,
        proof=(),
        set_backs=task.set_backs + 1,
        failed=(f"set back: {why}"[:MAX_FAILED_TEXT],),
        remembered=False,
    )


def remembered(state: PipelineState, ids: Iterable[TaskId]) -> PipelineState:
    """Note that the memory was told of what has passed."""
    known = set(ids)
    tasks = tuple(evolve(task, remembered=True) if task.id in known else task for task in state.tasks)
    return evolve(state, tasks=tasks)


def unblocked(state: PipelineState, id: TaskId, limit: int, now: datetime) -> PipelineState:
    """Let a task go on that a person has released, with one more attempt if it has none left."""
    task = record_of(state, id)
    if task.status not in (TaskStatus.BLOCKED, TaskStatus.NEEDS_CONTEXT):
        raise PipelineInvalid(f"task {str(id)!r} is {task.status}: expected one that is BLOCKED or NEEDS_CONTEXT")
    return changed(state, id, lambda task: _released(task, limit), now)


def answered(state: PipelineState, id: TaskId, text: str, limit: int, now: datetime) -> PipelineState:
    """Give a task what a person answers, and let it go on."""
    if not text.strip() or len(text) > MAX_ANSWER:
        raise PipelineInvalid(f"its text: expected 1 to {MAX_ANSWER} characters, was {len(text)}")
    state = unblocked(state, id, limit, now)
    return changed(state, id, lambda task: evolve(task, answers=(*task.answers, text)[-MAX_ANSWERS:]), now)


def _released(task: TaskRecord, limit: int) -> TaskRecord:
    """Return a task that goes on: one that was blocked keeps its status until it is claimed, before those that never began."""
    status = TaskStatus.BLOCKED if task.status is TaskStatus.BLOCKED else TaskStatus.PENDING
    granted = max(task.granted, task.attempts + 1 - limit)
    return evolve(task, status=status, released=status is TaskStatus.BLOCKED, note="", granted=granted)


def _closed(task: TaskRecord) -> TaskRecord:
    return evolve(task, claim=None, claimed_at=None, built=None, proven=False, done=0, released=False)
