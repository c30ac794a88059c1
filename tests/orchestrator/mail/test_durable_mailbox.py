"""Laws of mailboxes: a message is durable, in order, and used up by the step that was made of it and by nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from orchestrator import MemoryStore, Orchestrator, OutcomeKind, SqliteStore, Store, StoreError, UnknownHarness
from orchestrator.testing import FaultyStore
from tests.orchestrator.scripted import Scripted, Steps, kinds, numbers, to_the_end


async def echo(harness: Scripted) -> Steps:
    """Make a step of each message."""
    while True:
        yield await harness.receive(), None


def crash_on_first(harness: Scripted) -> Steps:
    """Take a message and crash with it the first time; then make a step of each."""
    harness.ran.append("begun")
    return _crash_before_the_yield(harness) if len(harness.ran) == 1 else echo(harness)


async def _crash_before_the_yield(harness: Scripted) -> Steps:
    yield await harness.receive(), None
    await harness.receive()
    raise ValueError("boom")


def inputs(store: Store, name: str) -> list[Any]:
    return [step.input for step in store.steps(name, limit=1_000_000)]


async def test_messages_arrive_in_the_order_in_which_they_were_sent(autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(echo, until=50), name="a")
        for number in range(50):
            handle.send(number)

    assert inputs(orchestrator.store, "a") == list(range(50))


@pytest.mark.parametrize("message", [None, 0, "text", [1, [2]], {"to": {"nested": True}}, "\x1b[31m", "\u202e", ""])
async def test_a_message_arrives_as_it_was_sent(message: object, autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False) as orchestrator:
        orchestrator.start(Scripted(echo, until=1), name="a").send(message)

    assert inputs(orchestrator.store, "a") == [message]


async def test_a_message_changed_after_it_was_sent_arrives_as_it_was(autojump_clock: MockClock) -> None:
    message = [1]
    async with Orchestrator(handle_signals=False) as orchestrator:
        orchestrator.start(Scripted(echo, until=1), name="a").send(message)
        message.append(2)

    assert inputs(orchestrator.store, "a") == [[1]]


async def test_a_message_whose_sending_is_awaited_is_on_record(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    async with Orchestrator(path, handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(echo), name="a")
        handle.pause()
        await handle.send("hello")
        reader = SqliteStore(path)
        recorded = kinds(reader, "a")
        reader.close()
        handle.stop()

    assert "message" in recorded


async def test_a_message_outlives_the_program(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    async with Orchestrator(path, handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(echo), name="a")
        await handle.pause()
        for number in range(3):
            await handle.send(number)
        handle.stop()
    async with Orchestrator(path, handle_signals=False) as orchestrator:
        orchestrator.start(Scripted(echo, until=3), name="a")
    store = SqliteStore(path)

    assert inputs(store, "a") == [0, 1, 2]
    store.close()


async def test_a_message_taken_before_a_crash_is_delivered_again_and_first(autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(crash_on_first, until=4), name="a")
        for number in range(4):
            handle.send(number)

    assert handle.attempt == 2
    assert inputs(orchestrator.store, "a") == [0, 1, 2, 3]


@pytest.mark.parametrize(("after", "expected"), [(False, [0, 1, 2, 3, 4]), (True, [0, 1, 2, 3, 4])])
async def test_a_message_is_used_up_exactly_when_its_step_is_on_record(
    after: bool, expected: list[int], autojump_clock: MockClock
) -> None:
    store = MemoryStore()
    async with to_the_end(FaultyStore(store, StoreError("killed"), at=3, after=after, only_steps=True)) as (orchestrator, _):
        handle = orchestrator.start(Scripted(echo), name="a")
        for number in range(5):
            handle.send(number)
    before = numbers(store, "a")
    store.close()
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        orchestrator.start(Scripted(echo, until=5), name="a")

    assert before == ([1, 2, 3] if after else [1, 2])
    assert inputs(store, "a") == expected


async def test_a_message_taken_before_a_stop_is_delivered_again(autojump_clock: MockClock) -> None:
    async def take_and_wait(harness: Scripted) -> Steps:
        yield [await harness.receive(), await harness.receive(), await harness.receive()], None

    store = MemoryStore()
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(take_and_wait), name="a")
        handle.send(1)
        handle.send(2)
        await trio.sleep(1)
        handle.stop()
    store.close()
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(take_and_wait, until=1), name="a")
        handle.send(3)

    assert inputs(store, "a") == [[1, 2, 3]]


async def test_two_tasks_of_a_harness_that_wait_get_a_message_each(autojump_clock: MockClock) -> None:
    async def take_two(harness: Scripted) -> Steps:
        got: list[Any] = []

        async def take() -> None:
            got.append(await harness.receive())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(take)
            nursery.start_soon(take)
        yield sorted(got), None

    async with Orchestrator(handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(take_two), name="a")
        await trio.sleep(1)
        handle.send("x")
        handle.send("y")

    assert inputs(orchestrator.store, "a") == [["x", "y"]]


async def test_harnesses_write_to_each_other_by_name(autojump_clock: MockClock) -> None:
    def player(other: str) -> Callable[[Scripted], Steps]:
        async def play(harness: Scripted) -> Steps:
            while True:
                ball = await harness.receive()
                await harness.send(other, ball + 1)
                yield ball, None

        return play

    async with Orchestrator(handle_signals=False) as orchestrator:
        ping = orchestrator.start(Scripted(player("pong"), until=5), name="ping")
        orchestrator.start(Scripted(player("ping"), until=5), name="pong")
        ping.send(1)
        await ping.wait()
        orchestrator.stop()

    assert inputs(orchestrator.store, "ping") == [1, 3, 5, 7, 9]
    assert inputs(orchestrator.store, "pong")[:4] == [2, 4, 6, 8]


async def test_a_harness_may_write_to_one_that_runs_no_more(autojump_clock: MockClock) -> None:
    async def write(harness: Scripted) -> Steps:
        await harness.send("a", "while you were away")
        yield 1, None

    store = MemoryStore()
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        await orchestrator.start(Scripted(echo), name="a").stop()
        await orchestrator.start(Scripted(write), name="b").wait()
        await orchestrator.start(Scripted(echo, until=1), name="a").wait()

    assert inputs(store, "a") == ["while you were away"]


async def test_a_message_to_an_unknown_harness_is_an_error_where_it_was_sent(autojump_clock: MockClock) -> None:
    async def write(harness: Scripted) -> Steps:
        with pytest.raises(UnknownHarness, match="no harness 'nobody'"):
            await harness.send("nobody", "hello")
        yield 1, None

    async with Orchestrator(handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(write), name="a")

    assert handle.outcome is not None
    assert handle.outcome.kind is OutcomeKind.FINISHED


async def test_the_sender_of_a_message_is_on_record(autojump_clock: MockClock) -> None:
    async def write(harness: Scripted) -> Steps:
        await harness.send("a", "hello")
        yield 1, None

    async with Orchestrator(handle_signals=False) as orchestrator:
        orchestrator.start(Scripted(echo, until=2), name="a").send("from the operator")
        orchestrator.start(Scripted(write), name="b")

    bodies = [record.body for record in orchestrator.store.records() if record.kind == "message"]
    assert len(bodies) == 2
    assert sum('"b"' in body for body in bodies) == 1
