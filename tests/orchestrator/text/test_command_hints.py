"""A command that a message names can be pasted as it stands: it opens the store that the message is about."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.text.command_hints import command, for_store
from tests.orchestrator.commanding import Command


@pytest.fixture(autouse=True)
def _no_store_is_implied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORCHESTRATOR_STORE", raising=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`orchestrator budgets` shows it", "`orchestrator budgets --store a.db` shows it"),
        (
            "`orchestrator approvals reopen a1` and `orchestrator start b`",
            "`orchestrator approvals reopen a1 --store a.db` and `orchestrator start b --store a.db`",
        ),
        ("`orchestrator verify --store b.db`", "`orchestrator verify --store b.db`"),
        ("`orchestrator analyze RUN slow`", "`orchestrator analyze RUN slow`"),
        ("the orchestrator `run`", "the orchestrator `run`"),
        ("see `orchestrator --help`", "see `orchestrator --help`"),
        ("see `orchestrator backtest --help`", "see `orchestrator backtest --help`"),
        ("`orchestrator run FILE -- --help`", "`orchestrator run FILE --store a.db -- --help`"),
    ],
)
def test_each_command_in_a_message_has_the_store_once(text: str, expected: str) -> None:
    assert for_store(text, "a.db") == expected
    assert for_store(text, "run.db") == text


def test_the_default_store_is_not_named_whatever_its_path_is_written_as(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert command(tmp_path / "run.db", "status") == command("run.db", "status") == "orchestrator status"
    assert command(tmp_path / "other.db", "status").endswith(f"--store {tmp_path}{os.sep}other.db")


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Command]:
    """The command in a folder whose store is not the default one."""
    with Command(tmp_path) as command:
        command.write(
            "run.toml",
            'store = "other.db"\n[[harness]]\nname = "unsure"\n'
            'harness = "tests.orchestrator.operated:Unsure"\ninitial_state = 0\n',
        )
        yield command


def test_a_blocked_run_names_its_store_in_every_command_of_every_verb(other: Command) -> None:
    ran = other("run", "run.toml")
    lines = (
        ["kill-switch", "on"],
        ["status"],
        ["show", "unsure", "99"],
        ["effects"],
        ["doctor"],
        ["analyze", "other.db", "why", "unsure"],
        ["kill-switch", "off"],
    )
    shown = other.each(*([*line, "--store", "other.db"] if line[0] != "analyze" else line for line in lines))

    assert ran.code == 6
    verbs = r"orchestrator (?=effects settle|start|steps|kill-switch off|run FILE|run run\.toml)"
    for done in (ran, *shown[1:]):
        named = re.split(verbs, " ".join(f"{done.out} {done.err}".split()))[1:]
        assert named, done
        assert [one for one in named if "--store" not in one.partition("`")[0][:200]] == []
