"""A table describes a coding harness as a call would make it, or all of its mistakes are told at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harnesses.agents import CommandAgent, ScriptedAgent
from harnesses.coding import (
    CodingHarness,
    Command,
    FailingTests,
    FeatureFile,
    Identity,
    MergeLimits,
    OnlyTouches,
    PullRequest,
    PytestNodes,
)
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature_record import InitPlan, InitStep, Shell
from harnesses.features.feature_validators import depends_on_feature
from harnesses.features.health_checks import CommandHealthCheck, NoHealthCheck
from harnesses.features.run_policy import FailFast, RunMode, RunPolicy
from harnesses.run_file_harnesses.coding_table import arguments_of, read_harness
from tests import ROOT
from tests.harnesses.coding.git_repositories import git, make_repository
from tests.zygote import run_python

ROOT = str(ROOT)
LEAST: dict[str, Any] = {"repository": ".", "agent": {"command": ["my-agent"]}}
BESIDE = Path("/somewhere")


def arguments(**keys: object) -> dict[str, Any]:
    return arguments_of({**LEAST, **keys}, BESIDE)


def mistakes(**keys: object) -> list[str]:
    """Return what is wrong with a table; None takes a key away."""
    table = {key: value for key, value in {**LEAST, **keys}.items() if value is not None}
    with pytest.raises(InvalidRequest) as caught:
        arguments_of(table, BESIDE)
    text = str(caught.value).removeprefix("InvalidRequest: coding harness")
    return [line.strip() for line in text.splitlines()[1:]] if "mistakes:" in text else [text.removeprefix(": ")]


def test_a_repository_and_an_agent_are_enough():
    assert isinstance(read_harness(**LEAST), CodingHarness)


def test_what_is_not_said_is_left_to_the_harness():
    assert set(arguments()) == {"repository", "agent"}


def test_paths_are_relative_to_the_table():
    made = arguments(workspace="space", handoff="/elsewhere")

    assert [made[key] for key in ("repository", "workspace", "handoff")] == [BESIDE, BESIDE / "space", Path("/elsewhere")]


def test_a_file_of_features_is_within_the_repository_or_beside_the_table():
    within, beside = arguments(features="TODO.md")["features"], arguments(features={"file": "f.toml"})["features"]

    assert repr(within) == repr(FeatureFile("TODO.md"))
    assert repr(beside) == repr(FeatureFile("/somewhere/f.toml"))


def test_failing_tests_can_be_asked_for():
    made = arguments(features={"failing_tests": True, "paths": ["tests/unit"], "python": ".venv/bin/python"})["features"]

    assert isinstance(made, FailingTests)
    assert repr(made) == "FailingTests(tests/unit)"


def test_features_can_be_written_into_the_table():
    made = arguments(features=[{"id": "a", "description": "A", "steps": ["a"]}])["features"]

    assert [feature.id for feature in made] == ["a"]


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ({"command": ["my-agent", "{prompt}"], "prompt": "argument", "limit_s": 60, "env": {"A": "b"}}, "my-agent"),
        ({"command": ["my-agent"], "name": "Ada"}, "Ada"),
        ({"dialect": "claude_code"}, "claude-code"),
        ({"dialect": {"name": "codex", "arguments": ["--model", "x"]}, "limit_s": 5.0}, "codex"),
        ({"dialect": "aider", "inherit_env": False}, "aider"),
    ],
)
def test_an_agent_is_a_command_or_a_known_program(table: dict[str, Any], name: str):
    agent = arguments(agent=table)["agent"]

    assert isinstance(agent, CommandAgent)
    assert agent.name == name


def test_the_path_of_a_program_is_relative_to_the_table_and_its_name_is_on_path(tmp_path: Path):
    path, name = (
        arguments_of({**LEAST, "agent": {"command": [word, "x"]}}, tmp_path)["agent"] for word in ("./agent.sh", "agent.sh")
    )

    assert path._dialect.command == (str(tmp_path / "agent.sh"), "x")
    assert name._dialect.command == ("agent.sh", "x")


@pytest.mark.parametrize("key", ["command", "resume"])
def test_a_program_that_is_where_the_agent_works_is_looked_for_there(key: str):
    agent = arguments(agent={"command": ["my-agent"], key: ["{directory}/agent.sh", "{session}"]})["agent"]

    assert getattr(agent._dialect, key) == ("{directory}/agent.sh", "{session}")


def test_an_agent_can_be_attempts_that_are_written_down(tmp_path: Path):
    (tmp_path / "attempts.json").write_text('{"a": [{"files": {"a.txt": "a"}}]}')

    agent = arguments_of({**LEAST, "agent": {"scripted": "attempts.json"}}, tmp_path)["agent"]

    assert isinstance(agent, ScriptedAgent)


@pytest.mark.parametrize(
    ("table", "made"),
    [
        ({"command": ["make", "check"], "code": 1, "protect": ["checks/"], "cwd": "sub"}, Command(["make", "check"])),
        ({"pytest": True}, PytestNodes()),
        ({"pytest": ["t.py::test_a"], "limit_s": 5}, PytestNodes(["t.py::test_a"])),
        ({"only_touches": ["src/"]}, OnlyTouches("src/")),
    ],
)
def test_a_validator_is_of_one_kind(table: dict[str, Any], made: object):
    assert repr(arguments(validator=table)["validator"]) == repr(made)


def test_a_list_of_validators_is_all_of_them():
    tables = [{"command": ["true"]}, {"tests_kept": True}, {"suite_kept": True}, {"accept_all": True}]

    made = arguments(validator=tables)["validator"]

    assert {repr(part) for part in made.validators} == {"Command('true')", "TestsKept()", "SuiteKept()", "accept_all()"}


@pytest.mark.parametrize(("command", "depends"), [(["make", "check"], False), (["make", "check-{feature}"], True)])
def test_a_command_that_says_the_same_of_every_feature_does_so_in_a_list_as_well(command: list[str], depends: bool):
    together = arguments(validator=[{"command": command}, {"tests_kept": True}, {"only_touches": ["src/"]}])["validator"]

    assert depends_on_feature(together) is depends


def test_tests_are_guarded_once_and_as_the_table_says():
    together = arguments_of({**LEAST, "validator": [{"pytest": True}, {"tests_kept": True, "allow": ["x"]}]}, Path())[
        "validator"
    ]

    assert [one._guard for one in together.validators if isinstance(one, PytestNodes)] == [None]


def test_of_a_policy_only_what_is_said_differs():
    made = arguments(policy={"mode": "bounded_batch", "max_features_per_run": 2, "fail_fast": {"on_chat_error": True}})[
        "policy"
    ]

    assert made == RunPolicy(
        mode=RunMode.BOUNDED_BATCH,
        max_features_per_run=2,
        max_turns_per_feature=3,
        max_retries_per_feature=2,
        fail_fast=FailFast(on_chat_error=True, on_validation_failure=False),
    )


def test_the_rest_is_read_as_well():
    made = arguments(
        identity={"name": "Ada"},
        limits={"file_bytes": 9},
        init_plan=[["git", "status"], {"script": "ls", "shell": "bash"}],
        health_check=False,
        confirmations=1,
        into="work",
        prompt_overrides={"a": "Do a."},
    )

    assert made["identity"] == Identity(name="Ada")
    assert made["limits"] == MergeLimits(file_bytes=9)
    assert made["init_plan"] == InitPlan([InitStep.command("git", "status"), InitStep.in_shell("ls", Shell.BASH)])
    assert isinstance(made["health_check"], NoHealthCheck)
    assert (made["confirmations"], made["into"], made["prompt_overrides"]) == (1, "work", {"a": "Do a."})
    assert isinstance(arguments(health_check={"limit_s": 5})["health_check"], CommandHealthCheck)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"repository": None}, "has no repository: expected one; add it"),
        ({"repository": 7}, "repository: expected a text, was 7; correct it"),
        ({"agent": None}, "has no agent: expected one; add it"),
        (
            {"agent": "claude"},
            "agent: dialect: expected one of claude_code, codex, cursor, gemini, opencode, openhands, aider, was 'claude'; "
            "did you mean",
        ),
        (
            {"agent": {"command": ["a"], "dialect": "codex"}},
            "agent: expected a table with one of command, dialect, model, scripted, function, got ",
        ),
        ({"agent": {"command": "a b"}}, "agent: command: expected a list, was 'a b'; correct it"),
        (
            {"agent": {"command": ["a"], "limit": 7}},
            "agent: unknown key 'limit': expected one of command, resume, prompt, limit_s",
        ),
        ({"agent": {"command": ["a"], "prompt": "pipe"}}, "agent: prompt: expected one of stdin, argument, file, was 'pipe'"),
        ({"agent": {"command": ["a"], "limit_s": 0}}, "agent: CommandAgent: limit_s: expected seconds above 0, got 0"),
        (
            {"agent": {"dialect": "cluade-code"}},
            "agent: dialect: expected one of claude_code, codex, cursor, gemini, opencode, openhands, aider, was",
        ),
        (
            {"agent": {"dialect": {"name": "codex", "mode": "x"}}},
            "agent: dialect: unknown key 'mode': expected one of name,",
        ),
        ({"agent": {"scripted": "nowhere.json"}}, "agent: [Errno 2] No such file or directory: '/somewhere/nowhere.json'"),
        ({"features": 7}, "features: expected a table with one of file, failing_tests, function, got 7"),
        ({"features": "list.yaml"}, "features: features file 'list.yaml': expected a name that ends with .toml"),
        (
            {"features": {"failing_tests": False}},
            "features: failing_tests: expected true, was False; write true, or leave failing_tests out",
        ),
        ({"features": [{"id": "a", "description": "A"}]}, "feature 1 'a': has no steps: expected at least one text"),
        (
            {"validator": {"tests_kep": True}},
            "validator: expected a table with one of command, pytest, only_touches, tests_kept",
        ),
        ({"validator": []}, "validator: all_of: expected one validator or more, was none"),
        (
            {"validator": [{"command": ["a"]}, {"pytest": []}]},
            "validator 2: PytestNodes: nodes: expected one or more, was none",
        ),
        (
            {"policy": {"mode": "all"}},
            "policy: mode: expected one of strict_incremental, bounded_batch, unlimited_batch, was 'all'",
        ),
        ({"policy": {"max_turns": 1}}, "policy: unknown key 'max_turns': expected one of mode, "),
        ({"policy": {"fail_fast": {"on_chat_eror": True}}}, "policy: fail_fast: unknown key 'on_chat_eror': expected one of "),
        ({"init_plan": "git status"}, "init_plan: expected a list of commands, was 'git status'; write one"),
        ({"init_plan": [7]}, "init_plan: expected lists of words, or tables with script and shell, was 7; write one"),
        ({"health_check": {"limit_s": 0}}, "health_check: limit_s: expected seconds above 0, was 0"),
        (
            {"policy": {"max_turns_per_feature": 0}},
            "policy: run policy has an invalid max_turns_per_feature: expected a whole",
        ),
        ({"policy": {"fail_fast": 7}}, "policy: fail_fast: expected a table, got 7; write one"),
        (
            {"agent": {"dialect": {"name": "codex", "arguments": [1]}}},
            "agent: dialect: arguments[0]: expected a text, was [1]",
        ),
        ({"agent": {"dialect": {"name": "codex", "program": 1}}}, "agent: dialect: program: expected a text, was 1"),
        ({"agent": {"command": [1]}}, "agent: command[0]: expected a text, was [1]; correct it"),
        ({"constraints": 5}, "constraints: expected a table, was 5; correct it"),
        ({"confirmations": 0}, "confirmations: expected 1 or more, was 0; correct it"),
        ({"max_context_steps": -1}, "max_context_steps: expected 0 or more, was -1; correct it"),
        (
            {"limits": {"file_bytes": -1}},
            "limits: MergeLimits: file_bytes: expected bytes from 0 up, or None for no limit, was -1",
        ),
        ({"identity": "Ada"}, "identity: expected a table, got 'Ada'; write one"),
        ({"confirmation": 3}, "unknown key 'confirmation': expected one of repository, agent, "),
    ],
)
def test_a_mistake_is_told_with_its_key(keys: dict[str, Any], told: str):
    assert mistakes(**keys)[0].startswith(told)


def test_all_mistakes_are_told_at_once():
    told = mistakes(agent={}, features=7, validator={}, policy={"mode": "all"}, objectiv="x", stream="yes")

    assert [line.partition(":")[0] for line in told] == [
        "agent",
        "features",
        "validator",
        "policy",
        "unknown key 'objectiv'",
        "stream",
    ]


def test_all_mistakes_of_one_table_are_told_with_those_of_its_parts():
    told = mistakes(
        repository=7,
        stream="yes",
        confirmations=0,
        agent={"command": "a", "limit": 7, "env": []},
        policy={"max_turns_per_feature": 0, "mode": "unlimited_batch"},
        health_check={"limit_s": 0},
    )

    assert [line.partition(": expected")[0].partition(", was")[0] for line in told] == [
        "repository",
        "agent: command",
        "agent: unknown key 'limit'",
        "agent: env",
        "stream",
        "confirmations",
        "policy: run policy has an invalid max_turns_per_feature",
        "health_check: limit_s",
    ]


def test_what_the_harness_refuses_is_refused():
    with pytest.raises(InvalidRequest, match="no validator was given"):
        read_harness(**LEAST, features="TODO.md")


def test_a_run_file_without_any_python_works_a_repository(tmp_path: Path):
    make_repository(tmp_path / "user.git", {"TODO.md": "- [ ] Say hello #hello\n"}, bare=True)
    attempts = {"hello": [{"files": {"hello.txt": "helo\n"}}, {"files": {"hello.txt": "hello\n"}}]}
    (tmp_path / "attempts.json").write_text(json.dumps(attempts))
    (tmp_path / "run.toml").write_text(
        """
        [[harness]]
        name = "greeting"
        harness = "coding"

        [harness.arguments]
        repository = "user.git"
        workspace = "space"
        features = "TODO.md"
        agent = { scripted = "attempts.json" }
        validator = [{ command = ["grep", "-q", "hello", "hello.txt"] }, { only_touches = ["*.txt"] }]
        """
    )

    done = run_python("-m", "orchestrator", "run", "run.toml", cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert git(tmp_path / "user.git", "show", "main:hello.txt") == "hello"


def test_into_is_a_branch_or_a_pull_request(tmp_path: Path) -> None:
    table = {"repository": ".", "agent": "codex", "features": "TODO.md", "validator": "accept_all"}

    def place(into: object) -> object:
        return arguments_of({**table, "into": into}, tmp_path)["into"]

    assert (place("work"), place("pr")) == ("work", "pr")
    assert place({"remote": "fork", "command": ["gh", "{title}"]}) == PullRequest(remote="fork", command=["gh", "{title}"])
    with pytest.raises(InvalidRequest, match="remote: expected the name of a remote"):
        place({"remote": "https://host/x"})
