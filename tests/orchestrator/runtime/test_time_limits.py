"""Time limits that an operator sets for a running harness: at once, on record, and until the program declares others."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from orchestrator import Handle, MemoryStore, Orchestrator, Outcome, Store, UsageError
from orchestrator.codec import decode
from orchestrator.records import LIMITS_SET
from tests.orchestrator.scripted import Scripted, Steps
from tests.secrets.leaks import GITHUB


def slow(seconds: float) -> Any:
    """Make one step, which takes so long, and end."""

    async def make(harness: Scripted) -> Steps:
        await harness.sleep(seconds)
        yield "slow", None

    return make


def ticking(period_s: float, **options: Any) -> Any:
    """Make a step at each tick, for ever; the input is the time on Trio's clock."""

    async def make(harness: Scripted) -> Steps:
        async for _ in harness.every(period_s, **options):
            yield trio.current_time(), None

    return make


@asynccontextmanager
async def started(script: Any, store: Store | None = None, **options: Any) -> AsyncGenerator[Handle]:
    """Run a harness `one`, which may fail, and stop it when the block is left."""
    with suppress(ExceptionGroup):
        async with Orchestrator(store or MemoryStore(), handle_signals=False) as orchestrator:
            handle = orchestrator.start(Scripted(script), name="one", restart="temporary", **options)
            await trio.sleep(0.5)
            yield handle
            handle.stop(0)


def said(store: Store) -> list[dict[str, Any]]:
    return [decode(record.body) for record in store.records() if record.kind == LIMITS_SET]


@pytest.mark.parametrize("name", ["step_timeout_s", "deadline_s"])
@pytest.mark.parametrize("longer", [20.0, None])
async def test_a_longer_limit_saves_the_step_in_progress(name: str, longer: float | None, autojump_clock: MockClock) -> None:
    async with started(slow(10), None, **{name: 5.0}) as handle:
        assert await handle.set_time_limits({name: longer}, by="ann")
        outcome = await handle.wait()

    assert (outcome.kind, outcome.step, trio.current_time()) == ("finished", 1, 10.0)


@pytest.mark.parametrize(("name", "said"), [("step_timeout_s", "no step within 3"), ("deadline_s", "deadline has passed")])
@pytest.mark.parametrize("declared", [60.0, None])
async def test_a_shorter_limit_ends_the_step_in_progress_when_it_has_taken_longer(
    name: str, said: str, declared: float | None, autojump_clock: MockClock
) -> None:
    async with started(slow(100), None, **{name: declared}) as handle:
        await trio.sleep(4.5)
        await handle.set_time_limits({name: 3.0}, by="ann")
        outcome = await handle.wait()

    assert (outcome.kind, said in outcome.cause, trio.current_time()) == ("failed", True, 5.0)


async def test_a_shorter_limit_is_that_of_later_steps_too(autojump_clock: MockClock) -> None:
    async def slower_and_slower(harness: Scripted) -> Steps:
        for seconds in range(1, 100):
            await harness.sleep(seconds)
            yield seconds, None

    async with started(slower_and_slower) as handle:
        await handle.set_time_limits({"step_timeout_s": 3.5}, by="ann")
        outcome = await handle.wait()

    assert (outcome.kind, outcome.step) == ("failed", 3)


async def test_a_deadline_ends_a_harness_that_is_held(autojump_clock: MockClock) -> None:
    async with started(ticking(1)) as handle:
        await handle.pause()
        await handle.set_time_limits({"deadline_s": 30.0}, by="ann")
        await handle.set_time_limits({"deadline_s": 5.0}, by="ann")
        outcome = await handle.wait()

    assert (outcome.kind, trio.current_time()) == ("failed", 5.0)


@pytest.mark.parametrize(("period_s", "times"), [(2.0, [0, 2, 4]), (30.0, [0, 30, 60])])
async def test_a_period_counts_from_the_last_tick_and_a_wait_begins_anew(
    period_s: float, times: list[float], autojump_clock: MockClock
) -> None:
    store = MemoryStore()
    async with started(ticking(10), store) as handle:
        await handle.set_time_limits({"period_s": period_s}, by="ann")
        await trio.sleep(2 * period_s)

    assert [step.input for step in store.steps("one")] == times


async def test_a_period_of_an_anchored_ticker_follows_the_wall_clock(autojump_clock: MockClock) -> None:
    store, anchor = MemoryStore(), datetime(2020, 1, 1, tzinfo=UTC)
    script, wall = ticking(60, anchor=anchor), anchor.timestamp() + 30
    async with Orchestrator(store, handle_signals=False, clock=lambda: wall + trio.current_time()) as orchestrator:
        handle = orchestrator.start(Scripted(script), name="one")
        await trio.sleep(0.5)
        await handle.set_time_limits({"period_s": 10}, by="ann")
        await trio.sleep(50)
        handle.stop(0)

    times = [step.input for step in store.steps("one")]
    assert times[-4:] == [20, 30, 40, 50]


