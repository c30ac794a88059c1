"""Work that is said to be done is complete, its files are there, and another judged it than built it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from harnesses.agent import Agent
from harnesses.governance import (
    BuilderContract,
    Check,
    Identity,
    MemorySummary,
    StageSummary,
    ValidatorContract,
    completeness,
    file_checks,
    independent,
)
from harnesses.governance.contracts.completeness import is_meaningful, says_enough, skeleton

CODE, TEST = "07-code", "08-testing"
DONE = BuilderContract(
    task_id="004",
    agent="builder",
    status="PASS",
    summary="wrote the parser",
    tests_run=["pytest: 3 passed"],
    memory_summary=MemorySummary("wrote the parser", evidence=["tests/test_parser.py"]),
    stage_summaries=[StageSummary(CODE, "agent.07-code", "wrote the parser", ["src/parser.py"])],
)


def failed(checks: tuple[Check, ...]) -> list[str]:
    return [check.name for check in checks if not check.ok]


def test_complete_work_passes_every_check() -> None:
    assert failed(completeness(DONE, stages=[CODE])) == []
    assert len(completeness(DONE, stages=[CODE])) == 6


def test_done_with_concerns_must_be_as_complete_as_pass() -> None:
    assert failed(completeness(evolve(DONE, status="DONE_WITH_CONCERNS", summary=""), stages=[CODE])) == ["summary_meaningful"]


@pytest.mark.parametrize("status", ["FAIL", "BLOCKED"])
def test_work_that_is_not_said_to_be_done_need_not_be_complete(status: str) -> None:
    assert completeness(evolve(DONE, status=status, summary="", memory_summary=None), stages=[CODE]) == ()


@pytest.mark.parametrize("summary", ["", " " * 30, "done     ", "\u200b" * 30, "-" * 30, "123456789"])
def test_a_summary_has_ten_characters_that_can_be_seen(summary: str) -> None:
    assert failed(completeness(evolve(DONE, summary=summary), stages=[CODE])) == ["summary_meaningful"]


@pytest.mark.parametrize("tests", [[], [""], ["n/a"], ["SKIPPED"], ["TODO", " "]])
def test_tests_that_were_run_are_named(tests: list[str]) -> None:
    assert failed(completeness(evolve(DONE, tests_run=tests), stages=[CODE])) == ["tests_run_meaningful"]


def test_tests_may_be_skipped_for_a_reason() -> None:
    assert failed(completeness(evolve(DONE, tests_run=["SKIPPED: documentation only"]), stages=[CODE])) == []


def test_a_pass_without_memory_evidence_fails() -> None:
    lacking = evolve(DONE, memory_summary=None)

    assert failed(completeness(lacking, stages=[CODE])) == ["memory_summary_work_done", "memory_summary_evidence"]


@pytest.mark.parametrize(
    ("evidence", "enough"),
    [(["a.py"], True), ([{"file": "a.py"}], True), ([" "], False), ([{"n": 3}], False), ([{"a": " "}], False)],
)
def test_evidence_is_text_or_an_object_with_text(evidence: list[Any], enough: bool) -> None:
    contract = evolve(DONE, memory_summary=MemorySummary("wrote the parser", evidence=evidence))

    assert failed(completeness(contract, stages=[CODE])) == ([] if enough else ["memory_summary_evidence"])


def test_each_stage_has_an_entry_with_work_and_evidence() -> None:
    contract = evolve(
        DONE, stage_summaries=[StageSummary(CODE, "", "short", ["x"]), StageSummary(TEST, "", "ran all of the tests", [])]
    )

    assert failed(completeness(contract, stages=[CODE, TEST, "10-summary"])) == [
        "stage_summary:07-code",
        "stage_summary:08-testing",
        "stage_summary:10-summary",
    ]


def test_two_entries_for_one_stage_fail() -> None:
    contract = evolve(DONE, stage_summaries=DONE.stage_summaries * 2)

    assert failed(completeness(contract, stages=[CODE])) == ["stage_summary:07-code"]


def test_an_entry_for_a_stage_that_was_not_asked_for_fails() -> None:
    contract = evolve(DONE, stage_summaries=[*DONE.stage_summaries, StageSummary("99-mine", "", "did something else", ["x"])])

    assert failed(completeness(contract, stages=[CODE])) == ["stage_summaries_known"]
    assert failed(completeness(contract, stages=[CODE], known=["99-mine"])) == []


def test_without_stages_there_is_a_check_that_says_so() -> None:
    assert completeness(evolve(DONE, stage_summaries=()), stages=[])[-1].ok


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src/a.py").write_text("a")
    (tmp_path / "secret").write_text("s")
    (root / "out").symlink_to(tmp_path)
    (root / "inner").symlink_to(root / "src")
    return root


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("src/b.py", "does not exist"),
        ("src", "is a directory"),
        ("../secret", "lies outside"),
        ("/etc/passwd", "lies outside"),
        ("out/secret", "lies outside"),
        ("src/../../secret", "lies outside"),
        ("", "is not a path"),
        (".", "lies outside"),
        ("x" * 5000, "does not exist"),
        ("a\0b", "is not a path"),
    ],
)
def test_a_file_that_was_modified_exists_inside_the_project(project: Path, path: str, why: str) -> None:
    [check] = file_checks(evolve(DONE, files_modified=[path]), project)

    assert not check.ok
    assert why in check.evidence


def test_links_inside_the_project_and_absolute_paths_are_followed(project: Path) -> None:
    [check] = file_checks(evolve(DONE, files_modified=["inner/a.py", str(project / "src/a.py"), "src/../src/a.py"]), project)

    assert check.ok


def test_every_file_is_looked_at_not_only_the_first_twenty(project: Path) -> None:
    for number in range(40):
        (project / f"{number}.py").touch()
    files = [f"{number}.py" for number in range(40)]

    assert failed(file_checks(evolve(DONE, files_modified=files), project)) == []
    assert failed(file_checks(evolve(DONE, files_modified=[*files, "gone.py"]), project)) == ["file:gone.py"]


async def _agent(run: Any) -> None: ...


@pytest.mark.parametrize("other", ["builder", " Builder ", "BUILDER", "builder\u200b", "bu\u0456lder", "builder."])
def test_who_built_does_not_judge_however_the_name_is_written(other: str) -> None:
    verdict = ValidatorContract(task_id="004", validator=other, status="PASS")

    assert not independent(DONE, verdict).ok
    assert not independent("builder", other).ok


def test_another_judges() -> None:
    assert independent(DONE, ValidatorContract(task_id="004", validator="checker", status="PASS")).ok


def test_any_name_of_the_one_is_held_against_any_of_the_other() -> None:
    verdict = ValidatorContract(task_id="004", validator="checker", status="PASS", identity=Identity("Builder"))

    assert not independent(DONE, verdict).ok


def test_the_same_agent_under_another_name_is_the_same() -> None:
    agent = Agent[Any, Any, Any](_agent, name="checker")

    assert not independent(agent, agent).ok
    assert independent(Agent[Any, Any, Any](_agent, name="a"), Agent[Any, Any, Any](_agent, name="b")).ok


@pytest.mark.parametrize("name", ["", "  ", "\u200b"])
def test_who_has_no_name_does_not_judge(name: str) -> None:
    assert not independent("builder", name).ok
    assert not independent(name, "checker").ok


def test_the_same_program_and_model_is_said() -> None:
    check = independent(Identity("a", "claude-code", "opus"), Identity("b", "claude-code", "opus"))

    assert check.ok
    assert "claude-code opus" in check.evidence


@pytest.mark.parametrize("text", ["pytest: 3 passed", "SKIPPED: no network", "skipped - needs docker", "ruff check", "テスト"])
def test_an_item_that_says_something_is_meaningful(text: str) -> None:
    assert is_meaningful(text)


@pytest.mark.parametrize(
    "text", ["", "  ", "-", "n/a", "N/A", "None", "TODO", "SKIPPED", "skipped:", "skip: ", "\u200b\u200b", "..."]
)
def test_an_item_that_stands_for_nothing_is_not(text: str) -> None:
    assert not is_meaningful(text)


@pytest.mark.parametrize(
    "text", ["", " " * 20, "\u200b" * 20, "." * 20, "short", "   nine char", "TODO TODO TODO", "n/a, n/a, n/a, none"]
)
def test_ten_characters_must_be_seen_and_say_something(text: str) -> None:
    assert not says_enough(text, 10)


def test_ten_characters_are_enough() -> None:
    assert says_enough(" did a thing ", 10)
    assert says_enough("0123456789", 10)
    assert not says_enough("012345678", 10)


@pytest.mark.parametrize(
    "other",
    [
        "Builder",
        " builder ",
        "BUILDER",
        "b u i l d e r",
        "builder\u200b",
        "bui\u00adlder",
        "\uff42\uff55\uff49\uff4c\uff44\uff45\uff52",
        "bu\u0456lder",
        "builder.",
        "bu\u00edld\u0435r",
    ],
)
def test_names_that_look_alike_are_one(other: str) -> None:
    assert skeleton(other) == skeleton("builder")


@pytest.mark.parametrize("other", ["builder-2", "validator", "建設者", ""])
def test_names_that_differ_stay_two(other: str) -> None:
    assert skeleton(other) != skeleton("builder")
