"""A program that is forked is like one that is started, and is ours to wait for and to kill."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.orchestrator.commanding import PYTHON, surroundings
from tests.zygote import Program, run_python

LOOK = """
import os, signal, sys, warnings
print(__name__, sys.argv, sys.orig_argv[1:], os.getcwd(), os.getppid(), sorted(os.environ.items()), sys.path)
print(sys.dont_write_bytecode, sys.warnoptions, sys.stdin.read(), sys.stdout.encoding, sys.stdout.line_buffering)
print([signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)])
print("é" if sys.stdout.encoding == "utf-8" else "", file=sys.stderr)
sys.exit(7)
"""


@pytest.mark.parametrize("way", ["-c", "-m", "script"])
def test_a_forked_program_finds_what_a_started_one_finds(tmp_path: Path, way: str) -> None:
    (tmp_path / "look.py").write_text(LOOK)
    words = {"-c": ["-c", LOOK], "-m": ["-m", "look"], "script": ["look.py"]}[way]
    options: dict[str, Any] = {"cwd": tmp_path, "env": surroundings(COLUMNS="20"), "input": "given", "encoding": "utf-8"}

    forked = run_python(*words, "word", **options, capture_output=True)

    started = subprocess.run([*PYTHON, *words, "word"], **options, capture_output=True, check=False)
    assert (forked.stdout, forked.stderr, forked.returncode) == (started.stdout, started.stderr, 7)


def test_programs_run_at_the_same_time_and_have_the_descriptors_that_they_are_given() -> None:
    read, write = os.pipe()
    greet, answer = (f"import os; os.{call}" for call in (f"write({write}, b'x')", f"read({read}, 1)"))

    with Program(["-c", answer], pass_fds=[read]) as answering, Program(["-c", greet], pass_fds=[write]) as greeting:
        os.close(read)
        os.close(write)

    assert (answering.returncode, greeting.returncode) == (0, 0)


def test_a_program_can_be_killed_and_one_that_takes_too_long_is() -> None:
    with Program(["-c", "import signal; signal.pause()"]) as program:
        program.kill()

    assert program.returncode == -signal.SIGKILL
    with pytest.raises(subprocess.TimeoutExpired):
        run_python("-c", "import signal; signal.pause()", timeout=0.01)


def test_a_session_of_its_own() -> None:
    with Program(["-c", "import os; raise SystemExit(os.getsid(0) != os.getpid())"], start_new_session=True) as program:
        assert program.wait() == 0
