"""`PythonTests`: validates source code submitted by an agent, with tests that the agent has never seen."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

import trio
from attrs import evolve

from harnesses.errors import HarnessMisuse
from harnesses.features.feature import Feature, TurnResult, Verdict
from harnesses.processes.bounded_command import Ran, run_bounded

_PROVEN = 93
"""Exit code after the last test. Not 0, because a solution that calls `sys.exit()` ends with 0."""


class PythonTests:
    """Runs the tests of a feature against submitted code, in a separate Python process.

    The code, `TurnResult.artifact`, becomes the module `solution` in an empty directory; the tests begin with
    `from solution import *`. Neither has access to this program's environment or installed packages. The feature is proven if
    the tests run to the end in time.

    Args:
        tests: Python source by feature id.
        limit_s: maximum seconds for the tests of one feature.
    """

    proves = True

    def __init__(self, tests: Mapping[str, str], *, limit_s: float = 10.0) -> None:
        if not limit_s > 0:
            raise HarnessMisuse(f"PythonTests: limit_s: expected seconds above 0, was {limit_s!r}")
        self._tests = dict(tests)
        self._limit_s = limit_s

    async def validate(self, feature: Feature, work: TurnResult) -> Verdict:
        tests = self._tests.get(feature.id)
        if tests is None:
            raise HarnessMisuse(f"feature {feature.id!r} has no tests: expected Python source under its id; add it to `tests`")
        if work.artifact is None:
            return _verdict(passed=False, evidence="no source code was submitted")
        directory = Path(mkdtemp(prefix="feature-"))
        try:
            _write(directory, tests, work.artifact)
            ran = await self._run(directory)
            return self._judged(evolve(ran, tail=ran.tail.replace(f"{directory}/", "")))
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(partial(shutil.rmtree, directory, ignore_errors=True))

    async def _run(self, directory: Path) -> Ran:
        home = str(directory)
        env = {"PATH": os.defpath, "HOME": home, "TMPDIR": home, "PYTHONIOENCODING": "utf-8", "PYTHONHASHSEED": "0"}
        # Not `-I`, which would remove the tests' directory, and so `solution`, from the import path.
        command = [sys.executable, "-s", "-S", "-B", str(directory / "tests.py")]
        return await run_bounded(command, limit_s=self._limit_s, cwd=directory, env=env)

    def _judged(self, ran: Ran) -> Verdict:
        if ran.code == _PROVEN:
            return _verdict(passed=True, evidence=ran.tail or "all tests passed", ran=ran)
        if ran.code is None:
            return _verdict(passed=False, evidence=f"{ran.tail}\nkilled: no result within {self._limit_s} s", ran=ran)
        if ran.code == 0:
            return _verdict(passed=False, evidence=f"{ran.tail}\nthe process ended before the last test", ran=ran)
        return _verdict(passed=False, evidence=ran.tail or f"ended with code {ran.code} and no output", ran=ran)


def _verdict(*, passed: bool, evidence: str, ran: Ran | None = None) -> Verdict:
    took_s = 0.0 if ran is None else round(ran.duration_s, 6)
    return Verdict(passed=passed, evidence=evidence, validator="Python tests", duration_s=took_s)


def _write(directory: Path, tests: str, code: str) -> None:
    # An agent's text may not be valid UTF-8; then the tests should fail, not the harness.
    (directory / "solution.py").write_text(code, encoding="utf-8", errors="backslashreplace")
    (directory / "tests.py").write_text(f"from solution import *\n{tests}\nraise SystemExit({_PROVEN})\n", encoding="utf-8")
