"""A table describes a feature harness as a call would make it, or all of its mistakes are told at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harnesses.features import FeatureHarness
from harnesses.features.errors import InvalidRequest
from harnesses.run_file_harnesses.features_table import read_harness

FEATURE = {"id": "one", "description": "A one", "steps": ["it is 1"]}
LEAST: dict[str, Any] = {
    "objective": "Numbers",
    "features": [FEATURE],
    "agent": {"scripted": "attempts.toml"},
    "validator": {"python_tests": {"one": "assert one == 1"}, "limit_s": 20.0},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "attempts.toml").write_text('[[one]]\nartifact = "one = 2"\n[[one]]\nartifact = "one = 1"\n', encoding="utf-8")
    (tmp_path / "tests.toml").write_text('one = "assert one == 1"\n', encoding="utf-8")
    lines = ['objective = "Of a file"', "[[feature]]", 'id = "one"', 'description = "A one"', 'steps = ["it is 1"]']
    (tmp_path / "list.toml").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def make(folder: Path, **keys: object) -> FeatureHarness:
    table = {key: value for key, value in {**LEAST, **keys}.items() if value is not None}
    return read_harness(beside=folder, **table)


async def test_a_list_is_worked_until_it_is_proven(folder: Path) -> None:
    policy = {"max_turns_per_feature": 2, "max_retries_per_feature": 1, "fail_fast": {"on_validation_failure": False}}
    harness = make(folder, policy=policy)

    await harness.run()

    assert harness.is_complete()
    assert [feature.passes for feature in harness.state.features] == [True]
    assert harness.state.manifest.current_objective == "Numbers"


async def test_files_are_beside_the_table_and_the_list_may_say_what_it_is_for(folder: Path) -> None:
    (folder / "attempts.toml").write_text('[[one]]\nartifact = "one = 1"\n', encoding="utf-8")
    harness = make(folder, objective=None, features="list.toml", validator={"python_tests": "tests.toml"})

    await harness.run()

    assert harness.is_complete()
    assert harness.state.manifest.current_objective == "Of a file"


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"objective": None}, "has no objective: expected one; add it"),
        ({"features": "none.toml"}, "none.toml cannot be read: No such file or directory"),
        ({"features": 3}, "features: expected a file, a list of tables, or a table with function, got 3"),
        ({"features": [{**FEATURE, "step": 1}]}, "feature 1 'one': unknown key 'step'"),
        ({"agent": {"command": ["x"]}}, "agent: expected a table with one of model, scripted, function"),
        ({"agent": None}, "has no agent"),
        ({"validator": {"pytest": True}}, "validator: expected a table with one of python_tests, accept_all, function"),
        ({"validator": {"python_tests": "none.toml"}}, "none.toml"),
        ({"validator": {"python_tests": {"one": 1}}}, "expected Python source by feature id"),
        ({"policy": {"mode": "fast"}}, "policy: mode: expected one of"),
        ({"policy": {"max_turns": 1}}, "policy: unknown key 'max_turns'"),
        ({"selector": "x"}, "unknown key 'selector'"),
    ],
)
def test_a_mistake_is_told_with_its_key(folder: Path, keys: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        make(folder, **keys)
    assert told in str(caught.value)
