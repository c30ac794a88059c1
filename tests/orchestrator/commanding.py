"""Runs the real command in processes of its own, for the tests of the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from attrs import field, frozen

from orchestrator import HarnessRecord, StepRecord, StoreError
from orchestrator.store import SqliteReader
from tests import ROOT
from tests.zygote import Program

PYTHON = [sys.executable, "-W", "error"]


_EACH = """
import contextlib, io, json, sys
from orchestrator.cli import main
def once(arguments):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            code = main(arguments)
        except SystemExit as exit:
            code = exit.code
    return code, out.getvalue(), err.getvalue()
print(json.dumps([once(arguments) for arguments in json.loads(sys.argv[1])]))
"""


@frozen
class Ended:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def objects(self) -> list[Any]:
        """Standard output as JSON lines."""
        return [json.loads(text) for text in self.out.splitlines()]


@frozen
class Command:
    """The `orchestrator` command, in a working directory. A context manager: leaving it leaves no process behind."""

    folder: Path
    _started: list[subprocess.Popen[str]] = field(factory=list, init=False)

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()

    def __call__(self, *arguments: object, **environment: str) -> Ended:
        """Run it to its end."""
        return self.run("-m", "orchestrator", *arguments, **environment)

    def each(self, *lines: list[str]) -> list[Ended]:
        """Run it with each line of arguments in turn, in one process: starting one takes longer than most commands."""
        done = self.run("-c", _EACH, json.dumps(lines))
        assert done.code == 0, done.err
        return [Ended(*result) for result in done.objects[0]]

    def run(self, *arguments: object, **environment: str) -> Ended:
        """Run the interpreter to its end."""
        return ended(self.python(*arguments, **environment))

    def start(self, *arguments: object, **environment: str) -> subprocess.Popen[str]:
        """Start it."""
        return self.python("-m", "orchestrator", *arguments, **environment)

    def python(self, *arguments: object, **environment: str) -> subprocess.Popen[str]:
        """Start the interpreter with the same surroundings; it is forked, unless it has to start with an environment."""
        starts_alone = any(name.startswith(("PYTHON", "LC_", "LANG", "TZ")) for name in environment)
        words = [*map(str, arguments)]
        process = (subprocess.Popen if starts_alone else Program)(
            [*PYTHON, *words] if starts_alone else words,
            cwd=self.folder,
            env=surroundings(**environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._started.append(process)
        return process

    def write(self, name: str, text: str) -> Path:
        """Write a file into the working directory."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def run_file(self, *harnesses: str, top: str = "", name: str = "run.toml") -> Path:
        """Write a run file with a harness of each of these classes of `commanded`, called as the class in small letters."""
        module = "tests.orchestrator.commanded"
        tables = (f'[[harness]]\nname = "{one.lower()}"\nharness = "{module}:{one}"\ninitial_state = 0' for one in harnesses)
        return self.write(name, "\n".join([top, *tables]))


def surroundings(**environment: str) -> dict[str, str]:
    """Return an environment in which the command is found, and nothing of ours changes it."""
    kept = {name: value for name, value in os.environ.items() if name not in ("ORCHESTRATOR_STORE", "NO_COLOR", "PYTHONPATH")}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **environment}


def ended(process: subprocess.Popen[str]) -> Ended:
    """Wait for a process that was started; one that does not end in time is killed and fails the test."""
    try:
        out, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"it did not end: {out[-2000:]} {err[-2000:]}") from None
    return Ended(process.returncode, out, err)


def heads(store: Path) -> dict[str, int]:
    """Return the last step of each harness; nothing while the store is being made."""
    try:
        return {record.name: record.current_step for record in harnesses(store)}
    except StoreError:
        return {}


def harnesses(store: Path) -> list[HarnessRecord]:
    """Return what the store knows of each harness."""
    with closing(SqliteReader(store)) as reader:
        return reader.harnesses()


def steps_of(store: Path, name: str) -> list[StepRecord]:
    """Return the first steps of a harness."""
    with closing(SqliteReader(store)) as reader:
        return reader.steps(name)


def wait_until(ready: Callable[[], Any], seconds: float = 15.0) -> Any:
    """Return the first true value of `ready()`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if value := ready():
            return value
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")
