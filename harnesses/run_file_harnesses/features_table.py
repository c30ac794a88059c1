"""Reads a feature harness from a table: a list of features without a repository, each proven by the submitted text.

    [[harness]]
    name = "problems"

    [harness.features]
    objective = "Prove the problems."
    features = "problems.toml"
    agent = { scripted = "attempts.toml" }
    validator = { python_tests = "tests.toml", limit_s = 20.0 }
    policy = { mode = "unlimited_batch", max_turns_per_feature = 3, max_retries_per_feature = 2 }

    features    "problems.toml", .json or .md          a file next to the run file
                a list of tables, each a feature       as in such a file
    agent       model = "anthropic:claude-…"           answers with its work in a fenced block; see `model_agent_table`
                scripted = "attempts.toml"             a file of scripted attempts
    validator   python_tests = "tests.toml"            and the arguments of `PythonTests`: Python source by feature id, in a
                                                       file or a table
                "accept_all"                           accepts everything
    each        function = "module:name"               Python code

The other keys are the arguments of `FeatureHarness`. Paths are relative to the run file. All mistakes are reported together.
Agents that edit files, such as command-line agents, need a repository: use `coding` for them.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from harnesses.coding.python_tests import PythonTests
from harnesses.coding.sources.feature_files import FeatureFile
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import Feature
from harnesses.features.loop.feature_harness import FeatureHarness
from harnesses.features.run_policy import FailFast, RunPolicy
from harnesses.run_file_harnesses.coding_parts import (
    VALIDATORS,
    read_agent,
    read_features,
    read_flagged,
    read_health_check,
    read_init_plan,
    read_policy,
)
from harnesses.run_file_harnesses.table_arguments import (
    Kind,
    Reader,
    TableProblems,
    attempt,
    keys_of,
    make_from,
    read_path,
)

SUBJECT = "feature harness"
_WITHOUT = ("selector", "observer", "hooks", "workplace", "initial_state")
KEYS: Mapping[str, tuple[str, ...]] = {
    "features": keys_of(FeatureHarness, _WITHOUT),
    "features.policy": keys_of(RunPolicy),
    "features.policy.fail_fast": keys_of(FailFast),
}
"""Allowed keys by table, for the documentation."""


def read_harness(*, beside: Path | str = ".", **table: object) -> FeatureHarness:
    """Return the harness that a table describes.

    Args:
        beside: the directory that paths are relative to.
        table: the keys of the table.

    Raises:
        InvalidRequest: the table is invalid; lists all mistakes.
    """
    problems = TableProblems(SUBJECT, beside=Path(beside))
    if isinstance(table.get("features"), str):
        table = _with_file(table, problems)
    made = make_from(FeatureHarness, table, "", problems, readers=_READERS, without=_WITHOUT)
    problems.check()
    assert made is not None
    return made


described = read_harness
"""Former name of `read_harness`."""


def _with_file(table: Mapping[str, object], problems: TableProblems) -> dict[str, object]:
    """Return the table with the name of its feature file replaced by the contents of that file."""
    given = str(table["features"])
    found = attempt(lambda: FeatureFile(problems.place(given)).read_here(), "features", problems)
    features: list[Feature] = [] if found is None else list(found.features)
    objective = {} if found is None or found.objective is None else {"objective": found.objective}
    return {**objective, **table, "features": features}


def _read_list(value: object, where: str, problems: TableProblems) -> object:
    if isinstance(value, list) and all(isinstance(one, Feature) for one in cast(list[object], value)):
        return tuple(cast(list[Feature], value))
    if not isinstance(value, list) and not (isinstance(value, Mapping) and "function" in value):
        problems.add(where, f"expected a file, a list of tables, or a table with function, got {value!r:.100}; write one")
        return None
    found = read_features(cast(object, value), where, problems)
    if not isinstance(found, tuple | list | None):
        problems.add(where, f"function: expected a list of Feature, got {found!r:.100}; return one")
    return found


def _read_tests(value: object, where: str, problems: TableProblems) -> object:
    found: Any = value
    if isinstance(value, str):
        found = attempt(lambda: _parse(problems.place(value)), where, problems)
        if found is None:
            return None
    if not isinstance(found, Mapping) or not all(isinstance(one, str) for one in cast(Mapping[str, object], found).values()):
        problems.add(
            where, "expected Python source by feature id, as a table or a file of one, got something else; correct it"
        )
        return None
    return cast(object, found)


_PARSERS: Mapping[str, Callable[[str], Any]] = {".toml": tomllib.loads, ".json": json.loads}


def _parse(path: Path) -> Any:
    if path.suffix not in _PARSERS:
        raise InvalidRequest(f"{str(path)!r}: expected a name that ends with .toml or .json; rename it")
    return _PARSERS[path.suffix](path.read_text(encoding="utf-8"))


_VALIDATORS: Mapping[str, Kind] = {
    "python_tests": Kind(PythonTests, "tests", _read_tests),
    "accept_all": VALIDATORS["accept_all"],
    "function": VALIDATORS["function"],
}
_READERS: Mapping[str, Reader] = {
    "features": _read_list,
    "validator": partial(read_flagged, _VALIDATORS),
    "agent": partial(read_agent, kinds=("model", "scripted", "function")),
    "policy": partial(read_policy, RunPolicy()),
    "health_check": read_health_check,
    "init_plan": read_init_plan,
    "handoff": read_path,
}
