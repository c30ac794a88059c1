"""A program that is forked is like one that is started; whatever ends its run, the next one has its own answer."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

import pytest

from tests.orchestrator.commanding import Command, Ended, ended

LOOK = """
import os, signal, sys, warnings
print(__name__, sys.argv, os.getcwd(), sorted(os.environ.items()), sys.path)
print(sys.dont_write_bytecode, sys.warnoptions, sys.stdin.read(), sys.stdout.encoding, sys.stdout.line_buffering)
print([signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)])
print("é" if sys.stdout.encoding == "utf-8" else "", file=sys.stderr)
sys.exit(7)
"""


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        yield command


@pytest.mark.parametrize(
    "environment",
    [{}, {"COLUMNS": "20"}, {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}],
    ids=["plain", "columns", "ascii"],
)
def test_a_forked_program_finds_what_a_started_one_finds(command: Command, environment: dict[str, str]) -> None:
    forked = command.run("-c", LOOK, "word", **environment)

    assert forked == ended(command.python("-c", LOOK, "word", **environment))
    assert forked.code == 7


def test_programs_of_two_threads_run_at_the_same_time(command: Command) -> None:
    meet = "import sys, time; from pathlib import Path; Path(sys.argv[1]).touch()\n"
    meet += "while not Path(sys.argv[2]).exists(): time.sleep(0.01)"

    with ThreadPoolExecutor() as pool:
        done = [pool.submit(command.run, "-c", meet, *names) for names in (("a", "b"), ("b", "a"))]

    assert [one.result() for one in done] == [Ended(0, "", "")] * 2


def test_an_interrupted_run_leaves_its_return_code_to_nobody(command: Command) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(Interrupted):
            command.run("-c", f"import os, signal; os.kill({os.getpid()}, signal.SIGUSR1); signal.pause()")
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert command.run("-c", "raise SystemExit(3)") == Ended(3, "", "")
