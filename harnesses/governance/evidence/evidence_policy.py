"""Which evidence a pass needs, and whether it is there.

    what is asked for       the entry that counts
    any                     one PASS of at least `needed`
    by_kind: kind → grade   one PASS of that kind of at least that grade
    by_stage: stage → grade one PASS for that stage, of those that the task has, of at least that grade
    covering: paths         each is among what the counted entries speak of

    an entry counts         if it says PASS, its grade is high enough, it is of the attempt, and nothing it speaks of has
                            another content now
    and is undone           by a FAIL or BLOCKED, of whatever grade, of the same kind and stage after it

The laws: nobody lies to their own harm, so a FAIL counts whoever reports it, and only what is of at least its grade undoes it;
what is too low or stale is a failed check that says so, with the paths.
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
"""Entries in order, each with the paths that it speaks of whose content is another now."""


def _grades(items: Mapping[str, Grade]) -> Mapping[str, Grade]:
    return {name: Grade(grade) for name, grade in items.items()}


@frozen
class EvidencePolicy:
    """What grade of evidence a pass needs."""

    needed: Grade = field(default=Grade.OBSERVED, converter=Grade)
    by_kind: Mapping[str, Grade] = field(factory=dict[str, Grade], converter=_grades)
    """Kinds of which there must be evidence, and of what grade."""
    by_stage: Mapping[str, Grade] = field(factory=dict[str, Grade], converter=_grades)
    """Stages for which there must be evidence, if the task has them, and of what grade."""

    def met_by(
        self,
        entries: Iterable[Evidence],
        root: Path | str | None = None,
        *,
        stages: Sequence[str] = (),
        attempt: int | None = None,
        covering: Sequence[str] = (),
    ) -> tuple[Check, ...]:
        """Return a check for each thing that is asked for. Reads the files that are spoken of: if they are many, in a thread.

        Args:
            entries: of one task, in the order of the ledger.
            root: where the files are that they speak of; without it, an entry that speaks of files does not count.
            stages: of the task; of `by_stage` only these are asked for.
            attempt: the one that is judged; entries of others do not count. None takes all.
            covering: paths that must be spoken of, such as the files that were modified.
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
    """Return whether one of these entries counts, and none after it undoes it."""
    against = _against(needed, ledger)
    if against is not None:
        said = one_line(against.evidence, 100)
        return failed(
            name, f"{against.kind} says {against.status}, {against.grade.word}: {said!r}; nothing since says otherwise"
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
            f"stale: expected {needed.word} evidence of what is there now, but {paths:.300} has changed since; look again",
        )
    was = f"only {max(grade for grade, _ in saying).word}" if saying else "none"
    return failed(name, f"expected evidence that is {needed.word} or better and says PASS, was {was}; look for yourself")


def _counts(needed: Grade, entry: Evidence, stale: Sequence[str]) -> bool:
    return entry.status is EvidenceStatus.PASS and entry.grade >= needed and not stale


def _against(needed: Grade, ledger: Ledger) -> Evidence | None:
    """Return an entry that says otherwise, and that nothing that counts has undone since."""
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
    return (failed(name, f"expected {needed.word} evidence of every file, {named:.300} has none; look at it, too"),)
