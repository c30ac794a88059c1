"""The trading harness under an orchestrator: operators reach it by messages, and its outcomes say what it waits for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from harnesses import Agent
from harnesses.trading import Bar, Order, PaperBroker, ReplayFeed, Side, Strategy, TradingHarness
from orchestrator import Orchestrator, OutcomeKind, Restart
from orchestrator.store.in_memory.memory_store import MemoryStore

FIRST = datetime(2000, 3, 1, tzinfo=UTC)


def feed(days: int, **more: object) -> ReplayFeed:
    return ReplayFeed({"A": {FIRST + timedelta(day): Bar(*[Decimal(100)] * 4, 100) for day in range(days)}}, **more)


def buying() -> Strategy:
    async def run(run):
        return [Order("A", Side.BUY, Decimal(1))]

    return Strategy(Agent(run))


async def test_a_permanent_harness_that_an_operator_stops_stays_stopped_and_goes_on_when_it_is_started_again(autojump_clock):
    store, broker = MemoryStore(), PaperBroker()

    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(
            TradingHarness(feed(5, endless=True), broker, buying()), name="t", restart=Restart.PERMANENT
        )
        async for step in handle.steps():
            if step.step_number == 3:
                await handle.send({"do": "stop", "reason": "lunch"})
        stopped = await handle.wait()
    async with Orchestrator(store) as orchestrator:
        again = await orchestrator.start(TradingHarness(feed(9), broker, buying()), name="t").wait()

    assert (stopped.kind, again.kind) == (OutcomeKind.STOPPED, OutcomeKind.COMPLETED)
    assert (await broker.account(["A"])).positions == {"A": 9}


async def stopped_after(steps: int, store: MemoryStore) -> None:
    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(TradingHarness(feed(1, endless=True), PaperBroker(), buying()), name="t")
        async for step in handle.steps():
            if step.step_number == steps:
                handle.stop()


@pytest.mark.parametrize(
    ("fills", "why"),
    [(2, "cash: expected 9800.00, was 300.00"), (0, "A after '1': expected a fill")],
)
async def test_books_that_differ_block_it_until_somebody_has_them_adopted(autojump_clock, fills, why):
    store, other = MemoryStore(), PaperBroker(Decimal(500))
    await stopped_after(2, store)
    await TradingHarness(feed(fills), other, buying()).run()

    async with Orchestrator(store) as orchestrator:
        blocked = await orchestrator.start(TradingHarness(feed(3), other, buying()), name="t", restart="permanent").wait()
    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(TradingHarness(feed(3), other, buying()), name="t")
        await handle.send({"do": "adopt"})
        adopted = await handle.wait()

    assert (blocked.kind, adopted.kind) == (OutcomeKind.BLOCKED, OutcomeKind.COMPLETED)
    assert why in blocked.cause
    assert (await other.account(["A"])).positions == {"A": fills + 2}


@pytest.mark.parametrize("crashes", [1, 3])
async def test_a_strategy_that_crashes_is_started_again_and_no_day_is_missed(autojump_clock, crashes):
    left = [crashes]

    async def run(run):
        if run.input.time == FIRST + timedelta(2) and left[0]:
            left[0] -= 1
            raise ConnectionError("the model is away")
        return [Order("A", Side.BUY, Decimal(1))]

    broker = PaperBroker()
    async with Orchestrator() as orchestrator:
        outcome = await orchestrator.start(TradingHarness(feed(5), broker, Strategy(Agent(run))), name="t").wait()

    assert (outcome.kind, outcome.attempt, outcome.step) == (OutcomeKind.COMPLETED, crashes + 1, 6)
    assert (await broker.account(["A"])).positions == {"A": 5}
