"""Harnesses whose agents are programs that spend, for the proofs of what is charged."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from harnesses.agent import Agent
from harnesses.agents import CommandAgent, claude_code, codex
from harnesses.budgets.pools import Account
from harnesses.coding import CodingHarness
from harnesses.features.feature import Feature, Verdict
from harnesses.features.health_checks import NoHealthCheck
from harnesses.pipeline import PipelineHarness
from harnesses.pipeline.stage_work import PipelineAgent
from orchestrator.store import SqliteReader
from tests.harnesses.coding.git_repositories import make_repository

SPENDER = Path(__file__).with_name("spending_agent.py")


class Proof:
    """Passes a feature once it was tried so often."""

    proves = True

    def __init__(self, tries: int) -> None:
        self._tries = tries
        self._seen: dict[str, int] = {}

    async def validate(self, feature: Feature, work: object) -> Verdict:
        self._seen[feature.id] = self._seen.get(feature.id, 0) + 1
        passed = self._seen[feature.id] >= self._tries
        return Verdict(passed=passed, evidence="counted", validator="count")


def spender(folder: Path, program: str, *, name: str | None = None, **plan: Any) -> CommandAgent:
    """Return an agent that is a process, and spends as planned."""
    place = folder / "programs" / program
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"#!{sys.executable} -S\n{SPENDER.read_text()}")
    place.chmod(0o755)
    dialect = claude_code(program=str(place)) if program == "claude" else codex(program=str(place))
    env = {"SPEND_PLAN": json.dumps(plan), "SPEND_TOLD": str(folder / "told.txt")}
    return CommandAgent(dialect=dialect, env=env, name=name, sandbox=False)  # a sandbox hides the temporary folder


def coding(folder: Path, agent: CommandAgent, *ids: str, tries: int = 1, name: str = "work", **options: Any) -> CodingHarness:
    """Return a coding harness in a repository of its own; going on with that, if it is there."""
    repository = folder / f"{name}.git"
    if not repository.exists():
        make_repository(repository, bare=True)
    features = [Feature(id, f"{id} works", steps=["look"]) for id in ids or ("one",)]
    options = {"confirmations": 1, "chat_delay_s": 0.0, **options}
    space = folder / f"{name}-space"
    return CodingHarness(repository, agent, features, Proof(tries), workspace=space, health_check=NoHealthCheck(), **options)


def told(folder: Path) -> int:
    """Return the tokens of the messages that agents have told of."""
    place = folder / "told.txt"
    return sum(int(line.split()[2]) for line in place.read_text().splitlines()) if place.exists() else 0


def plain() -> CommandAgent:
    """Return an agent that writes text for people: nothing is known of what it uses."""
    return CommandAgent(["true"])


def pipeline(folder: Path) -> PipelineHarness:
    """Return a pipeline whose maker knows of no guardrails."""

    async def nothing(_: object) -> str:
        return ""

    builder: PipelineAgent = Agent(nothing, name="builder")
    judge: PipelineAgent = Agent(nothing, name="judge")
    return PipelineHarness(agents=builder, validators=judge, workspace=folder, goal="Try it.")


def books_of(store: Path) -> dict[str, Account]:
    """Return where every pool of a store stands."""
    with closing(SqliteReader(store)) as reader:
        return dict(reader.accounts())
