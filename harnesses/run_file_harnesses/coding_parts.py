"""Reads the parts of a coding harness from tables: agent, features, validator and policy.

    agent      model = "anthropic:claude-…"              and the keys of `model_agent_table`
               command = ["my-agent", "{prompt}"]        and the arguments of `CommandAgent`
               dialect = "claude_code"                   or codex, aider, …; or a table with `name` and the dialect's arguments
               scripted = "attempts.toml"                a file of scripted attempts
               function = "module:name"                  Python code, with `arguments`; allowed for all parts below too
    features   "TODO.md"                                 a file in the repository, or an absolute path
               file = "lists/features.toml"              a file next to the run file
               failing_tests = true                      and the arguments of `FailingTests`
               a list of tables, each a feature          as in a TOML file
    validator  command = ["make", "check"]               and the arguments of `Command`
               pytest = true                             the nodes that a feature names; or a list of node ids
               only_touches = ["src/", "docs/**"]
               tests_kept = true, suite_kept = true, accept_all = true
               a list of tables                          all of them must accept
    into       "branch"                                  the branch that receives accepted work
               "pr"                                      a pull request; or a table with the fields of `PullRequest`

Paths are relative to the file in which the table is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, cast

from attrs import evolve

from harnesses.agents import (
    Bubblewrap,
    CommandAgent,
    Dialect,
    ScriptedAgent,
    aider,
    claude_code,
    codex,
    cursor,
    gemini,
    opencode,
    openhands,
    read_attempts,
)
from harnesses.agents.command.command_agent import AUTO
from harnesses.agents.sandbox.sandbox_settings import LIMITS
from harnesses.coding.candidate import Candidate
from harnesses.coding.pull_request import PullRequest
from harnesses.coding.sources import FailingTests, FeatureFile
from harnesses.coding.sources.feature_entries import check_ids, check_order, entry_of
from harnesses.coding.sources.feature_files import FeatureSource
from harnesses.coding.validators import Command, OnlyTouches, PytestNodes, SuiteKept, TestsKept
from harnesses.errors import near
from harnesses.features.feature import Feature
from harnesses.features.feature_record import InitPlan, InitStep, Shell
from harnesses.features.feature_validators import OutcomeValidator, accept_all, all_of
from harnesses.features.health_checks import CommandHealthCheck, NoHealthCheck
from harnesses.features.run_policy import RunPolicy
from harnesses.features.streaming import FeatureAgent
from harnesses.run_file_harnesses.model_agent_table import model_kind
from harnesses.run_file_harnesses.table_arguments import (
    FUNCTION,
    Kind,
    Reader,
    TableProblems,
    attempt,
    make_from,
    read_arguments,
    read_kind,
    read_path,
    reader_of,
)

Validator: TypeAlias = OutcomeValidator[Candidate]
_DIALECTS: Mapping[str, Callable[..., Dialect]] = {
    "claude_code": claude_code,
    "codex": codex,
    "cursor": cursor,
    "gemini": gemini,
    "opencode": opencode,
    "openhands": openhands,
    "aider": aider,
}
_TEXTS = reader_of(list[str])


# programs


def _read_program(value: object, where: str, problems: TableProblems) -> str | None:
    given: str | None = reader_of(str)(value, where, problems)
    return None if given is None else _find_program(given, problems)


def _read_command(value: object, where: str, problems: TableProblems) -> list[str] | None:
    words: list[str] | None = _TEXTS(value, where, problems)
    return [_find_program(words[0], problems), *words[1:]] if words else words


def _find_program(given: str, problems: TableProblems) -> str:
    """Return a program: a path is resolved relative to the table; a name, or text beginning with `{`, is unchanged."""
    return str(problems.place(given)) if "/" in given and not given.startswith("{") else given


def read_dialect(value: object, where: str, problems: TableProblems) -> Dialect | None:
    """Return the dialect given by its name, or by a table with `name` and the dialect's arguments."""
    table = dict(cast(Mapping[str, object], value)) if isinstance(value, Mapping) else {"name": value}
    name = str(table.pop("name", "")).replace("-", "_")
    if name not in _DIALECTS:
        way_out = near(name, _DIALECTS) or "; correct it"
        problems.add(where, f"expected one of {', '.join(_DIALECTS)}, was {name!r}{way_out}")
        return None
    readers = {"arguments": _TEXTS, "histories": reader_of(str)}
    return make_from(_DIALECTS[name], table, where, problems, readers=readers, own=("name",))


