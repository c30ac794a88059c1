"""The parts of a coding harness as tables: who does the work, what there is to do, and who judges.

    agent      command = ["my-agent", "{prompt}"]        and the arguments of `CommandAgent`
               dialect = "claude_code"                   or codex, aider; or a table with `name` and the arguments of that
               scripted = "attempts.toml"                attempts that are written down
               function = "module:name"                  what only code can say, with `arguments`; so everywhere below
    features   "TODO.md"                                 a file in the repository, or a whole path
               file = "lists/features.toml"              a file beside the run file
               failing_tests = true                      and the arguments of `FailingTests`
               a list of tables, each a feature          as in a TOML file
    validator  command = ["make", "check"]               and the arguments of `Command`
               pytest = true                             the nodes that a feature names; or a list of node ids
               only_touches = ["src/", "docs/**"]
               tests_kept = true, suite_kept = true, accept_all = true
               a list of tables: all of them

Paths are relative to where the table was written.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast

from msgspec import Struct

from harnesses.agents import Bubblewrap, CommandAgent, Dialect, ScriptedAgent, aider, claude_code, codex, read_attempts
from harnesses.coding.candidate import Candidate
from harnesses.coding.sources import FailingTests, FeatureFile
from harnesses.coding.sources.feature_entries import check_ids, check_order, entry_of
from harnesses.coding.sources.feature_source import FeatureSource
from harnesses.coding.sources.problems import Problems, meant
from harnesses.coding.validators import Command, OnlyTouches, PytestNodes, SuiteKept, TestsKept
from harnesses.described.table_arguments import called
from harnesses.described.table_reading import as_type, placed, read, tried
from harnesses.errors import HarnessError
from harnesses.features.feature import Feature
from harnesses.features.feature_protocols import OutcomeValidator
from harnesses.features.feature_validators import accept_all, all_of
from harnesses.features.streaming import FeatureAgent

Validator: TypeAlias = OutcomeValidator[Candidate]
_DIALECTS: Mapping[str, Callable[..., Dialect]] = {"claude_code": claude_code, "codex": codex, "aider": aider}


class Part(Struct, forbid_unknown_fields=True):
    """A table that is one of several kinds: each kind is told by the key that only it has."""

    key: ClassVar[str]

    def made(self, beside: Path) -> Any:
        """Return what the table stands for."""
        raise NotImplementedError

    def rest(self, beside: Path) -> dict[str, Any]:
        """Return all but the key, as arguments of what the table stands for; a program is looked for beside the table."""
        given = {name: getattr(self, name) for name in self.__struct_fields__ if name != self.key}
        if "python" in given:
            given["python"] = sys.executable if given["python"] is None else _program(given["python"], beside)
        if "sandbox" in given:
            given["sandbox"] = _sandbox(given["sandbox"], beside)
        return given

    def checked(self) -> Self:
        """Return the table itself, unless it asks for something by saying no to it."""
        if getattr(self, self.key) is False:
            raise HarnessError(f"{self.key}: expected true, was False; leave the table out")
        return self


class ByProgram(Part, kw_only=True):
    """How a program is run that is an agent."""

    limit_s: float = 1_800.0
    env: dict[str, str] = {}
    inherit_env: bool = True
    sandbox: Literal["bwrap"] | dict[str, list[str] | bool] | None = None
    may_gain_privileges: bool = False
    name: str | None = None


class ByCommand(ByProgram):
    """An agent that is a command."""

    key = "command"
    command: list[str]
    resume: list[str] | None = None
    prompt: Literal["stdin", "argument", "file"] | None = None

    def made(self, beside: Path) -> FeatureAgent:
        words: dict[str, Any] = {"command": self.command, "resume": self.resume}
        words = {key: said and [_program(said[0], beside), *said[1:]] for key, said in words.items()}
        return CommandAgent(**{**self.rest(beside), **words})


class ByDialect(ByProgram):
    """A known command-line agent."""

    key = "dialect"
    dialect: str | dict[str, Any]

    def made(self, beside: Path) -> FeatureAgent:
        return CommandAgent(dialect=dialect_of(self.dialect), **self.rest(beside))


class ByScript(Part):
    """Attempts that are written down."""

    key = "scripted"
    scripted: str

    def made(self, beside: Path) -> FeatureAgent:
        return ScriptedAgent(read_attempts(placed(self.scripted, beside)))


class InFile(Part):
    """Features in a file beside the table."""

    key = "file"
    file: str

    def made(self, beside: Path) -> FeatureSource:
        return FeatureFile(placed(self.file, beside))


class OfTests(Part):
    """Features that are failing tests."""

    key = "failing_tests"
    failing_tests: bool
    python: str | None = None
    paths: list[str] = []
    limit_s: float = 600.0
    args: list[str] = []
    env: dict[str, str] = {}

    def made(self, beside: Path) -> FeatureSource:
        return FailingTests(**self.rest(beside))


class OfCommand(Part):
    """A command ends well."""

    key = "command"
    command: list[str]
    limit_s: float = 60.0
    env: dict[str, str] = {}
    code: int = 0
    cwd: str = "."
    protect: list[str] = []
    network: bool = False

    def made(self, beside: Path) -> Validator:
        return Command(self.command, **self.rest(beside))


class OfPytest(Part):
    """Tests pass."""

    key = "pytest"
    pytest: bool | list[str]
    python: str | None = None
    limit_s: float = 300.0
    env: dict[str, str] = {}

    def made(self, beside: Path) -> Validator:
        nodes = None if isinstance(self.pytest, bool) else self.pytest
        return PytestNodes(nodes, **self.rest(beside))


class OfPaths(Part):
    """Only these paths are touched."""

    key = "only_touches"
    only_touches: list[str]

    def made(self, beside: Path) -> Validator:
        return OnlyTouches(*self.only_touches)


class OfTestsKept(Part):
    """No test is weakened."""

    key = "tests_kept"
    tests_kept: bool
    allow: list[str] = []

    def made(self, beside: Path) -> Validator:
        return TestsKept(**self.rest(beside))


class OfSuiteKept(Part):
    """What passed passes still."""

    key = "suite_kept"
    suite_kept: bool
    python: str | None = None
    limit_s: float = 900.0
    env: dict[str, str] = {}

    def made(self, beside: Path) -> Validator:
        return SuiteKept(**self.rest(beside))


class OfNothing(Part):
    """Everything is accepted, by name."""

    key = "accept_all"
    accept_all: bool

    def made(self, beside: Path) -> Validator:
        return accept_all()


class ByFunction(Part):
    """What a function returns."""

    key = "function"
    function: str
    arguments: dict[str, Any] = {}

    def made(self, beside: Path) -> Any:
        return called(self.function, self.arguments)


AGENTS = (ByCommand, ByDialect, ByScript, ByFunction)
SOURCES = (InFile, OfTests, ByFunction)
VALIDATORS = (OfCommand, OfPytest, OfPaths, OfTestsKept, OfSuiteKept, OfNothing, ByFunction)


def agent_of(
    data: object, beside: Path, problems: Problems, where: str = "agent", kinds: Sequence[type[Part]] = AGENTS
) -> FeatureAgent | None:
    """Return the agent that a table, or the name of a dialect, describes; None, with the problems noted, if none is."""
    table = {"dialect": data} if isinstance(data, str) and ByDialect in kinds else data
    return cast("FeatureAgent | None", part_of(table, where, kinds, beside, problems))


def features_of(data: object, beside: Path, problems: Problems) -> FeatureSource | tuple[Feature, ...] | None:
    """Return the features that a text, a table or a list of tables describes."""
    if isinstance(data, str):
        return cast("FeatureSource | None", tried(lambda: FeatureFile(data), "features", problems))
    if isinstance(data, list):
        found = [entry_of(table, number, problems) for number, table in enumerate(cast(list[object], data), 1)]
        entries = [entry for entry in found if entry is not None]
        check_ids(entries, problems)
        if len(entries) == len(found):
            check_order(entries, problems)
        return tuple(entry.feature for entry in entries)
    return cast("FeatureSource | None", part_of(data, "features", SOURCES, beside, problems))


def validator_of(data: object, beside: Path, problems: Problems) -> Validator | None:
    """Return the validator that a table describes, or all of a list of tables together."""
    if not isinstance(data, list):
        return cast("Validator | None", part_of(_flagged(data), "validator", VALIDATORS, beside, problems))
    tables = list(enumerate(cast(list[object], data), 1))
    found = [part_of(_flagged(one), f"validator {number}", VALIDATORS, beside, problems) for number, one in tables]
    parts = [cast(Validator, part) for part in found if part is not None]
    return tried(lambda: all_of(*parts), "validator", problems) if len(parts) == len(found) else None


def _flagged(data: object) -> object:
    """Return `"pytest"` as the table `{ pytest = true }`."""
    return {data: True} if isinstance(data, str) else data


def part_of(data: object, where: str, kinds: Sequence[type[Part]], beside: Path, problems: Problems) -> object | None:
    """Return what a table stands for that is of one of several kinds; None, with the problems noted, if it is of none."""
    keys = [kind.key for kind in kinds]
    table = cast(Mapping[str, object], data if isinstance(data, Mapping) else {})
    given = [key for key in table if key in keys]
    if len(given) != 1:
        was = f"was {', '.join(given)}" if given else f"was {data!r:.100}"
        problems.add(where, f"expected a table with one of {', '.join(keys)}, {was}; for several, write a table for each")
        return None
    part = read(table, next(kind for kind in kinds if kind.key == given[0]), where, problems)
    return None if part is None else tried(lambda: part.checked().made(beside), where, problems)


def _sandbox(given: str | dict[str, list[str] | bool] | None, beside: Path) -> Bubblewrap | None:
    if given is None:
        return None
    table = given if isinstance(given, dict) else {}
    if unknown := set(table) - {"writable", "hidden", "network"}:
        raise HarnessError(f"sandbox: unknown key {min(unknown)!r}: expected writable, hidden or network; correct it")
    network = table.get("network")
    if not isinstance(network, bool | None):
        raise HarnessError(f"sandbox: network: expected true or false, was {network!r:.100}")
    places: dict[str, list[str]] = {}
    for key in ("writable", "hidden"):
        listed = table.get(key, [])
        if isinstance(listed, bool):
            raise HarnessError(f"sandbox: {key}: expected a list of paths, was {listed!r}")
        places[key] = [str(placed(path, beside)) for path in listed]
    return Bubblewrap(writable=places["writable"], hidden=places["hidden"], network=network)


def dialect_of(given: str | dict[str, Any]) -> Dialect:
    table = {"name": given} if isinstance(given, str) else dict(given)
    name = str(table.pop("name", "")).replace("-", "_")
    if name not in _DIALECTS:
        raise HarnessError(
            f"dialect: expected one of {', '.join(_DIALECTS)}, was {name!r}{meant(name, _DIALECTS) or '; correct it'}"
        )
    known = inspect.signature(_DIALECTS[name]).parameters
    problems = Problems("dialect")
    for key, value in table.items():
        if key not in known:
            problems.add("", f"unknown key {key!r}: expected one of {', '.join(['name', *known])}; correct or remove it")
            continue
        as_type(value, list[str] if key == "arguments" else str, key, "", problems)
    problems.check()
    return _DIALECTS[name](**table)


def _program(given: str, beside: Path) -> str:
    """Return a program: a path is looked for beside the table, a name on PATH; one with a place in front stays."""
    return str(placed(given, beside)) if "/" in given and not given.startswith("{") else given
