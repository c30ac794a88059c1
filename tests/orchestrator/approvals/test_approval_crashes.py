"""G12: a program that dies at any commit asks for each action once, uses each approval once, and does nothing without one."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
import trio

from harnesses.effects.approval import Action
from harnesses.effects.effect import Answer, Confirmed, NotDone
from orchestrator import Orchestrator, SqliteStore
from orchestrator.errors import StoreError
from orchestrator.store.store_operations import ANSWERED, REQUESTED, USED
from orchestrator.testing import FaultyStore
from tests.orchestrator.scripted import Scripted, Steps

STEPS = 3


class World:
    """What was pushed, and what had been approved by then."""

    def __init__(self) -> None:
        self.pushed: Counter[int] = Counter()

    async def push(self, number: int) -> int:
        self.pushed[number] += 1
        return number

    def ask(self, key: str, number: int) -> Answer:
        return Confirmed(number) if self.pushed[number] else NotDone()


def pushing(world: World):
    async def script(harness: Scripted) -> Steps:
        while harness.current_step < STEPS:
            number = harness.current_step + 1
            action = Action("publish", f"push {number}")
            yield number, await harness.once("push", world.push, number, reconcile=world.ask, approval=action)

    return script


async def live(path: Path, world: World, at: int, *, after: bool) -> bool:
    """Live until commit `at`, with a person who approves whatever waits; return whether it came to its end before."""
    store = FaultyStore(SqliteStore(path), StoreError("killed"), at=at, after=after)

    async def approve(orchestrator: Orchestrator) -> None:
        done: set[str] = set()
        while True:
            for record in store.approvals():
                if record.id not in done:
                    done.add(record.id)
                    orchestrator.approve(record.id, by="ann")
            await trio.sleep(0.1)

    survived = True
    with closing(store):
        try:
            async with trio.open_nursery() as nursery:
                async with Orchestrator(store) as orchestrator:
                    nursery.start_soon(approve, orchestrator)
                    orchestrator.start(Scripted(pushing(world), until=STEPS), name="one")
                nursery.cancel_scope.cancel()
        except* StoreError:
            survived = False
    return survived


@pytest.mark.parametrize("after", [False, True], ids=["before it is written", "after it is written"])
async def test_death_at_any_commit_asks_and_does_everything_once(tmp_path, after, autojump_clock):
    for at in range(2, 40):
        path, world = tmp_path / f"{at}.db", World()
        survived = await live(path, world, at, after=after)
        assert await live(path, world, 10_000, after=after)

        with closing(SqliteStore(path)) as store:
            kinds = Counter(record.kind for record in store.records())
            assert len(store.steps("one")) == STEPS
        assert world.pushed == dict.fromkeys(range(1, STEPS + 1), 1)
        assert (kinds[REQUESTED], kinds[ANSWERED], kinds[USED]) == (STEPS, STEPS, STEPS)
        if survived:
            break
    else:
        raise AssertionError("it never came to its end by itself: nothing was tried at its last commits")
