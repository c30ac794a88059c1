"""Guards say which path is not as it should be, and what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesses.coding.validators import OnlyTouches, TestsKept
from harnesses.coding.validators.candidate_validator import glob_pattern
from tests.harnesses.coding.judged import DONE, FEATURE, TESTS, Repository, repository_in


@pytest.fixture
async def repository(tmp_path: Path) -> Repository:
    more = {"tests/data/a.json": "[]\n", "pkg/__init__.py": "", "web/a.test.js": "it('a')\n", "pytest.ini": "[pytest]\n"}
    return await repository_in(tmp_path, more)


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        ("shop.py", "shop.py", True),
        ("shop.py", "a/shop.py", False),
        ("*.py", "a/shop.py", False),
        ("**/*.py", "shop.py", True),
        ("**/*.py", "a/b/shop.py", True),
        ("src/", "src/a/b.py", True),
        ("src/", "src", False),
        ("src/*", "src/a/b.py", False),
        ("a?.py", "ab.py", True),
        ("a.py", "axpy", False),
        ("src/**", "src/a\nb.py", True),
    ],
)
def test_patterns_stand_for_whole_paths(glob: str, path: str, matches: bool) -> None:
    assert (glob_pattern(glob).fullmatch(path) is not None) == matches


async def test_a_commit_that_touches_only_what_it_may_passes(repository: Repository) -> None:
    verdict = await OnlyTouches("*.py").validate(FEATURE, await repository.commit({"shop.py": DONE, "new.py": ""}))

    assert verdict.passed, verdict.evidence
    assert not OnlyTouches("*.py").proves


async def test_a_path_that_must_not_be_touched_is_named(repository: Repository) -> None:
    candidate = await repository.commit({"docs/a.md": ""}, gone=("check.sh",))

    verdict = await OnlyTouches("shop.py").validate(FEATURE, candidate)

    assert not verdict.passed
    assert "check.sh: was deleted, but only shop.py may be changed: restore it" in verdict.evidence
    assert "docs/a.md: was added" in verdict.evidence


async def test_a_link_may_lead_elsewhere_so_it_is_refused(repository: Repository) -> None:
    verdict = await OnlyTouches("*.py").validate(FEATURE, await repository.commit({}, links={"new.py": "check.sh"}))

    assert not verdict.passed


HARMLESS = {
    "a new test module": {"tests/test_more.py": "def test_more():\n    pass\n"},
    "a test beside the others": {"tests/test_shop.py": f"{TESTS}\n\ndef test_more():\n    pass\n"},
    "a test in another language": {"web/a.test.js": "it('a')\nit('b')\n"},
    "new data": {"tests/data/b.json": "[]\n"},
    "a marker": {"pytest.ini": "[pytest]\nmarkers =\n    slow\n"},
    "a project without a word to pytest": {"pyproject.toml": "[project]\nname = 'shop'\n"},
    "compiled modules": {"tests/__pycache__/a.pyc": "", "shop.egg-info/PKG-INFO": ""},
}


@pytest.mark.parametrize("case", HARMLESS)
async def test_what_harms_no_test_is_accepted(case: str, repository: Repository) -> None:
    verdict = await TestsKept().validate(FEATURE, await repository.commit(HARMLESS[case]))

    assert verdict.passed, verdict.evidence


HARMFUL = {
    "data": ({"tests/data/a.json": "[1]\n"}, "tests/data/a.json: is used by tests, and was changed"),
    "conftest": ({"conftest.py": ""}, "conftest.py: would be loaded automatically"),
    "pytest.ini": ({"pytest.ini": "[pytest]\naddopts = -k easy\n"}, "pytest's configuration was changed (addopts)"),
    "pyproject": (
        {"pyproject.toml": "[tool.pytest.ini_options]\nminversion = '6'\n"},
        "its pytest settings were changed (minversion): restore them",
    ),
    "pth": ({"a.pth": ""}, "a.pth: would be loaded"),
    "pytest.py": ({"pytest.py": ""}, "pytest.py: would be loaded"),
    "module of the program": ({"tests/shop.py": ""}, "tests/shop.py: has the name of a module of the program"),
    "case": ({"SHOP.py": ""}, "SHOP.py: differs from shop.py only in upper and lower case"),
    "javascript": ({"web/a.test.js": "it.skip('a')\n"}, "web/a.test.js: line `it('a')` was removed, changed or moved"),
    "javascript passed over": ({"web/a.test.js": "describe.skip\nit('a')\n"}, "which may skip tests"),
    "program": ({"shop.py": "import _pytest.runner\n"}, "shop.py: line 1: imports a test tool (_pytest.runner): do without"),
}


@pytest.mark.parametrize("case", HARMFUL)
async def test_what_harms_tests_is_told(case: str, repository: Repository) -> None:
    files, words = HARMFUL[case]

    verdict = await TestsKept().validate(FEATURE, await repository.commit(files))

    assert not verdict.passed
    assert words in verdict.evidence


READING = """
import json
from pathlib import Path

ROOT = Path(__file__).parent.parent
CASES = json.loads((ROOT / "cases.json").read_text())
MORE = sorted((ROOT / "fixtures").glob("*.csv"))
"""


@pytest.mark.parametrize(
    ("changed", "gone", "told"),
    [
        ({"cases.json": "[7]\n"}, (), "cases.json: is used by tests, and was changed: restore it"),
        ({}, ("fixtures/a.csv",), "fixtures/a.csv: was removed: restore it"),
        ({"other.json": "[7]\n", "pkg/cases.json": "[7]\n", "fixtures/b.csv": "new\n", "notes.md": "cases.json\n"}, (), ""),
    ],
)
async def test_data_elsewhere_that_tests_name_is_theirs_but_not_that_of_a_package(
    changed: dict[str, str], gone: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    data = {
        "cases.json": "[]\n",
        "other.json": "[]\n",
        "fixtures/a.csv": "1\n",
        "pkg/__init__.py": "",
        "pkg/cases.json": "[]\n",
    }
    repository = await repository_in(tmp_path, {**data, "notes.md": "", "tests/test_data.py": READING})

    verdict = await TestsKept().validate(FEATURE, await repository.commit(changed, gone=gone))

    assert verdict.passed == (not told), verdict.evidence
    assert told in verdict.evidence


@pytest.mark.parametrize("target", ["/etc/passwd", "../../other", "../tests/test_shop.py", "../.git/config"])
async def test_a_link_out_of_the_repository_or_to_tests_is_refused(target: str, repository: Repository) -> None:
    verdict = await TestsKept().validate(FEATURE, await repository.commit({}, links={"pkg/link": target}))

    assert not verdict.passed
    assert f"pkg/link: is a symbolic link to {target}" in verdict.evidence


async def test_a_link_within_the_program_is_accepted(repository: Repository) -> None:
    verdict = await TestsKept().validate(FEATURE, await repository.commit({}, links={"pkg/link": "../shop.py"}))

    assert verdict.passed, verdict.evidence


async def test_a_directory_of_tests_that_became_a_link_is_told(repository: Repository) -> None:
    candidate = await repository.commit({"easy/test_shop.py": ""}, gone=("tests",), links={"tests": "easy"})

    verdict = await TestsKept().validate(FEATURE, candidate)

    assert "tests: is a symbolic link to easy that replaces tests: restore the files" in verdict.evidence


async def test_what_a_person_allows_is_not_looked_at(repository: Repository) -> None:
    candidate = await repository.commit({"conftest.py": ""})

    assert (await TestsKept(allow=["conftest.py"]).validate(FEATURE, candidate)).passed
