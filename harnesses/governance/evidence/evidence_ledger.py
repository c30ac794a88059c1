"""Entries of the evidence ledger: what was found about a task, who stands for it, and which content it speaks of.

    ts task_id kind status evidence     needed, and not blank
    grade                               who stands for it; what an agent hands in is REPORTED, whatever it claims
    attempt stage_id                    of the task; 0 and "" if it has none
    subject                             files it speaks of, with the hash of their content: see `file_binding`

An entry is attached to the step that it belongs to, `self.attach("evidence", entry.plain())`, and so is one commit with it.

The laws: an entry without its five fields is no entry; nobody raises the grade of what they say themselves; and an entry is
worth nothing as soon as what it speaks of is another content.

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
    """Who stands for it. Higher ones count where lower ones are asked for."""

    REPORTED = 1
    """Said by the agent whose work it is about."""
    OBSERVED = 2
    """Seen by us: a file that we have read, an exit code that we have been given."""
    RERUN = 3
    """Done again by us, independently of who did the work."""

    @property
    def word(self) -> str:
        """As it is written."""
        return self.name.lower()


def grade_of(value: object) -> Grade | None:
    """Return the grade that a word, or a number, is; None if it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Grade(value) if value in tuple(Grade) else None
    return next((grade for grade in Grade if grade.word == value), None)


MAX_EVIDENCE = 20_000
MAX_NAME = 200


class EvidenceStatus(StrEnum):
    """What an entry says."""

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
    """Return a validator of a field, which says what was expected."""

    def check(entry: Evidence, attribute: Attribute[Any], value: object) -> None:
        if not is_right(value):
            task = getattr(entry, "task_id", "")
            told = f"{attribute.name}: expected {wanted}, was {value!r:.100}"
            raise EvidenceError(f"evidence of task {task!r:.100}: {told}; it is not entered")

    return check


_MOMENT = "a moment with its time zone, such as '2026-01-31T12:00:00Z'"
_SEEN = f"text of 1 to {MAX_EVIDENCE} characters: what was seen, or where it is"
_NAME = f"text of 1 to {MAX_NAME} characters"
_IS_NAME = _require(_NAME, lambda value: _is_text(value, MAX_NAME) and value.strip())


@frozen(kw_only=True)
class Evidence:
    """An entry of the ledger.

    Raises:
        EvidenceError: a field that is needed is missing, blank or of another kind.
    """

    ts: str = field(default="", converter=_moment, validator=_require(_MOMENT, _is_moment))
    """When, in ISO 8601 with its time zone; an aware datetime is converted."""
    task_id: str = field(default=None, validator=_IS_NAME)
    kind: str = field(default=None, validator=_IS_NAME)
    """Any word: `validation`, `tests`, `build`."""
    status: EvidenceStatus = field(
        default=None,
        converter=_status,
        validator=_require("PASS, FAIL, BLOCKED or INFO", lambda value: isinstance(value, EvidenceStatus)),
    )
    evidence: str = field(
        default=None, validator=_require(_SEEN, lambda value: _is_text(value, MAX_EVIDENCE) and value.strip())
    )
    """What was seen, or the path of what shows it."""
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
        """Return it as JSON can carry it: a line of `evidence.jsonl`, and the body of its record."""
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
    """Return the paths that an entry speaks of whose content is another now. Reads them all."""
    return changed(entry.subject, root)


def read_entry(data: Mapping[str, object]) -> Evidence:
    """Return an entry of our own ledger: what `plain` has made. Its grade is believed; never read an agent's words by this.

    Raises:
        EvidenceError: it is none.
    """
    known = ("ts", "task_id", "kind", "status", "evidence", "grade", "attempt", "stage_id")
    fields: dict[str, Any] = {name: data[name] for name in known if name in data}
    subject = data.get("subject", ())
    if not isinstance(subject, list | tuple):
        raise EvidenceError(f"evidence: subject: expected a list of files, was {subject!r:.100}; it is not entered")
    return Evidence(**fields, subject=[_bound(one) for one in cast("list[object]", subject)])


def read_ledger(rows: Iterable[Mapping[str, object]]) -> tuple[tuple[Evidence, ...], tuple[str, ...]]:
    """Return the entries, and what is wrong with each row that is none: one bad row does not hide the others."""
    entries: list[Evidence] = []
    problems: list[str] = []
    for number, row in enumerate(rows, 1):
        try:
            entries.append(read_entry(row))
        except EvidenceError as error:
            problems.append(f"row {number}: {error}")
    return tuple(entries), tuple(problems)


def read_reported(data: Mapping[str, object], *, task_id: str, attempt: int, ts: datetime | str) -> Evidence:
    """Return an entry that an agent hands in: of the task and attempt that it was asked for, and REPORTED.

    What it says of its grade, its task, its attempt and its time goes for nothing.

    Raises:
        EvidenceError: it is none.
    """
    entry = read_entry({**data, "grade": Grade.REPORTED.word, "task_id": task_id, "attempt": attempt, "ts": ts})
    return evolve(entry, grade=Grade.REPORTED)


def reported(contract: BuilderContract, *, attempt: int, ts: datetime | str) -> tuple[Evidence, ...]:
    """Return what a builder says as entries, all of them REPORTED: its tests, and its evidence for each stage."""
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
    """Return the first text of an item of a contract's evidence."""
    if isinstance(item, str):
        return item
    values = cast(Mapping[str, object], item).values()
    return next((value for value in values if isinstance(value, str) and value.strip()), "")


def _bound(data: object) -> Bound:
    if not isinstance(data, Mapping):
        raise EvidenceError(f"evidence: subject: expected objects with path and sha256, was {data!r:.100}; it is not entered")
    fields = cast(Mapping[str, Any], data)
    return Bound(fields.get("path", ""), fields.get("sha256", ""))
