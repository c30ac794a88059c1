"""`orchestrator run` of a whole program, and `watch`: both from processes of their own."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import trio.testing

from orchestrator import Orchestrator, UsageError
from orchestrator.control.run_services import Wanted
from orchestrator.control.socket_places import sockets
from tests.orchestrator.commanding import Command, ended, harnesses, heads, wait_until

PROGRAM = """
import sys, trio
from orchestrator import Orchestrator
from tests.orchestrator.commanded import Ticking

async def main(store):
    async with Orchestrator(store{options}) as orchestrator:
        orchestrator.start(Ticking(0), name="ticking")
    return 7

if __name__ == "__main__":
    sys.exit(trio.run(main, sys.argv[1]))
"""


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        yield command


def has_begun(store: Path) -> bool:
    return bool(heads(store).get("ticking"))


@pytest.mark.parametrize(
    ("given", "said", "wanted"),
    [(None, None, None), (None, "1", True), (None, "0", False), (None, "", None), (False, "1", False), (True, "0", True)],
)
def test_control_is_what_the_program_says_and_else_what_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, given: bool | None, said: str | None, wanted: bool | None
) -> None:
    monkeypatch.delenv("ORCHESTRATOR_CONTROL", raising=False)
    if said is not None:
        monkeypatch.setenv("ORCHESTRATOR_CONTROL", said)

    assert Wanted(given).control is wanted


def test_an_environment_that_says_neither_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHESTRATOR_CONTROL", "maybe")

    with pytest.raises(UsageError, match="ORCHESTRATOR_CONTROL: expected 1 or 0, got 'maybe'"):
        Orchestrator()


@pytest.mark.parametrize(("control", "count"), [(None, 1), (False, 0)])
async def test_every_program_has_one_control_socket_unless_it_says_otherwise(
    tmp_path: Path, control: bool | None, count: int
) -> None:
    async with Orchestrator(tmp_path / "run.db", control=control, handle_signals=False):
        await trio.testing.wait_all_tasks_blocked()
        assert len(sockets(tmp_path / "run.db")) == count
    assert not sockets(tmp_path / "run.db")


def test_a_program_that_is_run_by_the_command_takes_orders_and_has_its_arguments_and_its_exit_code(command: Command) -> None:
    command.write("program.py", PROGRAM.format(options=""))
    process = command.start("run", "program.py", "--", "own.db")
    wait_until(lambda: has_begun(command.folder / "own.db") and sockets(command.folder / "own.db"))

    paused, resumed, stopped = command.each(
        *([verb, "ticking", "--store", "own.db"] for verb in ("pause", "resume", "stop")),
    )

    assert [paused.code, resumed.code, stopped.code] == [0, 0, 0]
    assert ended(process).code == 7


def test_a_program_that_says_otherwise_has_no_socket(command: Command) -> None:
    command.write("program.py", PROGRAM.format(options=", control=False"))
    process = command.start("run", "program.py", "--", "own.db")
    wait_until(lambda: has_begun(command.folder / "own.db"))

    assert not sockets(command.folder / "own.db")
    process.send_signal(signal.SIGTERM)
    ended(process)


def test_an_environment_that_says_no_is_heeded_for_run_files_too(command: Command) -> None:
    process = command.start("run", command.run_file("Ticking"), ORCHESTRATOR_CONTROL="0")
    wait_until(lambda: has_begun(command.folder / "run.db"))

    assert not sockets(command.folder / "run.db")
    process.send_signal(signal.SIGTERM)
    ended(process)


@pytest.mark.parametrize(
    ("name", "text", "arguments", "said"),
    [
        (
            "program.py",
            PROGRAM.format(options=""),
            ["--log", "x.jsonl", "--", "own.db"],
            "--log is for run files and supervisor scripts",
        ),
        ("script.py", "async def supervise(orchestrator): ...", ["--", "a"], "expected no arguments after it, got 'a'"),
        ("plain.py", "x = 1", [], "has no function supervise"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    command: Command, name: str, text: str, arguments: list[str], said: str
) -> None:
    command.write(name, text)

    done = command("run", name, *arguments)

    assert done.code == 2
    assert said in done.err
    assert len(done.err.splitlines()) == 1


def test_watch_follows_a_program_to_its_end(command: Command) -> None:
    process = command.start("run", command.run_file("Ticking"))
    wait_until(lambda: has_begun(command.folder / "run.db"))
    watching = command.start("watch")
    as_json = command.start("watch", "--json")
    first, record = watching.stdout.readline(), as_json.stdout.readline()

    command("stop", "ticking")
    ended(process)
    # Not by `communicate`, which passes over what `readline` has read ahead.
    seen, objects = watching.stdout.read(), [record, *as_json.stdout.read().splitlines()]

    assert first.split()[0] == "HARNESS"
    assert (watching.wait(), as_json.wait()) == (0, 0)
    assert "ticking: stopped at step" in seen
    assert "no program runs on run.db" in watching.stderr.read()
    numbers = [one["step_number"] for one in map(json.loads, objects) if "step_number" in one]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))


def test_watch_of_a_dead_run_shows_how_it_stands_and_ends(command: Command) -> None:
    command.run_file("Three")
    command("run", "run.toml", "--quiet")

    done, missing = command.each(["watch"], ["watch", "--store", "none.db"])

    assert done.code == 0
    assert done.out.splitlines()[1].split()[:2] == ["three", harnesses(command.folder / "run.db")[0].status]
    assert missing.code == 2


def test_watch_goes_on_over_a_kill_only_as_long_as_somebody_runs(command: Command) -> None:
    process = command.start("run", command.run_file("Ticking"))
    wait_until(lambda: has_begun(command.folder / "run.db"))
    watching = command.start("watch")
    watching.stdout.readline()

    process.kill()

    assert ended(watching).code == 0


def test_a_run_shows_its_page_until_it_ends(command: Command) -> None:
    process = command.start("run", command.run_file("Ticking"), "--listen", "127.0.0.1:0")
    assert process.stderr is not None
    address = next(line.strip() for line in process.stderr if line.startswith("http://"))
    base, token = address.split("/?token=")
    with urlopen(Request(f"{base}/api/fleet", headers={"authorization": f"Bearer {token}"}), timeout=30) as reply:
        assert b"ticking" in reply.read()
    process.terminate()
    assert ended(process).code == 143
    host, _, port = base.removeprefix("http://").partition(":")
    wait_until(lambda: not listens(host, int(port)))


def listens(host: str, port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex((host, port)) == 0
