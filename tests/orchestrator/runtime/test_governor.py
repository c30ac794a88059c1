"""A governor sees every step before it is recorded, keeps what it knows with it, and acts once it is."""

from __future__ import annotations

import json

import pytest

from harnesses.errors import Waiting
from harnesses.governor import Finding
from harnesses.runtime import LocalRuntime
from orchestrator import MemoryStore, Orchestrator, OutcomeKind, SqliteStore, Status
from tests.orchestrator.scripted import STEADY, Scripted, Steps


class Counting:
    """Blocks at so many steps, over all attempts and runs."""

    def __init__(self, limit: int) -> None:
        self.limit, self.seen = limit, 0

    def restore(self, kept, state):
        self.seen = kept.get("seen", 0)

    def look(self, step, delta, state):
        self.seen += 1
        if self.seen < self.limit:
            return ()
        return (Finding(limit_name="seen", current_value=str(self.seen), limit_value=str(self.limit), reason="enough"),)

    def kept(self):
        return {"seen": self.seen}

    def check(self):
        if self.seen >= self.limit:
            raise Waiting("it has seen enough")


async def stepping(harness: Scripted) -> Steps:
    while True:
        yield harness.current_step + 1, None


@pytest.fixture(params=[MemoryStore, SqliteStore])
def store(request, tmp_path):
    made = MemoryStore() if request.param is MemoryStore else SqliteStore(tmp_path / "run.db")
    yield made
    made.close()


async def test_the_step_that_reaches_a_limit_is_recorded_with_the_finding_and_is_the_last(store, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        outcome = await orchestrator.start(Scripted(stepping), name="one", governor=Counting(3)).wait()

    found = [(record.step, json.loads(record.body)["limit_name"]) for record in store.records() if record.kind == "guardrail"]
    assert (outcome.kind, outcome.step, found) == (OutcomeKind.BLOCKED, 3, [(3, "seen")])


async def test_what_a_governor_knows_survives_crashes_and_restarts(store, autojump_clock):
    async def crashing(harness: Scripted) -> Steps:
        yield harness.current_step + 1, None
        raise ValueError("boom")

    async with Orchestrator(store, backoff=STEADY) as orchestrator:
        first = await orchestrator.start(Scripted(crashing), name="one", governor=Counting(3)).wait()
    async with Orchestrator(store) as orchestrator:
        second = await orchestrator.start(Scripted(stepping), name="one", governor=Counting(5)).wait()

    assert (first.step, second.step) == (3, 5)
    assert store.harnesses()[0].status is Status.BLOCKED


async def test_a_halt_holds_before_the_first_step_of_a_later_start(store, autojump_clock):
    steps = []
    for _ in range(3):
        async with Orchestrator(store) as orchestrator:
            outcome = await orchestrator.start(Scripted(stepping), name="one", governor=Counting(2)).wait()
            steps.append((outcome.kind, outcome.step))

    assert steps == [(OutcomeKind.BLOCKED, 2)] * 3


async def test_a_harness_that_is_complete_with_the_step_is_complete(autojump_clock):
    async with Orchestrator() as orchestrator:
        outcome = await orchestrator.start(Scripted(stepping, until=3), name="one", governor=Counting(3)).wait()

    assert outcome.kind is OutcomeKind.COMPLETED


async def test_a_harness_that_runs_alone_is_watched_too():
    runtime = LocalRuntime("one", governor=Counting(2))
    harness = Scripted(stepping)

    with pytest.raises(Waiting, match="enough"):
        await harness.run(runtime)

    assert (harness.current_step, [attached.kind for _, attached in runtime.attached]) == (2, ["guardrail"])
