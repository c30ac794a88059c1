"""The beginning of a pipeline and of each attempt, and what becomes of one that is cut off.

The law: an attempt counts from its claim on, whatever becomes of it.
"""

from __future__ import annotations

from harnesses.features.texts import one_line
from harnesses.features.turn import words_of
from harnesses.governance.claiming import Claim
from harnesses.governance.contract_nouns import Recommendation, ValidatorStatus
from harnesses.governance.retry import decide
from harnesses.pipeline.changes import (
    blocked,
    claimed,
    handed_in,
    not_passed,
    settled,
)
from harnesses.pipeline.folder import run_id_of
from harnesses.pipeline.ids import TaskId
from harnesses.pipeline.memory import Asked, Recalled
from harnesses.pipeline.parts import FOLDER
from harnesses.pipeline.planning import Hold, most_attempts
from harnesses.pipeline.prompts import builder_prompt
from harnesses.pipeline.record import MAX_PROMPT, Built, MoveKind, PipelineState, TaskNote, TaskRecord
from harnesses.pipeline.telling import PipelineStep
from harnesses.pipeline.verdicts import PipelineVerdicts
from harnesses.secrets import redact_text

CONTEXT_PRESSURE = 0.8
"""Share of the longest prompt from which on an event says so."""


class PipelineAttempts(PipelineVerdicts):
    """Plans, claims, takes in, gives back."""

    def _planned(self) -> PipelineStep:
        """Write down what is to be done."""
        now = self.now()
        goal = redact_text(self._goal)
        run_id = run_id_of(goal, now)
        state = settled(
            PipelineState(
                run_id=run_id,
                goal=goal,
                mode=self._mode,
                project_root=str(self._workspace),
                run_folder=self._named_folder or f"{FOLDER}/{run_id}",
                created_at=now,
                updated_at=now,
                stages=self._notes,
                plan=self._plan,
                tasks=tuple(TaskRecord(id=note.id) for note in self._plan),
                guardrails="\n".join(self._guardrails.summary()),
            )
        )
        events = (
            self._event("run_started", run_id=run_id, goal=state.goal, mode=str(state.mode)),
            self._event("plan_created", tasks=[str(note.id) for note in self._plan], stages=[str(s.id) for s in self._notes]),
        )
        return self._made(state, MoveKind.PLAN, note=f"{len(self._plan)} tasks for: {one_line(state.goal)}", events=events)

    async def _claimed(self, id: TaskId) -> PipelineStep:
        """Begin an attempt: it counts from here on, whatever becomes of it."""
        note, record = self._note(id), self._record(id)
        claim = Claim(task_id=str(id), attempt=record.attempts + 1, nonce=self._nonce())
        recalled, events = await self._recalled(note)
        prompt = builder_prompt(
            self.state, note, record, claim, agents=self._agents_of(note), agent=self._agent_name(note), memory=recalled.text
        )
        most = most_attempts(record, note, self._guardrails)
        events += [
            self._event(
                "task_started",
                task_id=str(id),
                attempt=claim.attempt,
                max_attempts=most,
                agent=self._agent_name(note),
                stage_ids=[str(stage) for stage in note.stages],
            ),
            self._event("builder_task_prepared", task_id=str(id), attempt=claim.attempt, prompt=f"tasks/{id}/prompt.md"),
        ]
        events += self._remarks(id, claim, prompt)
        state = claimed(self.state, claim, redact_prompt(prompt, claim), self.now())
        return self._made(state, MoveKind.CLAIM, id, note=f"{id}: attempt {claim.attempt} of {most}", events=events)

    def _remarks(self, id: TaskId, claim: Claim, prompt: str) -> list[dict[str, object]]:
        """Return what is worth an event about an attempt: another agent than before, a prompt near its bound."""
        found: list[dict[str, object]] = []
        agent, before = self._builder(id, claim.attempt), self._builder(id, max(1, claim.attempt - 1))
        if agent is not before:
            names = {"from_agent": before.name, "to_agent": agent.name}
            found.append(self._event("agent_escalated", task_id=str(id), attempt=claim.attempt, **names))
        if len(prompt) >= CONTEXT_PRESSURE * MAX_PROMPT:
            found.append(self._event("context_pressure", task_id=str(id), characters=len(prompt), limit=MAX_PROMPT))
        return found

    async def _recalled(self, note: TaskNote) -> tuple[Recalled, list[dict[str, object]]]:
        """Return what is remembered for a task; a memory that fails is an event."""
        if self._memory is None:
            return Recalled(), []
        asked = Asked(run_id=self.state.run_id, task=note, agents=tuple(self._agents_of(note).values()))
        try:
            recalled = await self._memory.recall(asked)
        except Exception as error:
            return Recalled(), [self._event("memory_recall_failed", task_id=str(note.id), reason=words_of(error)[:300])]
        found = [self._event("memory_recalled", task_id=str(note.id), episode_ids=list(recalled.episodes))]
        return recalled, found if recalled.episodes else []

    def _held(self, hold: Hold) -> PipelineStep:
        """Hold a task that may not be claimed."""
        state = blocked(self.state, hold.task, hold.finding.reason, self.now())
        events = [self._tripped(hold.task, hold.finding)]
        return self._made(state, MoveKind.BLOCK, hold.task, note=hold.finding.reason, events=events, findings=[hold.finding])

    def _built_by(self, id: TaskId, built: Built) -> PipelineStep:
        """Take in what an agent has handed in; it is not judged yet."""
        record = self._record(id)
        agent = self._agent_name(self._note(id))
        good = not (built.failure or built.problems)
        why = built.failure or "; ".join(built.problems)
        event = self._event(
            "agent_completed" if good else "agent_failed",
            task_id=str(id),
            attempt=record.attempts,
            agent=agent,
            artifacts=[one.path for one in built.kept],
            reason=one_line(why, 400) or None,
        )
        state = handed_in(self.state, id, built, self.now())
        said = f"{id}: handed in" if good else f"{id}: {one_line(why, 200)}"
        findings = [] if built.finding is None else [built.finding]
        events = [event, *(self._tripped(id, finding) for finding in findings)]
        return self._made(state, MoveKind.BUILD, id, note=said, events=events, findings=findings)

    def _reclaimed(self, id: TaskId) -> PipelineStep:
        """Give a claim back that was cut off: its attempt counts."""
        record, note = self._record(id), self._note(id)
        most = most_attempts(record, note, self._guardrails)
        what = decide(ValidatorStatus.FAIL, Recommendation.RETRY_BUILDER, attempts=record.attempts, most=most)
        why = f"attempt {record.attempts} was cut off before anything was handed in"
        state = not_passed(self.state, id, what.status, [f"cut_off: {why}"], "", self._note_for(what, why), self.now())
        events = [
            self._event("claim_reclaimed", task_id=str(id), attempt=record.attempts, reason=why),
            self._decision(id, what),
        ]
        findings = self._exhausted(id, what, record, most)
        events += [self._tripped(id, finding) for finding in findings]
        return self._made(state, MoveKind.RECLAIM, id, note=f"{id}: {why}", events=events, findings=findings)


def redact_prompt(prompt: str, claim: Claim) -> str:
    """Return a prompt without secrets, but with the nonce, which is none."""
    mark = "nonce-goes-here"
    return redact_text(prompt.replace(claim.nonce, mark)).replace(mark, claim.nonce)
