"""What the time of a step went into."""

from __future__ import annotations

import json

import pytest
import trio

from harnesses import Agent, BaseHarness
from harnesses.timing.stopwatch import Stopwatch
from orchestrator import Orchestrator
from orchestrator.store.sqlite.sqlite_store import SqliteStore


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def watch(clock: _Clock) -> Stopwatch:
    watch = Stopwatch()
    watch.start(clock)
    return watch


def test_a_moment_counts_once_although_an_agent_waits_within_its_work(watch: Stopwatch, clock: _Clock) -> None:
    watch.resume()
    asked = watch.begin()
    clock.now += 1.0
    waited = watch.begin()
    clock.now += 2.0

    watch.end("waiting", waited)
    watch.end("agent", asked)
    watch.stop()

    assert watch.took_us() == {"work": 3_000_000, "agent": 1_000_000, "waiting": 2_000_000}


def test_the_commit_of_a_step_is_told_with_the_next_one_and_the_parts_begin_anew(watch: Stopwatch, clock: _Clock) -> None:
    watch.resume()
    begun = watch.begin()
    clock.now += 0.5
    watch.end("effects", begun)
    watch.stop()
    clock.now += 0.25
    watch.record()

    watch.resume()
    watch.stop()

    assert watch.took_us() == {"work": 0, "commit": 250_000}


def test_a_pause_between_steps_is_told_and_the_loop_itself_is_none(watch: Stopwatch, clock: _Clock) -> None:
    watch.record()
    clock.now += 0.0005
    watch.resume()
    short = watch.held
    clock.now += 5.0

    watch.resume()
    watch.stop()

    assert (short, watch.took_us()) == (0.0, {"work": 0, "held": 5_000_000})


class Busy(BaseHarness[int, int, str]):
    """Asks, acts and waits."""

    async def execute(self):  # type: ignore[no-untyped-def]
        async def answer(run: object) -> str:
            await trio.sleep(0.25)
            return "yes"

        async def act() -> int:
            await trio.sleep(0.5)
            return 1

        said = await self.run_agent(Agent(answer), 1)
        await self.once("act", act)
        await self.sleep(2.0)
        await self.receive()
        yield 1, said


async def test_a_step_says_what_its_time_went_into_and_which_messages_it_used(
    autojump_clock: object, tmp_path: object
) -> None:
    path = f"{tmp_path}/run.db"

    async with Orchestrator(path) as orchestrator:
        handle = orchestrator.start(Busy(0), name="busy")
        await handle.send("go")
        await handle.wait()

    store = SqliteStore(path)
    records = store.records(limit=100)
    store.close()
    (step,) = [json.loads(record.body) for record in records if record.kind == "step"]
    (message,) = [record.seq for record in records if record.kind == "message"]
    assert step["took_us"] == {"work": 2_750_000, "agent": 250_000, "effects": 500_000, "waiting": 2_000_000}
    assert step["consumed"] == [message]


class Listening(BaseHarness[int, int, int]):
    """Waits for mail in the background, over several steps, while it asks an agent in the foreground."""

    async def execute(self):  # type: ignore[no-untyped-def]
        async def answer(run: object) -> int:
            await trio.sleep(5.0)
            return 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.receive)
            yield 1, await self.run_agent(Agent(answer), 1)
            yield 2, await self.run_agent(Agent(answer), 2)


async def test_what_is_waited_for_in_the_background_takes_no_time_from_an_agent(
    autojump_clock: object, tmp_path: object
) -> None:
    store = SqliteStore(f"{tmp_path}/run.db")

    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Listening(0), name="listening")
        await trio.sleep(7.0)
        await handle.send("go")
        await handle.wait()
        steps = [json.loads(record.body)["took_us"] for record in store.records() if record.kind == "step"]

    assert [step["agent"] for step in steps] == [5_000_000, 5_000_000]
    assert [step.get("waiting", 0) <= step["work"] for step in steps] == [True, True]


class Careful(BaseHarness[int, int, int]):
    """Has what it does approved."""

    async def execute(self):  # type: ignore[no-untyped-def]
        async def act() -> int:
            await trio.sleep(0.5)
            return 1

        yield 1, await self.once("act", act, approval="publish")


async def test_the_wait_for_an_approval_counts_once(autojump_clock: object, tmp_path: object) -> None:
    store = SqliteStore(f"{tmp_path}/run.db")

    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Careful(0), name="careful")
        await trio.sleep(10)
        await orchestrator.approve(store.approvals()[0].id, by="ann")
        await handle.wait()
        (step,) = [json.loads(record.body) for record in store.records() if record.kind == "step"]

    took = step["took_us"]
    assert took["effects"] == 500_000
    assert took["waiting"] + took["effects"] == took["work"] >= 10_000_000
