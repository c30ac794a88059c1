"""Converts drafts to steps: what is yielded, and the records attached in the same commit. No I/O.

Invariant: secrets are removed from text of agents before it is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import asdict, frozen

from harnesses.pipeline.judging.evidence_entries import in_chunks
from harnesses.pipeline.pipeline_state import (
    PipelineInput,
    PipelineOutput,
    PipelineStep,
    StepDraft,
    record_of,
    run_status,
)
from harnesses.redaction.redactor import redact, redact_text
from harnesses.step import StepYield

MAX_ENTRIES = 400
"""Maximum evidence entries of one step; the rest of an agent's report is in its contract."""


@frozen
class WrittenStep:
    """A step that is ready to be yielded."""

    step: PipelineStep
    attachments: tuple[tuple[str, Mapping[str, object]], ...]
    """Kind and value of each record that the last draft attaches to the step."""


class StepWriter:
    """Converts drafts to steps; several drafts before the next recorded step become one step."""

    def __init__(self) -> None:
        self._number = 0
        self._pending: PipelineOutput | None = None

    def write(self, draft: StepDraft, number: int) -> WrittenStep:
        """Return the step for a draft.

        Args:
            number: number of the step; earlier drafts for the same number are included.
        """
        events = tuple(redact(dict(one)) for one in draft.events)
        entries = [part.plain() for one in draft.evidence for part in in_chunks(one)]
        # Hashes and paths stay unchanged, because other code looks them up.
        evidence = tuple({**one, "evidence": redact_text(one["evidence"])} for one in entries[:MAX_ENTRIES])
        task = "" if draft.task is None else str(draft.task)
        findings = ({"task_id": task, **asdict(finding)} for finding in draft.findings)
        attachments = (
            *(("task", one) for one in events),
            *(("evidence", one) for one in evidence),
            *(("guardrail", one) for one in findings),
        )
        note = redact_text(draft.note)
        if self._pending is not None and self._number == number:
            events, evidence = (*self._pending.events, *events), (*self._pending.evidence, *evidence)
            note = f"{self._pending.note}; {note}"
        record = None if draft.task is None else record_of(draft.state, draft.task)
        status = str(run_status(draft.state)) if record is None else str(record.status)
        self._number = number
        self._pending = PipelineOutput(status=status, note=note, events=events, evidence=evidence)
        given = PipelineInput(kind=draft.kind, task=task, attempt=0 if record is None else record.attempts)
        return WrittenStep(StepYield(given, self._pending), attachments)

    def take_recorded(self, current_step: int) -> PipelineOutput | None:
        """Return the output of the last written step, once, if it is recorded."""
        if self._pending is None or current_step < self._number:
            return None
        output, self._pending = self._pending, None
        return output
