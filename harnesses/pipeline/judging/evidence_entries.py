"""Creates entries of the evidence ledger, each with its grade and bound to the content it is about. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from attrs import evolve

from harnesses.attachments import MAX_CHARACTERS
from harnesses.features.agent_text import one_line, storable
from harnesses.governance.contracts.contract import Check, ValidatorContract, failed, passed
from harnesses.governance.evidence.attempt_verdict import Claim
from harnesses.governance.evidence.evidence_ledger import MAX_EVIDENCE, Evidence, EvidenceStatus, Grade
from harnesses.governance.evidence.file_binding import Bound
from harnesses.pipeline.judging.read_only_copy import CheckRun
from harnesses.pipeline.plan.ids import StageId
from harnesses.redaction.redactor import redact_text

ACTION = "action"
"""The evidence kind of an action that was done."""
_CHUNK = 200
"""Maximum files in one entry; further files get another entry."""
_CHUNK_CHARACTERS = MAX_CHARACTERS // 3


def entry(
    claim: Claim,
    when: datetime,
    kind: str,
    good: bool,
    text: str,
    *,
    grade: Grade = Grade.OBSERVED,
    subject: Sequence[Bound] = (),
    stage: str = "",
) -> Evidence:
    """Return an entry about the claimed attempt; its text is stored without secrets, cut to size."""
    return Evidence(
        ts=when.isoformat(),
        task_id=claim.task_id,
        kind=kind,
        status=EvidenceStatus.PASS if good else EvidenceStatus.FAIL,
        evidence=redact_text(storable(text).replace("\0", ""))[:MAX_EVIDENCE] or "nothing",
        grade=grade,
        attempt=claim.attempt,
        stage_id=stage,
        subject=tuple(subject),
    )


def inspection_entries(
    claim: Claim,
    when: datetime,
    stage_checks: Sequence[tuple[StageId, str, list[Check]]],
    subject: Sequence[Bound],
    *,
    good: bool,
) -> list[Evidence]:
    """Return the entries of an inspection: one for each artifact, one for all files."""
    entries: list[Evidence] = []
    for id, path, checks in stage_checks:
        wrong = [f"{check.name}: {check.evidence}" for check in checks if not check.ok]
        text = f"{path}: {'; '.join(wrong)[:1000]}" if wrong else f"{path}: {len(checks)} of {len(checks)} checks passed"
        own = [one for one in subject if one.path == path]
        entries.append(entry(claim, when, "artifact", not wrong and bool(own), text, subject=own, stage=str(id)))
    return [*entries, entry(claim, when, "files", good, f"{len(subject)} files inspected in a copy", subject=subject)]


def rerun_entries(
    claim: Claim, when: datetime, stages: Sequence[StageId], runs: Sequence[CheckRun], subject: Sequence[Bound]
) -> list[Evidence]:
    """Return the entries of commands that were run: for the command's stage, or else for all stages of the task."""
    return [
        entry(
            claim,
            when,
            "command",
            run.good,
            f"{run.words()}\n{run.tail}".strip(),
            grade=Grade.RERUN,
            subject=subject,
            stage=stage,
        )
        for run in runs
        for stage in ([run.stage] if run.stage else map(str, stages))
    ]


def command_check(run: CheckRun) -> Check:
    """Return the result of a command as a check."""
    return passed("command", run.words()) if run.good else failed("command", f"{run.words()}: {one_line(run.tail[-200:])}")


def validator_entry(claim: Claim, when: datetime, contract: ValidatorContract, subject: Sequence[Bound]) -> Evidence:
    """Return the entry of a validator's contract."""
    status = contract.status.value
    text = f"{contract.validator[:100]} says {status}; tasks/{contract.task_id}/validation.json"
    return entry(claim, when, "validator", status == "PASS", text, subject=subject)


def in_chunks(one: Evidence) -> list[Evidence]:
    """Return an entry split into several, if it has more files than fit in one record."""
    chunks: list[list[Bound]] = [[]]
    size = 0
    for file in one.subject:
        if len(chunks[-1]) == _CHUNK or size > _CHUNK_CHARACTERS:
            chunks.append([])
            size = 0
        chunks[-1].append(file)
        size += len(file.path) + 100
    return [one] if len(chunks) == 1 else [evolve(one, subject=chunk) for chunk in chunks]


def proof_of(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Return the entries that prove a pass: all except those that the agent has reported."""
    return tuple(part for one in evidence if one.grade >= Grade.OBSERVED for part in in_chunks(one))
