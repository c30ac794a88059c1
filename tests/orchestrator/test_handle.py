"""G9, and laws of the handle: orders take effect whether or not they are awaited; steps are shown once each, past and live."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
import trio
from trio.testing import MockClock

from orchestrator import Handle, MemoryStore, Orchestrator, OutcomeKind, SqliteStore, Status, UsageError
from orchestrator.errors import Unstorable
from tests.orchestrator.scripted import Scripted, Steps, crash, events, numbers, poll, three, to_the_end


def quick(steps: int) -> Callable[[Scripted], Steps]:
    """Return a script that makes steps without waiting until there are so many."""

    async def script(harness: Scripted) -> Steps:
        while harness.current_step < steps:
            yield harness.current_step + 1, None

    return script


async def echo(harness: Scripted) -> Steps:
    """Make a step of each message."""
    while True:
        message = await harness.receive()
        yield message, None


class Saying(Scripted):
    """Says what it is told to of why it is halted."""

    says: ClassVar[Callable[[], Any]]

    @property
    def halted(self) -> str:
        return cast(str, type(self).says())


class Method(Scripted):
    """Has a method of that name, for a purpose of its own."""

    def halted(self) -> bool:
        return False


class Telling(Scripted):
    """Tells numbers of its work."""

    tells: ClassVar[Callable[[], Any]]

    @property
    def gauges(self) -> dict[str, float]:
        return cast(dict[str, float], type(self).tells())


@pytest.mark.parametrize(
    ("tells", "told"),
    [
        (lambda: {"equity": 3, "open_orders": 2.5}, {"equity": 3.0, "open_orders": 2.5}),
        (lambda: {'a"} 1\n': 1.0, "Big": 1.0, "kept": 1.0}, {"kept": 1.0}),
        (lambda: {f"g{number}": 1.0 for number in range(40)}, {f"g{number}": 1.0 for number in range(32)}),
        (lambda: {"equity": "much"}, {}),
        (lambda: 1 / 0, {}),
        (lambda: [1, 2], {}),
    ],
)
async def test_what_a_harness_tells_of_its_work_are_numbers_under_plain_names(
    tells: Callable[[], Any], told: dict[str, float], autojump_clock: MockClock
) -> None:
    Telling.tells = tells
    async with Orchestrator(handle_signals=False) as orchestrator:
        handle = orchestrator.start(Telling(poll), name="a")
        before = handle.gauges
        async for _ in handle.steps():
            break
        running = handle.gauges
        handle.stop(0)
    assert (before, running, handle.gauges) == ({}, told, {})


@pytest.mark.parametrize(
    ("says", "shown"), [(lambda: "drawdown", "drawdown"), (lambda: 3, ""), (lambda: None, ""), (lambda: 1 // 0, "")]
)
async def test_what_a_harness_says_of_being_halted_is_shown_if_it_is_text(
    says: Callable[[], Any], shown: str, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr(Saying, "says", staticmethod(says), raising=False)
    async with Orchestrator(handle_signals=False) as orchestrator:
        handles = [orchestrator.start(Saying(poll), name="a"), orchestrator.start(Method(poll), name="b")]
        await trio.sleep(0.5)
        said = [handle.live.halted for handle in handles if handle.live is not None]
        orchestrator.stop()

    assert said == [shown, ""]


# orders


async def test_a_handle_says_where_its_harness_is(autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(poll, until=4), name="a")
        before = (handle.name, handle.status, handle.current_step, handle.outcome)
        await trio.sleep(1.5)
        during = (handle.status, handle.current_step, handle.attempt, repr(handle))

    assert before == ("a", Status.NEW, 0, None)
    assert during == (Status.RUNNING, 2, 1, "<Handle 'a' running at step 2>")
    assert (handle.status, handle.current_step) == (Status.COMPLETED, 4)


@pytest.mark.parametrize("awaited", [True, False])
async def test_a_pause_holds_at_the_next_step_and_a_resume_lets_go_on(awaited: bool, autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(poll), name="a")
        await trio.sleep(1.5)
        order = handle.pause()
        if awaited:
            await order
        await trio.sleep(10)
        held = handle.current_step
        order = handle.resume()
        if awaited:
            await order
        await trio.sleep(2.5)
        handle.stop()

    assert held == 3
    assert handle.current_step > held
    assert events(orchestrator.store, "a") == ["started", "paused", "resumed", "stopped"]


async def test_an_awaited_order_is_on_record_when_it_returns(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(poll), name="a")
        await trio.sleep(1.5)
        await handle.pause()
        paused = events(store, "a")
        await handle.resume()
        resumed = events(store, "a")
        handle.stop()

    assert paused == ["started", "paused"]
    assert resumed == ["started", "paused", "resumed"]


async def test_orders_given_twice_are_recorded_once(autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(poll), name="a")
        await trio.sleep(1.5)
        for order in (handle.pause, handle.pause, handle.resume, handle.resume, handle.stop, handle.stop):
            await order()

    assert events(orchestrator.store, "a") == ["started", "paused", "resumed", "stopped"]


@pytest.mark.parametrize("awaited", [True, False])
async def test_a_stop_ends_the_harness_and_gives_its_outcome(awaited: bool, autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(poll), name="a")
        await trio.sleep(1.5)
        order = handle.stop()
        outcome = await order if awaited else await handle.wait()

    assert outcome.kind is OutcomeKind.STOPPED
    assert outcome.cause == "stopped by order"
    assert outcome.step == 2


async def test_a_stop_given_before_the_first_attempt_makes_no_step(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        first = await orchestrator.start(Scripted(poll), name="a").stop()
        second = await orchestrator.start(Scripted(poll), name="a").stop()

    assert [first.kind, second.kind] == [OutcomeKind.STOPPED] * 2
    assert not numbers(store, "a")


async def test_orders_to_a_harness_that_has_ended_change_nothing(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(three), name="a")
        outcome = await handle.wait()
        before = len(store.records())
        await handle.pause()
        await handle.resume()
        again = await handle.stop()

    assert again == outcome
    assert len(store.records()) == before


async def test_a_message_after_the_block_is_refused_and_other_orders_are_not(autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(three), name="a")

    with pytest.raises(UsageError, match="has ended"):
        handle.send("late")
    assert await handle.stop() == handle.outcome


@pytest.mark.parametrize("message", [float("nan"), {"price": float("inf")}, object(), {1, object()}])
async def test_a_message_that_can_not_be_stored_is_refused_at_once(message: object, autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(echo), name="a")

        with pytest.raises(Unstorable):
            handle.send(message)
        handle.stop()


async def test_many_may_wait_for_one_end(autojump_clock: MockClock) -> None:
    outcomes: list[OutcomeKind] = []

    async def wait(handle: Handle) -> None:
        outcomes.append((await handle.wait()).kind)

    async with Orchestrator(handle_signals=False) as orchestrator, trio.open_nursery() as nursery:
        handle = orchestrator.start(Scripted(three), name="a")
        for _ in range(5):
            nursery.start_soon(wait, handle)

    assert outcomes == [OutcomeKind.FINISHED] * 5


# steps


async def _collect(handle: Handle, into: list[int], *, after: int = 0, nap_s: float = 0) -> None:
    async for step in handle.steps(after):
        into.append(step.step_number)
        if nap_s:
            await trio.sleep(nap_s)


async def test_several_iterators_each_show_every_step_once_at_their_own_pace(autojump_clock: MockClock) -> None:
    seen: list[list[int]] = [[], [], []]
    async with Orchestrator(handle_signals=False) as orchestrator, trio.open_nursery() as nursery:
        handle = orchestrator.start(Scripted(poll, until=20), name="a")
        nursery.start_soon(_collect, handle, seen[0])
        nursery.start_soon(lambda: _collect(handle, seen[1], nap_s=7))
        await trio.sleep(9.5)
        nursery.start_soon(lambda: _collect(handle, seen[2], after=5))

    assert seen == [list(range(1, 21)), list(range(1, 21)), list(range(6, 21))]


async def test_an_iterator_goes_over_more_steps_than_are_read_at_a_time(tmp_path: Path) -> None:
    seen: list[list[int]] = [[], []]
    async with Orchestrator(tmp_path / "run.db", handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(quick(600)), name="a")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_collect, handle, seen[0])
            nursery.start_soon(lambda: _collect(handle, seen[1], after=299))

    assert seen == [list(range(1, 601)), list(range(300, 601))]


async def test_a_step_is_shown_when_it_is_recorded_and_not_with_the_next(autojump_clock: MockClock) -> None:
    async def one_and_wait(harness: Scripted) -> Steps:
        yield 1, 1
        await harness.sleep(1000)

    for _ in range(50):
        began = trio.current_time()
        async with Orchestrator(handle_signals=False) as orchestrator:
            handle = orchestrator.start(Scripted(one_and_wait), name="a")
            await anext(handle.steps())
            shown = trio.current_time()
            handle.stop()

        assert shown - began < 1


async def test_a_step_is_shown_without_another_however_many_tasks_keep_the_loop_busy() -> None:
    async def spin() -> None:
        while True:
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as busy:
        for _ in range(20):
            busy.start_soon(spin)
        async with Orchestrator(MemoryStore()) as orchestrator:
            handle = orchestrator.start(Scripted(echo), name="one")
            steps = handle.steps()
            for number in range(1, 4):
                handle.send(number)
                with trio.fail_after(30):
                    assert (await anext(steps)).input == number
            handle.stop(grace=0)
        busy.cancel_scope.cancel()


async def test_an_iterator_goes_on_over_crashes(autojump_clock: MockClock) -> None:
    seen: list[tuple[int, int]] = []
    async with to_the_end(intensity=3) as (orchestrator, _):
        handle = orchestrator.start(Scripted(crash), name="a")
        async for step in handle.steps():
            seen.append((step.attempt, step.step_number))

    assert seen == [(1, 1), (2, 2), (3, 3), (4, 4)]


async def test_an_iterator_begins_with_what_an_earlier_program_recorded(autojump_clock: MockClock) -> None:
    store, seen = MemoryStore(), list[int]()
    for _ in range(2):
        seen.clear()
        async with Orchestrator(store, handle_signals=False) as orchestrator:
            handle = orchestrator.start(Scripted(poll), name="a")
            await trio.sleep(2.5)
            handle.stop()
            await _collect(handle, seen)
        store.close()

    assert seen == numbers(store, "a") == list(range(1, len(seen) + 1))
    assert len(seen) >= 6


@pytest.mark.parametrize("after", [3, 100])
async def test_an_iterator_from_behind_the_end_gives_nothing_and_ends(after: int, autojump_clock: MockClock) -> None:
    seen: list[int] = []
    async with Orchestrator(handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(three), name="a")
        await _collect(handle, seen, after=after)

    assert not seen


async def test_an_iterator_that_is_cancelled_hurts_nobody(autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(poll, until=10), name="a")
        with trio.move_on_after(3.5) as scope:
            await _collect(handle, [])
        await handle.wait()

        assert scope.cancelled_caught
        assert handle.status is Status.COMPLETED


async def test_a_step_that_is_shown_is_a_step_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    async with Orchestrator(path, handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(poll), name="a")
        reader = SqliteStore(path)
        shown = await anext(handle.steps())
        [stored] = reader.steps("a", limit=1)
        handle.stop()
        reader.close()

    assert (shown.seq, shown.step_number, shown.input) == (stored.seq, 1, stored.input)


# history under a durable store


async def test_the_history_of_a_resumed_harness_is_all_there(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    async with Orchestrator(path, handle_signals=False) as orchestrator:
        orchestrator.start(Scripted(quick(400)), name="a")
    async with Orchestrator(path, handle_signals=False) as orchestrator:
        harness = Scripted(quick(600))
        await orchestrator.start(harness, name="a").wait()
        history = harness.step_history

        assert len(history) == 600
        assert [history[0].step_number, history[-1].step_number] == [1, 600]
        assert [step.step_number for step in history[10:13]] == [11, 12, 13]
        assert [step.step_number for step in history[-2:]] == [599, 600]
        assert [step.input for step in history] == list(range(1, 601))
        with pytest.raises(IndexError):
            history[600]