def _read_sandbox(value: object, where: str, problems: TableProblems) -> object:
    def places(value: object, where: str, problems: TableProblems) -> list[str]:
        return [str(problems.place(path)) for path in _TEXTS(value, where, problems) or ()]

    if value == "bwrap":
        return value
    if not isinstance(value, Mapping):
        problems.add("", f"{where}: expected bwrap or a table, was {value!r:.100}; correct it")
        return None
    readers = {"writable": places, "hidden": places, **dict.fromkeys(LIMITS.values(), _read_limit)}
    return make_from(Bubblewrap, cast(object, value), where, problems, readers=readers, without=("program",))


def _read_own_sandbox(value: object, where: str, problems: TableProblems) -> object:
    """Return the sandbox of a command-line agent, which can also be left to it, or be turned off."""
    return value if value == AUTO or value is False else _read_sandbox(value, where, problems)


def _read_limit(value: object, where: str, problems: TableProblems) -> int | None:
    """Return a limit of a sandbox; `false` is none."""
    return None if value is False else cast("int | None", reader_of(int)(value, where, problems))


# agents


def _read_script(path: Any) -> ScriptedAgent:
    return ScriptedAgent(read_attempts(path))


_PROGRAM: Mapping[str, Reader] = {"sandbox": _read_own_sandbox}
AGENTS: Mapping[str, Kind] = {
    "command": Kind(
        CommandAgent,
        "command",
        _read_command,
        {**_PROGRAM, "resume": _read_command, "prompt": reader_of(Literal["stdin", "argument", "file"])},
        ("dialect",),
    ),
    "dialect": Kind(CommandAgent, "dialect", read_dialect, _PROGRAM, ("command", "resume", "prompt")),
    "model": model_kind(_read_sandbox),
    "scripted": Kind(_read_script, "path", read_path),
    "function": FUNCTION,
}


def read_agent(
    value: object, where: str, problems: TableProblems, *, kinds: Sequence[str] = tuple(AGENTS)
) -> FeatureAgent | None:
    """Return the agent described by a table or by the name of a dialect; None if it is invalid, with the problems added."""
    table = {"dialect": value} if isinstance(value, str) and "dialect" in kinds else value
    found: FeatureAgent | None = read_kind({kind: AGENTS[kind] for kind in kinds}, table, where, problems)
    return found


# features

_PYTEST: Mapping[str, Reader] = {"python": _read_program, "paths": _TEXTS, "args": _TEXTS}
SOURCES: Mapping[str, Kind] = {
    "file": Kind(FeatureFile, "path", read_path),
    "failing_tests": Kind(FailingTests, readers=_PYTEST),
    "function": FUNCTION,
}


def read_features(value: object, where: str, problems: TableProblems) -> FeatureSource | tuple[Feature, ...] | None:
    """Return the features described by a string, a table or a list of tables."""
    if isinstance(value, str):
        return attempt(lambda: FeatureFile(value), where, problems)
    if not isinstance(value, list):
        return cast("FeatureSource | None", read_kind(SOURCES, value, where, problems))
    found = [entry_of(table, number, problems) for number, table in enumerate(cast(list[object], value), 1)]
    entries = [entry for entry in found if entry is not None]
    check_ids(entries, problems)
    if len(entries) == len(found):
        check_order(entries, problems)
    return tuple(entry.feature for entry in entries)


# validators


def _read_nodes(value: object, where: str, problems: TableProblems) -> list[str] | None:
    if isinstance(value, bool | str):
        if value is not True:
            problems.add("", f"{where}: expected true, or a list of node ids, was {value!r:.100}; correct it")
        return None
    nodes: list[str] | None = _TEXTS(value, where, problems)
    return nodes


