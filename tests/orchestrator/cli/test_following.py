"""Following a run from a second terminal: it shows what is new, ends with the program or a signal, and the run goes on."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.orchestrator.commanding import Command, ended, heads, wait_until

FOLLOWING = ["steps ticking --follow", "status --watch", "logs --follow", "logs ticking --follow --json"]


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        yield command


@pytest.fixture
def run(command: Command) -> subprocess.Popen[str]:
    """A program that runs."""
    process = command.start("run", command.run_file("Ticking"), "--quiet")
    wait_until(lambda: heads(command.folder / "run.db").get("ticking", 0) > 2)
    return process


def stop(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGTERM)
    return ended(process).code


@pytest.mark.parametrize("line", FOLLOWING)
def test_it_follows_until_the_program_ends(line, command, run):
    following = command.start(*line.split())
    first = following.stdout.readline()
    seen = heads(command.folder / "run.db")["ticking"]
    wait_until(lambda: heads(command.folder / "run.db")["ticking"] > seen + 60)  # so that more than one look is taken
    code = stop(run)
    done = ended(following)

    assert first
    assert code == 143
    assert (done.code, done.err) == (0, "no program runs on run.db\n")
    last = heads(command.folder / "run.db")["ticking"]
    assert str(last) in done.out


@pytest.mark.parametrize("line", FOLLOWING)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_following_and_not_the_run(line, number, code, command, run):
    following = command.start(*line.split())
    following.stdout.readline()
    before = heads(command.folder / "run.db")["ticking"]
    following.send_signal(number)
    done = ended(following)

    assert (done.code, done.err) == (code, "")
    wait_until(lambda: heads(command.folder / "run.db")["ticking"] > before)
    assert run.poll() is None


def test_every_step_is_followed_once(command, run):
    following = command.start("steps", "ticking", "--follow", "--json")
    wait_until(lambda: heads(command.folder / "run.db")["ticking"] > 40)
    stop(run)
    numbers = [json.loads(line)["step_number"] for line in ended(following).out.splitlines()]

    assert numbers == list(range(1, heads(command.folder / "run.db")["ticking"] + 1))


def test_a_limit_ends_the_following(command, run):
    done = command("steps", "ticking", "--follow", "--limit", "5")

    assert (done.code, len(done.out.splitlines())) == (0, 5)
    assert run.poll() is None


def test_a_dead_run_is_shown_and_there_is_nothing_to_follow(command):
    command("run", command.run_file("Three"), "--quiet", "--log", "log.jsonl")

    for line in ("steps three --follow", "status --watch", "logs --follow"):
        done = command(*line.split())
        assert (done.code, done.err) == (0, "no program runs on run.db\n")
        assert done.out == command(*line.split()[:-1]).out
        assert "three" in done.out or "one of three" in done.out


def test_the_log_is_that_which_a_run_writes(command):
    command("run", command.run_file("Three"), "--quiet", "--log", "log.jsonl")
    written = (command.folder / "log.jsonl").read_text(encoding="utf-8")

    assert command("logs", "--json").out == written
    assert command("logs", "three", "--json", "--after", "2").out == "".join(written.splitlines(keepends=True)[2:])
    assert command("logs", "nobody").code == 2


def test_a_line_of_the_log_is_readable(command):
    command("run", command.run_file("Three"), "--quiet")

    lines = command("logs").out.splitlines()
    assert [line.split()[3] for line in lines] == [
        "harness.started",
        *["harness.step"] * 3,
        "harness.completed",
    ]
    assert lines[1].endswith("three step 1          1 → one of three")
