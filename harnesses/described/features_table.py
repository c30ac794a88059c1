"""A feature harness that is described by a table: a list of features without a repository, each proven by what is handed in.

    [[harness]]
    name = "problems"

    [harness.features]
    objective = "Prove the problems."
    features = "problems.toml"
    agent = { scripted = "attempts.toml" }
    validator = { python_tests = "tests.toml", limit_s = 20.0 }
    policy = { mode = "unlimited_batch", max_turns_per_feature = 3, max_retries_per_feature = 2 }

    features    "problems.toml", .json or .md          a file beside the run file
                a list of tables, each a feature       as in such a file
    agent       scripted = "attempts.toml"             attempts that are written down
    validator   python_tests = "tests.toml"            and the arguments of `PythonTests`: Python source by feature id, in a
                                                       file or a table
                "accept_all"                           everything is accepted, by name
    each        function = "module:name"               what only code can say

The other keys are the arguments of `FeatureHarness`. Paths are relative to the run file. All mistakes are told at once. Agents
that work in files, such as command-line agents, need a repository: they are for `coding`.
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
from harnesses.coding.sources.problems import Problems
from harnesses.described.coding_parts import ByFunction, ByScript, OfNothing, agent_of, features_of, part_of
from harnesses.described.coding_table import health_check_of, init_plan_of
from harnesses.described.table_arguments import Reader, arguments_from, keys_of, made_from, path_beside
from harnesses.described.table_reading import placed, tried
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import Feature
from harnesses.features.loop.feature_harness import FeatureHarness
from harnesses.features.run_policy import FailFast, RunPolicy

SUBJECT = "feature harness"
_WITHOUT = ("selector", "observer", "hooks", "workplace", "initial_state")
_AGENTS = (ByScript, ByFunction)
_VALIDATORS = (OfNothing, ByFunction)


def described(*, beside: Path | str = ".", **table: object) -> FeatureHarness:
    """Return the harness that a table describes.

    Args:
        beside: the directory that paths are relative to.
        table: the keys of the table.

    Raises:
        InvalidRequest: it describes none; with all mistakes.
    """
    problems, place = Problems(SUBJECT), Path(beside)
    if isinstance(table.get("features"), str):
        table = _with_file(table, place, problems)
    readers: dict[str, Reader] = {
        "features": lambda value, where, problems: _features(value, place, problems),
        "validator": partial(_validator, beside=place),
        "agent": lambda value, where, problems: agent_of(value, place, problems, where, _AGENTS),
        "policy": _policy,
        "health_check": lambda value, where, problems: health_check_of(value, place, problems),
        "init_plan": lambda value, where, problems: init_plan_of(value, place, problems),
        "handoff": path_beside(place),
    }
    arguments = arguments_from(table, FeatureHarness, "", problems, readers=readers, without=_WITHOUT)
    made = None if arguments is None else tried(lambda: FeatureHarness(**arguments), "", problems)
    problems.check()
    assert made is not None
    return made


KEYS: Mapping[str, tuple[str, ...]] = {
    "features": keys_of(FeatureHarness, _WITHOUT),
    "features.policy": keys_of(RunPolicy),
    "features.policy.fail_fast": keys_of(FailFast),
}
"""What may be said where: for documentation."""


def _with_file(table: Mapping[str, object], beside: Path, problems: Problems) -> dict[str, object]:
    """Return the table with what its file says in the place of the file's name."""
    given = str(table["features"])
    found = tried(lambda: FeatureFile(placed(given, beside)).read_here(), "features", problems)
    features: list[Feature] = [] if found is None else list(found.features)
    objective = {} if found is None or found.objective is None else {"objective": found.objective}
    return {**objective, **table, "features": features}


def _features(value: object, beside: Path, problems: Problems) -> object:
    if isinstance(value, list) and all(isinstance(one, Feature) for one in cast(list[object], value)):
        return tuple(cast(list[Feature], value))
    if not isinstance(value, list) and not (isinstance(value, Mapping) and "function" in value):
        problems.add("features", f"expected a file, a list of tables, or a table with function, got {value!r:.100}; write one")
        return None
    found = features_of(cast(object, value), beside, problems)
    if not isinstance(found, tuple | list | None):
        problems.add("features", f"function: expected a list of Feature, got {found!r:.100}; return one")
    return found


def _validator(value: object, where: str, problems: Problems, *, beside: Path) -> object:
    flagged: Mapping[str, object] = {value: True} if isinstance(value, str) else _table(value)
    if "python_tests" in flagged:
        table = {"tests" if key == "python_tests" else key: one for key, one in flagged.items()}
        readers: Mapping[str, Reader] = {"tests": partial(_tests, beside=beside)}
        return made_from(table, PythonTests, where, problems, readers=readers)
    if not {"accept_all", "function"} & flagged.keys():
        problems.add(where, f"expected a table with one of python_tests, accept_all, function, got {value!r:.100}; write one")
        return None
    return part_of(flagged, where, _VALIDATORS, beside, problems)


def _table(value: object) -> Mapping[str, object]:
    return cast(Mapping[str, object], value) if isinstance(value, Mapping) else {}


def _tests(value: object, where: str, problems: Problems, *, beside: Path) -> object:
    where = where.replace("tests", "python_tests")
    found: Any = value
    if isinstance(value, str):
        found = tried(lambda: _parse(placed(value, beside)), where, problems)
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


def _policy(value: object, where: str, problems: Problems) -> object:
    readers: Mapping[str, Reader] = {
        "fail_fast": lambda value, where, problems: made_from(value, FailFast, where, problems),
    }
    return made_from(value, RunPolicy, where, problems, readers=readers)