def _limit_paths(globs: Sequence[str]) -> OnlyTouches:
    return OnlyTouches(*globs)


VALIDATORS: Mapping[str, Kind] = {
    "command": Kind(Command, "argv", _TEXTS, {"protect": _TEXTS, "sandbox": _read_sandbox}),
    "pytest": Kind(PytestNodes, "nodes", _read_nodes, _PYTEST),
    "only_touches": Kind(_limit_paths, "globs", _TEXTS),
    "tests_kept": Kind(TestsKept, readers={"allow": _TEXTS}),
    "suite_kept": Kind(SuiteKept, readers=_PYTEST),
    "accept_all": Kind(accept_all),
    "function": FUNCTION,
}


def read_flagged(kinds: Mapping[str, Kind], value: object, where: str, problems: TableProblems) -> Any:
    """Return the object that a table describes; `"pytest"` is short for the table `{ pytest = true }`."""
    table = {value: True} if isinstance(value, str) and value in kinds else value
    return read_kind(kinds, table, where, problems, of_several="write a separate table for each")


def read_validator(value: object, where: str, problems: TableProblems) -> Validator | None:
    """Return the validator that a table describes, or the combination of a list of tables."""
    if not isinstance(value, list):
        return cast("Validator | None", read_flagged(VALIDATORS, value, where, problems))
    tables = enumerate(cast(list[object], value), 1)
    found = [read_flagged(VALIDATORS, one, f"{where} {number}", problems) for number, one in tables]
    parts = [part for part in found if part is not None]
    return attempt(lambda: all_of(*parts), where, problems) if len(parts) == len(found) else None


# where accepted work goes


def read_into(value: object, where: str, problems: TableProblems) -> PullRequest | str | None:
    """Return the branch that a text names, or the pull request that a table describes; "pr" is one with its defaults."""
    if isinstance(value, Mapping):
        return make_from(PullRequest, cast(object, value), where, problems, readers={"command": _TEXTS, "find": _TEXTS})
    return cast("str | None", reader_of(str)(value, where, problems))


# how a list is worked


def read_policy(default: RunPolicy, value: object, where: str, problems: TableProblems) -> RunPolicy | None:
    """Return a copy of the default policy with the values of a table."""
    readers = {"fail_fast": partial(_read_changes, default.fail_fast)}
    return cast("RunPolicy | None", _read_changes(default, value, where, problems, readers=readers))


def _read_changes(default: Any, value: object, where: str, problems: TableProblems, **how: Any) -> object:
    given = read_arguments(cast("type[object]", type(default)), value, where, problems, **how)
    return None if given is None else attempt(lambda: evolve(default, **given), where, problems)


def read_health_check(value: object, where: str, problems: TableProblems) -> NoHealthCheck | CommandHealthCheck | None:
    readers = {"limit_s": _read_seconds}
    return NoHealthCheck() if value is False else make_from(CommandHealthCheck, value, where, problems, readers=readers)


def _read_seconds(value: object, where: str, problems: TableProblems) -> float | None:
    seconds: float | None = reader_of(float)(value, where, problems)
    if seconds is not None and not seconds > 0:
        problems.add("", f"{where}: expected seconds above 0, was {seconds!r}; correct it")
    return seconds


def read_init_plan(value: object, where: str, problems: TableProblems) -> InitPlan | None:
    if not isinstance(value, list):
        problems.add(where, f"expected a list of commands, was {value!r:.100}; write one")
        return None
    return InitPlan([step for one in cast(list[object], value) if (step := _read_step(one, where, problems))])


def _read_step(value: object, where: str, problems: TableProblems) -> InitStep | None:
    if isinstance(value, Mapping):
        readers = {"shell": reader_of(Shell)}
        return make_from(InitStep.in_shell, cast(object, value), where, problems, readers=readers)
    words = cast(list[object], value) if isinstance(value, list) else []
    if words and all(isinstance(word, str) for word in words):
        return InitStep.command(*cast(list[str], words))
    problems.add(where, f"expected lists of words, or tables with script and shell, was {value!r:.100}; write one")
    return None
