"""Validators: who says whether a feature is proven. Never the agent that built it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Protocol

import trio
from attrs import evolve

from harnesses.coding.features import Feature, Solution, Verdict
from harnesses.errors import HarnessMisuse
from harnesses.process import Ran, run_bounded

_PROVEN = 93
"""What the tests' process ends with after the last test. Not 0: a solution that calls `sys.exit()` ends with that."""


class Validator(Protocol):
    """Something that judges solutions."""

    async def validate(self, feature: Feature, solution: Solution) -> Verdict:
        """Return what was found. An error raised here is the harness's: it says nothing about the solution."""
        ...


class PythonTests:
    """Runs the tests of a feature against the code handed in, in a Python process of its own.

    The code is the module `solution`, in an empty directory; the tests begin with `from solution import *`. Neither sees
    this program's environment or its installed packages. It is proven if the tests run to their end in time.

    Args:
        tests: Python source by feature id.
        limit_s: seconds that the tests of one feature may take.
    """

    def __init__(self, tests: Mapping[str, str], *, limit_s: float = 10.0) -> None:
        if not limit_s > 0:
            raise HarnessMisuse(f"PythonTests: limit_s: expected seconds above 0, was {limit_s!r}")
        self._tests = dict(tests)
        self._limit_s = limit_s

    async def validate(self, feature: Feature, solution: Solution) -> Verdict:
        tests = self._tests.get(feature.id)
        if tests is None:
            raise HarnessMisuse(f"feature {feature.id!r} has no tests: expected Python source by its id; add it to `tests`")
        directory = Path(mkdtemp(prefix="feature-"))
        try:
            _write(directory, tests, solution)
            ran = await self._run(directory)
            return self._verdict(evolve(ran, tail=ran.tail.replace(f"{directory}/", "")))
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(partial(shutil.rmtree, directory, ignore_errors=True))

    async def _run(self, directory: Path) -> Ran:
        home = str(directory)
        env = {"PATH": os.defpath, "HOME": home, "TMPDIR": home, "PYTHONIOENCODING": "utf-8", "PYTHONHASHSEED": "0"}
        # Not `-I`, which would keep the directory of the tests, and so `solution`, off the import path.
        command = [sys.executable, "-s", "-S", "-B", str(directory / "tests.py")]
        return await run_bounded(command, limit_s=self._limit_s, cwd=directory, env=env)

    def _verdict(self, ran: Ran) -> Verdict:
        if ran.code == _PROVEN:
            return Verdict(passed=True, evidence=ran.tail or "all tests passed")
        if ran.code is None:
            return Verdict(passed=False, evidence=f"{ran.tail}\nkilled: no result within {self._limit_s} s")
        if ran.code == 0:
            return Verdict(passed=False, evidence=f"{ran.tail}\nthe process ended before the last test")
        return Verdict(passed=False, evidence=ran.tail or f"ended with code {ran.code} and no output")


def _write(directory: Path, tests: str, solution: Solution) -> None:
    # An agent's text may hold what UTF-8 can not say; the tests should fail on it then, not the harness.
    (directory / "solution.py").write_text(solution.code, encoding="utf-8", errors="backslashreplace")
    (directory / "tests.py").write_text(f"from solution import *\n{tests}\nraise SystemExit({_PROVEN})\n", encoding="utf-8")
