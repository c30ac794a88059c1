"""The kill switch holds: once `orchestrator kill-switch on` has returned in one process, no effect begins in another.

What may still come is an effect that had begun before: in these programs the loop's thread does one effect at a time, in one
go, so that is one line at most, and none if the loop was blocked in something else.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from attrs import frozen

from orchestrator.store import SqliteReader
from tests.zygote import Program, run_python

from .lives import ROOT

BEGUN_BEFORE = 1
"""Effects that one thread may be in the middle of."""


@frozen
class Latched:
    """A program that does effects, and the command that stops them."""

    process: subprocess.Popen[bytes]
    folder: Path

    def command(self, *arguments: str) -> None:
        """Run the command in a process of its own."""
        store = self.folder / "run.db"
        done = run_python("-m", "orchestrator", *arguments, "--store", store, cwd=ROOT, capture_output=True)
        assert done.returncode == 0, done.stderr

    def lines(self) -> list[str]:
        path = self.folder / "lines"
        return path.read_text().splitlines() if path.exists() else []

    def wait_for(self, ready: Callable[[], bool]) -> None:
        until = time.monotonic() + 30
        while not ready():
            assert self.process.poll() is None, "the program has ended"
            assert time.monotonic() < until, "it did not happen in time"
            time.sleep(0.005)

    def wait_for_lines(self, more: int = 20) -> None:
        wanted = len(self.lines()) + more
        self.wait_for(lambda: len(self.lines()) >= wanted)

    def wait_for_tries(self, more: int = 20) -> None:
        """Wait until harnesses have come to the kill switch so many times."""
        wanted = self.blocked() + more
        self.wait_for(lambda: self.blocked() >= wanted)

    def blocked(self) -> int:
        with closing(SqliteReader(self.folder / "run.db")) as reader:
            return sum(record.kind == "blocked" for record in reader.records(limit=1_000_000))


@pytest.fixture
def latched(tmp_path: Path) -> Iterator[Latched]:
    """A program whose harnesses are doing effects."""
    arguments = [str(tmp_path / "run.db"), str(tmp_path / "lines")]
    process = Program(["-m", "tests.kill.latched", *arguments], cwd=ROOT, stderr=subprocess.DEVNULL)
    program = Latched(process, tmp_path)
    try:
        program.wait_for_lines()
        yield program
    finally:
        process.kill()
        process.wait()


def test_no_effect_begins_after_the_latch(latched: Latched) -> None:
    for _ in range(3):
        latched.command("latch", "on")
        before = len(latched.lines())
        latched.wait_for_tries()

        assert len(latched.lines()) <= before + BEGUN_BEFORE

        latched.command("latch", "off")
        latched.wait_for_lines()


def test_it_holds_although_the_loop_is_blocked_at_that_moment(latched: Latched) -> None:
    (latched.folder / "wedge").touch()
    latched.wait_for((latched.folder / "wedged").exists)

    latched.command("latch", "on")
    before = len(latched.lines())
    was_wedged = not (latched.folder / "loose").exists()
    (latched.folder / "loosen").touch()
    latched.wait_for((latched.folder / "loose").exists)
    latched.wait_for_tries()

    assert was_wedged
    assert len(latched.lines()) == before


def test_it_holds_for_a_program_that_was_asleep_at_that_moment(latched: Latched) -> None:
    os.kill(latched.process.pid, signal.SIGSTOP)

    latched.command("latch", "on")
    before = len(latched.lines())
    os.kill(latched.process.pid, signal.SIGCONT)
    latched.wait_for_tries()

    assert len(latched.lines()) <= before + BEGUN_BEFORE


def test_the_latch_of_one_harness_leaves_the_others_alone(latched: Latched) -> None:
    latched.command("latch", "on", "--harness", "appending-0")
    before = latched.lines()
    latched.wait_for_lines(60)

    after = latched.lines()[len(before) :]

    assert sum(line.startswith("appending-0 ") for line in after) <= BEGUN_BEFORE
    assert {line.split()[0] for line in after} >= {"appending-1", "appending-2", "appending-3"}


def test_an_effect_that_a_latch_kept_from_beginning_is_done_once_it_is_lifted(latched: Latched) -> None:
    latched.command("latch", "on")
    latched.wait_for_tries()
    latched.command("latch", "off")
    latched.wait_for_lines(60)

    latched.process.kill()
    latched.process.wait()

    for name in {line.split()[0] for line in latched.lines()}:
        numbers = [int(line.split()[1]) for line in latched.lines() if line.split()[0] == name]
        assert numbers == list(range(1, len(numbers) + 1)), name
