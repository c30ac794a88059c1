"""G14: what agents spend is charged as they report it, and at a limit they are stopped. Agents are processes here."""

from __future__ import annotations

import os
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import trio

from harnesses.budgets.budget import Budget
from harnesses.budgets.pools import Account
from harnesses.budgets.usage import Usage
from harnesses.coding import CodingHarness
from orchestrator import Orchestrator
from orchestrator.codec import decode
from orchestrator.errors import HarnessFailed, UsageError
from orchestrator.outcome import Outcome
from orchestrator.store import SqliteReader
from tests.budget.agents import coding, spender, told


async def run(folder: Path, harness: Any, budget: Budget | None, **options: Any) -> Outcome:
    async with Orchestrator(folder / "run.db", **options) as orchestrator:
        return await orchestrator.start(harness, name="work", budget=budget).wait()


def books(folder: Path) -> dict[str, Account]:
    return dict(SqliteReader(folder / "run.db").accounts())


def charges(folder: Path) -> list[dict[str, Any]]:
    records = SqliteReader(folder / "run.db").records(limit=10_000)
    bodies = [decode(record.body) for record in records if record.kind == "budget"]
    return [body for body in bodies if body["change"] == "charged"]


def usages(harness: CodingHarness) -> list[Usage]:
    results = [step.output.result for step in harness.step_history]
    return [result.usage for result in results if result is not None and result.usage is not None]


@pytest.mark.parametrize(
    ("program", "budget", "spent"),
    [
        ("claude", Budget(tokens=250), {"tokens": 300}),
        ("codex", Budget(tokens=250), {"tokens": 1000}),
        ("claude", Budget(tool_calls=1), {"tool_calls": 2}),
        ("codex", Budget(tool_calls=1), {"tool_calls": 2}),
        ("claude", Budget(money=Decimal("0.01")), {"money": Decimal("9.63")}),
    ],
)
async def test_a_limit_that_is_reached_ends_the_work(program: str, budget: Budget, spent: Any, tmp_path: Path) -> None:
    pause_s = 0.3 if ("money" not in spent and program == "claude") or "tool_calls" in spent else 0.0
    agent = spender(tmp_path, program, messages=10, tokens=100, cost=9.63, pause_s=pause_s)

    outcome = await run(tmp_path, coding(tmp_path, agent, "one", "two"), budget)

    assert str(outcome.kind) == "budget_spent", outcome
    account = books(tmp_path)["harness/work"]
    assert {name: getattr(account.spent, name) for name in spent} == spent
    assert str(next(iter(spent.values()))) in outcome.cause


async def test_an_agent_is_killed_at_its_limit_and_does_not_come_to_its_end(tmp_path: Path) -> None:
    agent = spender(tmp_path, "claude", messages=2, tokens=100, hangs=True)

    with trio.fail_after(120):
        outcome = await run(tmp_path, coding(tmp_path, agent), Budget(tokens=150))

    assert str(outcome.kind) == "budget_spent"
    (pid,) = {int(line.split()[0]) for line in (tmp_path / "told.txt").read_text().splitlines()}
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_thread_that_is_resumed_is_charged_for_what_it_has_grown(tmp_path: Path) -> None:
    agent = spender(tmp_path, "codex", messages=1, tokens=1860)
    harness = coding(tmp_path, agent, "one", tries=3)

    await run(tmp_path, harness, None)

    turns = usages(harness)
    assert [used.tokens for used in turns] == [1860, 1860, 1860]
    assert [used.input_tokens + used.output_tokens for used in turns] == [1860, 1860, 1860]
    assert books(tmp_path)["agents/work"].spent.tokens == 5580
    assert sum(body["spent"].get("tokens", 0) for body in charges(tmp_path)) == 5580


async def test_a_message_that_is_told_twice_and_again_by_the_result_is_charged_once(tmp_path: Path) -> None:
    agent = spender(tmp_path, "claude", messages=4, tokens=100, cost=0.25)
    harness = coding(tmp_path, agent, "one")

    outcome = await run(tmp_path, harness, Budget(tokens=1000, money=Decimal(1), tool_calls=10))

    assert str(outcome.kind) == "completed", outcome
    spent = books(tmp_path)["harness/work"].spent
    assert (spent.tokens, spent.tool_calls, spent.money) == (400, 4, Decimal("0.25"))
    (used,) = usages(harness)
    assert (used.money, used.tool_calls, used.turns) == (Decimal("0.25"), 4, 1)


