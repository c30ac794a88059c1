"""Decides the next move of a pipeline from its state. No I/O.

    a claim was interrupted, and is not of this attempt   give it back
    there is a submission that nobody validates           have it validated
    a task may be claimed, and the limit allows           claim it: FAIL, then BLOCKED but released, then READY
    others are at work                                    wait for them
    work has passed, and actions are left                 run them: nothing else is running, so only they wait for a person
    a task may be claimed once a person approves          ask
    all tasks pass                                        done
    otherwise                                             a person must decide

Guards of a claim, in this order: the consistency of the record; the number of attempts, counted from recorded claims; the
approval, which the harness requests; the dependencies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

from attrs import frozen

from harnesses.governance.evidence.attempt_verdict import TaskStatus, refused_claim
from harnesses.governance.limits.guardrails import Guardrails
from harnesses.governor import Finding
from harnesses.pipeline.pipeline_state import Mode, PipelineState, TaskNote, TaskRecord
from harnesses.pipeline.plan.ids import TaskId

_SHOWN = 5


@frozen
class Reclaim:
    """Give back a claim that was interrupted."""

    task: TaskId


@frozen
class Judge:
    """Have a submission validated."""

    task: TaskId


@frozen
class Start:
    """Claim a task."""

    task: TaskId
    gated: bool = False
    """Whether a person must approve first."""


@frozen
class Hold:
    """Block a task, because a guard does not allow it to be claimed."""

    task: TaskId
    finding: Finding


@frozen
class Act:
    """Run the actions of a task."""

    task: TaskId


@frozen
class Rest:
    """Wait for others that are at work."""


@frozen
class Done:
    """End: all tasks pass."""


@frozen
class Stuck:
    """Wait for a person's decision."""

    reason: str


Move: TypeAlias = Reclaim | Judge | Start | Hold | Act | Rest | Done | Stuck
_ORDER = (TaskStatus.FAIL, TaskStatus.BLOCKED, TaskStatus.READY)
"""Order of claims. Failed tasks come first, so that they are not hidden behind other work."""


def next_move(
    state: PipelineState, guardrails: Guardrails, *, working: Collection[TaskId], own: Collection[str], most: int
) -> Move:
    """Return the next move.

    Args:
        working: tasks that are being worked or validated now.
        own: nonces of the claims made in this attempt of the harness.
        most: maximum tasks worked on at the same time.
    """
    idle = [task for task in state.tasks if task.status is TaskStatus.IN_PROGRESS and task.id not in working]
    for task in idle:
        if task.built is None and (task.claim is None or task.claim.nonce not in own):
            return Reclaim(task.id)
    if len(working) < most:
        for task in idle:
            if task.built is not None and not task.proven:
                return Judge(task.id)
        if (move := _claim(state, guardrails)) is not None and not (working and waits_for_person(move)):
            return move
    if working:
        return Rest()
    for task in idle:
        if task.proven:
            return Act(task.id)
    if (move := _claim(state, guardrails)) is not None:
        return move
    if all(task.status is TaskStatus.PASS for task in state.tasks):
        return Done()
    return Stuck(why_stuck(state))


def waits_for_person(move: Move) -> bool:
    """Return whether a move may wait for a person's approval."""
    return isinstance(move, Start) and move.gated


def _claim(state: PipelineState, guardrails: Guardrails) -> Move | None:
    """Return the first possible claim, those without an approval first; None if there is none."""
    notes, statuses = {note.id: note for note in state.plan}, {task.id: task.status for task in state.tasks}
    gated: Move | None = None
    for status in _ORDER:
        for task in state.tasks:
            if task.status is not status or (status is TaskStatus.BLOCKED and not task.released):
                continue
            if (hold := find_hold(task, notes[task.id], guardrails)) is not None:
                return hold
            if waits_for(notes[task.id], statuses) is not TaskStatus.READY:
                continue
            if not needs_approval(notes[task.id], state.mode, guardrails):
                return Start(task.id)
            gated = gated or Start(task.id, gated=True)
    return gated


def find_hold(task: TaskRecord, note: TaskNote, guardrails: Guardrails) -> Hold | None:
    """Return the guard that does not allow a task to be claimed, apart from dependencies; None if there is none."""
    if (problem := find_contradiction(task)) != "":
        return Hold(task.id, Finding(limit_name="audit", current_value="", limit_value="", reason=problem))
    attempts = task.attempts - task.granted
    refused = refused_claim(guardrails, task_id=str(task.id), attempts=attempts, destructive=note.destructive)
    return None if refused is None else Hold(task.id, refused)


def find_contradiction(task: TaskRecord) -> str:
    """Return the contradiction in the record of a task that may be claimed; "" if there is none."""
    if task.claim is not None or task.built is not None or task.proven:
        return f"it is {task.status}, but has an open claim: its record was changed from outside"
    if task.attempts < 0 or task.granted < 0:
        return f"it has {task.attempts} attempts, {task.granted} of them granted: its record was changed from outside"
    return ""


def most_attempts(task: TaskRecord, note: TaskNote, guardrails: Guardrails) -> int:
    """Return the maximum attempts of a task, including those that people have granted."""
    return guardrails.attempts_for(destructive=note.destructive) + task.granted


def needs_approval(note: TaskNote, mode: Mode, guardrails: Guardrails) -> bool:
    """Return whether a person must approve before a task is claimed."""
    if note.destructive and guardrails.require_user_approval_for_destructive_actions:
        return True
    return bool(note.gate) and mode is Mode.INTERACTIVE


def waits_for(note: TaskNote, statuses: Mapping[TaskId, TaskStatus]) -> TaskStatus:
    """Return the status of a task that has not begun: READY, or PENDING if it still has dependencies."""
    return TaskStatus.READY if all(statuses[id] is TaskStatus.PASS for id in note.after) else TaskStatus.PENDING


def why_stuck(state: PipelineState) -> str:
    """Return what a person must decide, in a sentence."""
    parts: list[str] = []
    for status, order in ((TaskStatus.NEEDS_CONTEXT, '{"answer": …}'), (TaskStatus.BLOCKED, '{"unblock": …}')):
        found = [task for task in state.tasks if task.status is status]
        if found:
            shown = ", ".join(f"{task.id} ({task.note or 'no reason given'})" for task in found[:_SHOWN])
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            parts.append(f"{status}: {shown}{more}; send {order}")
    return "a person must decide: " + ("; ".join(parts) or "nothing can be claimed")
