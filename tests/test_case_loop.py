"""A test that goes through its cases proves of each what a test of its own would prove."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests import ROOT

SHOWN = """
import pytest

@pytest.mark.parametrize("word", ["", "a"])
@pytest.mark.parametrize(("number", "half"), [(1, 0), (2, 1), pytest.param(3, 2, id="odd")])
def test_plain(word, number, half):
    assert number // 2 == half

@pytest.mark.parametrize("number", [1, 2, 3])
def test_all_fail(number):
    pytest.fail("as it must")

@pytest.mark.parametrize("number", [1, 2, 3])
def test_one_does_not_raise(number):
    with pytest.raises(ValueError):
        int("x" if number != 2 else "2")

@pytest.mark.parametrize("number", [1, 2, 3])
def test_with_a_fixture(number, tmp_path):
    pass

@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.xfail), 3])
def test_with_a_mark(number):
    assert number != 2

@pytest.mark.parametrize("number", [1, 2, 3])
def test_skipped(number):
    pytest.skip("no reason")

@pytest.mark.parametrize("number", [1, 2, 3])
def test_good(number):
    if number == 2:
        pytest.skip("one of them")
"""


def run(folder: Path, *options: str) -> list[str]:
    (folder / "test_shown.py").write_text(SHOWN, encoding="utf-8")
    (folder / "conftest.py").write_text("from tests.conftest import pytest_addoption, pytest_pycollect_makeitem\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        "/dev/null",
        "--rootdir",
        folder,
        "-p",
        "no:cacheprovider",
        *options,
    ]
    env = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run([*command, folder], cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout.splitlines()


def test_each_case_is_run_and_each_that_fails_is_told(tmp_path: Path) -> None:
    said = run(tmp_path)

    assert said[-1].startswith("3 failed, 6 passed, 1 skipped, 1 xfailed")
    assert sorted({line.partition("case:")[2].strip() for line in said if "case:" in line}) == [
        "number=1",
        "number=2",
        "number=3",
        "odd word='' number=3 half=2",
        "odd word='a' number=3 half=2",
    ]


def test_each_case_is_a_test_of_its_own_where_that_is_asked_for(tmp_path: Path) -> None:
    assert run(tmp_path, "--each-case")[-1].startswith("6 failed, 13 passed, 4 skipped, 1 xfailed")
