"""An entry has its five fields, nobody raises the grade of what they say themselves, and it turns stale by itself."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses.attachments import attachment
from harnesses.governance import (
    Bound,
    BuilderContract,
    Evidence,
    EvidenceError,
    EvidenceStatus,
    Grade,
    MemorySummary,
    StageSummary,
    bind,
    read_entry,
    read_ledger,
    read_reported,
    reported,
    stale,
)

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
ENTRY: dict[str, Any] = {
    "ts": "2026-01-31T12:00:00Z",
    "task_id": "004",
    "kind": "tests",
    "status": "PASS",
    "evidence": "3 passed",
    "grade": "observed",
}


def test_an_entry_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one")
    entry = Evidence(**ENTRY, attempt=2, stage_id="07-code", subject=bind(tmp_path, ["a.py"]))

    assert read_entry(entry.plain()) == entry


@pytest.mark.parametrize("name", ["ts", "task_id", "kind", "status", "evidence"])
@pytest.mark.parametrize("value", ["gone", "", "  ", None, 3, ["x"]])
def test_an_entry_without_one_of_its_five_fields_is_rejected(name: str, value: object) -> None:
    data = {key: one for key, one in ENTRY.items() if key != name} | ({} if value == "gone" else {name: value})

    with pytest.raises(EvidenceError, match=f"{name}: expected .*; it was not added"):
        read_entry(data)


@pytest.mark.parametrize("status", EvidenceStatus)
def test_an_entry_has_one_of_four_statuses_and_any_kind(status: EvidenceStatus) -> None:
    assert read_entry(ENTRY | {"status": status.value, "kind": "whatever"}).status is status


@pytest.mark.parametrize("status", ["pass", "OK", "PASSED"])
def test_any_other_status_is_rejected(status: str) -> None:
    with pytest.raises(EvidenceError, match="expected PASS, FAIL, BLOCKED or INFO"):
        read_entry(ENTRY | {"status": status})


@pytest.mark.parametrize(
    "more",
    [
        {"ts": "yesterday"},
        {"ts": "2026-01-31T12:00:00"},
        {"grade": "proven"},
        {"grade": 4},
        {"grade": True},
        {"attempt": -1},
        {"attempt": True},
        {"subject": "a.py"},
        {"subject": [3]},
        {"subject": [{"path": "../a", "sha256": "0" * 64}]},
        {"evidence": "x" * 20_001},
        {"task_id": "x" * 201},
        {"evidence": "\ud800"},
    ],
)
def test_an_entry_that_can_not_be_is_rejected(more: dict[str, object]) -> None:
    with pytest.raises(EvidenceError):
        read_entry(ENTRY | more)


def test_the_moment_is_stamped_with_its_time_zone() -> None:
    assert Evidence(**ENTRY | {"ts": NOW}).ts == "2026-01-31T12:00:00+00:00"


def test_a_bad_row_does_not_hide_the_others() -> None:
    entries, problems = read_ledger([ENTRY, {"kind": "x"}, ENTRY])

    assert len(entries) == 2
    assert [problem.split(":")[0] for problem in problems] == ["row 2"]


@pytest.mark.parametrize(
    "claimed", [{}, {"grade": "rerun"}, {"grade": 3}, {"grade": "nonsense"}, {"task_id": "1"}, {"attempt": 9}]
)
def test_what_an_agent_hands_in_is_reported_whatever_it_claims(claimed: dict[str, object]) -> None:
    entry = read_reported(ENTRY | claimed | {"ts": "1970-01-01T00:00:00Z"}, task_id="004", attempt=2, ts=NOW)

    assert (entry.grade, entry.task_id, entry.attempt, entry.ts) == (Grade.REPORTED, "004", 2, NOW.isoformat())


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([*ENTRY, "subject", "attempt", "stage_id"]), st.sampled_from([3, "rerun", Grade.RERUN, "PASS"])
    )
)
def test_no_claim_raises_the_grade_of_the_agent(claims: dict[str, Any]) -> None:
    try:
        entry = read_reported(ENTRY | claims, task_id="004", attempt=1, ts=NOW)
    except EvidenceError:
        return
    assert entry.grade is Grade.REPORTED


def test_what_a_contract_says_is_reported() -> None:
    contract = BuilderContract(
        task_id="004",
        agent="b",
        status="PASS",
        summary="s",
        tests_run=["3 passed", " "],
        memory_summary=MemorySummary("w", evidence=[{"n": 1, "file": "b.py"}, {"n": 1}]),
        stage_summaries=[StageSummary("07-code", evidence=["a.py"])],
    )

    entries = reported(contract, attempt=1, ts=NOW)

    assert [(one.kind, one.stage_id, one.evidence) for one in entries] == [
        ("tests", "", "3 passed"),
        ("stage", "07-code", "a.py"),
        ("summary", "", "b.py"),
    ]
    assert {one.grade for one in entries} == {Grade.REPORTED}


def test_an_entry_turns_stale_by_itself(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one")
    (tmp_path / "b.py").write_text("one")
    entry = Evidence(**ENTRY, subject=bind(tmp_path, ["a.py", "b.py"]))
    assert stale(entry, tmp_path) == ()

    (tmp_path / "b.py").write_text("two")

    assert stale(entry, tmp_path) == ("b.py",)


def test_an_entry_can_be_attached_to_a_step() -> None:
    entry = Evidence(**ENTRY, subject=[Bound("a.py", "0" * 64)])

    assert msgspec.json.decode(attachment("evidence", entry.plain()).body) == entry.plain()


def test_grades_are_in_order() -> None:
    assert Grade.REPORTED < Grade.OBSERVED < Grade.RERUN


words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20).filter(str.strip)
bounds = st.builds(
    Bound,
    st.lists(st.text("abc.-_", min_size=1, max_size=5).filter(lambda name: name.strip(".")), min_size=1, max_size=3).map(
        "/".join
    ),
    st.integers(0, 2**256 - 1).map(lambda number: f"{number:064x}"),
)
entries = st.builds(
    Evidence,
    ts=st.datetimes(timezones=st.just(UTC)),
    task_id=words,
    kind=words,
    status=st.sampled_from(EvidenceStatus),
    evidence=words,
    grade=st.sampled_from(Grade),
    attempt=st.integers(0, 1000),
    stage_id=st.just("") | words,
    subject=st.lists(bounds, max_size=3),
)


@settings(max_examples=80, deadline=None)
@given(entries)
def test_whatever_entry_is_written_is_read_back_the_same(entry: Evidence) -> None:
    assert read_entry(msgspec.json.decode(msgspec.json.encode(entry.plain()))) == entry


@settings(max_examples=100, deadline=None)
@given(entries, st.data())
def test_an_entry_of_which_a_field_is_another_kind_is_rejected(entry: Evidence, data: st.DataObject) -> None:
    fields = entry.plain()
    fields[data.draw(st.sampled_from(["ts", "task_id", "kind", "status", "evidence", "grade"]))] = data.draw(
        st.sampled_from([None, "", " ", 7, [], {}, True, "\0"])
    )

    with pytest.raises(EvidenceError):
        read_entry(fields)
