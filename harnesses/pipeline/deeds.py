"""Deeds: what a task needs done and no agent may do. The harness does it, once a person has approved that very command.

The laws: nothing is asked for before the work is found good; what is approved names the content that was found good, and is
done with no other; a deed is done once, also if the program is killed in it; and a task whose deed was refused does not pass.
"""

from __future__ import annotations

from hashlib import sha256

from attrs import evolve, frozen

from harnesses.approval import Action, Category
from harnesses.control_characters import inert
from harnesses.errors import Refused
from harnesses.features.texts import last_part, one_line
from harnesses.features.turn import words_of
from harnesses.governance.actions import NETWORK, RUN_CODE, SECRET_READ, UNKNOWN, classify
from harnesses.governance.binding import Bound, changed
from harnesses.governance.contract_nouns import Check, Recommendation, ValidatorStatus, failed
from harnesses.governance.contracts import read_validator
from harnesses.governance.evidence import Evidence, EvidenceStatus
from harnesses.governance.retry import TaskStatus, follow
from harnesses.pipeline.attempts import PipelineAttempts
from harnesses.pipeline.changes import (
    acted,
    blocked,
    not_passed,
    set_back,
)
from harnesses.pipeline.court import ACTION
from harnesses.pipeline.ids import TaskId
from harnesses.pipeline.planning import most_attempts
from harnesses.pipeline.record import MoveKind, TaskRecord
from harnesses.pipeline.seen import MAX_TAIL
from harnesses.pipeline.task import Deed
from harnesses.pipeline.telling import PipelineStep
from harnesses.process import run_bounded
from harnesses.secrets import redact_text
from harnesses.threads import aside

_RELEASING = (Category.PUBLISH, Category.DEPLOY, Category.GIT_FORCE)
_SHOWN = 50
"""Files of which who approves is shown the hash; all of them are in the hash of the whole."""


@frozen(kw_only=True)
class Did:
    """What came of a deed."""

    code: int | None
    """None if it was killed at its time limit."""
    tail: str = ""


