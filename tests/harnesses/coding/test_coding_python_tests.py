"""A feature is proven if its tests run to their end in time, and by nothing else."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from harnesses import HarnessMisuse
from harnesses.coding import PythonTests
from harnesses.features import Feature, TurnResult, Verdict

FEATURE = Feature("double", "Write double(number).", steps="its tests pass")
TESTS = "assert double(2) == 4\nassert double(-1) == -2"
RIGHT = "def double(number):\n    return 2 * number\n"


async def verdict(code: str, *, tests: str = TESTS, limit_s: float = 30.0) -> Verdict:
    return await PythonTests({FEATURE.id: tests}, limit_s=limit_s).validate(FEATURE, TurnResult(artifact=code))


async def test_code_that_its_tests_accept_is_proven():
    found = await verdict(RIGHT)

    assert (found.passed, found.evidence, found.validator) == (True, "all tests passed", "Python tests")
    assert 0 < found.duration_s < 30


async def test_what_the_tests_say_is_the_evidence():
    assert (await verdict(RIGHT, tests="print(double(21))")).evidence == "42\n"


async def test_a_failed_assertion_is_shown():
    found = await verdict("def double(number):\n    return abs(2 * number)\n")

    assert not found.passed
    assert 'File "tests.py", line 3' in found.evidence
    assert "assert double(-1) == -2" in found.evidence


@pytest.mark.parametrize(
    ("code", "evidence"),
    [
        ("def double(number)", "SyntaxError"),
        ("", "NameError: name 'double' is not defined"),
        ("raise SystemExit(0)", "the process ended before the last test"),
        ("import os; os._exit(0)", "the process ended before the last test"),
        ("import os; os.kill(os.getpid(), 9)", "ended with code -9 and no output"),
        ("\ud800", "SyntaxError"),
    ],
)
async def test_code_that_does_not_come_to_the_last_test_is_not_proven(code, evidence):
    found = await verdict(code)

    assert not found.passed
    assert evidence in found.evidence


async def test_code_that_does_not_end_is_killed_and_not_proven():
    found = await verdict("print('so far', flush=True)\nwhile True: pass", limit_s=0.5)

    assert (found.passed, found.evidence) == (False, "so far\n\nkilled: no result within 0.5 s")


async def test_code_does_not_see_the_environment_of_this_program(monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "hunter2")

    assert (await verdict(RIGHT, tests="import os\nassert 'SECRET_KEY' not in os.environ")).passed


async def test_code_does_not_see_the_installed_packages():
    found = await verdict("import trio")

    assert "ModuleNotFoundError: No module named 'trio'" in found.evidence


async def test_nothing_is_left_on_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    await verdict(RIGHT + "open('litter', 'w').close()")
    await verdict("while True: pass", limit_s=0.2)

    assert list(tmp_path.iterdir()) == []


async def test_the_code_begins_in_a_directory_of_its_own():
    found = await verdict(RIGHT + "import os; print(os.getcwd())")

    assert Path(found.evidence.strip()) != Path(os.getcwd())


async def test_no_code_is_not_proven():
    found = await PythonTests({FEATURE.id: ""}).validate(FEATURE, TurnResult(message="done"))

    assert found == Verdict(passed=False, evidence="no source code was submitted", validator="Python tests")


async def test_a_feature_without_tests_is_an_error_not_a_verdict():
    with pytest.raises(HarnessMisuse, match="feature 'double' has no tests: expected Python source under its id"):
        await PythonTests({}).validate(FEATURE, TurnResult(artifact=RIGHT))


@pytest.mark.parametrize("limit_s", [0, -1.0, float("nan")])
def test_a_limit_that_is_no_time_is_refused(limit_s):
    with pytest.raises(HarnessMisuse, match="limit_s: expected seconds above 0"):
        PythonTests({}, limit_s=limit_s)
