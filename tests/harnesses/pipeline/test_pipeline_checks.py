"""What the artifact of each stage has to satisfy: a good one passes, each way to be bad is a failed check with its place."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from harnesses.pipeline.plan.preset import SDLC_STAGES
from harnesses.pipeline.plan.stage import MAX_ARTIFACT_BYTES, Artifact, read_artifact
from harnesses.pipeline.plan.stage_checks import run_stage_checks

STAGES = {str(stage.id): stage for stage in SDLC_STAGES}
GOOD: dict[str, dict[str, Any]] = {
    "00-environment": {"run_mode": "brownfield"},
    "01-transcript": {"transcript": "we need slugs", "goals": ["slugs"]},
    "02-requirements": {"requirements": ["it works"]},
    "06-architecture": {
        "components": ["a"],
        "interfaces": ["a to b"],
        "tradeoffs": [{"chosen": "a", "over": "b"}],
        "security_boundaries": ["none is crossed"],
    },
    "07-code": {"files": ["a.py"]},
    "08-testing": {
        "totals": {"total": 4, "passed": 2, "failed": 1, "skipped": 1},
        "failures": [{"test": "a", "root_cause": "a race"}],
        "skips": [{"test": "b", "reason": "no network"}],
    },
    "12-security-threat-model": {
        "threats": [
            {"category": "spoofing", "severity": "high", "mitigation": "signed"},
            {"category": "tampering", "severity": "low"},
        ]
    },
    "13-compliance-checker": {"frameworks": ["GDPR"], "gaps": [{"gap": "no notice", "remediation": "write one"}]},
}
SECRET = "ghp_" + "0123456789abcdefghijklmnopqrstuvwxyz"


def made(stage: str, artifact: object, **changes: Any) -> Artifact:
    told: dict[str, Any] = {"tests_run": ("pytest: 3 passed",), "files_modified": ("a.py",), "files": {"a.py": "x = 1\n"}}
    return Artifact(stage=stage, path=STAGES[stage].artifact, artifact=artifact, **told | changes)


def failed(stage: str, artifact: object, **changes: Any) -> dict[str, str]:
    checks = run_stage_checks(made(stage, artifact, **changes), STAGES[stage].checks)
    return {check.name: check.evidence for check in checks if not check.ok}


def changed(stage: str, **changes: Any) -> dict[str, Any]:
    return {name: value for name, value in {**copy.deepcopy(GOOD[stage]), **changes}.items() if value is not ...}


@pytest.mark.parametrize("stage", GOOD)
def test_a_good_artifact_passes(stage: str) -> None:
    assert failed(stage, GOOD[stage]) == {}


@pytest.mark.parametrize(
    ("stage", "changes", "check", "said"),
    [
        ("00-environment", {"run_mode": "red"}, "run_mode_valid", "was 'red'"),
        ("00-environment", {"run_mode": ...}, "run_mode_valid", "was None"),
        ("01-transcript", {"transcript": " "}, "transcript_present", "transcript"),
        ("01-transcript", {"goals": []}, "goals_non_empty", "goals"),
        ("01-transcript", {"goals": "slugs"}, "goals_non_empty", "expected an array with something in it, was a text"),
        ("01-transcript", {"goals": ["slugs", ""]}, "goals_non_empty", "blank: goals[1]"),
        ("06-architecture", {"components": ...}, "components_listed", "was null"),
        ("06-architecture", {"interfaces": [{}]}, "interfaces_listed", "interfaces[0]"),
        ("06-architecture", {"tradeoffs": {}}, "tradeoffs_listed", "was an object"),
        ("06-architecture", {"security_boundaries": []}, "security_boundaries_listed", "has 0 entries"),
        ("08-testing", {"totals": ...}, "totals_counted", "expected total > 0"),
        ("08-testing", {"totals": {"total": 0, "passed": 0, "failed": 0, "skipped": 0}}, "totals_counted", "total > 0"),
        ("08-testing", {"totals": {"total": 9, "passed": 2, "failed": 1, "skipped": 1}}, "totals_counted", "'total': 9"),
        ("08-testing", {"totals": {"total": True, "passed": 1, "failed": 0, "skipped": 0}}, "totals_counted", "True"),
        ("08-testing", {"failures": []}, "failures_have_root_cause", "was an empty one"),
        ("08-testing", {"failures": [{"test": "a"}]}, "failures_have_root_cause", "failures[0].root_cause"),
        ("08-testing", {"failures": ["a"]}, "failures_have_root_cause", "failures[0]: expected an object, was a text"),
        ("08-testing", {"skips": ...}, "no_silent_skips", "was null"),
        ("08-testing", {"skips": [{"test": "b", "reason": "n/a"}]}, "no_silent_skips", "skips[0].reason"),
        ("12-security-threat-model", {"threats": []}, "threats_have_category", "was an empty one"),
        ("12-security-threat-model", {"threats": [{"severity": "low"}]}, "threats_have_category", "threats[0]"),
        ("12-security-threat-model", {"threats": [{"category": "x"}]}, "threats_have_severity", "threats[0]"),
        (
            "12-security-threat-model",
            {"threats": [{"category": "x", "severity": "critical", "mitigation": "TBD"}]},
            "grave_threats_mitigated",
            "threats[0]",
        ),
        ("12-security-threat-model", {"note": f"use {SECRET}"}, "no_secrets", "$.note"),
        ("12-security-threat-model", {"deep": [{"token": SECRET}]}, "no_secrets", "$.deep[0].token"),
        ("13-compliance-checker", {"frameworks": []}, "frameworks_listed", "frameworks has 0 entries"),
        ("13-compliance-checker", {"gaps": ...}, "gaps_have_remediation", "gaps: expected an array"),
        ("13-compliance-checker", {"gaps": [{"gap": "x"}]}, "gaps_have_remediation", "gaps[0]"),
    ],
)
def test_a_bad_artifact_is_a_failed_check_with_the_place(stage: str, changes: dict[str, Any], check: str, said: str) -> None:
    assert said in failed(stage, changed(stage, **changes))[check]


def test_a_report_without_gaps_has_none_to_remedy() -> None:
    assert failed("13-compliance-checker", changed("13-compliance-checker", gaps=[])) == {}


def test_a_report_without_failures_needs_no_cause() -> None:
    totals = {"total": 2, "passed": 2, "failed": 0, "skipped": 0}

    assert failed("08-testing", {"totals": totals}) == {}


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"files_modified": ()}, "files_named"),
        ({"files": {}}, "files_exist"),
        ({"files": {"a.py": " \n"}}, "files_non_empty"),
        ({"tests_run": ()}, "tests_evidence"),
        ({"tests_run": ("SKIPPED: no time",)}, "tests_evidence"),
        ({"tests_run": ("n/a", "-")}, "tests_evidence"),
        ({"files": {"a.py": "def f():\n    raise NotImplementedError\n"}}, "no_placeholder_stubs"),
        ({"files": {"a.rs": "fn f() { todo!() }"}}, "no_placeholder_stubs"),
        ({"files": {"a.js": "throw new Error('not implemented')"}}, "no_placeholder_stubs"),
        ({"files": {"a.py": "# TODO: implement this\npass\n"}}, "no_placeholder_stubs"),
    ],
)
def test_code_that_is_not_there_is_a_failed_check(changes: dict[str, Any], check: str) -> None:
    assert check in failed("07-code", GOOD["07-code"], **changes)


@pytest.mark.parametrize(
    "text", ["todo_list = []", "# a stubborn bug was fixed", "class Placeholder(Widget): x = 1", "TODO.md"]
)
def test_code_that_only_sounds_like_a_placeholder_passes(text: str) -> None:
    assert "no_placeholder_stubs" not in failed("07-code", GOOD["07-code"], files={"a.py": text})


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("artifact", [None, [], {}, "text", 7, {"a": None}, [[[]]], {"threats": "", "gaps": {}, "totals": []}])
def test_an_artifact_of_any_shape_raises_nothing_and_does_not_pass(stage: str, artifact: object) -> None:
    assert failed(stage, artifact, files={})


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "it does not exist"),
        (b"", "it is not valid JSON"),
        (b"{", "it is not valid JSON"),
        (b"\xff\xfe", "not text in UTF-8"),
        (b'{"a": NaN}', "NaN is not a number"),
        (b"[" * 100_000, "nested too deep"),
        (b" " * (MAX_ARTIFACT_BYTES + 1), "too large"),
    ],
)
def test_an_artifact_that_can_not_be_read_says_why(content: bytes | None, problem: str) -> None:
    artifact, said = read_artifact("a.json", content)

    assert artifact is None
    assert problem in said


def test_a_check_that_raises_is_a_failed_one() -> None:
    def raises(material: Artifact) -> Any:
        raise KeyError("x")

    checks = run_stage_checks(made("00-environment", GOOD["00-environment"]), raises)

    assert [(check.name, check.ok) for check in checks] == [("artifact_present", True), ("stage_checks", False)]