class PipelineDeeds(PipelineAttempts):
    """Does them."""

    async def _acted(self, id: TaskId) -> PipelineStep:
        """Do the next deed of a task, once a person has approved it; the last one lets the task pass, if all is proven."""
        record = self._record(id)
        deeds = self._deeds(record)
        deed, number = deeds[record.done], record.done + 1
        key = f"act {id} {record.attempts} {number}"
        approval = self._approval_of(deed, record, by_author=record.done < len(self._tasks[id].deeds))
        arguments = (list(deed.command), deed.limit_s, str(id), _content(record))
        try:
            if approval is None:
                did = await self.once(key, self._do, *arguments)
            else:
                did = await self.once(key, self._do, *arguments, approval=approval)
        except Refused as error:
            if paths := await aside(changed, _all_of(record), self._workspace):
                return self._overtaken(id, paths)
            return self._refused(record, deed, words_of(error))
        said = f"{deed.category}: {' '.join(deed.command)[:300]}: {_how(did)}"
        entry = self._entry(record, ACTION, did.code == 0, f"{said}\n{did.tail}".strip(), _all_of(record))
        events = [self._event("action_done", task_id=str(id), category=deed.category, number=number, code=did.code)]
        if did.code != 0:
            return self._not_done(record, said, entry, events)
        if number < len(deeds):
            state = acted(self.state, id, [entry], self.now())
            return self._made(state, MoveKind.ACT, id, note=f"{id}: {said}", events=events, evidence=[entry])
        checks = await aside(self._still_proven, record, entry)
        if wrong := [check for check in checks if not check.ok]:
            return self._not_done(record, f"{wrong[0].name}: {wrong[0].evidence}", entry, events)
        return self._pass(MoveKind.ACT, record, (*record.proof, entry), "", [entry], events)

    def _still_proven(self, record: TaskRecord, entry: Evidence) -> tuple[Check, ...]:
        """Return whether the evidence suffices, with that of the deeds."""
        return self._policy.met_by(
            (*record.proof, entry),
            self._workspace,
            stages=[str(stage) for stage in self._note(record.id).stages],
            attempt=record.attempts,
        )

    def _approval_of(self, deed: Deed, record: TaskRecord, *, by_author: bool) -> Action | None:
        """Return what a person has to approve; None if the guardrails let it be done without: as it is called, and as its
        command reads.

        Args:
            by_author: whether the pipeline's author has written it; else a builder asks for it.
        """
        # The author's own command is no danger for not being in a table; what a builder asks for is unknown until it is.
        plain = (UNKNOWN, RUN_CODE, NETWORK, SECRET_READ) if by_author else ()
        found = [str(one.category) for one in classify(deed.command, allow=plain)]
        kinds = {deed.category, *found}
        rails = self._guardrails
        # A builder's own word for what it asks for says nothing.
        unknown = not by_author and deed.category not in tuple(Category)
        releasing, destroying = kinds & set(_RELEASING), kinds - set(_RELEASING)
        needed = (
            unknown
            or (bool(releasing) and rails.require_user_approval_for_publish_deploy_or_force_push)
            or (bool(destroying) and rails.require_user_approval_for_destructive_actions)
        )
        also = ", ".join(sorted(kinds - {deed.category}))
        summary = f"{deed.summary[:170]} (as its command reads: {also[:50]})" if also else deed.summary[:250]
        return Action(deed.category, summary, _asked(deed, record)) if needed else None

    async def _do(self, command: list[str], limit_s: float, task: str, content: str) -> Did:
        """Run the command of a deed in the workspace.

        Raises:
            Refused: what was found good is not there any more; nothing was run.
        """
        record = self._record(TaskId(task))
        if paths := await aside(changed, _all_of(record), self._workspace):
            raise Refused(f"not what was judged any more: {', '.join(paths[:3])}")
        if _content(record) != content:
            raise Refused("what was proven is not what was approved")
        ran = await run_bounded(command, limit_s=limit_s, cwd=self._workspace)
        return Did(code=ran.code, tail=last_part(inert(redact_text(ran.tail)), MAX_TAIL))

    def _overtaken(self, id: TaskId, paths: tuple[str, ...]) -> PipelineStep:
        """Set a task back of which another content is there than what was found good: nothing was run."""
        why = f"{', '.join(paths[:3])} {'is' if len(paths) == 1 else 'are'} not what was judged, so nothing was done"
        state, back = set_back(self.state, id, why, self.now())
        events = [self._event("evidence_stale", task_id=str(one), because_of=str(id), paths=list(paths[:20])) for one in back]
        return self._made(state, MoveKind.SET_BACK, id, note=f"{id}: {why}"[:500], events=events)

    def _refused(self, record: TaskRecord, deed: Deed, why: str) -> PipelineStep:
        """Hold a task whose deed a person has refused."""
        id = record.id
        entry = evolve(self._entry(record, ACTION, False, f"{deed.category}: refused: {why}"), status=EvidenceStatus.BLOCKED)
        state = not_passed(
            self.state, id, TaskStatus.BLOCKED, [f"action refused: {why}"], "", redact_text(one_line(why, 300)), self.now()
        )
        event = self._event("approval_gate_blocked", task_id=str(id), category=deed.category, reason=one_line(why, 300))
        return self._made(state, MoveKind.ACT, id, note=f"{id}: {one_line(why, 200)}", events=[event], evidence=[entry])

    def _not_done(self, record: TaskRecord, why: str, entry: Evidence, events: list[dict[str, object]]) -> PipelineStep:
        """End an attempt whose deed has failed."""
        verdict = read_validator(record.validation, task_id=str(record.id))
        refused = failed(ACTION, one_line(why, 300))
        verdict = evolve(
            verdict,
            status=ValidatorStatus.FAIL,
            checks=(*verdict.checks, refused),
            issues=(f"{ACTION}: {refused.evidence}"[:120],),
            retry_recommendation=Recommendation.RETRY_BUILDER,
        )
        most = most_attempts(record, self._note(record.id), self._guardrails)
        what = follow(verdict, attempts=record.attempts, most=most)
        return self._failed(record, verdict, what, [entry], [*events, self._decision(record.id, what)], MoveKind.ACT)

    async def _agreed(self, id: TaskId) -> PipelineStep:
        """Claim a task once a person has agreed."""
        note, record = self._note(id), self._record(id)
        category = Category.BROAD_DELETE if note.destructive else "gate"
        summary = f"{id}: {note.gate or note.title}"[:250]
        wanted = {"task": str(id), "attempt": record.attempts + 1, "description": note.description}
        try:
            grant = await self.approval(f"claim {id} {record.attempts + 1}", Action(str(category), summary, wanted))
        except Refused as error:
            why = redact_text(one_line(words_of(error), 300))
            state = blocked(self.state, id, why, self.now())
            event = self._event("approval_gate_blocked", task_id=str(id), category=str(category), reason=why)
            return self._made(state, MoveKind.BLOCK, id, note=f"{id}: {why}", events=[event])
        made = await self._claimed(id)
        self.log(f"{id}: agreed to: {getattr(grant, 'by', '')}")
        return made


def _all_of(record: TaskRecord) -> tuple[Bound, ...]:
    """Return the content that a task's proof speaks of."""
    return tuple({one.path: one for entry in record.proof for one in entry.subject}.values())


def _content(record: TaskRecord) -> str:
    """Return one hash of all the content that a task's proof speaks of."""
    return sha256("\n".join(sorted(f"{one.sha256} {one.path}" for one in _all_of(record))).encode()).hexdigest()


def _asked(deed: Deed, record: TaskRecord) -> dict[str, object]:
    """Return exactly what is to be done, and with which content."""
    files = {one.path: one.sha256 for one in _all_of(record)[:_SHOWN]}
    return {"command": list(deed.command), "content": _content(record), "files": files}


def _how(did: Did) -> str:
    return "killed at its time limit" if did.code is None else f"exit code {did.code}"
