"""One run of the tests tells about all features at a commit of accepted work, and never about one that is to be judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import evolve

from harnesses.coding.sources import FailingTests
from harnesses.coding.validators import PytestNodes, SuiteKept, TestsKept, pytest_nodes, pytest_process
from harnesses.coding.validators.node_survey import NodeSurveys, count_passing
from harnesses.coding.validators.pytest_process import PytestRun, Results
from harnesses.coding.validators.pytest_report import NodeReport, SessionReport
from harnesses.features.feature import Feature
from harnesses.features.feature_validators import expect_features
from tests.harnesses.coding.judged import DONE, ENV, FEATURE, repository_in

TESTS = """import pytest
from shop import count, total


def test_total():
    assert total([1, 2]) == 3


@pytest.mark.parametrize("of", [[], [1, 2], "no list"])
def test_count(of):
    assert count(of) == len(of) and isinstance(of, list)


def test_none():
    assert count([]) == 0


def test_two():
    assert count([1, 1]) == 2
"""


def feature(name: str) -> Feature:
    return Feature(name, name, steps=(f"tests/test_shop.py::test_{name}",))


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many nodes were named in each session of pytest; 0 for the whole suite."""
    counts, real = list[int](), pytest_process.run_pytest

    async def counted(root: Path, run: PytestRun) -> SessionReport:
        counts.append(len(run.nodes))
        return await real(root, run)

    monkeypatch.setattr(pytest_process, "run_pytest", counted)
    monkeypatch.setattr(pytest_nodes, "run_pytest", counted)
    return counts


@pytest.mark.parametrize("has_suite", [False, True])
async def test_many_features_cost_one_session_and_a_failing_one_is_run_alone(
    tmp_path: Path, sessions: list[int], has_suite: bool
) -> None:
    repository = await repository_in(tmp_path, {"tests/test_shop.py": TESTS})
    features = [feature(name) for name in ("total", "count", "none", "two")]
    validator = PytestNodes(env=ENV) & TestsKept() & SuiteKept(env=ENV) if has_suite else PytestNodes(env=ENV) & TestsKept()
    validator.expect(features)
    at_base = await repository.commit({})

    passed = [(await validator.validate(one, at_base)).passed for one in (*features[2:], *features[2:])]
    assert (passed, sessions) == ([True] * 4, [0] if has_suite else [4])
    again = [(await validator.validate(one, evolve(at_base, confirmation=2))).passed for one in features[2:]]
    assert (again, sessions[1:]) == ([True] * 2, [2])
    failing = await validator.validate(features[1], at_base)
    assert (failing.passed, sessions[2:]) == (False, [1])
    assert "no list" in failing.evidence

    judged = await (PytestNodes(env=ENV) & TestsKept()).validate(features[0], await repository.commit({"shop.py": DONE}))
    assert judged.passed
    assert sessions[3] == 1


async def test_what_one_run_has_told_is_not_asked_again(tmp_path: Path, sessions: list[int]) -> None:
    """At the base: no run. A try: the suite, its test inverted, alone, and with what passes now. After the merge: one more."""
    listed = "from shop import count, total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n\n\n"
    listed += "def test_both():\n    assert total([1]) == count([1])\n\n\ndef test_never():\n    assert total([1]) == 2\n"
    repository = await repository_in(tmp_path, {"tests/test_shop.py": listed})
    at_base, source = await repository.commit({}), FailingTests(env=ENV)
    validator = source.validator()
    assert validator is not None
    async with repository.judge.at(at_base.commit) as checkout:
        features = await source.load(checkout)
    source.listed_at(await repository.judge.tree_of(at_base.commit))
    expect_features(validator, features)
    assert sessions == [0, 3]

    before = [await validator.validate(one, evolve(at_base, before_work=True)) for one in features]
    assert [(one.passed, "NotImplementedError" in one.evidence) for one in before] == [(False, True)] * 3
    assert sessions[2:] == []

    work = await repository.commit({"shop.py": DONE})
    tries = [await validator.validate(features[0], evolve(work, confirmation=number)) for number in (1, 2, 3)]
    assert [one.passed for one in tries] == [True] * 3
    assert sessions[2:] == [0, 1, 1, 2]

    merged = evolve(work, base=work.commit)
    expect_features(validator, [evolve(features[0], passes=True), *features[1:]])
    again = [await validator.validate(features[1], evolve(merged, confirmation=number)) for number in (1, 2, 3)]
    assert [one.passed for one in again] == [True] * 3
    assert sessions[6:] == [1]
    never = await validator.validate(features[2], evolve(merged, before_work=True))
    assert (never.passed, "assert 1 == 2" in never.evidence, sessions[7:]) == (False, True, [])


async def test_a_suite_that_does_not_reach_a_test_leaves_it_to_a_run_of_its_own(tmp_path: Path, sessions: list[int]) -> None:
    ends = "import shop\n\n\ndef test_end():\n    getattr(shop, 'end', print)(0)\n"
    repository = await repository_in(tmp_path, {"tests/test_a.py": ends})
    validator = PytestNodes(env=ENV) & TestsKept() & SuiteKept(env=ENV)
    first = await validator.validate(FEATURE, await repository.commit({"shop.py": DONE}))
    assert first.passed
    sessions.clear()

    ended = await repository.commit({"shop.py": f"import os\n\nend = os._exit\n{DONE}"})
    second = await validator.validate(FEATURE, ended)

    assert not second.passed
    assert "test_end: passed at the base, now cut short" in second.evidence
    assert sessions[:2] == [0, 1]


async def test_a_session_that_was_cut_off_or_manipulated_proves_nothing() -> None:
    passed = {"a": NodeReport(id="a", passed=True, outcome="passed")}

    for results, count in (
        (Results(nodes=passed, whole=True), 1),
        (Results(nodes=passed, whole=False), 0),
        (Results(nodes=passed, whole=True, bent={"tampered": None}), 0),
    ):

        async def run(asked: Sequence[str], results: Results = results) -> Results:
            assert tuple(asked) == ("a", "b")
            return results

        assert await NodeSurveys(listed=("a", "b")).passing("tree", 1, ["a"], run, {}) == count
    assert count_passing(passed, ["a", "b"]) == 0
