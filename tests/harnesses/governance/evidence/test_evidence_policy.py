"""A pass needs evidence of the grade that its policy names, of what is there now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harnesses.governance import Check, Evidence, EvidencePolicy, Grade, bind


def entry(grade: str = "observed", status: str = "PASS", kind: str = "tests", **more: Any) -> Evidence:
    return Evidence(ts="2026-01-31T12:00:00Z", task_id="004", kind=kind, status=status, evidence="seen", grade=grade, **more)


def failed(checks: tuple[Check, ...]) -> list[str]:
    return [check.name for check in checks if not check.ok]


@pytest.mark.parametrize("needed", Grade)
@pytest.mark.parametrize("grade", Grade)
def test_a_pass_needs_the_grade_that_the_policy_names(needed: Grade, grade: Grade) -> None:
    [check] = EvidencePolicy(needed).met_by([entry(grade.word)])

    assert check.ok is (grade >= needed)
    assert check.ok or f"got only {grade.word}" in check.evidence


@pytest.mark.parametrize("status", ["FAIL", "BLOCKED", "INFO"])
def test_only_a_pass_is_evidence_of_one(status: str) -> None:
    assert failed(EvidencePolicy().met_by([entry("rerun", status)])) == ["evidence"]


def test_no_evidence_is_none() -> None:
    [check] = EvidencePolicy(Grade.REPORTED).met_by([])

    assert not check.ok
    assert "got none" in check.evidence


def test_a_kind_may_need_a_higher_grade() -> None:
    policy = EvidencePolicy(by_kind={"tests": Grade.RERUN})

    assert failed(policy.met_by([entry("observed")])) == ["evidence:tests"]
    assert failed(policy.met_by([entry("rerun")])) == []
    assert failed(policy.met_by([entry("rerun", kind="build")])) == ["evidence:tests"]


def test_a_stage_needs_its_own_evidence_if_the_task_has_it() -> None:
    policy = EvidencePolicy(by_stage={"08-testing": Grade.RERUN})

    assert failed(policy.met_by([entry("rerun")], stages=["08-testing"])) == ["evidence:08-testing"]
    assert failed(policy.met_by([entry("rerun", stage_id="08-testing")], stages=["08-testing"])) == []
    assert failed(policy.met_by([entry("rerun")], stages=["07-code"])) == []


def test_stale_evidence_is_none_and_the_check_says_which_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one")
    ledger = [entry(subject=bind(tmp_path, ["a.py"]))]
    assert failed(EvidencePolicy().met_by(ledger, tmp_path)) == []

    (tmp_path / "a.py").write_text("two")
    [check] = EvidencePolicy().met_by(ledger, tmp_path)

    assert not check.ok
    assert "stale" in check.evidence
    assert "'a.py'" in check.evidence


def test_evidence_of_files_that_can_not_be_looked_at_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one")

    assert failed(EvidencePolicy().met_by([entry(subject=bind(tmp_path, ["a.py"]))])) == ["evidence"]


def test_fresh_evidence_stands_beside_stale(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one")
    old = entry(subject=bind(tmp_path, ["a.py"]))
    (tmp_path / "a.py").write_text("two")

    assert failed(EvidencePolicy().met_by([old, entry(subject=bind(tmp_path, ["a.py"]))], tmp_path)) == []


@pytest.mark.parametrize("status", ["FAIL", "BLOCKED"])
@pytest.mark.parametrize("grade", Grade)
def test_a_failure_counts_whoever_reports_it(status: str, grade: Grade) -> None:
    [check] = EvidencePolicy().met_by([entry("rerun"), entry(grade.word, status)])

    assert not check.ok
    assert f"reports {status}" in check.evidence


def test_a_failure_is_undone_by_what_is_of_its_grade_and_comes_after_it() -> None:
    policy = EvidencePolicy(Grade.REPORTED)

    assert failed(policy.met_by([entry("observed", "FAIL"), entry("observed")])) == []
    assert failed(policy.met_by([entry("observed", "FAIL"), entry("reported")])) == ["evidence"]
    assert failed(policy.met_by([entry("observed"), entry("observed", "FAIL")])) == ["evidence"]
    assert failed(policy.met_by([entry("observed", "FAIL"), entry("rerun", kind="build")])) == ["evidence"]


def test_evidence_of_another_attempt_does_not_count() -> None:
    ledger = [entry(attempt=1), entry(attempt=2, status="INFO")]

    assert failed(EvidencePolicy().met_by(ledger, attempt=2)) == ["evidence"]
    assert failed(EvidencePolicy().met_by(ledger, attempt=1)) == []


def test_every_file_that_is_to_be_covered_is_spoken_of(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("one")
    ledger = [entry(subject=bind(tmp_path, ["a.py"])), entry("reported", subject=bind(tmp_path, ["b.py"]))]

    assert failed(EvidencePolicy().met_by(ledger, tmp_path, covering=["a.py", "./a.py", str(tmp_path / "a.py")])) == []
    assert failed(EvidencePolicy().met_by(ledger, tmp_path, covering=["a.py", "b.py"])) == ["evidence_covers_files"]


def test_a_file_is_read_once_however_many_entries_speak_of_it(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"x" * 1_000_000)
    ledger = [entry(subject=bind(tmp_path, ["a.py"]))] * 5_000

    assert failed(EvidencePolicy().met_by(ledger, tmp_path, covering=["a.py"])) == []
