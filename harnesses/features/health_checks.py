"""Health checks: whether the environment is fit to work in, with the output as evidence."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from shlex import join
from typing import Protocol

import trio

from harnesses.errors import HarnessMisuse
from harnesses.features.feature import Verdict
from harnesses.features.feature_record import DEFAULT_PLAN, InitPlan, InitStep, Shell
from harnesses.processes.bounded_command import run_bounded

_TAIL = 2_000
"""Maximum bytes kept of the output of one command, the last ones."""
_SHELLS: dict[Shell, tuple[str, ...]] = {
    Shell.BASH: ("bash", "-c"),
    Shell.SH: ("sh", "-c"),
    Shell.PWSH: ("pwsh", "-NoProfile", "-NonInteractive", "-Command"),
    Shell.CMD: ("cmd", "/d", "/c"),
}


class HealthCheck(Protocol):
    """Checks whether the environment is fit to work in."""

    async def check(self, plan: InitPlan, directory: Path | None) -> Verdict:
        """Return a verdict; `passed` is whether to continue. `directory` is the working directory, if there is one."""
        ...


class NoHealthCheck:
    """A check that always passes."""

    async def check(self, plan: InitPlan, directory: Path | None) -> Verdict:
        """Return a passing verdict."""
        await trio.lowlevel.checkpoint()
        return Verdict(passed=True, evidence="not checked", validator="no health check")


class CommandHealthCheck:
    """Runs the commands of the init plan one after the other, and stops at the first failure.

    The default plan inspects a repository, so it is skipped without a working directory.

    Args:
        limit_s: maximum seconds for each command.
        env: the environment of the commands; None uses this program's.
    """

    def __init__(self, *, limit_s: float = 60.0, env: Mapping[str, str] | None = None) -> None:
        if not limit_s > 0:
            raise HarnessMisuse(f"CommandHealthCheck: limit_s: expected seconds above 0, was {limit_s!r}")
        self._limit_s = limit_s
        self._env = dict(os.environ if env is None else env)

    async def check(self, plan: InitPlan, directory: Path | None) -> Verdict:
        """Return a verdict with each command, its exit code and the end of its output."""
        started = trio.current_time()
        passed, evidence = True, list[str]()
        if directory is None and plan == DEFAULT_PLAN:
            evidence.append("no working directory: the default plan, which inspects a repository, was not run")
        else:
            for step in plan.steps:
                passed, seen = await self._run(step, directory)
                evidence.append(seen)
                if not passed:
                    break
        text = "\n".join(evidence) or "the plan is empty: nothing was run"
        taken = round(trio.current_time() - started, 6)
        return Verdict(passed=passed, evidence=text, validator="init plan", duration_s=taken)

    async def _run(self, step: InitStep, directory: Path | None) -> tuple[bool, str]:
        command = command_of(step)
        said = f"$ {join(command)}"
        try:
            ran = await run_bounded(command, limit_s=self._limit_s, tail_bytes=_TAIL, cwd=directory, env=self._env)
        except (OSError, ValueError) as error:
            return False, f"{said}\ncould not be run: {error}"
        if ran.code is None:
            return False, f"{said}\nkilled: not finished within {self._limit_s} s\n{ran.tail}".rstrip()
        return ran.code == 0, f"{said}\nexit code {ran.code}\n{ran.tail}".rstrip()


def command_of(step: InitStep) -> tuple[str, ...]:
    """Return the command line for a step of an init plan."""
    if step.shell is not None:
        return (*_SHELLS[step.shell], step.script)
    return (step.program, *step.args)
