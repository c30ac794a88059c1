"""Evidence policies: which evidence a pass needs, and whether it exists.

    requirement             satisfied by
    any                     one PASS of at least `needed`
    by_kind: kind → grade   one PASS of that kind of at least that grade
    by_stage: stage → grade one PASS for that stage, if the task has it, of at least that grade
    covering: paths         every path is referred to by a counted entry

    an entry counts         if it says PASS, its grade is high enough, it belongs to the attempt, and no file it refers to
                            has changed
    and is overridden       by a later FAIL or BLOCKED, of whatever grade, of the same kind and stage

Invariants: a FAIL counts whoever reports it, since nobody lies to their own harm, and only an entry of at least the FAIL's
grade overrides it. Evidence that is too low or stale yields a failed check that says so, with the paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from attrs import field, frozen

from harnesses.features.agent_text import one_line
from harnesses.governance.contracts.contract import Check, failed, passed
from harnesses.governance.evidence.evidence_ledger import Evidence, EvidenceStatus, Grade
from harnesses.governance.evidence.file_binding import Bound, Content, below

Ledger: TypeAlias = Sequence[tuple[Evidence, Sequence[str]]]
"""Entries in order, each with the paths it refers to whose content has changed."""


def _grades(items: Mapping[str, Grade]) -> Mapping[str, Grade]:
    return {name: Grade(grade) for name, grade in items.items()}


@frozen
class EvidencePolicy:
    """The grades of evidence that a pass needs."""

    needed: Grade = field(default=Grade.OBSERVED, converter=Grade)
    by_kind: Mapping[str, Grade] = field(factory=dict[str, Grade], converter=_grades)
    """Required grade by kind."""
    by_stage: Mapping[str, Grade] = field(factory=dict[str, Grade], converter=_grades)
    """Required grade by stage; applies to the stages that a task has."""

    def met_by(
        self,
        entries: Iterable[Evidence],
        root: Path | str | None = None,
        *,
        stages: Sequence[str] = (),
        attempt: int | None = None,
        covering: Sequence[str] = (),
    ) -> tuple[Check, ...]:
        """Return a check for each requirement. Reads the files that entries refer to: call it in a thread if they are many.

        Args:
            entries: entries of one task, in the order of the ledger.
            root: folder of the files they refer to; without it, an entry with files does not count.
            stages: stages of the task; only these are required of `by_stage`.
            attempt: the judged attempt; entries of others do not count. None for all.
            covering: paths that entries must refer to, such as the modified files.
        """
        changed = Content(root).changed if root else _unseen
        ledger = [(one, changed(one.subject)) for one in entries if attempt is None or one.attempt == attempt]
        checks = [_check("evidence", self.needed, ledger)]
        for kind, grade in self.by_kind.items():
            checks.append(_check(f"evidence:{kind}", grade, [seen for seen in ledger if seen[0].kind == kind]))
        for stage, grade in self.by_stage.items():
            if stage in stages:
                checks.append(_check(f"evidence:{stage}", grade, [seen for seen in ledger if seen[0].stage_id == stage]))
        paths = [below(Path(root), path) or path for path in covering] if root else covering
        return (*checks, *_check_coverage(paths, self.needed, ledger))


def _unseen(subject: Iterable[Bound]) -> tuple[str, ...]:
    return tuple(one.path for one in subject)


def _check(name: str, needed: Grade, ledger: Ledger) -> Check:
    """Return whether one of these entries counts and none after it overrides it."""
    against = _against(needed, ledger)
    if against is not None:
        said = one_line(against.evidence, 100)
        return failed(
            name, f"{against.kind} reports {against.status}, {against.grade.word}: {said!r}; no later entry overrides it"
        )
    good = [entry for entry, stale in ledger if _counts(needed, entry, stale)]
    if good:
        best = max(good, key=lambda one: one.grade)
        return passed(name, f"{best.kind}, {best.grade.word}: {one_line(best.evidence, 100)!r}")
    saying = [(entry.grade, stale) for entry, stale in ledger if entry.status is EvidenceStatus.PASS]
    old = next((stale for grade, stale in saying if grade >= needed and stale), None)
    if old is not None:
        paths = ", ".join(repr(path) for path in old[:5])
        return failed(
            name,
            f"stale: expected {needed.word} evidence of the current content, but {paths:.300} has changed; verify it again",
        )
    was = f"only {max(grade for grade, _ in saying).word} evidence" if saying else "none"
    return failed(name, f"expected a PASS with {needed.word} evidence or better, got {was}; verify the work")


def _counts(needed: Grade, entry: Evidence, stale: Sequence[str]) -> bool:
    return entry.status is EvidenceStatus.PASS and entry.grade >= needed and not stale


def _against(needed: Grade, ledger: Ledger) -> Evidence | None:
    """Return an entry against a pass that no counted later entry overrides."""
    standing: dict[tuple[str, str], Evidence] = {}
    for entry, stale in ledger:
        about = entry.kind, entry.stage_id
        if entry.status in (EvidenceStatus.FAIL, EvidenceStatus.BLOCKED):
            standing[about] = entry
        elif _counts(needed, entry, stale) and about in standing and entry.grade >= standing[about].grade:
            del standing[about]
    return next(iter(standing.values()), None)


def _check_coverage(paths: Sequence[str], needed: Grade, ledger: Ledger) -> tuple[Check, ...]:
    if not paths:
        return ()
    name = "evidence_covers_files"
    spoken = {one.path for entry, stale in ledger if _counts(needed, entry, stale) for one in entry.subject}
    missing = [path for path in paths if path not in spoken]
    if not missing:
        return (passed(name, f"{len(set(paths))} files"),)
    named = ", ".join(repr(path) for path in missing[:5])
    return (failed(name, f"expected {needed.word} evidence of every file, got none for {named:.300}; verify it too"),)
