"""Has an agent of the corpus do its work in a real repository, and judges what it has committed."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import trio
from attrs import evolve, field, frozen

from harnesses.coding.agent_worktrees import AgentWorktrees
from harnesses.coding.candidate import Candidate
from harnesses.coding.judge_repository import JudgeRepository, Uncommittable
from harnesses.coding.validators import Command, PytestNodes, SuiteKept, TestsKept
from harnesses.features.feature import Feature, Verdict
from harnesses.features.feature_validators import OutcomeValidator
from harnesses.processes.bounded_command import run_bounded
from tests.harnesses.coding.git_repositories import judging, make_repository
from tests.honesty.cheating import Agent
from tests.honesty.shop import FEATURE, FILES

CONFIRMATIONS = 3
AT_ONCE = 2
_ENV = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Plugins of this machine's cost more than the tests."""
_LIMIT_S = 60.0


@frozen
class Result:
    """What came of one agent."""

    agent: Agent
    accepted: bool
    verdict: Verdict
    """The last one: the first that refuses, or else the last confirmation."""
    tests_alone: bool | None
    """Whether the tests of the feature, run by the validator without the others, passed; None if that was not tried."""
    plainly: bool | None
    """Whether a plain run in the agent's worktree ended with 0; None if that was not tried."""
    took_s: float


@frozen
class Court:
    """One repository in which all agents work."""

    judge: JudgeRepository
    workshop: AgentWorktrees
    base: str
    suite: SuiteKept
    working: trio.Lock = field(factory=trio.Lock)

    async def hear(self, agent: Agent, *, thoroughly: bool, confirmations: int) -> Result:
        """Have an agent work, and judge it.

        Args:
            thoroughly: also tell what others would have said.
        """
        began = time.monotonic()
        name = re.sub(r"[^a-z0-9]+", "-", agent.name.lower())
        try:
            tree, copy = await self._work(agent, name)
        except Uncommittable as error:
            verdict = Verdict(passed=False, evidence=str(error), validator="git")
            return Result(agent, False, verdict, None, None, time.monotonic() - began)
        plainly = await self._plainly(agent, copy) if thoroughly else None
        commit = await self.judge.commit(tree, self.base, message=agent.name)
        candidate = Candidate(commit=commit, base=self.base, checkouts=self.judge)
        alone = None
        if thoroughly and not agent.command:
            alone = (await _nodes(agent.limit_s).validate(_feature(agent), candidate)).passed
        for _ in range(agent.tries):
            verdict = await self._decide(agent, candidate, confirmations)
            if verdict.passed:
                break
        return Result(agent, verdict.passed, verdict, alone, plainly, time.monotonic() - began)

    async def _work(self, agent: Agent, name: str) -> tuple[str, Path]:
        """Have an agent work, and return the tree that it leaves, and a copy of its worktree."""
        async with self.working:
            worktree = await self.workshop.open(f"try-{name}", self.base, f"harness/{name}/1")
            try:
                await trio.to_thread.run_sync(agent.deed, worktree.path)
                copy = self.workshop.folder / f"copy-{name}"
                await trio.to_thread.run_sync(partial(shutil.copytree, worktree.path, copy, symlinks=True))
                return await self.judge.snapshot(worktree.path, worktree.index, self.base), copy
            finally:
                await self.workshop.close(worktree)

    async def _decide(self, agent: Agent, candidate: Candidate, confirmations: int) -> Verdict:
        """Ask for so many passes in a row."""
        validator = self._validator(agent)
        for confirmation in range(1, confirmations + 1):
            asked = Candidate(commit=candidate.commit, base=self.base, checkouts=self.judge, confirmation=confirmation)
            verdict = await validator.validate(_feature(agent), asked)
            if not verdict.passed:
                break
        return verdict

    def _validator(self, agent: Agent) -> OutcomeValidator[Candidate]:
        if agent.command:
            return Command(agent.command, protect=["check.py"], limit_s=agent.limit_s)
        return TestsKept() & _nodes(agent.limit_s) & self.suite

    async def _plainly(self, agent: Agent, copy: Path) -> bool:
        command: Sequence[str] = agent.command or [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            *agent.nodes,
        ]
        env = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(copy), "TMPDIR": str(copy), **_ENV}
        return (await run_bounded(command, limit_s=5, cwd=copy, env=env)).code == 0


def _feature(agent: Agent) -> Feature:
    return evolve(FEATURE, steps=agent.nodes)


def _nodes(limit_s: float) -> PytestNodes:
    return PytestNodes(env=_ENV, limit_s=limit_s)


async def hear_all(folder: Path, agents: Sequence[Agent], *, thoroughly: bool = False, briefly: bool = False) -> list[Result]:
    """Try all agents, a few at a time.

    Args:
        thoroughly: also tell what others would have said.
        briefly: ask each for as many passes in a row as it takes to see through it, and not for more.
    """
    repository = make_repository(folder / "user", FILES)
    origin, judge, workshop = await judging(folder / "workspace", repository)
    base = await origin.ensure("work", judge)
    court = Court(judge, workshop, base, SuiteKept(env=_ENV, limit_s=_LIMIT_S))
    results: dict[str, Result] = {}
    limit = trio.CapacityLimiter(AT_ONCE)

    async def hear(agent: Agent) -> None:
        async with limit:
            results[agent.name] = await court.hear(
                agent, thoroughly=thoroughly, confirmations=agent.passes if briefly else CONFIRMATIONS
            )

    async with trio.open_nursery() as nursery:
        for agent in agents:
            nursery.start_soon(hear, agent)
    return [results[agent.name] for agent in agents]
