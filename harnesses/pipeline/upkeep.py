"""Maintenance between the attempts: stale proofs are set back, messages processed, and the memory updated.

    {"unblock": "task"}                               it is tried again, with an additional attempt if it has none left
    {"answer": {"task": "id", "text": "…"}}           answers its question, and continues it with the answer
    {"block": "task", "reason": "…"}                  it is no longer claimed; work that is running is not interrupted

Invariant: every message gets a short answer; a message that cannot be followed changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import cast

from harnesses.errors import one_of
from harnesses.features.agent_text import one_line
from harnesses.features.turn_results import describe_error
from harnesses.governance.contracts.contract_json import read_builder, read_validator
from harnesses.governance.evidence.attempt_verdict import TaskStatus
from harnesses.governance.evidence.file_binding import changed
from harnesses.governance.limits.guardrails import Guardrails
from harnesses.pipeline.pipeline_memory import Asked, Finished, PipelineMemory, Recalled
from harnesses.pipeline.pipeline_state import (
    Json,
    MoveKind,
    PipelineState,
    StepDraft,
    TaskRecord,
    agents_of,
    artifact_path,
    builder_name,
    note_of,
    record_of,
)
from harnesses.pipeline.plan.ids import PipelineInvalid, TaskId, is_id
from harnesses.pipeline.run_folder.folder_text import event
from harnesses.pipeline.transitions import answer_task, block_task, has_proof, mark_remembered, set_back, unblock_task
from harnesses.redaction.redactor import redact_text


def stale_tasks(state: PipelineState, workspace: Path) -> dict[TaskId, list[str]]:
    """Return the tasks whose proven content has changed, each with the changed paths; reads all of that content.

    Tasks that have only their actions left are included. If two tasks cover a stage, its artifact belongs to the task proven
    last.
    """
    proven = sorted(filter(has_proof, state.tasks), key=lambda task: (not task.proven, -task.passed_step))
    taken: set[str] = set()
    found: dict[TaskId, list[str]] = {}
    for task in proven:
        subject = {(one.path, one.sha256): one for entry in task.proof for one in entry.subject}
        own = [one for (path, _), one in subject.items() if path not in taken]
        if paths := list(dict.fromkeys(changed(own, workspace))):
            found[task.id] = paths
        taken |= {artifact_path(state, stage) for stage in note_of(state, task.id).stages}
    return dict(sorted(found.items()))


def set_back_stale(state: PipelineState, stale: Mapping[TaskId, Sequence[str]], now: datetime) -> StepDraft:
    """Set back the tasks whose proven content has changed, and all that depend on them."""
    events, notes = list[Json](), list[str]()
    for id, paths in stale.items():
        if not has_proof(record_of(state, id)):
            continue
        why = f"its evidence is stale: validation has not seen the current {', '.join(paths[:3])}"
        state, back = set_back(state, id, why, now)
        about = {"because_of": str(id), "paths": list(paths[:20])}
        events += [event("evidence_stale", now, task_id=str(one), **about) for one in back]
        notes.append(f"{id}: {why}")
    first = next(iter(stale))
    return StepDraft(state=state, kind=MoveKind.SET_BACK, task=first, note="; ".join(notes)[:500], events=events)


def follow_messages(state: PipelineState, messages: Sequence[object], guardrails: Guardrails, now: datetime) -> StepDraft:
    """Process the messages of operators."""
    answers, events = list[str](), list[Json]()
    for message in messages:
        state, id, answer = follow_message(state, guardrails, message, now)
        answers.append(answer)
        events.append(event("order_followed" if id else "order_refused", now, task_id=id or None, answer=answer))
    return StepDraft(state=state, kind=MoveKind.ORDERS, note="; ".join(answers)[:1000], events=events)


async def recall(
    memory: PipelineMemory | None, state: PipelineState, id: TaskId, now: Callable[[], datetime]
) -> tuple[Recalled, list[Json]]:
    """Return the memories for a task, and the events of the recall; an error of the memory is an event."""
    if memory is None:
        return Recalled(), []
    task = note_of(state, id)
    try:
        recalled = await memory.recall(Asked(run_id=state.run_id, task=task, agents=tuple(agents_of(state, task).values())))
    except Exception as error:
        return Recalled(), [event("memory_recall_failed", now(), task_id=str(id), reason=describe_error(error)[:300])]
    episodes = list(recalled.episodes)
    return recalled, [event("memory_recalled", now(), task_id=str(id), episode_ids=episodes)] if episodes else []


def unremembered(state: PipelineState) -> list[TaskRecord]:
    """Return the records of passed tasks that may not be stored in the memory yet."""
    return [task for task in state.tasks if task.status is TaskStatus.PASS and not task.remembered]


async def remember(
    memory: PipelineMemory, state: PipelineState, records: Sequence[TaskRecord], now: Callable[[], datetime]
) -> StepDraft:
    """Store passed work in the memory. An error of the memory does not stop the pipeline."""
    events: list[Json] = []
    for record in records:
        result = await _remember(memory, state, record)
        kind = "episode_memory_write_failed" if result.startswith("failed") else "episode_memory_written"
        events.append(event(kind, now(), task_id=str(record.id), result=result))
    state = mark_remembered(state, [record.id for record in records])
    return StepDraft(state=state, kind=MoveKind.REMEMBER, task=records[0].id, events=events)


async def _remember(memory: PipelineMemory, state: PipelineState, record: TaskRecord) -> str:
    task, place = note_of(state, record.id), f"tasks/{record.id}"
    try:
        finished = Finished(
            run_id=state.run_id,
            task=task,
            agents=tuple(agents_of(state, task).values()),
            attempt=record.attempts,
            contract=read_builder(record.builder, task_id=str(record.id), agent=builder_name(state, task)),
            verdict=read_validator(record.validation, task_id=str(record.id)),
            evidence_paths=(f"{place}/builder.json", f"{place}/validation.json"),
        )
        return await memory.remember(finished)
    except Exception as error:
        return f"failed: {describe_error(error)[:300]}"


_KNOWN = 'expected {"unblock": "task"}, {"answer": {"task": "id", "text": "…"}} or {"block": "task", "reason": "…"}'


def follow_message(
    state: PipelineState, guardrails: Guardrails, order: object, now: datetime
) -> tuple[PipelineState, str, str]:
    """Return the state after a message, the id of its task, and its answer."""
    try:
        return _follow(state, guardrails, order, now)
    except PipelineInvalid as error:
        return state, "", redact_text(f"order {one_line(repr(order))} was not followed: {error}")


def _follow(state: PipelineState, guardrails: Guardrails, order: object, now: datetime) -> tuple[PipelineState, str, str]:
    match _plain(order):
        case {"unblock": str(id), **rest} if not rest:
            task = _look_up(state, id)
            return unblock_task(state, task, _limit(state, guardrails, task), now), id, f"task {id} is unblocked"
        case {"answer": inner, **rest} if not rest:
            match _plain(inner):
                case {"task": str(id), "text": str(text), **rest} if not rest:
                    task = _look_up(state, id)
                    limit = _limit(state, guardrails, task)
                    return answer_task(state, task, redact_text(text), limit, now), id, f"task {id} has its answer"
                case _:
                    pass
        case {"block": str(id), **rest} if rest.keys() <= {"reason"}:
            task = _look_up(state, id)
            if (status := record_of(state, task).status) in (TaskStatus.PASS, TaskStatus.IN_PROGRESS):
                raise PipelineInvalid(f"task {id!r} is {status}: expected one that is not; wait for its end")
            why = redact_text(one_line(str(rest.get("reason", "")))) or "a person has blocked it"
            return block_task(state, task, why, now), id, f"task {id} is blocked"
        case _:
            pass
    raise PipelineInvalid(f"unknown message: {_KNOWN}")


def _plain(value: object) -> dict[str, object]:
    return cast(dict[str, object], value) if isinstance(value, dict) else {}


def _look_up(state: PipelineState, id: str) -> TaskId:
    if not is_id(id) or not any(str(task.id) == id for task in state.tasks):
        raise PipelineInvalid(
            f"task {one_line(id)!r} does not exist: {one_of((t.id for t in state.tasks), 'there is none yet; send it later')}"
        )
    return TaskId(id)


def _limit(state: PipelineState, guardrails: Guardrails, id: TaskId) -> int:
    return guardrails.attempts_for(destructive=note_of(state, id).destructive)
