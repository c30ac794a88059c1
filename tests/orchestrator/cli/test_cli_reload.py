"""SIGHUP has a program read its run file again: what is added runs, and nothing that runs is touched."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orchestrator.codec import decode
from orchestrator.store import SqliteReader
from tests.orchestrator.commanding import Command, ended, harnesses, heads, wait_until

HARNESS = '[[harness]]\nname = "{name}"\nharness = "tests.orchestrator.commanded:Ticking"\ninitial_state = 0\n{more}'


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        yield command


def run_file(command: Command, *tables: str) -> Path:
    return command.write("run.toml", "\n".join(tables))


def harness(name: str, more: str = "") -> str:
    return HARNESS.format(name=name, more=more)


def reloads(command: Command) -> list[dict[str, Any]]:
    with closing(SqliteReader(command.folder / "run.db")) as reader:
        return [decode(record.body) for record in reader.records(limit=1_000_000) if record.kind == "reloaded"]


def reload(command: Command, process: subprocess.Popen[str]) -> dict[str, Any]:
    """Send the signal, and return what is recorded of it."""
    count = len(reloads(command))
    process.send_signal(signal.SIGHUP)
    wait_until(lambda: len(reloads(command)) > count)
    return reloads(command)[-1]


def test_what_is_added_to_a_run_file_is_started_and_what_has_changed_is_only_named(command: Command) -> None:
    run_file(
        command, '[[pool]]\nname = "old"\nsteps = 100_000\n', harness("one", 'pool = "old"'), harness("two"), harness("gone")
    )
    process = command.start("run", "run.toml")
    wait_until(lambda: len(heads(command.folder / "run.db")) == 3)
    run_file(
        command,
        "grace_s = 3.0\n",
        '[[supervisor]]\nname = "desk"\nstrategy = "one_for_all"\n',
        '[[pool]]\nname = "old"\nsteps = 200_000\n',
        '[[pool]]\nname = "new"\nsteps = 50\n',
        harness("one", 'pool = "old"'),
        harness("two", 'restart = "temporary"'),
        harness("three", 'pool = "new"\nsupervisor = "desk"'),
    )

    first = reload(command, process)
    wait_until(lambda: heads(command.folder / "run.db").get("three", 0) == 50)
    restarted = command("restart", "two")
    second = reload(command, process)
    command.write("run.toml", "[[harness\n")
    third = reload(command, process)
    run_file(command, harness("one"), harness("four"), harness("bad").replace("Ticking", "Nowhere"))
    fourth = reload(command, process)
    attempts = {one.name: one.attempt for one in harnesses(command.folder / "run.db")}
    process.terminate()
    done = ended(process)

    assert first["added"] == ["supervisor desk", "pool new", "harness three"]
    assert first["not_applied"] == [
        "harness two has changed: `orchestrator restart two` applies it",
        "harness gone is gone from the file: `orchestrator stop gone` ends it",
        "the budget of pool old has changed: the next restart of a harness applies it",
        "grace_s has changed: a new program applies it",
    ]
    assert restarted.code == 0
    assert (second["added"], [one.split(":")[0] for one in second["not_applied"]]) == (
        [],
        ["harness gone is gone from the file", "grace_s has changed"],
    )
    assert ("run.toml is not valid TOML" in third["error"], third["added"]) == (True, [])
    assert ("Nowhere" in fourth["error"], fourth["added"]) == (True, []), "one that cannot be made leaves all as it is"
    assert attempts == {"one": 1, "two": 2, "gone": 1, "three": 1}
    lines = [line for line in done.err.splitlines() if line.startswith("SIGHUP: run.toml: ")]
    assert "added supervisor desk, pool new, harness three; not applied: harness two has changed" in lines[0]
    assert lines[1].startswith("SIGHUP: run.toml: nothing is added; not applied: harness gone")
    assert lines[2].endswith("; nothing is changed")


def test_added_alerts_are_told_and_changed_ones_are_not_applied(command: Command) -> None:
    pytest.importorskip("apprise")
    alert = '[[alert]]\nwhen = "{when}"\nto = "json://127.0.0.1:9/"\n'
    run_file(command, harness("one"))
    process = command.start("run", "run.toml")
    wait_until(lambda: len(heads(command.folder / "run.db")) == 1)

    run_file(command, harness("one"), alert.format(when="blocked"))
    added = reload(command, process)
    run_file(command, harness("one"), alert.format(when="gave_up"))
    changed = reload(command, process)
    process.terminate()
    ended(process)

    assert (added["added"], added["not_applied"]) == (["1 alert"], [])
    assert (changed["added"], changed["not_applied"]) == ([], ["alerts have changed or are gone: a new program applies it"])