@pytest.mark.parametrize("name", ["step_timeout_s", "deadline_s", "period_s"])
async def test_what_is_set_holds_over_a_restart_of_the_program_until_it_declares_another_value(
    name: str, autojump_clock: MockClock
) -> None:
    store, seen = MemoryStore(), list[float | None]()
    for declared in (60.0, 60.0, 90.0, 60.0):
        script = ticking(declared if name == "period_s" else 7)
        options = {} if name == "period_s" else {name: declared}
        async with started(script, store, **options) as handle:
            if not seen:
                await handle.set_time_limits({name: 30.0}, by="ann")
            seen.append(handle.time_limits[name])

    assert seen == [30.0, 30.0, 90.0, 60.0]
    assert [(one["change"], one["limits_before"][name]) for one in said(store)] == [("set", 60.0), ("declared", 30.0)]


async def test_what_is_set_holds_over_a_restart_of_the_harness(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(ticking(60)), name="one")
        await trio.sleep(1)
        await handle.set_time_limits({"period_s": 5.0, "deadline_s": 1000.0}, by="ann")
        handle = await orchestrator.restart("one")
        await trio.sleep(20)
        in_force = handle.time_limits
        handle.stop()

    assert in_force == {"step_timeout_s": None, "deadline_s": 1000.0, "period_s": 5.0}
    assert len(store.steps("one")) == 5


async def test_who_set_what_and_why_is_on_record_without_secrets(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with started(ticking(60), store, step_timeout_s=9.0) as handle:
        await handle.set_time_limits({"step_timeout_s": 5, "period_s": 30}, by="ann", reason=f"slow today {GITHUB}")
        is_changed = await handle.set_time_limits({"step_timeout_s": 5}, by="bob")

    (record,) = said(store)
    assert not is_changed
    assert (record["by"], record["limits"]) == ("ann", {"step_timeout_s": 5.0, "period_s": 30.0})
    assert record["limits_before"] == {"step_timeout_s": 9.0, "period_s": 60.0}
    assert "slow today" in record["reason"]
    assert GITHUB not in record["reason"]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"grace_s": 5}, "expected step_timeout_s, deadline_s or period_s"),
        ({"step_timeout_s": 0}, "expected seconds above 0"),
        ({"step_timeout_s": -1}, "expected a number of seconds"),
        ({"step_timeout_s": 5, "period_s": 5}, "uses none now; step_timeout_s and deadline_s can be set"),
        ({"period_s": None}, "to hold it, pause the harness"),
    ],
)
async def test_what_cannot_be_set_is_told_with_what_can_and_changes_nothing(
    limits: dict[str, Any], expected: str, autojump_clock: MockClock
) -> None:
    store = MemoryStore()
    async with started(slow(5), store) as handle:
        with pytest.raises(UsageError, match=expected):
            handle.set_time_limits(limits, by="ann")
        untouched = handle.time_limits

    assert (set(untouched.values()), said(store)) == ({None}, [])


async def test_the_period_of_one_of_several_tickers_is_not_set(autojump_clock: MockClock) -> None:
    async def two(harness: Scripted) -> Steps:
        fast, slow = harness.every(1), harness.every(5)
        while True:
            yield await fast.__anext__(), await slow.__anext__()

    async with started(two) as handle:
        with pytest.raises(UsageError, match="it uses 2"):
            handle.set_time_limits({"period_s": 2}, by="ann")


@pytest.mark.parametrize(("name", "value"), [("step_timeout_s", 60.0), ("deadline_s", None)])
async def test_a_limit_that_ended_a_harness_is_set_before_it_is_started_again(
    name: str, value: float | None, autojump_clock: MockClock
) -> None:
    store, ends = MemoryStore(), list[Outcome]()
    with suppress(ExceptionGroup):
        async with Orchestrator(store, handle_signals=False) as orchestrator:
            limits: Any = {name: 3.0}
            ends.append(await orchestrator.start(Scripted(slow(10)), name="one", restart="temporary", **limits).wait())
            handle = next(handle for handle in orchestrator.handles if handle.name == "one")
            assert await handle.set_time_limits({name: value}, by="ann")
            assert handle.time_limits[name] == value
            again = await orchestrator.restart("one")
            ends.append(await again.wait())

    assert [(one.kind, one.step) for one in ends] == [("failed", 0), ("finished", 1)]
    assert [(one["limits"], one["by"]) for one in said(store)] == [({name: value}, "ann")]
