"""A query answers from the last recorded step, whatever the harness does, and touches nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from attrs import evolve, frozen
from trio.testing import MockClock

from harnesses import BaseHarness, query
from orchestrator import Orchestrator, OutcomeKind, UsageError
from orchestrator.errors import HarnessMisuse


@frozen
class Book:
    position: int = 0
    names: tuple[str, ...] = ()


class Echoing(BaseHarness[None, int, None]):
    async def execute(self) -> AsyncIterator[tuple[int, None]]:
        yield 1, None

    @query
    def echo(self, value: Any) -> Any:
        return value


class Trader(BaseHarness[Book, int, None]):
    def __init__(self) -> None:
        super().__init__(Book())
        self.go = trio.Event()

    async def execute(self) -> AsyncIterator[tuple[int, None]]:
        for number in (1, 2):
            self.update_state(lambda book: evolve(book, position=book.position + 10))
            yield number, None
        self.update_state(lambda book: evolve(book, position=-1))
        await self.go.wait()
        yield 3, None

    @query
    def position(self, factor: int = 1) -> int:
        return self.state.position * factor

    @query
    def steps(self) -> list[int]:
        return [self.current_step, *(step.input for step in self.step_history)]

    @query
    def meddling(self) -> int:
        self.update_state(lambda book: evolve(book, position=999))
        return self.state.position

    @query
    def breaking(self) -> None:
        raise ValueError("boom")

    @query
    async def waiting(self) -> None: ...

    @query
    def sleeping(self) -> Any:
        return self.now()

    def no_query(self) -> int:
        return 1


async def test_a_query_sees_the_last_recorded_step_while_the_next_one_is_made(autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False) as orchestrator:
        harness = Trader()
        handle = orchestrator.start(harness, name="a")
        await trio.sleep(1)

        assert harness.state.position == -1
        assert (handle.query("position"), handle.query("position", 2), handle.query("steps")) == (20, 40, [2, 1, 2])
        harness.go.set()

    assert handle.query("position") == -1


ARGUMENTS: list[tuple[type | str, Any, Any]] = [
    (int, "7", 7),
    ("float", 2, 2.0),
    (bool, "true", True),
    (str, "7", "7"),
    (int, True, True),
    (Any, 7, 7),
]


@pytest.mark.parametrize(("annotation", "given", "taken"), ARGUMENTS)
async def test_an_argument_becomes_what_its_parameter_is_annotated_with(
    annotation: object, given: object, taken: object, autojump_clock: MockClock
) -> None:
    Echoing.echo.__annotations__["value"] = annotation
    async with Orchestrator(handle_signals=False) as orchestrator:
        handle = orchestrator.start(Echoing(None), name="a")
        await handle.wait()
    answer = handle.query("echo", given)

    assert (answer, type(answer)) == (taken, type(taken))


@pytest.mark.parametrize("given", ["seven", 1.5, None, [7]])
async def test_an_argument_that_is_no_number_is_refused_by_name(given: object, autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False) as orchestrator:
        handle = orchestrator.start(Trader(), name="a")
        await trio.sleep(1)
        with pytest.raises(UsageError, match="query 'position': factor: expected int, was"):
            handle.query("position", given)
        orchestrator.stop(0)


async def test_a_query_changes_nothing_and_what_it_raises_hurts_nobody(autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False) as orchestrator:
        harness = Trader()
        handle = orchestrator.start(harness, name="a")
        await trio.sleep(1)

        assert handle.query("meddling") == 999
        with pytest.raises(ValueError, match="boom"):
            handle.query("breaking")
        with pytest.raises(HarnessMisuse, match="not running"):
            handle.query("sleeping")
        assert (handle.query("position"), harness.state.position) == (20, -1)
        harness.go.set()

    assert handle.outcome is not None
    assert handle.outcome.kind is OutcomeKind.FINISHED


async def test_a_harness_that_is_held_answers_queries(autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False) as orchestrator:
        harness = Trader()
        handle = orchestrator.start(harness, name="a")
        await trio.sleep(1)
        handle.pause()
        harness.go.set()
        await trio.sleep(1)

        assert handle.query("position") == -1
        handle.stop()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_query", "expected one of breaking, meddling, position, sleeping, steps"),
        ("nothing", "expected one of"),
        ("waiting", "expected a plain method"),
    ],
)
async def test_what_is_no_query_is_not_called(name: str, words: str, autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False) as orchestrator:
        harness = Trader()
        handle = orchestrator.start(harness, name="a")
        with pytest.raises(UsageError, match="has not been loaded yet"):
            handle.query("position")
        await trio.sleep(1)
        with pytest.raises(UsageError, match=words):
            handle.query(name)
        harness.go.set()
