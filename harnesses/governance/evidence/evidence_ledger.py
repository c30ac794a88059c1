"""Entries of the evidence ledger: observations about a task, graded by their source and bound to file content.

    ts task_id kind status evidence     required, not blank
    grade                               how reliable the source is; an agent's own entries are REPORTED, whatever it claims
    attempt stage_id                    of the task; 0 and "" if it has none
    subject                             files it refers to, with the hashes of their content: see `file_binding`

Attach an entry to its step with `self.attach("evidence", entry.plain())`; it is then committed with the step.

Invariants: an entry requires its five fields; nobody can raise the grade of their own entries; an entry counts for nothing
once the content it refers to has changed.

Limits: 20,000 characters of evidence, 200 of an id or a kind, 10,000 files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any, cast

from attrs import Attribute, evolve, field, frozen

from harnesses.features.agent_text import is_storable
from harnesses.governance.contracts.contract import BuilderContract
from harnesses.governance.errors import EvidenceError
from harnesses.governance.evidence.file_binding import MAX_BOUND, Bound, changed


class Grade(IntEnum):
    """Reliability of an entry's source. A higher grade satisfies a lower requirement."""

    REPORTED = 1
    """Reported by the agent whose work it concerns."""
    OBSERVED = 2
    """Observed by this program: a file it read, an exit code it received."""
    RERUN = 3
    """Repeated by this program, independently of the agent that did the work."""

    @property
    def word(self) -> str:
        """The name of the grade as it is written in JSON: lower case."""
        return self.name.lower()


