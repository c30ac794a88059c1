"""The helpers for users' tests do what they say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from attrs import evolve, frozen
from trio.testing import MockClock

from harnesses import BaseHarness
from orchestrator import OutcomeKind, StoreError, StoreLost
from orchestrator.store import MemoryStore, SqliteStore, Store
from orchestrator.store.conformance import LAWS, Law
from orchestrator.testing import FaultyStore, run_in_lives, run_to_end


@frozen
class Sum:
    numbers: tuple[int, ...] = ()


class Summing(BaseHarness[Sum, int, int]):
    """Takes five numbers, from its state."""

    def is_complete(self) -> bool:
        return len(self.state.numbers) == 5

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        while True:
            number = len(self.state.numbers) + 1
            self.update_state(lambda state: evolve(state, numbers=(*state.numbers, number)))  # noqa: B023  (called at once)
            await self.sleep(1)
            yield number, sum(self.state.numbers)


class Forgetful(Summing):
    """Takes them from a local variable."""

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        for number in range(1, 6):
            self.update_state(lambda state: evolve(state, numbers=(*state.numbers, number)))  # noqa: B023  (called at once)
            yield number, sum(self.state.numbers)


class Echoing(BaseHarness[int, str, str]):
    """Says what it is told, until told "end"."""

    def is_complete(self) -> bool:
        return bool(self.step_history) and self.step_history[-1].output == "end"

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        while True:
            word = await self.receive()
            yield word, word


class Failing(Summing):
    """Fails in its third step."""

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        for number in (1, 2):
            self.update_state(lambda state: evolve(state, numbers=(*state.numbers, number)))  # noqa: B023  (called at once)
            yield number, number
        self.update_state(lambda state: evolve(state, numbers=()))
        raise ValueError("three is too much")


async def test_a_run_to_the_end_gives_what_was_recorded(autojump_clock: MockClock) -> None:
    run = await run_to_end(Summing(Sum()))

    assert run.outcome.kind is OutcomeKind.COMPLETED
    assert run.state == Sum((1, 2, 3, 4, 5))
    assert [step.output for step in run.steps] == [1, 3, 6, 10, 15]
    assert (run.lives, run.store.harnesses()[0].current_step) == (1, 5)


async def test_a_harness_that_fails_is_no_error_of_the_test(autojump_clock: MockClock) -> None:
    run = await run_to_end(Failing(Sum()), restart="temporary")

    assert run.outcome.kind is OutcomeKind.FAILED
    assert isinstance(run.outcome.error, ValueError)
    assert run.state == Sum((1, 2))
    assert len(run.steps) == 2


async def test_messages_are_there_from_the_beginning() -> None:
    run = await run_to_end(Echoing(0), messages=["one", "two", "end"])

    assert [step.output for step in run.steps] == ["one", "two", "end"]


@pytest.mark.parametrize("steps_each", [1, 2, 3])
async def test_a_harness_that_lives_by_its_state_survives_every_death(autojump_clock: MockClock, steps_each: int) -> None:
    whole = await run_to_end(Summing(Sum()))

    lives = await run_in_lives(lambda: Summing(Sum()), steps_each=steps_each)

    assert lives.lives > 1
    assert lives.state == whole.state
    assert [step.output for step in lives.steps] == [step.output for step in whole.steps]


async def test_a_harness_that_lives_by_local_variables_is_found_out() -> None:
    lives = await run_in_lives(lambda: Forgetful(Sum()), steps_each=2)

    assert lives.state == Sum((1, 2, 1, 2, 1))


async def test_messages_outlive_deaths() -> None:
    lives = await run_in_lives(lambda: Echoing(0), messages=["one", "two", "three", "end"])

    assert lives.lives > 1
    assert [step.output for step in lives.steps] == ["one", "two", "three", "end"]


async def test_too_many_lives_are_an_error() -> None:
    with pytest.raises(StoreError, match="not ended in 3 lives"):
        await run_in_lives(lambda: Echoing(0), messages=["more"] * 10, max_lives=3)


async def test_a_fault_before_the_commit_leaves_nothing_of_it() -> None:
    store = FaultyStore(MemoryStore(), StoreError("disk full"), at=2, only_steps=True)

    with pytest.RaisesGroup(pytest.RaisesExc(StoreLost, match="disk full")):
        await run_to_end(Forgetful(Sum()), store=store)

    assert store.harnesses()[0].current_step == 1


async def test_a_fault_after_the_commit_leaves_all_of_it() -> None:
    store = FaultyStore(MemoryStore(), StoreError("disk full"), at=2, after=True, only_steps=True)

    with pytest.RaisesGroup(pytest.RaisesExc(StoreLost, match="disk full")):
        await run_to_end(Forgetful(Sum()), store=store)

    assert store.harnesses()[0].current_step == 2


def test_a_fault_may_be_anything_that_can_be_called() -> None:
    called: list[int] = []
    store: Store = FaultyStore(MemoryStore(), lambda: called.append(1), at=2)

    for _ in range(3):
        store.commit([])

    assert called == [1]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_a_faulty_store_without_its_fault_is_a_store(law: Law, tmp_path: Path) -> None:
    law(lambda: FaultyStore(SqliteStore(tmp_path / "run.db"), StoreError("never"), at=0))
