"""The init plan is really run, and what was seen is the evidence."""

from __future__ import annotations

import os
import sys

import pytest
import trio

from harnesses import HarnessMisuse
from harnesses.features import CommandHealthCheck, InitPlan, InitStep, NoHealthCheck, RunPolicy
from harnesses.features.feature_record import DEFAULT_PLAN
from harnesses.features.health_checks import command_of
from tests.harnesses.features.worked import Judge, Worker, harness

PYTHON = sys.executable


def python(code: str) -> InitStep:
    return InitStep.command(PYTHON, "-c", code)


async def seen(*steps, directory=None, limit_s=30.0, **more):
    return await CommandHealthCheck(limit_s=limit_s, **more).check(InitPlan(steps), directory)


async def test_each_command_its_exit_code_and_the_end_of_its_output_are_kept():
    found = await seen(python("print('fine')"), InitStep.in_shell("echo $((40 + 2))"))

    assert found.passed
    assert found.evidence.splitlines()[1:3] == ["exit code 0", "fine"]
    assert found.evidence.splitlines()[3:] == ["$ sh -c 'echo $((40 + 2))'", "exit code 0", "42"]


async def test_the_first_command_that_fails_ends_it(tmp_path):
    found = await seen(python("raise SystemExit('odd')"), python(f"open({str(tmp_path / 'x')!r}, 'w')"))

    assert not found.passed
    assert found.evidence.splitlines()[-2:] == ["exit code 1", "odd"]
    assert list(tmp_path.iterdir()) == []


async def test_a_program_that_is_missing_is_evidence_not_a_crash():
    found = await seen(InitStep.command("no-such-program-anywhere"))

    assert not found.passed
    assert "no-such-program-anywhere" in found.evidence
    assert "exit code 127" in found.evidence


async def test_a_directory_that_is_missing_is_evidence_not_a_crash(tmp_path):
    found = await seen(python("pass"), directory=tmp_path / "gone")

    assert not found.passed
    assert "could not be run" in found.evidence


async def test_a_command_that_does_not_end_is_killed():
    found = await seen(python("import time; time.sleep(60)"), limit_s=0.5)

    assert not found.passed
    assert "killed: not finished within 0.5 s" in found.evidence


async def test_commands_are_run_in_the_directory_and_the_environment_given(tmp_path):
    found = await seen(
        python("import os; print(os.getcwd(), os.environ['COLOUR'])"),
        directory=tmp_path,
        env={"COLOUR": "grey", "PATH": os.defpath},
    )

    assert found.evidence.splitlines()[-1] == f"{tmp_path.resolve()} grey"


async def test_an_empty_plan_runs_nothing_and_is_not_the_default_plan():
    found = await seen()

    assert (found.passed, found.evidence) == (True, "the plan is empty: nothing was run")


async def test_the_default_plan_is_run_in_a_repository(tmp_path):
    await trio.run_process(["git", "init", "-q", "-b", "trunk", tmp_path])

    found = await CommandHealthCheck().check(DEFAULT_PLAN, tmp_path)

    assert "No commits yet on trunk" in found.evidence


async def test_the_default_plan_is_not_run_where_there_is_no_place_for_a_repository():
    found = await CommandHealthCheck().check(DEFAULT_PLAN, None)

    assert found.passed
    assert "was not run" in found.evidence


@pytest.mark.parametrize(
    ("shell", "command"),
    [
        ("bash", ("bash", "-c", "x")),
        ("sh", ("sh", "-c", "x")),
        ("pwsh", ("pwsh", "-NoProfile", "-NonInteractive", "-Command", "x")),
        ("cmd", ("cmd", "/d", "/c", "x")),
    ],
)
def test_a_script_is_run_by_its_shell(shell, command):
    assert command_of(InitStep.in_shell("x", shell)) == command


async def test_no_health_check_looks_at_nothing():
    assert (await NoHealthCheck().check(InitPlan([InitStep.command("false")]), None)).passed


async def test_the_harness_runs_the_plan_of_its_manifest_and_keeps_what_was_seen(tmp_path):
    plan = InitPlan([python("print('looked at')")])
    worker = Worker(seconds=0)
    work = harness(worker, Judge(seconds=0), policy=RunPolicy(), health_check=CommandHealthCheck(), init_plan=plan)

    await work.run()

    assert work.state.manifest.init_plan == plan
    assert "looked at" in work.step_history[1].output.health.evidence
    assert "looked at" in worker.asked[0].prompt


@pytest.mark.parametrize("limit_s", [0, -1.0, float("nan")])
def test_a_limit_that_is_no_time_is_refused(limit_s):
    with pytest.raises(HarnessMisuse, match="limit_s: expected seconds above 0"):
        CommandHealthCheck(limit_s=limit_s)
