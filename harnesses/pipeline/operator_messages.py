"""What people tell a pipeline by message, and what becomes of it. Pure.

    {"unblock": "task"}                               it is tried again, with one more attempt if it has none left
    {"answer": {"task": "id", "text": "…"}}           what it has asked is answered, and it goes on with the answer
    {"block": "task", "reason": "…"}                  it is not claimed any more; one that is under way is not cut off

The law: every order has an answer, a short one; one that cannot be followed changes nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import cast

from harnesses.errors import one_of
from harnesses.features.agent_text import one_line
from harnesses.governance.evidence.attempt_verdict import TaskStatus
from harnesses.governance.limits.guardrails import Guardrails
from harnesses.pipeline.errors import PipelineInvalid
from harnesses.pipeline.pipeline_state import PipelineState, note_of, record_of
from harnesses.pipeline.plan.ids import TaskId, is_id
from harnesses.pipeline.transitions import answer_task, block_task, unblock_task
from harnesses.redaction.redactor import redact_text

_KNOWN = 'expected {"unblock": "task"}, {"answer": {"task": "id", "text": "…"}} or {"block": "task", "reason": "…"}'


def follow_message(
    state: PipelineState, guardrails: Guardrails, order: object, now: datetime
) -> tuple[PipelineState, str, str]:
    """Return the state after an order, the task that it is about, and what became of it in words."""
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
    raise PipelineInvalid(f"it is not known: {_KNOWN}")


def _plain(value: object) -> dict[str, object]:
    return cast(dict[str, object], value) if isinstance(value, dict) else {}


def _look_up(state: PipelineState, id: str) -> TaskId:
    if not is_id(id) or not any(str(task.id) == id for task in state.tasks):
        raise PipelineInvalid(
            f"task {one_line(id)!r} is not there: {one_of((t.id for t in state.tasks), 'there is none yet; send it later')}"
        )
    return TaskId(id)


def _limit(state: PipelineState, guardrails: Guardrails, id: TaskId) -> int:
    return guardrails.attempts_for(destructive=note_of(state, id).destructive)