async def test_harnesses_that_share_a_pool_are_all_stopped_when_it_is_spent(tmp_path: Path) -> None:
    names = ("a", "b", "c")
    async with Orchestrator(tmp_path / "run.db") as orchestrator:
        pool = orchestrator.pool("all", Budget(tokens=1_000))
        agents = [spender(tmp_path, "claude", messages=100, tokens=100, pause_s=0.2, name=name) for name in names]
        handles = [
            orchestrator.start(coding(tmp_path, agent, name=name), name=name, budget=pool)
            for name, agent in zip(names, agents, strict=True)
        ]
        outcomes = [await handle.wait() for handle in handles]

    assert [str(outcome.kind) for outcome in outcomes] == ["budget_spent"] * 3
    accounts = books(tmp_path)
    assert sum(accounts[f"agents/{name}"].spent.tokens for name in names) == accounts["pool/all"].spent.tokens
    assert 1_000 < accounts["pool/all"].spent.tokens <= told(tmp_path) <= 1_600


async def test_a_pool_that_was_spent_before_lets_no_agent_begin(tmp_path: Path) -> None:
    agent = spender(tmp_path, "claude", messages=2, tokens=100)
    await run(tmp_path, coding(tmp_path, agent), Budget(tokens=150))
    before = told(tmp_path)

    outcome = await run(tmp_path, coding(tmp_path, agent), Budget(tokens=150))

    assert str(outcome.kind) == "budget_spent"
    assert told(tmp_path) == before


async def test_with_a_larger_budget_it_goes_on(tmp_path: Path) -> None:
    agent = spender(tmp_path, "claude", messages=2, tokens=100)
    await run(tmp_path, coding(tmp_path, agent), Budget(tokens=150))

    outcome = await run(tmp_path, coding(tmp_path, agent), Budget(tokens=1_000))

    assert str(outcome.kind) == "completed", outcome
    assert books(tmp_path)["harness/work"].spent.tokens == 400


@pytest.mark.parametrize("where", ["harness", "run", "supervisor", "pool"])
async def test_a_limit_that_an_agent_does_not_report_is_refused(where: str, tmp_path: Path) -> None:
    agent = spender(tmp_path, "codex")
    limit = Budget(money=Decimal("0.01"))
    async with Orchestrator(budget=limit if where == "run" else None) as orchestrator:
        above = orchestrator.supervisor("team", budget=limit) if where == "supervisor" else None
        own = limit if where == "harness" else orchestrator.pool("all", limit) if where == "pool" else None

        with pytest.raises(UsageError, match=r"harness 'work': its budget of money cannot be enforced: .*'codex', which rep"):
            orchestrator.start(coding(tmp_path, agent), name="work", budget=own, supervisor=above)


async def test_time_that_is_up_stops_an_agent_in_the_midst_of_its_turn(tmp_path: Path) -> None:
    """Both limits at once, for the agents must have begun to work before their time is up."""
    outcomes: dict[str, Outcome] = {}

    async def work(name: str, budget: Budget | None, deadline_s: float | None) -> None:
        agent = spender(tmp_path / name, "claude", messages=1, tokens=100, hangs=True)
        with pytest.RaisesGroup(HarnessFailed) if budget is None else nullcontext():
            async with Orchestrator(tmp_path / name / "run.db", handle_signals=False) as orchestrator:
                harness = coding(tmp_path / name, agent)
                handle = orchestrator.start(harness, name="work", budget=budget, deadline_s=deadline_s)
                outcomes[name] = await handle.wait()

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, "working time", Budget(working_time_s=8.0), None)
            nursery.start_soon(work, "deadline", None, 8.0)

    assert {name: str(outcome.kind) for name, outcome in outcomes.items()} == {
        "working time": "budget_spent",
        "deadline": "failed",
    }
    assert [books(tmp_path / name)["agents/work"].spent.tokens for name in outcomes] == [100, 100]


async def test_a_limit_that_is_near_is_told_once(tmp_path: Path) -> None:
    agent = spender(tmp_path, "claude", messages=9, tokens=100, pause_s=0.02)

    await run(tmp_path, coding(tmp_path, agent), Budget(tokens=1_000), log=tmp_path / "run.jsonl")

    near = [body["near"] for body in charges(tmp_path) if "near" in body]
    assert len(near) == 1
    assert near[0][0].endswith("of 1000 tokens are spent")
    warned = [line for line in (tmp_path / "run.jsonl").read_text().splitlines() if '"level":"warning"' in line]
    assert len(warned) == 1
