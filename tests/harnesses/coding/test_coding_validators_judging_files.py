"""The base decides which files judge; pytest's part of a configuration is told from the rest."""

from __future__ import annotations

import pytest

from harnesses.coding.validators.judging_context import changed_keys, find_judging_files, pytest_part

FILES = ("shop.py", "tests/test_shop.py", "tests/data/a.json", "web/test/client.py", "src/pkg/cart.py", "golden/out.txt")


JUDGE = """
    tests tests/test_shop.py tests/helpers.py tests/data/a.json test_new.py src/pkg/cart_test.py conftest.py src/conftest.py
    pytest.ini sitecustomize.py x.pth pytest.py _pytest/runner.py src/unittest/case.py a.egg-info/entry_points.txt
    __pycache__/shop.cpython-311.pyc golden/out.txt docs/receipt_expected.txt __snapshots__/a.snap
    web/a.test.js cart_test.go
"""
ARE_JUDGED = """
    shop.py web/test/client.py src/pkg/cart.py pyproject.toml testing.py src/pkg/pytest.py docs/tests.md Makefile pytest.md
    data/expected_returns.csv src/testsuite/run.py golden/generate.py
"""


@pytest.mark.parametrize("path", JUDGE.split())
def test_these_judge(path: str) -> None:
    assert find_judging_files(FILES).covers(path)


@pytest.mark.parametrize("path", ARE_JUDGED.split())
def test_these_are_judged(path: str) -> None:
    assert not find_judging_files(FILES).covers(path)


def test_a_directory_is_one_of_tests_only_if_it_was_at_the_base() -> None:
    assert not find_judging_files(["shop.py"]).covers("tests/helpers.py")


@pytest.mark.parametrize("directory", ["testing", "pkg/_tests", "unit_tests", "src/pkg/Testsuite", "formulatests", "chattest"])
def test_a_directory_that_is_named_after_tests_and_holds_some_is_one_of_them(directory: str) -> None:
    side = find_judging_files([f"{directory}/test_a.py", f"{directory}/helpers.py", "pkg/testing/tests/test_b.py"])

    assert side.covers(f"{directory}/helpers.py")
    assert side.covers(f"{directory}/data/a.json")
    assert side.covers("pkg/testing/tests/helpers.py")
    assert not side.covers("pkg/testing/assertions.py")


@pytest.mark.parametrize("directory", ["latest", "contest", "api_latest", "src/Fastest"])
def test_a_directory_whose_name_only_contains_the_letters_is_the_programs(directory: str) -> None:
    side = find_judging_files([f"{directory}/test_a.py", f"{directory}/api.py"])

    assert side.covers(f"{directory}/test_a.py")
    assert not side.covers(f"{directory}/api.py")


def test_test_modules_are_called_what_the_configuration_says() -> None:
    side = find_judging_files(["checks/check_a.py"], patterns=("check_*.py",))

    assert side.covers("checks/check_a.py")
    assert not side.covers("checks/test_a.py")


@pytest.mark.parametrize(
    ("path", "text", "part"),
    [
        ("pytest.ini", "[pytest]\naddopts = -q\n", {"addopts": "-q"}),
        ("pytest.ini", "", {}),
        ("tox.ini", "[tox]\n", None),
        ("tox.ini", "[pytest]\naddopts = -q\n", {"addopts": "-q"}),
        ("setup.cfg", "[tool:pytest]\naddopts = -q\n", {"addopts": "-q"}),
        ("pyproject.toml", "[project]\nname = 'a'\n", None),
        ("sub/pyproject.toml", "[tool.pytest.ini_options]\naddopts = '-q'\n", {"addopts": "-q"}),
        ("pyproject.toml", "[tool.pytest]\naddopts = ['-q']\n", {"addopts": ["-q"]}),
        ("package.json", "{}", None),
    ],
)
def test_the_part_of_pytest_is_read(path: str, text: str, part: dict[str, object] | None) -> None:
    assert pytest_part(path, text.encode()) == part


def test_what_can_not_be_read_differs_from_what_can() -> None:
    assert changed_keys(
        pytest_part("pyproject.toml", b"[tool.pytest.ini_options]\n"), pytest_part("pyproject.toml", b"[")
    ) == [""]


def test_a_marker_that_is_only_declared_is_no_change() -> None:
    before = {"markers": ["slow: takes long"], "addopts": "-q"}

    assert changed_keys(before, {**before, "markers": ["slow: takes long", "fast"]}) == []
    assert changed_keys(before, {**before, "markers": []}) == ["markers"]
    assert changed_keys(before, {**before, "addopts": "-q -k easy"}) == ["addopts"]
