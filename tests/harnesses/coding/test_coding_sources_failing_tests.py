"""Every test that fails at the base is a feature. Real runs of pytest, so real time."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from harnesses.coding.candidate import Candidate
from harnesses.coding.sources import FailingTests, NothingToDo
from harnesses.coding.validators.pytest_report import node_in
from harnesses.features.errors import InvalidRequest, NotReady
from harnesses.features.feature import Feature
from harnesses.features.planning.feature_list import check_features
from tests.harnesses.coding.git_repositories import commit_files, git, judging, make_repository
from tests.harnesses.coding.judged import ENV

ADDS = "from calc import add\ndef test_add(): assert add(1, 2) == 3\ndef test_none(): assert add(0, 0) == 0\n"
MORE = "from calc import more\ndef test_more(): assert more(1, 2) == 3\n"
CALC = "def add(a, b):\n    return a - b\n"
TESTS = '''
import os, sys, time
import pytest
from calc import add

def test_add():
    """Adds two numbers."""
    assert add(1, 2) == 3

@pytest.mark.parametrize("a", [0, 1, "a b"])
def test_each(a):
    assert add(a, 0) == 1

@pytest.fixture
def broken():
    raise RuntimeError("no such thing")

@pytest.fixture
def untidy():
    yield
    raise OSError("left open")

class TestFixtures:
    def test_begin(self, broken): pass
    def test_end(self, untidy): pass
    def test_unknown(self, nowhere): pass

def test_passes(): assert add(1, 0) == 1
@pytest.mark.skip
def test_skipped(): assert False
@pytest.mark.xfail
def test_expected(): assert False
@pytest.mark.xfail(strict=True)
def test_marked(): pass
def test_told_apart(): assert 0, f"at {object()!r} {os.getpid()}"
def test_unsteady():
    assert os.path.exists("seen") or open("seen", "w") is None
@pytest.mark.parametrize("name", {"p", "q", "r", "s", "t"})
def test_sets(name): assert name == ""
'''


def write(root: Path, **files: str) -> Path:
    """Write files; `__` in a name is a directory."""
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


async def nodes(root: Path, **how: object) -> list[str]:
    return [node_in(feature.steps[0]) for feature in await FailingTests(**{"env": ENV, **how}).load(root)]  # type: ignore[arg-type]


async def test_whatever_fails_is_a_feature_and_nothing_else(tmp_path: Path):
    write(
        tmp_path,
        calc=CALC,
        tests__test_calc=TESTS,
        tests__test_more="from calc import nowhere\n",
        tests__test_no="def test_a(:\n",
    )
    source = FailingTests(env=ENV)

    features = await source.load(tmp_path)

    where = "tests/test_calc.py::"
    expected = ["test_add", "test_each[0]", "test_each[a b]", "TestFixtures::test_begin", "TestFixtures::test_end"]
    expected += ["TestFixtures::test_unknown", "test_told_apart"]
    found = [node_in(feature.steps[0]) for feature in features]
    assert found[:7] == [where + name for name in expected]
    assert sorted(found[7:-1]) == [f"{where}test_sets[{name}]" for name in "pqrst"]
    assert found[-1] == "tests/test_more.py"
    assert check_features(features) == features
    assert features[0].description == (
        "tests/test_calc.py::test_add passes\n\nAdds two numbers.\n\nAt the beginning: assert -1 == 3\n+  where -1 = add(1, 2)"
    )
    assert features[6].description == "tests/test_calc.py::test_told_apart passes"
    assert source.notes == (
        "left out, because it passes but is marked xfail: tests/test_calc.py::test_marked",
        "left out, because it is not valid Python: tests/test_no.py: SyntaxError: invalid syntax",
        "left out, because it fails only sometimes: tests/test_calc.py::test_unsteady",
    )


async def test_a_test_that_ends_the_process_fails_and_the_others_are_run(tmp_path: Path):
    write(tmp_path, test_ends="import os\ndef test_a(): os._exit(0)\ndef test_b(): assert 0\ndef test_c(): pass\n")

    features = await FailingTests(env=ENV).load(tmp_path)

    assert [(feature.id, feature.description.partition("beginning: ")[2]) for feature in features] == [
        ("test_ends.py::test_a", "the process ended while it ran"),
        ("test_ends.py::test_b", "assert 0"),
    ]


async def test_a_test_that_does_not_end_fails_and_the_others_are_run(tmp_path: Path):
    write(tmp_path, test_ends="import time\ndef test_a(): time.sleep(600)\ndef test_b(): pass\n")

    features = await FailingTests(limit_s=5, env=ENV).load(tmp_path)

    assert [feature.description for feature in features] == [
        "test_ends.py::test_a passes\n\nAt the beginning: it did not end within 5 s"
    ]


async def test_a_source_layout_and_the_projects_configuration_are_found(tmp_path: Path):
    write(tmp_path, src__pack____init__="", src__pack__core="VALUE = 1\n", lib__extra="", checks__check_core=(
        "import extra\nfrom pack.core import VALUE\ndef test_value(): assert VALUE == 2\n"
    ))  # fmt: skip
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\ntestpaths = ["checks"]\npython_files = ["check_*.py"]\n'
        'pythonpath = ["lib"]\naddopts = "-x -q"\n'
    )

    assert await nodes(tmp_path) == ["checks/check_core.py::test_value"]


async def test_a_project_within_the_repository_has_its_own_configuration(tmp_path: Path):
    write(
        tmp_path,
        part__lib__extra="",
        part__check_it="import extra\ndef test_it(): assert 0\n",
        test_other="def test_a(): assert 0\n",
    )
    (tmp_path / "part" / "pytest.ini").write_text("[pytest]\npython_files = check_*.py\npythonpath = lib\n")

    assert await nodes(tmp_path, paths=["part"]) == ["part/check_it.py::test_it"]


async def test_only_what_is_asked_for_is_looked_at(tmp_path: Path):
    write(tmp_path, test_a="def test_a(): assert 0\n", test_b="def test_b(): assert 0\ndef test_not(): assert 0\n")

    assert await nodes(tmp_path, paths="test_b.py", args=["-k", "not test_not"]) == ["test_b.py::test_b"]


async def test_nothing_of_this_programs_environment_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    seen = "import os\ndef test_a(): assert 'MINE' not in os.environ and os.environ['YOURS'] == 'given'\n"
    write(tmp_path, test_a=f"{seen}def test_b(): assert 0\n")
    monkeypatch.setenv("MINE", "leaked")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k nothing")

    assert await nodes(tmp_path, env={**ENV, "YOURS": "given"}) == ["test_a.py::test_b"]


async def test_without_failing_tests_there_is_nothing_to_do(tmp_path: Path):
    write(tmp_path, test_a="def test_a(): pass\ndef test_b(): pass\n")

    with pytest.raises(NothingToDo, match="nothing to do: expected tests that fail, was 2 that pass; add a test"):
        await FailingTests(env=ENV).load(tmp_path)


async def test_without_tests_there_is_nothing_to_do(tmp_path: Path):
    with pytest.raises(NothingToDo, match="nothing to do: expected tests where pytest looks, was none"):
        await FailingTests(env=ENV).load(tmp_path)


async def test_a_python_without_pytest_is_named_with_the_fix(tmp_path: Path):
    write(tmp_path, test_a="def test_a(): pass\n")
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)

    with pytest.raises(
        NotReady, match=rf"{bare} has no pytest: expected it installed there; run {bare} -m pip install pytest"
    ):
        await FailingTests(python=os.fspath(bare), env=ENV).load(tmp_path)


async def test_a_python_that_is_not_there_is_named(tmp_path: Path):
    write(tmp_path, test_a="def test_a(): pass\n")

    with pytest.raises(NotReady, match="python '/nowhere/python' cannot be run"):
        await FailingTests(python="/nowhere/python").load(tmp_path)


async def test_what_keeps_pytest_from_beginning_is_told(tmp_path: Path):
    write(tmp_path, conftest="import nowhere\n", test_a="def test_a(): pass\n")

    with pytest.raises(NotReady, match=r"(?s)before the first test: .*No module named 'nowhere'"):
        await FailingTests(env=ENV).load(tmp_path)


def test_a_limit_has_to_be_one():
    with pytest.raises(InvalidRequest, match="limit_s: expected seconds above 0, was 0"):
        FailingTests(limit_s=0)


async def test_what_it_finds_it_can_prove(tmp_path: Path):
    repository = make_repository(tmp_path / "repository", {"calc.py": CALC, "test_calc.py": ADDS, "test_more.py": MORE})
    base = git(repository, "rev-parse", "HEAD")
    half = commit_files(repository, {"calc.py": "def add(a, b):\n    return a + b\n"})
    whole = commit_files(repository, {"calc.py": "def add(a, b):\n    return a + b\nmore = add\n"})
    origin, judge, _ = await judging(tmp_path / "judging", repository)
    await judge.take(origin.git.directory, whole)
    source = FailingTests(env=ENV)
    async with judge.at(base) as checkout:
        features = await source.load(checkout)

    validator = source.validator()

    assert validator is not None
    assert [feature.id for feature in features] == ["test_calc.py::test_add", "test_more.py"]
    add, more = features
    asked = [(add, half), (more, half), (more, whole)]
    verdicts = [await validator.validate(one, Candidate(commit=commit, base=base, checkouts=judge)) for one, commit in asked]
    assert [verdict.passed for verdict in verdicts] == [True, False, True]


async def test_a_feature_that_it_has_not_found_it_can_not_prove(tmp_path: Path):
    validator = FailingTests(env=ENV).validator()
    assert validator is not None
    feature = Feature("a", "A", steps=("look at it",))
    repository = make_repository(tmp_path / "repository", {"test_a.py": "def test_a(): pass\n"})
    _, judge, _ = await judging(tmp_path / "judging", repository)
    commit = git(repository, "rev-parse", "HEAD")
    await judge.take(repository, commit)

    verdict = await validator.validate(feature, Candidate(commit=commit, base=commit, checkouts=judge))

    assert not verdict.passed
    assert "look at it: did not run" in verdict.evidence
