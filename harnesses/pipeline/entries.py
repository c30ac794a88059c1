"""What was seen of a case, as entries of the evidence ledger: each with its grade, bound to the content that it speaks of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from harnesses.features.texts import one_line, storable
from harnesses.governance.contract_nouns import Check, ValidatorContract, failed, passed
from harnesses.governance.evidence import MAX_EVIDENCE, Bound, Evidence, EvidenceStatus
from harnesses.governance.grades import Grade
from harnesses.pipeline.ids import StageId
from harnesses.pipeline.looking import Case
from harnesses.pipeline.record import TaskNote
from harnesses.pipeline.seen import Seen
from harnesses.secrets import redact_text


def entry(
    case: Case,
    now: Callable[[], datetime],
    kind: str,
    good: bool,
    said: str,
    grade: Grade,
    subject: Sequence[Bound],
    stage: str = "",
) -> Evidence:
    return Evidence(
        ts=now().isoformat(),
        task_id=str(case.task.id),
        kind=kind,
        status=EvidenceStatus.PASS if good else EvidenceStatus.FAIL,
        evidence=redact_text(storable(said).replace("\0", ""))[:MAX_EVIDENCE] or "nothing",
        grade=grade,
        attempt=case.claim.attempt,
        stage_id=stage,
        subject=tuple(subject),
    )


def observed(
    mine: Callable[..., Evidence],
    task: TaskNote,
    made: Sequence[tuple[StageId, str, list[Check]]],
    subject: Sequence[Bound],
    *,
    good: bool,
) -> list[Evidence]:
    """Return what we have seen ourselves: each artifact, and all that was looked at."""
    entries: list[Evidence] = []
    for id, path, checks in made:
        wrong = [f"{check.name}: {check.evidence}" for check in checks if not check.ok]
        said = f"{path}: {'; '.join(wrong)[:1000]}" if wrong else f"{path}: {len(checks)} of {len(checks)} checks passed"
        own = [one for one in subject if one.path == path]
        entries.append(mine("artifact", not wrong and bool(own), said, Grade.OBSERVED, own, str(id)))
    entries.append(mine("files", good, f"{len(subject)} files looked at in a copy", Grade.OBSERVED, subject))
    return entries


def rerun(mine: Callable[..., Evidence], task: TaskNote, seen: Sequence[Seen], subject: Sequence[Bound]) -> list[Evidence]:
    """Return what was run by us: for the stage that it belongs to, else for all of the task."""
    return [
        mine("command", one.good, f"{one.words()}\n{one.tail}".strip(), Grade.RERUN, subject, stage)
        for one in seen
        for stage in ([one.stage] if one.stage else [str(id) for id in task.stages])
    ]


def of_command(one: Seen) -> Check:
    return passed("command", one.words()) if one.good else failed("command", f"{one.words()}: {one_line(one.tail[-200:])}")


def of_validator(mine: Callable[..., Evidence], said: ValidatorContract, subject: Sequence[Bound]) -> Evidence:
    good = said.status.value == "PASS"
    words = f"{said.validator[:100]} says {said.status.value}; tasks/{said.task_id}/validation.json"
    return mine("validator", good, redact_text(words), Grade.OBSERVED, subject)
