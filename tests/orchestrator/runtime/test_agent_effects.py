"""G5: what agents do within a step is recorded under an orchestrator as effects of its harness are, and with few commits."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve

from harnesses import Agent, AgentRun, BaseHarness, Budget, EffectFailed, Spend
from orchestrator import Backoff, MemoryStore, Orchestrator, SqliteStore
from orchestrator.store.conformance.budget_laws import begin, reserve_row
from orchestrator.store.conformance.conformance_tools import claim, do
from tests.kill.lives import assert_sound

SOON = Backoff(base_s=0.001, cap_s=0.001)


class Asking(BaseHarness[int, int, Any]):
    """Calls an agent in each of its steps."""

    def __init__(self, agent: Agent[Any, Any, Any], steps: int = 1) -> None:
        super().__init__(0)
        self.agent, self.steps = agent, steps

    async def execute(self) -> AsyncIterator[tuple[int, Any]]:
        while self.current_step < self.steps:
            yield self.current_step, await self.run_agent(self.agent, self.current_step)


class Counted(MemoryStore):
    """A store that counts its commits."""

    def __init__(self) -> None:
        super().__init__()
        self.commits = 0

    def commit(self, *args: Any, **kwargs: Any) -> Any:
        self.commits += 1
        return super().commit(*args, **kwargs)


async def slow(text: str) -> str:
    await trio.sleep(1)
    return text


@pytest.mark.parametrize(("tools", "commits"), [(0, 1), (1, 3), (3, 3), (20, 3)])
async def test_a_round_costs_one_commit_and_two_for_all_its_tools(tools: int, commits: int, autojump_clock):
    store, seen = Counted(), list[int]()

    async def work(run: AgentRun[Any, Any]) -> None:
        for number in range(4):
            seen.append(store.commits)
            await run.once(f"model {number}", slow, "answer", idempotent=True)
            async with trio.open_nursery() as nursery:
                for tool in range(tools):
                    nursery.start_soon(partial(run.once, f"{number} {tool}", slow, "x", errors="keep"))

    async with Orchestrator(store) as running:
        running.start(Asking(Agent(work)), name="one")

    assert [after - before for before, after in pairwise(seen)] == [commits] * 3
    assert [effect.outcome.value for effect in store.effects()] == ["confirmed"] * 4 * (tools + 1)


@pytest.mark.parametrize("store", [MemoryStore, None])
async def test_an_attempt_goes_on_where_the_last_one_stopped(store: Any, tmp_path: Path, autojump_clock):
    done: list[str] = []

    async def act(what: str) -> str:
        done.append(what)
        if what == "fails":
            raise ValueError("no")
        return what

    async def work(run: AgentRun[Any, Any]) -> list[str]:
        told: list[str] = []
        for what in ("model", "edit", "fails"):
            try:
                told.append(await run.once(what, act, what, idempotent=what == "model", errors="keep"))
            except EffectFailed as error:
                told.append(error.reason)
        if len(lives) < 3:
            lives.append(1)
            raise OSError("crash")
        return told

    lives: list[int] = []
    with closing((store or partial(SqliteStore, tmp_path / "run.db"))()) as opened:
        async with Orchestrator(opened, backoff=SOON) as running:
            running.start(Asking(Agent(work)), name="one")

        assert done == ["model", "edit", "fails"]
        assert opened.steps("one")[0].output == ["model", "edit", "ValueError: no"]


async def test_an_agent_in_the_background_goes_on_over_the_steps_of_its_harness(tmp_path: Path):
    done: list[int] = []

    async def act(number: int) -> int:
        await trio.sleep(0.002)
        done.append(number)
        return number

    async def work(run: AgentRun[Any, Any]) -> None:
        for number in range(60):
            assert await run.once(f"{number}", act, number, errors="keep", idempotent=number % 2 == 0) == number

    class Background(BaseHarness[int, int, int]):
        async def execute(self) -> AsyncIterator[tuple[int, int]]:
            async with trio.open_nursery() as nursery:
                for _ in range(2):
                    nursery.start_soon(self.run_agent, Agent(work, name="worker"), 0)
                while len(done) < 120:
                    await trio.sleep(0.001)
                    yield len(done), 0

    with closing(SqliteStore(tmp_path / "run.db")) as store:
        async with Orchestrator(store) as running:
            handle = running.start(Background(0), name="one")
        assert str(handle.outcome) == "finished"

        ended = [effect.key for effect in store.effects() if effect.outcome.value == "confirmed"]
        assert sorted(ended) == sorted(f"worker#{call}/{number}" for call in (1, 2) for number in range(60))
    assert sorted(done) == sorted([*range(60)] * 2)
    assert_sound(tmp_path / "run.db")


async def test_an_overspend_is_charged_and_the_harness_ends_before_the_next_call(autojump_clock):
    async def work(run: AgentRun[Any, Any]) -> None:
        async with run.spending(tokens=10) as spend:
            spend.settle(tokens=90)
        done.append("told")
        await run.once("tool", done.append, "tool")

    done: list[str] = []
    store = MemoryStore()
    async with Orchestrator(store) as running:
        handle = running.start(Asking(Agent(work, reports=["tokens"])), name="one", budget=Budget(tokens=20))

    assert handle.outcome is not None
    assert (handle.outcome.kind.value, done) == ("budget_spent", ["told"])
    assert store.accounts()["harness/one"].spent == Spend(tokens=90)


async def test_a_paused_agent_waits_before_its_next_call_and_counts_as_waiting(autojump_clock):
    done: list[str] = []

    async def act(what: str) -> None:
        await trio.sleep(2)
        done.append(what)

    async def work(run: AgentRun[Any, Any]) -> None:
        for what in "ab":
            await run.once(what, act, what)

    async with Orchestrator() as running:
        handle = running.start(Asking(Agent(work)), name="one", step_timeout_s=5)
        await trio.sleep(1)
        await handle.pause()
        await trio.sleep(100)
        paused = list(done)
        await handle.resume()
        await handle.wait()

    assert (paused, done) == (["a"], ["a", "b"])
    assert str(handle.outcome) == "finished"


def test_what_a_reservation_says_of_a_cut_off_is_on_record_and_proven(tmp_path: Path):
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        one = claim(store, "one")
        begin(store, one)
        do(store, evolve(reserve_row(one, Spend(tokens=10)), on_cutoff=Spend(tokens=3)))
    assert_sound(tmp_path / "run.db")

    with closing(SqliteStore(tmp_path / "run.db")) as store:
        begin(store, claim(store, "one"))
        assert store.accounts()["all"].spent == Spend(tokens=3)
    assert_sound(tmp_path / "run.db")
