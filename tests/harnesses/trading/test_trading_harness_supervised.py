"""The trading harness under an orchestrator: operators reach it by messages, and its outcomes say what it waits for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from harnesses import Agent
from harnesses.trading import Bar, Order, OrderKind, PaperBroker, ReplayFeed, Side, Strategy, TradingHarness
from orchestrator import Orchestrator, OutcomeKind, Restart, Store, StoreError
from orchestrator.lifecycle import Status
from orchestrator.store.in_memory.memory_store import MemoryStore
from orchestrator.testing import FaultyStore
from tests.orchestrator.scripted import to_the_end

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


def trading(days: int, broker: PaperBroker) -> TradingHarness:
    """Return a harness whose limit orders are filled two days after they were placed."""

    async def run(run):
        day = (run.input.time - FIRST).days
        if day % 5 == 0:
            return [Order("A", Side.BUY, Decimal(1 + day % 3), kind=OrderKind.LIMIT, limit_price=Decimal(96))]
        return [Order("A", Side.SELL, Decimal(1))] if day % 10 == 9 else []

    closes = [Decimal((100, 99, 96, 93, 99)[day % 5]) for day in range(days)]
    bars = {FIRST + timedelta(day): Bar(*[close] * 4, Decimal(100)) for day, close in enumerate(closes)}
    return TradingHarness(ReplayFeed({"A": bars}), broker, Strategy(Agent(run)), period_s=86_400)


def recorded(store: Store) -> list[tuple[Any, ...]]:
    """Return what a store holds of each step, but for its duration and the wall time."""
    return [
        (step.step_number, step.input, step.output, step.state_delta, store.state_at("t", step.step_number))
        for step in store.steps("t")
    ]


@pytest.mark.parametrize("durability", ["group", None])
async def test_a_backtest_comes_to_the_same_with_each_durability(autojump_clock, durability):
    wanted = await trade(MemoryStore(), trading(60, PaperBroker()), durability="step")
    store = Counting(MemoryStore())

    found = await trade(store, trading(60, PaperBroker()), durability=durability)

    assert recorded(found) == recorded(wanted)
    assert len(recorded(found)) == 61
    assert store.commits < 61


class Counting(FaultyStore):
    """A store that counts the commits with steps."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, StoreError("never"), at=0, only_steps=True)


async def trade(store: Any, harness: TradingHarness, **options: Any) -> Any:
    async with Orchestrator(store) as orchestrator:
        outcome = await orchestrator.start(harness, name="t", **options).wait()
    assert outcome.kind is OutcomeKind.COMPLETED, outcome
    return store


@pytest.mark.parametrize("after", [False, True])
async def test_a_backtest_that_dies_again_and_again_comes_to_the_same(autojump_clock, tmp_path, after):
    wanted = await trade(MemoryStore(), trading(25, PaperBroker(path=tmp_path / "whole")), durability="step")

    store, lives = MemoryStore(), 0
    while not (known := store.harnesses()) or known[0].status is not Status.COMPLETED:
        lives += 1
        broker = PaperBroker(path=tmp_path / "venue")
        deadly = FaultyStore(store, StoreError("dies"), at=2 + lives % 3, after=after, only_steps=True)
        async with to_the_end(deadly) as (orchestrator, _):
            orchestrator.start(trading(25, broker), name="t", durability="group")
        broker.close()
        store.close()
        assert lives < 100

    assert lives > 3
    assert traded(store) == traded(wanted)
    assert store.state_at("t", 26) == wanted.state_at("t", 26)


def traded(store: Store) -> list[tuple[Any, ...]]:
    """Return the market, the worth of the account and the fills of each step."""
    return [
        (step.input, step.output["equity"], step.output["cash"], [one["fill"] for one in step.output["fills"]])
        for step in store.steps("t")
    ]
