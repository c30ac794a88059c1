"""What passed at the base is held to pass, whatever the suite is like. Real processes, so real time."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve, frozen

from harnesses.coding.candidate import Candidate
from harnesses.coding.judge_repository import JudgeRepository
from harnesses.coding.validators import SuiteKept
from harnesses.features.errors import NotReady
from tests.harnesses.coding.judged import DONE, ENV, FEATURE, SHOP, TESTS, Repository, repository_in

BROKEN = SHOP.replace("len(prices)", "0")
ENDS = "import os\ndef test_a(): pass\ndef test_ends(): os._exit(0)\ndef test_z(): pass\n"


@pytest.fixture
async def repository(tmp_path: Path) -> Repository:
    return await repository_in(tmp_path)


@frozen
class Counted(JudgeRepository):
    """Knows which commits were laid out."""

    asked: list[str]

    async def lay_out(self, commit: str, directory: Path, index: Path) -> None:
        self.asked.append(commit)
        await super().lay_out(commit, directory, index)


def counted(candidate: Candidate, repository: Repository) -> tuple[Candidate, list[str]]:
    """Return a candidate that is looked at where it is counted."""
    asked: list[str] = []
    return evolve(candidate, checkouts=Counted(repository.judge.git, repository.judge.folder, asked)), asked


async def test_a_suite_in_which_something_broke_is_not_kept(repository: Repository) -> None:
    verdict = await SuiteKept(env=ENV).validate(FEATURE, await repository.commit({"shop.py": BROKEN}))

    assert not verdict.passed
    assert verdict.evidence.startswith("tests/test_shop.py::test_count: passed at the base, now failed")


async def test_a_module_that_can_not_be_collected_does_not_keep_the_others_from_being_guarded(tmp_path: Path) -> None:
    repository = await repository_in(tmp_path, {"tests/test_more.py": "from shop import nothing\n"})

    verdict = await SuiteKept(env=ENV).validate(FEATURE, await repository.commit({"shop.py": BROKEN}))

    assert not verdict.passed
    assert verdict.evidence.startswith("tests/test_shop.py::test_count: passed at the base, now failed")


async def test_a_test_that_ends_the_process_does_not_keep_the_others_from_being_guarded(tmp_path: Path) -> None:
    repository = await repository_in(tmp_path, {"tests/test_ends.py": ENDS})
    validator = SuiteKept(env=ENV)

    kept = await validator.validate(FEATURE, await repository.commit({"shop.py": DONE}))
    broken = await validator.validate(FEATURE, await repository.commit({"shop.py": BROKEN}))

    assert kept.evidence.startswith("3 tests passed at the base and still pass")
    assert not broken.passed
    assert "test_count: passed at the base, now failed" in broken.evidence


async def test_a_test_that_stops_pytest_does_not_keep_the_others_from_being_guarded(tmp_path: Path) -> None:
    stops = ENDS.replace("os._exit(0)", "import pytest; pytest.exit('enough')")
    repository = await repository_in(tmp_path, {"tests/test_ends.py": stops})

    verdict = await SuiteKept(env=ENV).validate(FEATURE, await repository.commit({"shop.py": BROKEN}))

    assert not verdict.passed


async def test_a_commit_that_ends_the_process_of_its_tests_is_refused_after_one_session(repository: Repository) -> None:
    ends = SHOP.replace("return len(prices)", "import os; os._exit(0)")

    verdict = await SuiteKept(env=ENV).validate(FEATURE, await repository.commit({"shop.py": ends}))

    assert not verdict.passed
    assert "test_count: passed at the base, now cut short\nthe process ended while it ran" in verdict.evidence


@pytest.mark.parametrize("conftest", ["import nowhere\n", "import os\nos._exit(0)\n", "import time\ntime.sleep(60)\n"])
async def test_a_base_whose_suite_can_not_be_run_is_an_error_and_not_a_suite_without_tests(
    tmp_path: Path, conftest: str
) -> None:
    repository = await repository_in(tmp_path, {"conftest.py": conftest})

    with pytest.raises(NotReady, match=r"the suite cannot be run at the base .*: expected it to end within"):
        await SuiteKept(env=ENV, limit_s=5).validate(FEATURE, await repository.commit({"shop.py": DONE}))


async def test_a_suite_without_tests_is_kept(tmp_path: Path) -> None:
    repository = await repository_in(tmp_path, {"tests/test_shop.py": ""})

    verdict = await SuiteKept(env=ENV).validate(FEATURE, await repository.commit({"shop.py": DONE}))

    assert verdict.evidence == "no test passed at the base, so there is none to compare"


async def test_a_test_that_was_unsteady_before_is_not_held_against_a_commit(tmp_path: Path) -> None:
    count = tmp_path / "count"
    unsteady = f"{TESTS}\n\ndef test_now_and_then():\n    with open({str(count)!r}, 'a+') as file:\n"
    unsteady += "        file.write('x')\n        assert file.tell() == 1\n"
    repository = await repository_in(tmp_path, {"tests/test_shop.py": unsteady})

    verdict = await SuiteKept(env=ENV).validate(FEATURE, await repository.commit({"shop.py": DONE}))

    assert verdict.passed, verdict.evidence
    assert "unsteady at the base, so ignored: tests/test_shop.py::test_now_and_then" in verdict.evidence


async def test_a_test_whose_name_is_another_each_time_is_not_held_against_a_commit(tmp_path: Path) -> None:
    named = "import pytest, uuid\n@pytest.mark.parametrize('a', [str(uuid.uuid4())])\ndef test_a(a): pass\n"
    repository = await repository_in(tmp_path, {"tests/test_names.py": named})

    verdict = await SuiteKept(env=ENV).validate(FEATURE, await repository.commit({"shop.py": DONE}))

    assert verdict.passed, verdict.evidence
    assert "unsteady at the base, so ignored: tests/test_names.py::test_a[" in verdict.evidence


async def test_only_the_first_confirmation_runs_the_suite(repository: Repository) -> None:
    validator = SuiteKept(env=ENV)
    candidate, asked = counted(await repository.commit({"shop.py": DONE}), repository)

    verdicts = [await validator.validate(FEATURE, evolve(candidate, confirmation=number)) for number in (1, 2, 3)]

    assert [verdict.passed for verdict in verdicts] == [True] * 3
    assert verdicts[1].evidence == "the suite is run only at the first confirmation"
    assert asked == [candidate.base, candidate.commit]


async def test_where_nothing_differs_from_the_base_nothing_is_run(repository: Repository) -> None:
    candidate, asked = counted(await repository.commit({}), repository)

    verdict = await SuiteKept(env=ENV).validate(FEATURE, candidate)

    assert verdict.evidence == "no file differs from the base, so the tests that passed there pass"
    assert asked == []


async def test_the_run_of_a_commit_that_passed_is_the_bases_of_the_next_by_what_it_holds(repository: Repository) -> None:
    validator = SuiteKept(env=ENV)
    first = await repository.commit({"shop.py": DONE})
    await validator.validate(FEATURE, first)
    merged = await repository.judge.commit(await repository.judge.tree_of(first.commit), first.base, message="merged")
    second, asked = counted(evolve(await repository.commit({"shop.py": BROKEN}), base=merged), repository)

    verdict = await validator.validate(FEATURE, second)

    assert "test_count: passed at the base, now failed" in verdict.evidence
    assert set(asked[:1]) == {second.commit}


async def test_a_commit_that_adds_tests_is_run_again_as_a_base_for_they_did_not_run(repository: Repository) -> None:
    validator = SuiteKept(env=ENV)
    more = f"{TESTS}\n\ndef test_none():\n    assert count([]) == 0\n"
    first = await repository.commit({"shop.py": DONE, "tests/test_shop.py": more})
    assert (await validator.validate(FEATURE, first)).passed
    broken = {"shop.py": DONE.replace("return len(prices)", "return len(prices) or None"), "tests/test_shop.py": more}

    verdict = await validator.validate(FEATURE, evolve(await repository.commit(broken), base=first.commit))

    assert verdict.evidence.startswith("tests/test_shop.py::test_none: passed at the base, now failed")
