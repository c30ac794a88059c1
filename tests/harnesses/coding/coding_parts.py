"""Agents and validators for the tests of the coding harness: what is wanted is a file with the right content."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from harnesses.agent import Agent, AgentRun
from harnesses.coding.candidate import Candidate
from harnesses.features.feature import Feature, TurnResult, Verdict
from harnesses.features.feature_record import Assignment, FeatureState
from harnesses.features.streaming import FeatureAgent
from harnesses.processes.bounded_command import run_bounded

Deed = Callable[[Assignment, Path], object]


class ShellCheck:
    """Passes if `test -s <feature id>.txt` and `grep right` in a fresh worktree do: a real command."""

    proves = True

    def __init__(self) -> None:
        self.seen: list[Candidate] = []

    async def validate(self, feature: Feature, work: Candidate) -> Verdict:
        self.seen.append(work)
        async with work.checkouts.at(work.commit) as tree:
            ran = await run_bounded(["grep", "-q", "right", f"{feature.id}.txt"], limit_s=60, cwd=tree)
        return Verdict(passed=ran.code == 0, evidence=f"grep ended with {ran.code}", validator="grep")


def features(*ids: str) -> list[Feature]:
    """Return features, each of which wants a file."""
    return [Feature(id, f"{id}.txt is right", steps=["grep finds it"]) for id in ids]


def agent(deed: Deed) -> FeatureAgent:
    """Return an agent that does something in its worktree."""

    async def run(asked: AgentRun[FeatureState, Assignment]) -> TurnResult:
        assert asked.input.directory is not None
        done = deed(asked.input, Path(asked.input.directory))
        if isinstance(done, Awaitable):
            await done
        return TurnResult(message="done")

    return Agent(run, name="scripted")


def writes_right(asked: Assignment, tree: Path) -> None:
    """Do what is wanted."""
    (tree / f"{asked.feature.id}.txt").write_text("right\n")


def wrong_first(asked: Assignment, tree: Path) -> None:
    """Do it wrong at first."""
    (tree / f"{asked.feature.id}.txt").write_text("right\n" if asked.turn > 1 else "wrong\n")