def grade_of(value: object) -> Grade | None:
    """Parse a grade from its name or number; None if it is invalid."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Grade(value) if value in tuple(Grade) else None
    return next((grade for grade in Grade if grade.word == value), None)


MAX_EVIDENCE = 20_000
MAX_NAME = 200


class EvidenceStatus(StrEnum):
    """The verdict of an entry."""

    PASS = "PASS"
    FAIL = "FAIL"
    BLOCKED = "BLOCKED"
    INFO = "INFO"
    """Neither for nor against."""


def _moment(value: datetime | str) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat()
    return value


def _status(value: object) -> Any:
    return EvidenceStatus(value) if isinstance(value, str) and value in tuple(EvidenceStatus) else value


def _grade(value: object) -> Any:
    return grade_of(value) or value


def _bounds(items: Iterable[Bound]) -> tuple[Bound, ...]:
    return tuple(items)


def _is_moment(value: object) -> bool:
    try:
        return isinstance(value, str) and len(value) <= 64 and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _is_text(value: object, most: int) -> bool:
    return is_storable(value) and len(value) <= most


def _are_bounds(value: tuple[object, ...]) -> bool:
    return len(value) <= MAX_BOUND and all(isinstance(one, Bound) for one in value)


def _require(wanted: str, is_right: Callable[[Any], bool]) -> Callable[[Evidence, Attribute[Any], Any], None]:
    """Return a field validator whose error says what was expected."""

    def check(entry: Evidence, attribute: Attribute[Any], value: object) -> None:
        if not is_right(value):
            task = getattr(entry, "task_id", "")
            told = f"{attribute.name}: expected {wanted}, got {value!r:.100}"
            raise EvidenceError(f"evidence of task {task!r:.100}: {told}; it was not added")

    return check


_MOMENT = "a time with its time zone, such as '2026-01-31T12:00:00Z'"
_SEEN = f"text of 1 to {MAX_EVIDENCE} characters: what was observed, or where it is"
_NAME = f"text of 1 to {MAX_NAME} characters"
_IS_NAME = _require(_NAME, lambda value: _is_text(value, MAX_NAME) and value.strip())


@frozen(kw_only=True)
class Evidence:
    """An entry of the ledger.

    Raises:
        EvidenceError: a required field is missing, blank or of the wrong type.
    """

    ts: str = field(default="", converter=_moment, validator=_require(_MOMENT, _is_moment))
    """Time in ISO 8601 with its time zone; an aware datetime is converted."""
    task_id: str = field(default=None, validator=_IS_NAME)
    kind: str = field(default=None, validator=_IS_NAME)
    """Kind of the evidence, any word: `validation`, `tests`, `build`."""
    status: EvidenceStatus = field(
        default=None,
        converter=_status,
        validator=_require("PASS, FAIL, BLOCKED or INFO", lambda value: isinstance(value, EvidenceStatus)),
    )
    evidence: str = field(
        default=None, validator=_require(_SEEN, lambda value: _is_text(value, MAX_EVIDENCE) and value.strip())
    )
    """What was observed, or the path of a file that shows it."""
    grade: Grade = field(
        default=Grade.REPORTED,
        converter=_grade,
        validator=_require("reported, observed or rerun", lambda value: isinstance(value, Grade)),
    )
    attempt: int = field(
        default=0, validator=_require("a whole number from 0 up", lambda value: type(value) is int and 0 <= value < 2**31)
    )
    stage_id: str = field(default="", validator=_require(_NAME, lambda value: _is_text(value, MAX_NAME)))
    subject: tuple[Bound, ...] = field(
        default=(), converter=_bounds, validator=_require(f"at most {MAX_BOUND} files as bind() gives them", _are_bounds)
    )

    def plain(self) -> dict[str, Any]:
        """Return it as JSON-compatible data: a line of `evidence.jsonl`, and the body of its record."""
        fields: dict[str, Any] = {
            "ts": self.ts,
            "task_id": self.task_id,
            "kind": self.kind,
            "status": self.status.value,
            "evidence": self.evidence,
            "grade": self.grade.word,
        }
        if self.attempt:
            fields["attempt"] = self.attempt
        if self.stage_id:
            fields["stage_id"] = self.stage_id
        if self.subject:
            fields["subject"] = [{"path": one.path, "sha256": one.sha256} for one in self.subject]
        return fields


def stale(entry: Evidence, root: Path | str) -> tuple[str, ...]:
    """Return the paths of an entry whose content has changed. Reads all of them."""
    return changed(entry.subject, root)


def read_entry(data: Mapping[str, object]) -> Evidence:
    """Decode an entry of our own ledger, as made by `plain`. Its grade is trusted: never use it for an agent's data.

    Raises:
        EvidenceError: it is invalid.
    """
    known = ("ts", "task_id", "kind", "status", "evidence", "grade", "attempt", "stage_id")
    fields: dict[str, Any] = {name: data[name] for name in known if name in data}
    subject = data.get("subject", ())
    if not isinstance(subject, list | tuple):
        raise EvidenceError(f"evidence: subject: expected a list of files, got {subject!r:.100}; it was not added")
    return Evidence(**fields, subject=[_bound(one) for one in cast("list[object]", subject)])


def read_ledger(rows: Iterable[Mapping[str, object]]) -> tuple[tuple[Evidence, ...], tuple[str, ...]]:
    """Return the valid entries, and a problem for each invalid row, which does not affect the others."""
    entries: list[Evidence] = []
    problems: list[str] = []
    for number, row in enumerate(rows, 1):
        try:
            entries.append(read_entry(row))
        except EvidenceError as error:
            problems.append(f"row {number}: {error}")
    return tuple(entries), tuple(problems)


def read_reported(data: Mapping[str, object], *, task_id: str, attempt: int, ts: datetime | str) -> Evidence:
    """Decode an entry handed in by an agent, for the requested task and attempt, with grade REPORTED.

    The agent's own grade, task, attempt and time are ignored.

    Raises:
        EvidenceError: it is invalid.
    """
    entry = read_entry({**data, "grade": Grade.REPORTED.word, "task_id": task_id, "attempt": attempt, "ts": ts})
    return evolve(entry, grade=Grade.REPORTED)


def reported(contract: BuilderContract, *, attempt: int, ts: datetime | str) -> tuple[Evidence, ...]:
    """Return a builder's claims as entries of grade REPORTED: its tests, and its evidence for each stage."""
    status = EvidenceStatus.PASS if contract.status.passing else EvidenceStatus.FAIL
    said = [("tests", "", item) for item in contract.tests_run[:100]]
    for summary in contract.stage_summaries[:100]:
        said += [("stage", summary.stage_id, item) for item in map(_text, summary.evidence[:100])]
    if contract.memory_summary is not None:
        said += [("summary", "", item) for item in map(_text, contract.memory_summary.evidence[:100])]
    return tuple(
        Evidence(
            ts=ts,
            task_id=contract.task_id,
            kind=kind,
            status=status,
            evidence=item,
            attempt=attempt,
            stage_id=stage[:MAX_NAME],
        )
        for kind, stage, item in said
        if item.strip()
    )


def _text(item: object) -> str:
    """Return the first text of an evidence item in a contract."""
    if isinstance(item, str):
        return item
    values = cast(Mapping[str, object], item).values()
    return next((value for value in values if isinstance(value, str) and value.strip()), "")


def _bound(data: object) -> Bound:
    if not isinstance(data, Mapping):
        raise EvidenceError(f"evidence: subject: expected objects with path and sha256, got {data!r:.100}; it was not added")
    fields = cast(Mapping[str, Any], data)
    return Bound(fields.get("path", ""), fields.get("sha256", ""))
