"""Budgets hold for Claude Code and Codex CLI themselves, with only the model on loopback."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from harnesses import BaseHarness, Budget, StepYield
from harnesses.agents import CommandAgent
from harnesses.budgets.budget import Spend
from orchestrator import MemoryStore, Orchestrator
from tests.harnesses.agents.command.real_programs import PROGRAMS, agent_of, home_for_test, prepare, program_path
from tests.harnesses.agents.turns import assigned
from tests.model_server import ModelServer


class Asking(BaseHarness[int, str, str]):
    """Asks an agent in one conversation, a prompt in each step."""

    def __init__(self, agent: CommandAgent, work: Path, *prompts: str) -> None:
        super().__init__(0)
        self.agent, self.work, self.prompts = agent, work, prompts

    def asked_agents(self) -> list[CommandAgent]:
        return [self.agent]

    async def execute(self) -> AsyncIterator[Any]:
        session = None
        for prompt in self.prompts:
            result = await self.run_agent(self.agent, assigned(self.work, prompt, session=session))
            session = result.session
            yield StepYield(prompt, result.message)


@pytest.fixture
def folder() -> Iterator[Path]:
    place = home_for_test()
    (place / "work").mkdir()
    yield place
    shutil.rmtree(place, ignore_errors=True)


async def spend(name: str, folder: Path, server: ModelServer, *prompts: str, **limits: Any) -> tuple[str, Spend, int]:
    """Return how a harness with a budget ended, what it spent, and how many steps it has made."""
    program = PROGRAMS[name]
    program_path(program)
    prepare(server, program, folder / "work" / "greeting.txt")
    store = MemoryStore()
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        harness = Asking(agent_of(program, server, folder), folder / "work", *prompts)
        outcome = await orchestrator.start(harness, name="asking", budget=Budget(**limits)).wait()
    steps = sum(record.kind == "step" for record in store.records())
    return str(outcome), store.accounts(["harness/asking"])["harness/asking"].spent, steps


GREET, AGAIN = "greet-now", "again-now"


@pytest.mark.parametrize(
    ("name", "prompts", "limits", "spent", "steps"),
    [
        # Claude Code reports each call of its model: it is stopped when the second one passes the limit.
        ("claude", [GREET, AGAIN], {"tokens": 1_500}, {"tokens": 1_947}, 0),
        # It reports money when it ends.
        ("claude", [GREET, AGAIN], {"money": Decimal("0.01")}, {"money": Decimal("0.010675")}, 0),
        ("claude", [GREET, GREET], {"tool_calls": 1}, {"tool_calls": 1}, 1),
        ("claude", [GREET, AGAIN], {"turns": 1}, {"turns": 1}, 1),
        ("codex", [GREET, AGAIN, AGAIN], {"tokens": 2_500}, {"tokens": 3_056}, 1),
        ("codex", [GREET, GREET], {"tool_calls": 1}, {"tool_calls": 1}, 1),
        ("codex", [GREET, AGAIN], {"turns": 1}, {"turns": 1}, 1),
    ],
)
async def test_a_limit_stops_the_program_and_the_harness(
    name: str,
    prompts: list[str],
    limits: dict[str, Any],
    spent: dict[str, Any],
    steps: int,
    folder: Path,
    model_server: ModelServer,
) -> None:
    outcome, account, made = await spend(name, folder, model_server, *prompts, **limits)

    assert next(iter(limits)) in outcome
    assert {field: getattr(account, field) for field in spent} == spent
    assert made == steps


async def test_the_total_that_codex_reports_of_a_thread_is_charged_once(folder: Path, model_server: ModelServer) -> None:
    outcome, account, _ = await spend("codex", folder, model_server, GREET, AGAIN, AGAIN, tokens=5_000)

    assert outcome == "finished"
    assert account.tokens == 900 + 40 + 1_000 + 7 + 2 * (1_100 + 9)


async def test_claude_code_reports_the_money_of_each_run_alone(folder: Path, model_server: ModelServer) -> None:
    outcome, account, _ = await spend("claude", folder, model_server, GREET, AGAIN, money=Decimal(1))

    assert outcome == "finished"
    assert float(account.money) == pytest.approx(0.010675 + 0.005725)


async def test_a_budget_of_money_is_refused_for_a_program_that_reports_none(folder: Path, model_server: ModelServer) -> None:
    with pytest.raises(BaseException, match="cannot be enforced"):
        await spend("codex", folder, model_server, GREET, money=Decimal(1))
