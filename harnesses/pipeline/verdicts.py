"""The verdict on an attempt becomes a step: a pass by its proof, or what the next attempt is told.

The laws: a pass and its proof are one commit; nothing passes because it could not be looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from harnesses.features.texts import one_line
from harnesses.governance.binding import Bound
from harnesses.governance.claiming import Claim
from harnesses.governance.contract_nouns import BuilderContract, Recommendation, ValidatorContract, ValidatorStatus, failed
from harnesses.governance.contracts import read_builder, to_json
from harnesses.governance.evidence import Evidence, EvidenceStatus
from harnesses.governance.grades import Grade
from harnesses.governance.judging import quality
from harnesses.governance.retry import Decision, Retry, TaskStatus, follow
from harnesses.governor import Finding
from harnesses.pipeline.changes import (
    built_of,
    not_passed,
    passed,
    proven,
)
from harnesses.pipeline.court import Judged
from harnesses.pipeline.ids import TaskId
from harnesses.pipeline.looking import Case, contract_of
from harnesses.pipeline.planning import most_attempts
from harnesses.pipeline.record import MoveKind, TaskNote, TaskRecord
from harnesses.pipeline.requests import requested
from harnesses.pipeline.task import Deed
from harnesses.pipeline.telling import PipelineStep, PipelineTelling, proof_of
from harnesses.secrets import redact_text


class PipelineVerdicts(PipelineTelling):
    """What follows from a verdict."""

    def _tripped(self, id: TaskId, finding: Finding) -> dict[str, object]:
        """Return the event of a guardrail; `limit` and `value` are what older readers look for."""
        return self._event(
            "guardrail_triggered",
            task_id=str(id),
            limit_name=finding.limit_name,
            current_value=finding.current_value,
            limit_value=finding.limit_value,
            reason=finding.reason,
            limit=finding.limit_value,
            value=finding.current_value,
        )

    def _heard(self, id: TaskId, judged: Judged | None, problem: str) -> PipelineStep:
        """Take in the verdict: a pass by its proof, or what is wrong for the next attempt."""
        record, note = self._record(id), self._note(id)
        assert record.claim is not None
        assert record.built is not None
        verdict = _not_judged(record.claim, problem) if judged is None else judged.verdict
        what = follow(verdict, attempts=record.attempts, most=most_attempts(record, note, self._guardrails))
        evidence = list(() if judged is None else judged.evidence)
        evidence.append(self._of_verdict(record, verdict))
        contract = contract_of(self._case(record, note))[0]
        events = [*self._told(record, verdict, contract), self._decision(id, what)]
        if what.decision is not Decision.COMPLETE:
            return self._failed(record, verdict, what, evidence, events)
        proof, validation = proof_of(evidence), to_json(verdict)
        if self._deeds(record):
            state = proven(self.state, id, proof, validation, self.now())
            said = f"{id}: found good; {len(self._deeds(record))} to be done"
            return self._made(state, MoveKind.JUDGE, id, note=said, events=events, evidence=evidence)
        return self._pass(MoveKind.JUDGE, record, proof, validation, evidence, events)

    def _failed(
        self,
        record: TaskRecord,
        verdict: ValidatorContract,
        what: Retry,
        evidence: Sequence[Evidence],
        events: list[dict[str, object]],
        kind: MoveKind = MoveKind.JUDGE,
    ) -> PipelineStep:
        """End an attempt that was not found good."""
        id = record.id
        most = most_attempts(record, self._note(id), self._guardrails)
        wrong = [f"{check.name}: {check.evidence}" for check in verdict.checks if not check.ok] + list(verdict.issues)
        # What says least comes last: the first one is what people are told.
        wrong = sorted(dict.fromkeys(map(redact_text, wrong)), key=lambda one: one.startswith("builder_contract_exists"))
        findings = self._exhausted(id, what, record, most)
        events += [self._tripped(id, finding) for finding in findings]
        if not findings:
            events.append(
                self._event("validation_failed", task_id=str(id), attempt=record.attempts, max_attempts=most, issues=wrong[:5])
            )
        note = self._note_for(what, one_line(wrong[0] if wrong else "no reason given", 300))
        state = not_passed(self.state, id, what.status, wrong, to_json(verdict), note, self.now())
        said = f"{id}: {what.status}: {one_line(wrong[0] if wrong else what.reason, 200)}"
        return self._made(state, kind, id, note=said, events=events, evidence=evidence, findings=findings)

    def _pass(
        self,
        kind: MoveKind,
        record: TaskRecord,
        proof: Sequence[Evidence],
        validation: str,
        evidence: Sequence[Evidence],
        events: list[dict[str, object]],
    ) -> PipelineStep:
        """Let a task pass: its proof is one commit with it."""
        id, now = record.id, self.now()
        elapsed_ms = 0 if record.claimed_at is None else round((now - record.claimed_at).total_seconds() * 1000)
        events += [
            self._event("stage_completed", task_id=str(id), stage_id=str(stage), elapsed_ms=elapsed_ms)
            for stage in self._note(id).stages
        ]
        state = passed(self.state, id, proof, validation, now, self.current_step + 1)
        return self._made(state, kind, id, note=f"{id}: PASS", events=events, evidence=evidence)

    def _told(
        self, record: TaskRecord, verdict: ValidatorContract, contract: BuilderContract | None
    ) -> list[dict[str, object]]:
        """Return the events of a verdict."""
        score = quality(verdict.checks)
        told = [
            self._event(
                "task_validated",
                task_id=str(record.id),
                attempt=record.attempts,
                status=str(verdict.status),
                validator=verdict.validator,
                checks=len(verdict.checks),
                quality=score,
            ),
            self._event("quality_score_recorded", task_id=str(record.id), attempt=record.attempts, score=score),
        ]
        if contract is not None and contract.cost:
            told.append(
                self._event("cost_recorded", task_id=str(record.id), attempt=record.attempts, cost=dict(contract.cost))
            )
        return told

    def _decision(self, id: TaskId, what: Retry) -> dict[str, object]:
        return self._event(
            "retry_decision", task_id=str(id), decision=str(what.decision), status=str(what.status), reason=what.reason
        )

    def _of_verdict(self, record: TaskRecord, verdict: ValidatorContract) -> Evidence:
        """Return the entry that points at the verdict."""
        return self._entry(record, "validation", verdict.status is ValidatorStatus.PASS, f"tasks/{record.id}/validation.json")

    def _entry(self, record: TaskRecord, kind: str, good: bool, said: str, subject: Sequence[Bound] = ()) -> Evidence:
        return Evidence(
            ts=self.now().isoformat(),
            task_id=str(record.id),
            kind=kind,
            status=EvidenceStatus.PASS if good else EvidenceStatus.FAIL,
            evidence=redact_text(said),
            grade=Grade.OBSERVED,
            attempt=record.attempts,
            subject=tuple(subject),
        )

    def _exhausted(self, id: TaskId, what: Retry, record: TaskRecord, most: int) -> list[Finding]:
        """Return the finding of a task that has no attempt left."""
        if what.decision is not Decision.EXHAUSTED:
            return []
        name = "max_destructive_task_attempts" if self._note(id).destructive else "max_task_attempts"
        return [
            Finding(limit_name=name, current_value=str(record.attempts), limit_value=str(most), reason=f"{id}: {what.reason}")
        ]

    def _note_for(self, what: Retry, why: str) -> str:
        """Return what a person is told of a task that needs one."""
        return why if what.status in (TaskStatus.BLOCKED, TaskStatus.NEEDS_CONTEXT) else ""

    def _deeds(self, record: TaskRecord) -> tuple[Deed, ...]:
        """Return what is to be done for a task: what its description says, then what its builder asks for."""
        try:
            contract = read_builder(record.builder, task_id=str(record.id), agent=self._agent_name(self._note(record.id)))
        except Exception:
            return self._tasks[record.id].deeds
        return (*self._tasks[record.id].deeds, *requested(contract)[0])

    def _case(self, record: TaskRecord, note: TaskNote) -> Case:
        assert record.claim is not None
        return Case(
            state=self.state,
            task=note,
            claim=record.claim,
            built=built_of(record),
            builder=self._builder(note.id, record.claim.attempt),
            agent=self._agent_name(note),
        )


def _not_judged(claim: Claim, problem: str) -> ValidatorContract:
    """Return the verdict where there was none: nothing passes because it could not be looked at."""
    check = failed("judging", problem or "it could not be judged")
    return ValidatorContract(
        task_id=claim.task_id,
        validator="rules",
        status=ValidatorStatus.FAIL,
        checks=(check,),
        issues=(f"judging: {check.evidence}"[:120],),
        retry_recommendation=Recommendation.RETRY_BUILDER,
        nonce=claim.nonce,
    )
