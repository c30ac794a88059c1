"""Stages and tasks: the preset, what is refused, and that the two kinds of id cannot be mixed up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from harnesses.pipeline import PLAN_TASKS, SDLC_STAGES, SDLC_TASKS, PipelineInvalid, Stage, StageId, Task, TaskId
from harnesses.pipeline.plan.preset import STAGE_IDS
from harnesses.pipeline.plan.stage import check_sequence, check_stages
from harnesses.pipeline.plan.task import check_tasks, each_stage, find_waits
from tests import ROOT

from .scripted import stages

ARTIFACTS = [
    "environment_report.json",
    "transcript.json",
    "requirements.json",
    "documentation.json",
    "plan.json",
    "jira_tickets.json",
    "system_design.json",
    "code_report.json",
    "test_report.json",
    "deployment_report.json",
    "summary.json",
    "feedback.json",
    "threat_model.json",
    "compliance_report.json",
    "cost_estimate.json",
]


def test_there_are_exactly_fifteen_stages_in_their_order() -> None:
    assert [str(stage.id) for stage in SDLC_STAGES] == [
        "00-environment",
        "01-transcript",
        "02-requirements",
        "03-documentation",
        "04-planning",
        "05-jira",
        "06-architecture",
        "07-code",
        "08-testing",
        "09-deployment",
        "10-summary",
        "11-feedback-loop",
        "12-security-threat-model",
        "13-compliance-checker",
        "14-cost-estimation",
    ]


def test_each_stage_has_its_artifact_and_its_agent() -> None:
    assert [stage.artifact for stage in SDLC_STAGES] == ARTIFACTS
    assert [stage.agent for stage in SDLC_STAGES] == [f"agent.{stage.id}" for stage in SDLC_STAGES]


def test_a_list_of_another_length_is_refused() -> None:
    with pytest.raises(PipelineInvalid, match="Expected 15 stages, was 14"):
        check_sequence(SDLC_STAGES[:-1], STAGE_IDS)


def test_another_order_is_refused_with_the_place() -> None:
    swapped = (SDLC_STAGES[1], SDLC_STAGES[0], *SDLC_STAGES[2:])

    with pytest.raises(PipelineInvalid, match="order mismatch at 0: expected stage '00-environment', was '01-transcript'"):
        check_sequence(swapped, STAGE_IDS)


@pytest.mark.parametrize("name", ["title", "artifact", "agent"])
def test_a_stage_that_lacks_a_field_is_refused(name: str) -> None:
    lacking = (evolve(SDLC_STAGES[0], **{name: " "}), *SDLC_STAGES[1:])

    with pytest.raises(PipelineInvalid, match=f"stage '00-environment': missing field '{name}'"):
        check_sequence(lacking, STAGE_IDS)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "expected at least one"),
        ((*stages("a"), *stages("a")), "stage 'a' occurs twice"),
        ((evolve(stages("a")[0], after=("b",)),), "after: expected one of a, was 'b'"),
        ((stages("a")[0], evolve(stages("b")[0], artifact="a.json")), "is also that of stage 'a'"),
        ((evolve(stages("a")[0], artifact="../a.json"),), "expected the name of a file"),
        ((evolve(stages("a")[0], after=("b",)), evolve(stages("b")[0], after=("a",))), "depend on each other.*→"),
        ((evolve(stages("a")[0], after=("a",)),), "depend on each other"),
    ],
)
def test_stages_that_can_not_be_worked_are_refused(given: tuple[Stage, ...], said: str) -> None:
    with pytest.raises(PipelineInvalid, match=said):
        check_stages(given)


@pytest.mark.parametrize("text", ["", ".", "..", "a/b", "/a", "-a", "a b", "ä", "a" * 81, "a\n", "a.", 7, None])
def test_what_could_be_a_path_is_no_id(text: Any) -> None:
    for cls in (StageId, TaskId):
        with pytest.raises(PipelineInvalid, match=cls.__name__):
            cls(text)


def test_a_stage_id_and_a_task_id_of_one_text_are_not_the_same() -> None:
    ids: set[object] = {StageId("07-code"), TaskId("07-code")}

    assert len(ids) == 2


def test_an_id_of_the_other_kind_is_refused_where_it_is_used() -> None:
    with pytest.raises(PipelineInvalid, match="it is a TaskId, not a StageId"):
        Stage(id="b", title="B", artifact="b.json", agent="agent.b", after=(TaskId("a"),))  # type: ignore[arg-type]
    with pytest.raises(PipelineInvalid, match="it is a StageId, not a TaskId"):
        Task(id=StageId("a"), title="A", stages=("a",))  # type: ignore[arg-type]


def test_mypy_tells_the_two_kinds_apart(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="the type checker is no dependency of the program")
    program = tmp_path / "mixed.py"
    program.write_text(
        "from harnesses.pipeline.plan.ids import StageId, TaskId\n"
        "def of_stage(id: StageId) -> None: ...\n"
        "of_stage(StageId('a'))\n"
        "of_stage(TaskId('a'))\n"
    )

    # Of our own modules the one that is asked about is enough, and much quicker.
    words = [
        "--follow-imports=skip",
        "--config-file=",
        "--cache-dir=/dev/null",
        str(program),
        "harnesses/pipeline/plan/ids.py",
    ]
    done = subprocess.run([sys.executable, "-m", "mypy", *words], cwd=ROOT, capture_output=True, text=True, check=False)

    assert 'mixed.py:4: error: Argument 1 to "of_stage" has incompatible type "TaskId"' in done.stdout
    assert "Found 1 error" in done.stdout


def test_by_default_each_stage_is_a_task() -> None:
    assert [str(task.id) for task in SDLC_TASKS] == list(STAGE_IDS)
    assert [task.stages for task in SDLC_TASKS] == [(stage.id,) for stage in SDLC_STAGES]


def test_a_task_waits_for_those_that_cover_the_stages_which_its_stages_wait_for() -> None:
    found = find_waits(SDLC_TASKS, SDLC_STAGES)

    assert found[TaskId("07-code")] == (TaskId("05-jira"), TaskId("06-architecture"))
    assert found[TaskId("00-environment")] == ()


def test_the_plan_of_eight_tasks_covers_every_stage_and_two_of_them_twice() -> None:
    covered = [str(id) for task in PLAN_TASKS for id in task.stages]

    assert [str(task.id)[:3] for task in PLAN_TASKS] == ["001", "002", "003", "004", "005", "006", "007", "008"]
    assert {id for id in covered if covered.count(id) == 2} == {"10-summary", "12-security-threat-model"}
    assert set(covered) == set(STAGE_IDS)


@pytest.mark.parametrize("task", [*SDLC_TASKS, *PLAN_TASKS], ids=lambda task: str(task.id))
def test_every_task_has_a_goal_three_criteria_and_three_checks(task: Task) -> None:
    assert task.description
    assert task.goal
    assert len(task.acceptance_criteria) == len(task.validation_checks) == 3


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ((Task(id="t", title="T", stages=("a",)),), "stage 'b' is not covered by any task"),
        ((Task(id="t", title="T", stages=("a", "c")),), "expected ids of stages, was 'c'"),
        ((Task(id="t", title="T", stages=("a", "b", "a")),), "each once"),
        ((Task(id="t", title=" ", stages=("a", "b")),), "missing field 'title'"),
        ((Task(id="t", title="T", stages=("a", "b"), after=("u",)),), "expected ids of tasks, was 'u'"),
        ((Task(id="t", title="T", stages=("a", "b"), after=("t",)),), "depend on each other"),
        ((Task(id="t", title="T", stages=("a", "b"), artifact="/etc/passwd"),), "expected the name of a file"),
        ((Task(id="t", title="T", stages=("a",)), Task(id="t", title="T", stages=("b",))), "occurs twice"),
    ],
)
def test_tasks_that_can_not_be_worked_are_refused(tasks: tuple[Task, ...], said: str) -> None:
    with pytest.raises(PipelineInvalid, match=said):
        check_tasks(tasks, stages("a", "b"))


def test_deeds_for_a_stage_that_is_not_there_are_refused() -> None:
    with pytest.raises(PipelineInvalid, match="expected ids of stages, was 'z'"):
        each_stage(stages("a"), deeds={"z": ()})
