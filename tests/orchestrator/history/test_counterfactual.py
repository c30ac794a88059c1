"""A fork asks another model from its step on, or from a model call within it: nothing before is asked, paid or done again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from harnesses import BaseHarness
from harnesses.agents import ModelAgent
from harnesses.agents.model.model_client import ModelClient
from harnesses.budgets.budget import Budget
from orchestrator import Orchestrator, SqliteStore, Store, UsageError
from orchestrator.errors import UnknownHarness
from orchestrator.history import fork, transcripts
from orchestrator.store import MemoryStore
from orchestrator.store.file.value_files import files_folder
from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.pruning.prune_store import prune
from tests.harnesses.agents.chat.scripted_model import ScriptedProvider, calls, says, scripted
from tests.tampering.proof import judge

LONG = "x" * 100_000
STEP = (says("I look.", calls("look", "{}")), says("I look again.", calls("look", "{}")), says("done"))


class Working(BaseHarness[int, str, str]):
    """Has a model look twice at something in each step, in one session."""

    def __init__(self, steps: int, *, provider: ScriptedProvider, looked: list[str], **options: Any) -> None:
        super().__init__(0)
        self.steps = steps

        def look() -> str:
            """Look."""
            looked.append(self.name)
            return LONG

        self.agent = ModelAgent(provider.client(), tools=[look], session="s", name="worker", **options)

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        while self.current_step < self.steps:
            self.update_state(lambda done: done + 1)
            yield "work", str(await self.run_agent(self.agent, f"Do part {self.current_step + 1}."))


@pytest.fixture(params=["file", "encrypted", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    with closing(SqliteStore(tmp_path / "run.db", key=bytes(32) if request.param == "encrypted" else None)) as opened:
        yield opened


async def work(
    store: Store | Path, name: str, steps: int, answered: int = 0, **options: Any
) -> tuple[list[tuple[str, int]], list[str]]:
    """Have a harness make its steps; return model and number of messages of each request, and the calls of its tool.

    Args:
        answered: answers of the first step that are on record already.
    """
    provider, looked = scripted(*(STEP * 3)[answered:]), list[str]()
    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Working(steps, provider=provider, looked=looked, **options), name=name)
        await handle.wait()
    return [(request.model, len(request.messages)) for request in provider.requests], looked


async def test_a_fork_asks_the_other_model_from_its_step_on_and_its_session_goes_on(store: Store) -> None:
    requests, _ = await work(store, "one", 2)
    last = requests[-1][1] + 1

    fork(store, "one", 2, to="two", model="other")
    asked, looked = await work(store, "two", 3)

    assert {model for model, _ in requests} == {"script-1"}
    assert asked == [("other", last + 1), ("other", last + 3), ("other", last + 5)]
    assert looked == ["two", "two"]
    assert [turn.transcript.model for turn in transcripts(store, "two")] == ["scripted:script-1"] * 2 + ["scripted:other"]
    assert [turn.transcript.turn for turn in transcripts(store, "two")] == [1, 2, 3]
    assert store.steps("two", limit=2)[1].output == "done"


@pytest.mark.parametrize(("rounds", "made", "looks"), [(1, 2, 1), (2, 1, 0), (3, 0, 0)])
async def test_a_fork_within_a_step_makes_no_model_call_and_no_tool_call_before_it_again(
    store: Store, rounds: int, made: int, looks: int
) -> None:
    await work(store, "one", 2)

    fork(store, "one", 1, to="two", rounds=rounds, model="other")
    asked, looked = await work(store, "two", 2, rounds)

    assert [model for model, _ in asked] == ["other"] * made
    assert looked == ["two"] * looks
    (turn,) = transcripts(store, "two", 2)
    models = [each.model for each in turn.transcript.rounds]
    assert models == ["scripted:script-1"] * rounds + ["scripted:other"] * made
    assert turn.transcript.tool_calls == 2


async def test_a_turn_in_progress_can_be_forked(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    provider, looked = scripted(STEP[0], STEP[1], SystemError("the machine failed")), list[str]()
    with pytest.raises(ExceptionGroup):
        async with Orchestrator(path, intensity=0) as orchestrator:
            orchestrator.start(Working(1, provider=provider, looked=looked), name="one")

    fork(path, "one", 0, to="two", rounds=2, model="other")
    asked, looked = await work(path, "two", 1, 2)

    assert ([model for model, _ in asked], looked) == (["other"], [])


async def test_the_other_model_is_asked_after_every_restart_and_by_forks_of_the_fork(store: Store) -> None:
    await work(store, "one", 1)
    fork(store, "one", 1, to="two", model="other")
    first, _ = await work(store, "two", 2)

    second, _ = await work(store, "two", 3)
    fork(store, "two", 2, to="three")
    third, _ = await work(store, "three", 3)
    fork(store, "two", 2, to="four", model="third")
    fourth, _ = await work(store, "four", 3)

    assert [{model for model, _ in one} for one in (first, second, third, fourth)] == [{"other"}] * 3 + [{"third"}]


async def test_a_fork_into_another_store_takes_along_what_was_said_and_its_files(tmp_path: Path) -> None:
    await work(tmp_path / "run.db", "one", 2)
    other = tmp_path / "other.db"

    fork(tmp_path / "run.db", "one", 1, to="two", into=other, rounds=1, model="other")
    assert len([*files_folder(other).iterdir()]) == 2
    asked, _ = await work(other, "two", 2, 1)

    assert [model for model, _ in asked] == ["other", "other"]
    assert judge(other)[1] == []


async def test_a_fork_keeps_the_files_that_it_shares_when_its_origin_is_pruned(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    await work(path, "one", 2)
    fork(path, "one", 1, to="two", rounds=1)

    prune(path, Rule(keep=1, context=0), ["one"], by="ann")
    asked, _ = await work(path, "two", 2, 1)

    assert len(asked) == 2
    assert judge(path)[1] == []


async def test_what_the_fork_is_like_is_on_record(store: Store) -> None:
    await work(store, "one", 2)

    fork(store, "one", 1, to="two", rounds=2, model="other")

    event = next(record.event for record in store.harnesses() if record.name == "two")
    assert (event["model"], event["rounds"], event["origin_step"]) == ("other", 2, 1)
    assert (
        event["cause"]
        == "forked from 'one' at step 1 and 2 model calls of the next with other; start it to continue from there"
    )


async def test_a_step_with_fewer_model_calls_and_an_unknown_harness_are_told(store: Store) -> None:
    await work(store, "one", 1)

    with pytest.raises(UsageError, match="step 1 has 3 model calls: expected at least 4; see `orchestrator transcript one 1`"):
        fork(store, "one", 0, to="two", rounds=4)
    with pytest.raises(UnknownHarness):
        fork(store, "nobody", 0, to="two", model="other")
    assert [record.name for record in store.harnesses()] == ["one"]


async def test_a_budget_of_money_needs_a_price_of_the_other_model_too(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    await work(path, "one", 1)
    fork(path, "one", 1, to="two", model="openai:no-such-model")

    with pytest.raises(ExceptionGroup) as failed:
        await work(path, "two", 2, budget=Budget(money=Decimal(1)))

    told = str(failed.value.exceptions[0])
    assert "its budget of money cannot be enforced: expected agents that report their usage of it" in told
    assert "model 'openai:no-such-model' is not in the price table" in told


async def test_a_harness_with_a_budget_of_money_does_not_ask_another_model_without_a_price(store: Store) -> None:
    await work(store, "one", 1)
    fork(store, "one", 1, to="two", model="no-such-model")
    provider, looked = scripted(*STEP), list[str]()
    provider.account = "https://models.example"
    priced = {"scripted:script-1": {"input": 1, "output": 2}}

    working = Working(2, provider=provider, looked=looked)
    working.agent = ModelAgent(ModelClient([(provider, "script-1")], prices=priced), name="worker", session="s")

    async def make() -> None:
        async with Orchestrator(store) as orchestrator:
            orchestrator.start(working, name="two", budget=Budget(money=Decimal(1)))

    with pytest.raises(ExceptionGroup) as failed:
        await make()

    told = "its budget of money cannot be enforced: expected agents that report their usage of it, got 'worker', which reports"
    assert told in str(failed.value.exceptions[0])
    assert provider.requests == []


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("opnai:gpt-x", "did you mean 'openai'"),
        ("acme:big", "write package.module:function:MODEL"),
        ("openai:", "got no model"),
    ],
)
async def test_a_model_of_no_known_provider_is_refused_at_the_fork(store: Store, model: str, told: str) -> None:
    await work(store, "one", 1)

    with pytest.raises(UsageError, match=told):
        fork(store, "one", 1, to="two", model=model)
    fork(store, "one", 1, to="two", model="acme.models:provider:big")
