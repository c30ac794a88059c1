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

from attrs import field, frozen

from harnesses.features.agent_text import one_line
from harnesses.governance.contracts.contract import Check, failed, passed
from harnesses.governance.evidence.evidence_ledger import Evidence, EvidenceStatus, Grade
from harnesses.governance.evidence.file_binding import Bound, Content, below


def _grades(items: Mapping[str, Grade]) -> Mapping[str, Grade]:
    return {name: Grade(grade) for name, grade in items.items()}


def _none() -> Mapping[str, Grade]:
    return {}


@frozen
class EvidencePolicy:
    """What grade of evidence a pass needs."""

    needed: Grade = field(default=Grade.OBSERVED, converter=Grade)
    by_kind: Mapping[str, Grade] = field(factory=_none, converter=_grades)
    """Kinds of which there must be evidence, and of what grade."""
    by_stage: Mapping[str, Grade] = field(factory=_none, converter=_grades)
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
        ledger = [one for one in entries if attempt is None or one.attempt == attempt]
        changed = Content(root).changed if root else _unseen
        stales = {place: changed(one.subject) for place, one in enumerate(ledger)}
        checks = [_check("evidence", self.needed, ledger, stales)]
        for kind, grade in self.by_kind.items():
            some = {place: stales[place] for place, one in enumerate(ledger) if one.kind == kind}
            checks.append(_check(f"evidence:{kind}", grade, ledger, some))
        for stage, grade in self.by_stage.items():
            if stage in stages:
                some = {place: stales[place] for place, one in enumerate(ledger) if one.stage_id == stage}
                checks.append(_check(f"evidence:{stage}", grade, ledger, some))
        paths = [below(Path(root), path) or path for path in covering] if root else covering
        return (*checks, *_check_coverage(paths, self.needed, ledger, stales))


def _unseen(subject: Iterable[Bound]) -> tuple[str, ...]:
    return tuple(one.path for one in subject)


def _check(name: str, needed: Grade, ledger: Sequence[Evidence], stales: Mapping[int, tuple[str, ...]]) -> Check:
    """Return whether one of the entries at these places counts, and none after it undoes it."""
    good = _counting(needed, ledger, stales)
    against = _against(needed, ledger, stales)
    if against is not None:
        said = one_line(against.evidence, 100)
        return failed(
            name, f"{against.kind} says {against.status}, {against.grade.word}: {said!r}; nothing since says otherwise"
        )
    if good:
        best = max((ledger[place] for place in good), key=lambda one: one.grade)
        return passed(name, f"{best.kind}, {best.grade.word}: {one_line(best.evidence, 100)!r}")
    saying = [place for place in stales if ledger[place].status is EvidenceStatus.PASS]
    old = next((place for place in saying if ledger[place].grade >= needed and stales[place]), None)
    if old is not None:
        paths = ", ".join(repr(path) for path in stales[old][:5])
        return failed(
            name,
            f"stale: expected {needed.word} evidence of what is there now, but {paths:.300} has changed since; look again",
        )
    best_grade = max((ledger[place].grade for place in saying), default=None)
    was = "none" if best_grade is None else f"only {best_grade.word}"
    return failed(name, f"expected evidence that is {needed.word} or better and says PASS, was {was}; look for yourself")


def _counting(needed: Grade, ledger: Sequence[Evidence], stales: Mapping[int, tuple[str, ...]]) -> list[int]:
    return [
        place
        for place, old in stales.items()
        if ledger[place].status is EvidenceStatus.PASS and ledger[place].grade >= needed and not old
    ]


def _against(needed: Grade, ledger: Sequence[Evidence], stales: Mapping[int, tuple[str, ...]]) -> Evidence | None:
    """Return an entry that says otherwise, and that nothing that counts has undone since."""
    standing: dict[tuple[str, str], Evidence] = {}
    good = set(_counting(needed, ledger, stales))
    for place in stales:
        entry = ledger[place]
        if entry.status in (EvidenceStatus.FAIL, EvidenceStatus.BLOCKED):
            standing[entry.kind, entry.stage_id] = entry
        elif place in good and (other := standing.get((entry.kind, entry.stage_id))) and entry.grade >= other.grade:
            del standing[entry.kind, entry.stage_id]
    return next(iter(standing.values()), None)


def _check_coverage(
    paths: Sequence[str], needed: Grade, ledger: Sequence[Evidence], stales: Mapping[int, tuple[str, ...]]
) -> tuple[Check, ...]:
    if not paths:
        return ()
    spoken = {one.path for place in _counting(needed, ledger, stales) for one in ledger[place].subject}
    missing = [path for path in paths if path not in spoken]
    if not missing:
        return (passed("evidence_covers_files", f"{len(set(paths))} files"),)
    named = ", ".join(repr(path) for path in missing[:5])
    return (
        failed(
            "evidence_covers_files", f"expected {needed.word} evidence of every file, {named:.300} has none; look at it, too"
        ),
    )
