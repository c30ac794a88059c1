"""No attempt of a corpus gets out of a sandbox; without one, each does, so that the corpus proves something. Real programs.

What Landlock does not hold is asserted exactly, and so is the table in the documentation.
"""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Sequence
from functools import partial

import pytest
import trio

from harnesses.agents.sandbox import Level, Sandbox, sandboxed
from harnesses.processes.bounded_command import run_bounded
from tests import ROOT
from tests.harnesses.agents.sandbox.escape_attempts import ATTEMPTS, Attempt
from tests.harnesses.agents.sandbox.escape_ground import LIMITS, Ground, escape_ground, refused_by_this_machine

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() != "x86_64", reason="the attempts make system calls of Linux on x86_64"
)
LIMIT_S = 60.0
IN_THE_DIRECTORY = {attempt.name for attempt in ATTEMPTS if attempt.group == "git" and "linked" not in attempt.name}
NOT_HELD_BY_LANDLOCK = {
    "permissions, times and attributes of files": {"chmod", "chmod-descriptor", "utime", "setxattr"},
    "`.git` in the directory": IN_THE_DIRECTORY,
    "command lines of other processes": {"proc-command-line"},
}
"""What Landlock does not hold, as the documentation names it."""


async def escapes(level: Level) -> set[str]:
    """Run all attempts in a sandbox, and return the names of those that got out."""
    with escape_ground() as ground:
        program = "bwrap" if level is Level.BUBBLEWRAP else "no-bubblewrap"
        sandbox = Sandbox(level=level, program=program, hidden=[ground.folder / "hidden"], **LIMITS)
        async with sandboxed(ground.command, ground.work, sandbox, environment=ground.environment) as ready:
            assert ready.level is level
            command = ground.with_descriptor(ready.command)
            ran = await run_bounded(command, limit_s=LIMIT_S, cwd=ground.work, env=ready.environment, **ready.rights)
        assert ran.code == 0, ran
        return await judged(ground, ATTEMPTS)


async def judged(ground: Ground, attempts: Sequence[Attempt]) -> set[str]:
    assert {one.name for one in (ground.work / "said").iterdir()} == {attempt.name for attempt in attempts}
    await trio.sleep(0.2)  # Until what was sent has been heard.
    return await trio.to_thread.run_sync(ground.escaped, attempts)


@pytest.mark.skipif(not Sandbox().works(), reason="bubblewrap is not installed, or may not run")
async def test_no_attempt_gets_out_of_bubblewrap() -> None:
    assert await escapes(Level.BUBBLEWRAP) == set()


@pytest.mark.skipif(not Sandbox(level="landlock", program="no-bubblewrap").works(), reason="the kernel has no Landlock")
async def test_only_the_attempts_that_landlock_is_known_not_to_hold_get_out_of_it() -> None:
    assert await escapes(Level.LANDLOCK) == set().union(*NOT_HELD_BY_LANDLOCK.values())


def test_most_attempts_are_shown_to_work_on_this_machine() -> None:
    assert len(ATTEMPTS) >= 160
    assert len([one for one in ATTEMPTS if one.unsafe]) <= 7
    assert len(refused_by_this_machine()) <= 40


async def test_each_attempt_gets_out_where_there_is_no_sandbox() -> None:
    refused = refused_by_this_machine()
    harmless = [one for one in ATTEMPTS if not one.unsafe and one.name not in refused]
    with escape_ground(harmless) as ground:
        command = ground.with_descriptor(ground.command)
        run = partial(subprocess.run, command, cwd=ground.work, env=ground.environment, capture_output=True, timeout=LIMIT_S)
        ran = await trio.to_thread.run_sync(partial(run, check=False))
        assert ran.returncode == 0, ran.stderr
        assert await judged(ground, harmless) == {one.name for one in harmless}


def test_the_documentation_names_what_landlock_does_not_hold() -> None:
    page = (ROOT / "docs" / "how-to" / "sandbox.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.startswith("|")]

    assert {row[1].strip() for row in rows if len(row) > 4 and row[3].strip() == "no"} == set(NOT_HELD_BY_LANDLOCK)
