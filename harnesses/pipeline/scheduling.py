"""What a pipeline does next, decided from its state. Pure.

    a claim was cut off, and it is not ours               give it back
    something was handed in, and nobody judges it         have it judged
    a task may be claimed, and there is room              claim it:  FAIL, then BLOCKED but released, then READY
    others are at work                                    wait for them
    something was found good, and actions are to be done  do them: nothing else is going on, so only it waits for a person
    a task may be claimed once a person agrees            ask
    all pass                                              done
    else                                                  a person has to decide

The guards of a claim, in this order: the audit of what is on record; the attempts, counted from the claims on record; the
approval, which the harness asks for; what it waits for.
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
    """A claim was cut off."""

    task: TaskId


@frozen
class Judge:
    """Something was handed in."""

    task: TaskId


@frozen
class Start:
    """A task may be claimed."""

    task: TaskId
    gated: bool = False
    """Whether a person has to agree before."""


@frozen
class Hold:
    """A guard does not let a task be claimed."""

    task: TaskId
    finding: Finding


@frozen
class Act:
    """Actions are to be done."""

    task: TaskId


@frozen
class Rest:
    """Others are at work."""


@frozen
class Done:
    """All pass."""


@frozen
class Stuck:
    """A person has to decide."""

    reason: str


Move: TypeAlias = Reclaim | Judge | Start | Hold | Act | Rest | Done | Stuck
_ORDER = (TaskStatus.FAIL, TaskStatus.BLOCKED, TaskStatus.READY)
"""Failures come first: else they hide behind work that looks better."""


def next_move(
    state: PipelineState, guardrails: Guardrails, *, working: Collection[TaskId], own: Collection[str], most: int
) -> Move:
    """Return what is next.

    Args:
        working: tasks that somebody works on, or judges, now.
        own: nonces of the claims that were made in this attempt.
        most: how many may be worked on at a time.
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
    """Return whether a claim may wait for a person's approval."""
    return isinstance(move, Start) and move.gated


def _claim(state: PipelineState, guardrails: Guardrails) -> Move | None:
    """Return the claim that comes first, those before that need nobody's word; None if there is none."""
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
    """Return why a task cannot be claimed, whatever it waits for; None if nothing is in the way."""
    if (problem := find_contradiction(task)) != "":
        return Hold(task.id, Finding(limit_name="audit", current_value="", limit_value="", reason=problem))
    attempts = task.attempts - task.granted
    refused = refused_claim(guardrails, task_id=str(task.id), attempts=attempts, destructive=note.destructive)
    return None if refused is None else Hold(task.id, refused)


def find_contradiction(task: TaskRecord) -> str:
    """Return what contradicts itself in the record of a task that may be claimed; "" if nothing does."""
    if task.claim is not None or task.built is not None or task.proven:
        return f"it is {task.status}, and a claim of it is open: its record was changed from outside"
    if task.attempts < 0 or task.granted < 0:
        return f"its attempts are {task.attempts}, those granted {task.granted}: its record was changed from outside"
    return ""


def most_attempts(task: TaskRecord, note: TaskNote, guardrails: Guardrails) -> int:
    """Return how many attempts a task has, with those that people have allowed."""
    return guardrails.attempts_for(destructive=note.destructive) + task.granted


def needs_approval(note: TaskNote, mode: Mode, guardrails: Guardrails) -> bool:
    """Return whether a person has to agree before a task is claimed."""
    if note.destructive and guardrails.require_user_approval_for_destructive_actions:
        return True
    return bool(note.gate) and mode is Mode.INTERACTIVE


def waits_for(note: TaskNote, statuses: Mapping[TaskId, TaskStatus]) -> TaskStatus:
    """Return whether a task that nobody has begun is ready."""
    return TaskStatus.READY if all(statuses[id] is TaskStatus.PASS for id in note.after) else TaskStatus.PENDING


def why_stuck(state: PipelineState) -> str:
    """Return what a person has to decide, in a sentence."""
    parts: list[str] = []
    for status, order in ((TaskStatus.NEEDS_CONTEXT, '{"answer": …}'), (TaskStatus.BLOCKED, '{"unblock": …}')):
        found = [task for task in state.tasks if task.status is status]
        if found:
            shown = ", ".join(f"{task.id} ({task.note or 'no reason given'})" for task in found[:_SHOWN])
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            parts.append(f"{status}: {shown}{more}; send {order}")
    return "a person has to decide: " + ("; ".join(parts) or "nothing can be claimed")
