"""Dangerous actions of a task: no agent may do them; the harness does, after a person has approved the exact command.

Invariants: no approval is requested before the work has passed validation; an approval names the validated content, and the
action runs only with that content; an action is done once, even if the program is killed during it; a task whose action was
refused does not pass.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from attrs import evolve, frozen

from harnesses.diagnostics.control_characters import inert
from harnesses.effects.approval import Action, Category, Grant
from harnesses.effects.effect import Effect
from harnesses.errors import Refused
from harnesses.features.agent_text import last_part, one_line
from harnesses.features.turn_results import describe_error
from harnesses.governance.contracts.contract import Recommendation, ValidatorStatus, failed
from harnesses.governance.contracts.contract_json import read_builder, read_validator
from harnesses.governance.evidence.attempt_verdict import TaskStatus, follow
from harnesses.governance.evidence.evidence_ledger import Evidence, EvidenceStatus
from harnesses.governance.evidence.evidence_policy import EvidencePolicy
from harnesses.governance.evidence.file_binding import Bound, changed
from harnesses.governance.limits.guardrails import Guardrails
from harnesses.guard import NETWORK, RUN_CODE, SECRET_READ, UNKNOWN, classify
from harnesses.pipeline.judging.case_judge import Now
from harnesses.pipeline.judging.evidence_entries import ACTION, entry
from harnesses.pipeline.judging.read_only_copy import MAX_TAIL
from harnesses.pipeline.pipeline_state import (
    Json,
    MoveKind,
    PipelineState,
    StepDraft,
    TaskRecord,
    builder_name,
    note_of,
    record_of,
)
from harnesses.pipeline.plan.ids import TaskId
from harnesses.pipeline.plan.pipeline_plan import PipelinePlan
from harnesses.pipeline.plan.task import Deed, read_requests
from harnesses.pipeline.run_folder.folder_text import event
from harnesses.pipeline.scheduling import most_attempts
from harnesses.pipeline.task_attempts import refuse_start
from harnesses.pipeline.transitions import end_attempt, record_action, set_back
from harnesses.pipeline.verdicts import decision_event, fail_attempt, pass_task
from harnesses.processes.bounded_command import run_bounded
from harnesses.processes.threads import aside
from harnesses.redaction.redactor import redact_text

_RELEASING = frozenset({Category.PUBLISH, Category.DEPLOY, Category.GIT_FORCE})
_SHOWN = 50
"""Maximum files whose hashes are shown to the approver; the overall hash covers all of them."""


@frozen(kw_only=True)
class Did:
    """The result of an action."""

    code: int | None
    """The exit code; None if it was killed at its time limit."""
    tail: str = ""


@frozen
class Actions:
    """Runs the actions of one pipeline."""

    plan: PipelinePlan
    policy: EvidencePolicy
    once: Callable[..., Awaitable[Any]]
    """Runs an effect once: `BaseHarness.once`."""
    approve: Callable[[str, Action], Awaitable[Grant]]
    """Returns when a person has approved: `BaseHarness.approval`."""
    now: Now

    def of_task(self, state: PipelineState, id: TaskId, contract: str) -> tuple[Deed, ...]:
        """Return the actions of a task: those of its description, then those that its builder requests in a contract."""
        try:
            found = read_builder(contract, task_id=str(id), agent=builder_name(state, note_of(state, id)))
        except Exception:
            return self.plan.tasks[id].deeds
        return (*self.plan.tasks[id].deeds, *read_requests(found)[0])

    async def ask_to_start(self, state: PipelineState, id: TaskId) -> Grant | StepDraft:
        """Ask a person whether a task may be claimed; return the grant, or the step that blocks the task.

        Raises:
            ApprovalExpired: nobody has answered in time.
        """
        task, attempt = note_of(state, id), record_of(state, id).attempts + 1
        category = str(Category.BROAD_DELETE if task.destructive else "gate")
        wanted = {"task": str(id), "attempt": attempt, "description": task.description}
        action = Action(category, f"{id}: {task.gate or task.title}"[:250], wanted)
        try:
            return await self.approve(f"claim {id} {attempt}", action)
        except Refused as error:
            return refuse_start(state, id, category, redact_text(one_line(describe_error(error), 300)), self.now())

    async def act(self, state: PipelineState, id: TaskId, step: int) -> StepDraft:
        """Run the next action of a task, once a person has approved it; after the last one a proven task passes.

        Args:
            step: the number of the step being made.
        """
        record = record_of(state, id)
        actions, number = self.of_task(state, id, record.builder), record.done + 1
        deed, by_author = actions[record.done], record.done < len(self.plan.tasks[id].deeds)
        action = approval_for(deed, record, self.plan.guardrails, by_author=by_author)
        try:
            did = await self._do_once(deed, record, action)
        except Refused as error:
            if paths := await aside(changed, content_of(record), self.plan.workspace):
                return set_back_overtaken(state, id, paths, self.now())
            return hold_refused(state, record, deed, describe_error(error), self.now())
        outcome = "killed at its time limit" if did.code is None else f"exit code {did.code}"
        text, now = f"{deed.category}: {' '.join(deed.command)[:300]}: {outcome}", self.now()
        done = _entry(record, now, did.code == 0, f"{text}\n{did.tail}".strip(), content_of(record))
        events = [event("action_done", now, task_id=str(id), category=deed.category, number=number, code=did.code)]
        if did.code != 0:
            return fail_action(state, record, text, self.plan.guardrails, now, done=done, events=events)
        if number < len(actions):
            state = record_action(state, id, [done], now)
            return StepDraft(state=state, kind=MoveKind.ACT, task=id, note=f"{id}: {text}", events=events, evidence=[done])
        proof = (*record.proof, done)
        stages = [str(stage) for stage in note_of(state, id).stages]
        checks = await aside(self.policy.met_by, proof, self.plan.workspace, stages=stages, attempt=record.attempts)
        if wrong := [check for check in checks if not check.ok]:
            why = f"{wrong[0].name}: {wrong[0].evidence}"
            return fail_action(state, record, why, self.plan.guardrails, now, done=done, events=events)
        return pass_task(state, id, proof, now, step, evidence=[done], events=events, kind=MoveKind.ACT)

    async def _do_once(self, deed: Deed, record: TaskRecord, action: Action | None) -> Did:
        workspace = self.plan.workspace

        async def do(command: list[str], limit_s: float, task: str, content: str) -> Did:
            """Run the command; raise `Refused`, without running it, if the validated content has changed."""
            if paths := await aside(changed, content_of(record), workspace):
                raise Refused(f"no longer what was validated: {', '.join(paths[:3])}")
            if _digest(record) != content:
                raise Refused("the proven content is not the approved content")
            ran = await run_bounded(command, limit_s=limit_s, cwd=workspace)
            return Did(code=ran.code, tail=last_part(inert(redact_text(ran.tail)), MAX_TAIL))

        arguments = (list(deed.command), deed.limit_s, str(record.id), _digest(record))
        did: Did = await self.once(_key(record), do, *arguments, approval=action)
        return did


def begun_action(state: PipelineState, effects: Iterable[Effect]) -> TaskId | None:
    """Return the task whose next action is already recorded for this step, so that it is continued before anything else."""
    keys = {effect.key for effect in effects}
    return next((record.id for record in state.tasks if record.proven and _key(record) in keys), None)


def approval_for(deed: Deed, record: TaskRecord, guardrails: Guardrails, *, by_author: bool) -> Action | None:
    """Return the action that needs approval; None if the guardrails allow it. Checks both its category and its command.

    Args:
        by_author: whether the pipeline's author has written the action; otherwise a builder requests it.
    """
    # The author's command is not dangerous just because no table knows it; a builder's is treated as unknown.
    plain = (UNKNOWN, RUN_CODE, NETWORK, SECRET_READ) if by_author else ()
    kinds = {deed.category, *(str(one.category) for one in classify(deed.command, allow=plain))}
    needed = (
        # A builder's own category for its request is not trusted.
        (not by_author and deed.category not in tuple(Category))
        or (bool(kinds & _RELEASING) and guardrails.require_user_approval_for_publish_deploy_or_force_push)
        or (bool(kinds - _RELEASING) and guardrails.require_user_approval_for_destructive_actions)
    )
    if not needed:
        return None
    also = ", ".join(sorted(kinds - {deed.category}))
    summary = f"{deed.summary[:170]} (classified by its command as: {also[:50]})" if also else deed.summary[:250]
    files = {one.path: one.sha256 for one in content_of(record)[:_SHOWN]}
    return Action(deed.category, summary, {"command": list(deed.command), "content": _digest(record), "files": files})


def set_back_overtaken(state: PipelineState, id: TaskId, paths: Sequence[str], now: datetime) -> StepDraft:
    """Set back a task whose content has changed since it was validated; nothing was run."""
    why = f"{', '.join(paths[:3])} {'is' if len(paths) == 1 else 'are'} no longer what was validated, so nothing was done"
    state, back = set_back(state, id, why, now)
    events = [event("evidence_stale", now, task_id=str(one), because_of=str(id), paths=list(paths[:20])) for one in back]
    return StepDraft(state=state, kind=MoveKind.SET_BACK, task=id, note=f"{id}: {why}"[:500], events=events)


def hold_refused(state: PipelineState, record: TaskRecord, deed: Deed, why: str, now: datetime) -> StepDraft:
    """Block a task whose action a person has refused."""
    id, short = record.id, one_line(why, 300)
    found = evolve(_entry(record, now, False, f"{deed.category}: refused: {why}"), status=EvidenceStatus.BLOCKED)
    return StepDraft(
        state=end_attempt(state, id, TaskStatus.BLOCKED, [f"action refused: {why}"], "", redact_text(short), now),
        kind=MoveKind.ACT,
        task=id,
        note=f"{id}: {one_line(why, 200)}",
        events=[event("approval_gate_blocked", now, task_id=str(id), category=deed.category, reason=short)],
        evidence=[found],
    )


def fail_action(
    state: PipelineState,
    record: TaskRecord,
    why: str,
    guardrails: Guardrails,
    now: datetime,
    *,
    done: Evidence,
    events: Sequence[Json],
) -> StepDraft:
    """End an attempt whose action has failed."""
    verdict = read_validator(record.validation, task_id=str(record.id))
    check = failed(ACTION, one_line(why, 300))
    verdict = evolve(
        verdict,
        status=ValidatorStatus.FAIL,
        checks=(*verdict.checks, check),
        issues=(f"{ACTION}: {check.evidence}"[:120],),
        retry_recommendation=Recommendation.RETRY_BUILDER,
    )
    most = most_attempts(record, note_of(state, record.id), guardrails)
    what = follow(verdict, attempts=record.attempts, most=most)
    events = [*events, decision_event(record.id, what, now)]
    return fail_attempt(state, verdict, what, guardrails, now, evidence=[done], events=events, kind=MoveKind.ACT)


def content_of(record: TaskRecord) -> tuple[Bound, ...]:
    """Return the content that a task's proof is about."""
    return tuple({one.path: one for entry in record.proof for one in entry.subject}.values())


def _digest(record: TaskRecord) -> str:
    """Return one hash of all the content that a task's proof is about."""
    return sha256("\n".join(sorted(f"{one.sha256} {one.path}" for one in content_of(record))).encode()).hexdigest()


def _key(record: TaskRecord) -> str:
    return f"act {record.id} {record.attempts} {record.done + 1}"


def _entry(record: TaskRecord, now: datetime, good: bool, text: str, subject: Sequence[Bound] = ()) -> Evidence:
    assert record.claim is not None
    return entry(record.claim, now, ACTION, good, text, subject=subject)
