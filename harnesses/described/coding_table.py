"""A coding harness that is described by a table, as in a run file, without any Python.

    [[harness]]
    name = "fix"
    harness = "coding"

    [harness.arguments]
    repository = "."                          relative to the run file, like all paths but those of features
    features = "TODO.md"                      default: the tests that fail
    agent = { dialect = "claude_code", sandbox = "bwrap" }
    validator = [{ command = ["make", "check-{feature}"], protect = ["checks/"] }, { tests_kept = true }]
    policy = { max_turns_per_feature = 5, max_retries_per_feature = 4 }

What agents, features and validators may be is in `coding_parts`; the other keys are the arguments of `CodingHarness`.
All mistakes are told at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, cast, get_type_hints

from attrs import evolve, fields
from msgspec import UNSET, Struct, UnsetType, defstruct

from harnesses.coding.git import Identity
from harnesses.coding.sources.problems import Problems
from harnesses.coding.workplace.coding_harness import DEFAULT_POLICY, CodingHarness
from harnesses.described.coding_parts import agent_of, features_of, validator_of
from harnesses.described.table_reading import placed, read, tried
from harnesses.features.health_checks import CommandHealthCheck, NoHealthCheck
from harnesses.features.run_policy import FailFast, OnExhausted, RunMode, RunPolicy
from harnesses.features.session_manifest import InitPlan, InitStep

SUBJECT = "coding harness"


def _struct_of(cls: type[Any], **types: Any) -> type[Struct]:
    """Return the table of a class, all of whose keys may be left out.

    Args:
        types: of keys that are read by themselves, or are written in another way.
    """
    hints = get_type_hints(cls) | types
    return defstruct(f"_{cls.__name__}", [(one.name, hints[one.name] | UnsetType, UNSET) for one in fields(cls)])


_FailFast = _struct_of(FailFast)
_Policy = _struct_of(
    RunPolicy,
    mode=Literal["strict_incremental", "bounded_batch", "unlimited_batch"],
    on_exhausted=Literal["block", "stop"],
    fail_fast=dict[str, Any],
    max_turns_per_run=int,
    retry_budget_per_run=int,
)


class _HealthCheck(Struct):
    limit_s: float = 60.0
    env: dict[str, str] | None = None


class _Script(Struct):
    script: str
    shell: Literal["bash", "sh", "pwsh", "cmd"] = "sh"


class _Table(Struct):
    """All keys. What has no type here is read by itself."""

    repository: str
    agent: Any
    features: Any = UNSET
    validator: Any = UNSET
    into: str | UnsetType = UNSET
    workspace: str | UnsetType = UNSET
    handoff: str | UnsetType = UNSET
    objective: str | UnsetType = UNSET
    policy: Any = UNSET
    confirmations: int | UnsetType = UNSET
    check_first: bool | UnsetType = UNSET
    stream: bool | UnsetType = UNSET
    amend: bool | UnsetType = UNSET
    prompt_overrides: dict[str, str] | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET
    health_check: Any = UNSET
    init_plan: Any = UNSET
    identity: Any = UNSET
    max_context_steps: int | UnsetType = UNSET
    constraints: dict[str, Any] | UnsetType = UNSET


def described(*, beside: Path | str = ".", **table: object) -> CodingHarness:
    """Return the harness that a table describes.

    Args:
        beside: the directory that paths are relative to.
        table: the keys of the table.

    Raises:
        InvalidRequest: it describes none; with all mistakes.
    """
    return CodingHarness(**arguments_of(table, Path(beside)))


def arguments_of(table: Mapping[str, object], beside: Path) -> dict[str, Any]:
    """Return what `CodingHarness` is called with.

    Raises:
        InvalidRequest: the table is not as expected; with all mistakes.
    """
    problems = Problems(SUBJECT)
    found = read(table, _Table, "", problems)
    arguments = {key: part(table[key], beside, problems) for key, part in _PARTS.items() if key in table}
    for key, least in _LEAST.items():
        number = table.get(key)
        if isinstance(number, int) and number < least:
            problems.add(key, f"expected {least} or more, was {number!r}; correct it")
    problems.check()
    assert found is not None
    for key, value in _given(found).items():
        if key not in _PARTS:
            arguments[key] = placed(value, beside) if key in _PLACES else value
    return arguments


def _policy(data: object, _: Path, problems: Problems) -> RunPolicy | None:
    found = read(data, _Policy, "policy", problems)
    if found is None:
        return None
    given = _given(found)
    given.update({key: kind(given[key]) for key, kind in (("mode", RunMode), ("on_exhausted", OnExhausted)) if key in given})
    if "fail_fast" in given:
        given["fail_fast"] = _fail_fast(given["fail_fast"], problems)
    return tried(lambda: evolve(DEFAULT_POLICY, **given), "policy", problems)


def _fail_fast(data: object, problems: Problems) -> FailFast:
    found = read(data, _FailFast, "policy: fail_fast", problems)
    return evolve(DEFAULT_POLICY.fail_fast, **_given(found)) if found else DEFAULT_POLICY.fail_fast


def health_check_of(data: object, _: Path, problems: Problems) -> NoHealthCheck | CommandHealthCheck | None:
    if data is False:
        return NoHealthCheck()
    found = read(data, _HealthCheck, "health_check", problems)
    if found is not None and not found.limit_s > 0:
        problems.add("health_check", f"limit_s: expected seconds above 0, was {found.limit_s!r}; correct it")
        return None
    return None if found is None else CommandHealthCheck(limit_s=found.limit_s, env=found.env)


def init_plan_of(data: object, _: Path, problems: Problems) -> InitPlan | None:
    if not isinstance(data, list):
        problems.add("init_plan", f"expected a list of commands, was {data!r:.100}; write one")
        return None
    return InitPlan([step for one in cast(list[object], data) if (step := _init_step(one, problems))])


def _init_step(data: object, problems: Problems) -> InitStep | None:
    if isinstance(data, list):
        words = cast(list[object], data)
        if words and all(isinstance(word, str) for word in words):
            return InitStep.command(*cast(list[str], words))
    elif isinstance(data, Mapping):
        found = read(cast(Mapping[str, object], data), _Script, "init_plan", problems)
        return None if found is None else InitStep.in_shell(found.script, found.shell)
    problems.add("init_plan", f"expected lists of words, or tables with script and shell, was {data!r:.100}; write one")
    return None


def _identity(data: object, _: Path, problems: Problems) -> Identity | None:
    found = read(data, _struct_of(Identity), "identity", problems)
    return None if found is None else Identity(**_given(found))


def _given(found: Struct) -> dict[str, Any]:
    return {name: value for name in found.__struct_fields__ if (value := getattr(found, name)) is not UNSET}


_LEAST = {"confirmations": 1, "max_context_steps": 0}
_PLACES = ("repository", "workspace", "handoff")
_PARTS: Mapping[str, Callable[[object, Path, Problems], object]] = {
    "agent": agent_of,
    "features": features_of,
    "validator": validator_of,
    "policy": _policy,
    "health_check": health_check_of,
    "init_plan": init_plan_of,
    "identity": _identity,
}
