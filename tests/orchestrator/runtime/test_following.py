"""Laws of a harness that follows another's steps: it ends with the stream, but not because the program ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from orchestrator import MemoryStore, Orchestrator, OutcomeKind
from tests.orchestrator.scripted import Scripted, Steps, events, poll, three, to_the_end


def follow(orchestrator: Orchestrator, name: str = "a") -> Callable[[Scripted], Steps]:
    """Return a script that makes a step of each step of another harness."""

    async def script(harness: Scripted) -> Steps:
        handle = next(handle for handle in orchestrator.handles if handle.name == name)
        async for step in handle.steps(after=harness.current_step):
            yield step.step_number, None
        yield "over", None

    return script


def follow_beside(orchestrator: Orchestrator) -> Callable[[Scripted], Steps]:
    """Return a script that follows in a task of its own."""

    async def script(harness: Scripted) -> Steps:
        send, receive = trio.open_memory_channel[Any](0)

        async def follow() -> None:
            async with send:
                async for step in orchestrator.handles[0].steps(after=harness.current_step):
                    await send.send(step)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            async for step in receive:
                yield step.step_number, None
            yield "over", None

    return script


def inputs(store: MemoryStore, name: str) -> list[Any]:
    return [step.input for step in store.steps(name)]


def end_of(store: MemoryStore, name: str) -> str:
    return events(store, name)[-1]


@pytest.mark.parametrize("script", [follow, follow_beside])
@pytest.mark.parametrize("first", ["watched", "watcher"])
async def test_a_watcher_of_a_program_that_stops_is_stopped_and_goes_on(
    script: Callable[[Orchestrator], Callable[[Scripted], Steps]], first: str, autojump_clock: MockClock
) -> None:
    store = MemoryStore()
    for _ in range(2):
        async with Orchestrator(store, handle_signals=False) as orchestrator:
            harnesses = {"a": Scripted(poll), "b": Scripted(script(orchestrator))}
            for name in ("a", "b") if first == "watched" or script is follow_beside else ("b", "a"):
                orchestrator.start(harnesses[name], name=name)
            await trio.sleep(3.5)
            orchestrator.stop()
        store.close()

    assert [handle.outcome.kind for handle in orchestrator.handles if handle.outcome] == [OutcomeKind.STOPPED] * 2
    assert events(store, "b") == ["started", "stopped"] * 2
    assert inputs(store, "b") == list(range(1, len(inputs(store, "b")) + 1))
    assert len(inputs(store, "b")) > 4


async def test_a_watcher_of_what_ends_by_itself_ends_with_it(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        orchestrator.start(Scripted(three), name="a")
        orchestrator.start(Scripted(follow(orchestrator)), name="b")

    assert (end_of(store, "b"), inputs(store, "b")) == ("finished", [1, 2, 3, "over"])


async def test_a_watcher_of_one_that_alone_was_stopped_ends_with_it(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(poll), name="a")
        orchestrator.start(Scripted(follow(orchestrator)), name="b")
        await trio.sleep(2.5)
        handle.stop()

    assert end_of(store, "b") == "finished"


async def test_a_watcher_is_cancelled_with_the_program(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    with trio.move_on_after(2.5):
        async with Orchestrator(store, handle_signals=False) as orchestrator:
            orchestrator.start(Scripted(poll), name="a")
            orchestrator.start(Scripted(follow(orchestrator)), name="b")

    assert end_of(store, "b") == "stopped"


async def test_the_programs_own_block_just_comes_to_the_end_of_the_stream(autojump_clock: MockClock) -> None:
    seen: list[int] = []
    async with Orchestrator(handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(poll), name="a")
        async for step in handle.steps():
            seen.append(step.step_number)
            if len(seen) == 3:
                orchestrator.stop()

    assert seen[:3] == [1, 2, 3]


async def test_a_task_of_the_program_that_a_harness_has_started_just_comes_to_the_end_too(autojump_clock: MockClock) -> None:
    seen: list[int] = []

    async def watch() -> None:
        async for step in orchestrator.handles[0].steps():
            seen.append(step.step_number)

    async with to_the_end() as (orchestrator, errors), trio.open_nursery() as outside:

        async def script(harness: Scripted) -> Steps:
            outside.start_soon(watch)
            while True:
                yield 0, None
                await harness.sleep(1)

        orchestrator.start(Scripted(script), name="a")
        await trio.sleep(2.5)
        orchestrator.stop()

    assert (errors, len(seen)) == ([], 3)


async def test_a_harness_that_returns_because_the_program_stops_is_stopped(autojump_clock: MockClock) -> None:
    async def polite(harness: Scripted) -> Steps:
        while not harness.stopping:
            yield 0, None
            await trio.sleep(1)

    store = MemoryStore()
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        orchestrator.start(Scripted(polite), name="a")
        await trio.sleep(2.5)
        orchestrator.stop()

    assert end_of(store, "a") == "stopped"
