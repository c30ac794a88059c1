"""`start`, `restart` and `approvals reopen`, each in a process of its own, against a program that runs in another."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orchestrator.control.socket_places import sockets
from orchestrator.records import ApprovalRecord
from orchestrator.store import SqliteReader
from tests.orchestrator.commanding import Command, ended, harnesses, heads, wait_until

DESK = "tests.orchestrator.gates"
TICKING = '[[harness]]\nname = "ticking"\nharness = "tests.orchestrator.commanded:Ticking"\ninitial_state = 0\n'
THREE = TICKING.replace("ticking", "three").replace("Ticking", "Three")
GATED = f'[[harness]]\nname = "gated"\nharness = "{DESK}:Gated"\n'


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        yield command


def run(command: Command, *tables: str, file: str = "run.toml") -> subprocess.Popen[str]:
    """Start a program and wait until it takes orders."""
    command.write(file, "\n".join(tables))
    process = command.start("run", file)
    wait_until(lambda: sockets(command.folder / "run.db") and heads(command.folder / "run.db"))
    return process


def status(command: Command, name: str) -> str:
    return next(one.status.value for one in harnesses(command.folder / "run.db") if one.name == name)


def attempt(command: Command, name: str) -> int:
    return next(one.attempt for one in harnesses(command.folder / "run.db") if one.name == name)


def requests(command: Command) -> list[ApprovalRecord]:
    with closing(SqliteReader(command.folder / "run.db")) as reader:
        return reader.approvals()


def asked(command: Command, count: int = 1) -> str:
    """Return the id of the newest request, when there are so many."""
    found: Any = wait_until(lambda: len(known := requests(command)) >= count and known)
    return str(found[-1].id)


def pushed(command: Command) -> int:
    path = command.folder / "pushed"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_denied_harness_blocks_and_is_reopened_and_started_while_its_sibling_ticks(command: Command) -> None:
    process = run(command, TICKING, GATED)
    old = asked(command)

    denied = command("deny", old, "--by", "ann", "--reason", "not today")
    wait_until(lambda: status(command, "gated") == "blocked")
    started, shown = command.each(["start", "gated"], ["approvals", "gated", "--all"])
    reopened, again, twice = command.each(
        ["approvals", "reopen", old, "--by", "bob", "--json"], ["start", "gated"], ["approvals", "reopen", old, "--by", "eve"]
    )
    new = asked(command, 2)
    approved, late = command.each(["approve", new, "--by", "ann"], ["approve", new, "--by", "eve"])
    wait_until(lambda: status(command, "gated") == "completed")
    sibling = attempt(command, "ticking")
    command("stop", "ticking")

    assert [denied.code, started.code, shown.code, reopened.code, again.code, approved.code] == [0, 4, 0, 0, 0, 0]
    assert started.err.startswith("gated is started again: attempt 2, blocked at step 0: ")
    assert "denied by ann: not today" in started.err
    assert reopened.objects == [{"id": old, "verdict": "reopened", "changed": True}]
    assert "`orchestrator start gated`" in reopened.err
    assert again.err.startswith("gated is started again: attempt 3, running at step 0")
    assert twice.err.startswith(f"{old} is reopened already, by bob at 2")
    assert late.err.startswith(f"{new} is approved already, by ann at 2")
    assert (pushed(command), sibling, ended(process).code) == (1, 1, 3)
    assert command("verify", "--deep").code == 0


def test_reopening_with_start_does_both(command: Command) -> None:
    process = run(command, TICKING, GATED)
    old = asked(command)
    command("deny", old)
    wait_until(lambda: status(command, "gated") == "blocked")

    done = command("approvals", "reopen", old, "--start")
    asked(command, 2)
    command.each(["stop", "gated"], ["stop", "ticking"])

    assert done.code == 0
    assert "gated is started again: attempt 2, running" in done.err
    ended(process)


def test_a_program_killed_between_reopening_and_starting_asks_anew_when_it_runs_again(command: Command) -> None:
    first = run(command, TICKING, GATED)
    old = asked(command)
    command("deny", old)
    wait_until(lambda: status(command, "gated") == "blocked")
    assert command("approvals", "reopen", old).code == 0
    first.kill()
    first.wait()

    second = run(command, TICKING, GATED)
    new = asked(command, 2)
    second.kill()
    second.wait()
    third = run(command, TICKING, GATED)
    assert command("approve", new).code == 0
    wait_until(lambda: status(command, "gated") == "completed")
    command("stop", "ticking")

    assert (old != new, pushed(command), len(requests(command))) == (True, 1, 2)
    ended(third)


def test_a_denial_names_what_is_left_to_do_also_where_nothing_runs(command: Command) -> None:
    process = run(command, GATED)
    id = asked(command)
    command("deny", id)
    assert ended(process).code == 4

    denied, why = command.each(["status"], ["analyze", "run.db", "why", "gated"])
    command("approvals", "reopen", id)
    reopened, why_now = command.each(["status"], ["analyze", "run.db", "why", "gated"])

    assert f"`orchestrator approvals reopen {id}` and `orchestrator run FILE` make it ask again" in denied.out
    assert f"To go on: `orchestrator approvals reopen {id}`, and run it again." in why.out
    assert "it is reopened: `orchestrator run FILE` makes it ask again" in reopened.out
    assert "approvals reopen" not in reopened.out
    assert "To go on: run it again: the denied request was reopened" in why_now.out


def test_what_cannot_be_reopened_is_told_in_a_line(command: Command) -> None:
    process = run(command, TICKING, GATED)
    id = asked(command)

    pending, unknown = command.each(["approvals", "reopen", id], ["approvals", "reopen", "nothing"])
    command("approve", id)
    wait_until(lambda: status(command, "gated") == "completed")
    used = command("approvals", "reopen", id)
    command("stop", "ticking")

    assert [one.code for one in (pending, unknown, used)] == [2, 2, 2]
    assert all(one.err.count("\n") == 1 for one in (pending, unknown, used))
    assert "is pending" in pending.err
    assert "was used" in used.err
    ended(process)


def test_a_denial_that_the_harness_went_on_without_is_not_reopened(command: Command) -> None:
    process = run(command, TICKING, f'[[harness]]\nname = "gated"\nharness = "{DESK}:Lenient"\n')
    id = asked(command)
    command("deny", id)
    wait_until(lambda: status(command, "gated") == "completed")

    late = command("approvals", "reopen", id)
    command("stop", "ticking")

    assert late.code == 2
    assert "step 1 of 'gated' is recorded" in late.err
    ended(process)


def test_a_stopped_and_a_running_one_are_restarted_from_outside(command: Command) -> None:
    process = run(command, TICKING, GATED)

    already, restarted = command.each(["start", "ticking"], ["restart", "ticking", "--grace", "2", "--json"])
    stopped, started = command.each(["stop", "ticking"], ["start", "ticking", "--json"])
    command.each(["stop", "ticking"], ["stop", "gated"])

    assert [one.code for one in (already, restarted, stopped, started)] == [0, 0, 0, 0]
    assert already.err.startswith("ticking is running at step ")
    assert "not started again" in already.err
    assert [(one.objects[0]["attempt"], one.objects[0]["status"]) for one in (restarted, started)] == [
        (2, "running"),
        (3, "running"),
    ]
    ended(process)


def test_a_pause_outlasts_a_restart_by_order_and_the_way_to_resume_is_told(command: Command) -> None:
    process = run(command, TICKING)

    _, restarted, started, shown = command.each(["pause", "ticking"], ["restart", "ticking"], ["start", "ticking"], ["status"])
    resumed, _ = command.each(["resume", "ticking", "--json"], ["stop", "ticking"])

    for told in (restarted.err, started.err, shown.out):
        assert "paused" in told
        assert "`orchestrator resume ticking`" in told
    assert resumed.objects[0]["status"] == "running"
    ended(process)


def test_a_paused_harness_whose_program_was_killed_is_told_as_paused_wherever_it_is_shown(command: Command) -> None:
    first = run(command, TICKING)
    command("pause", "ticking")
    first.kill()
    first.wait()

    killed = command("status")
    second = run(command, TICKING)
    wait_until(lambda: attempt(command, "ticking") == 2)
    command("stop", "ticking")

    assert "its program is gone; to go on: `orchestrator run FILE`, then `orchestrator resume ticking`" in killed.out
    assert "attempt 2, and is paused; `orchestrator resume ticking` lets it go on" in ended(second).err


def test_a_spent_budget_is_raised_in_the_run_file_and_the_harness_started(command: Command) -> None:
    spent = TICKING + "budget = {{steps = {}}}\n"
    other = TICKING.replace('"ticking"', '"other"')
    process = run(command, spent.format(3), other)
    wait_until(lambda: status(command, "ticking") == "budget_spent")

    again = command("start", "ticking")
    command.write("run.toml", spent.format(100_000) + other)
    raised = command("start", "ticking")
    wait_until(lambda: heads(command.folder / "run.db")["ticking"] > 5)
    command.write("run.toml", "nonsense")
    broken = command("restart", "ticking")
    command.each(["stop", "ticking"], ["stop", "other"])

    assert (again.code, "budget spent at step 3" in again.err) == (3, True)
    assert raised.err.startswith("ticking is started again: attempt 3, running")
    assert (broken.code, "run.toml" in broken.err, attempt(command, "ticking")) == (2, True, 3)
    ended(process)


def test_what_cannot_be_started_is_told_with_the_command_to_give(command: Command) -> None:
    command.run_file("Three")
    command("run", "run.toml", "--quiet", "--store", "other.db")

    nobody, unknown = command.each(["start", "three", "--store", "other.db"], ["start", "four", "--store", "other.db"])
    process = run(
        command, TICKING, '[[harness]]\nname = "three"\nharness = "tests.orchestrator.commanded:Three"\ninitial_state = 0'
    )
    wait_until(lambda: status(command, "three") == "completed")
    completed = command("start", "three")
    command("stop", "ticking")

    assert [one.code for one in (nobody, unknown, completed)] == [1, 2, 2]
    assert "no program runs on other.db" in nobody.err
    assert "`orchestrator run FILE --store other.db`" in nobody.err
    assert "'three' has completed" in completed.err
    ended(process)


def test_a_budget_shared_with_others_is_raised_in_the_run_file_and_the_harness_started(command: Command) -> None:
    table = TICKING.replace("initial_state", 'pool = "two"\nsupervisor = "desk"\ninitial_state')
    top = """\
[[pool]]
name = "two"
steps = {0}
[[supervisor]]
name = "floor"
[[supervisor]]
name = "desk"
parent = "floor"
budget = {{ steps = {0} }}
"""

    def steps() -> int:
        return heads(command.folder / "run.db").get("ticking", 0)

    process = run(command, top.format(3), GATED, table)
    wait_until(lambda: status(command, "ticking") == "budget_spent")
    as_it_was = command("start", "ticking")
    command.write("run.toml", "\n".join([top.format(5), GATED, table]))
    command("start", "ticking")
    wait_until(lambda: steps() == 5)
    command("stop", "gated")

    assert as_it_was.code == 3
    ended(process)
    assert steps() == 5
