"""One run of the tests tells about all features at a commit of accepted work, and never about one that is to be judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import evolve

from harnesses.coding.validators import PytestNodes, SuiteKept, TestsKept, pytest_nodes, pytest_process
from harnesses.coding.validators.node_survey import NodeSurveys, count_passing
from harnesses.coding.validators.pytest_process import PytestRun, Results
from harnesses.coding.validators.pytest_report import NodeReport, SessionReport
from harnesses.features.feature import Feature
from tests.harnesses.coding.judged import DONE, ENV, repository_in

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


@pytest.mark.parametrize("has_suite", [False, True])
async def test_many_features_cost_one_session_and_a_failing_one_is_run_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_suite: bool
) -> None:
    repository = await repository_in(tmp_path, {"tests/test_shop.py": TESTS})
    sessions, real = list[int](), pytest_process.run_pytest

    async def counted(root: Path, run: PytestRun) -> SessionReport:
        sessions.append(len(run.nodes))
        return await real(root, run)

    monkeypatch.setattr(pytest_process, "run_pytest", counted)
    monkeypatch.setattr(pytest_nodes, "run_pytest", counted)
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
