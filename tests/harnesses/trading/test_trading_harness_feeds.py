"""The trading harness and feeds that are late or gone: it catches up, trades on nothing old, and hears its operators."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import trio

from harnesses import Agent, Ending
from harnesses.runtime import LocalRuntime
from harnesses.trading import (
    Bar,
    BrokerUnavailable,
    FeedUnavailable,
    Limits,
    MarketSlice,
    Order,
    PaperBroker,
    ReplayFeed,
    Side,
    Strategy,
    TradingHarness,
)

FIRST = datetime(2000, 3, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BAR = Bar(*[Decimal(100)] * 4, Decimal(1))


class Live:
    """Has a bar for each minute of Trio's clock, once that minute is over.

    Args:
        gone: the seconds between which it cannot be asked.
        mute: the seconds between which it does not answer.
    """

    symbols: Sequence[str] = ("A",)

    def __init__(self, *, gone: tuple[float, float] = (0, 0), mute: tuple[float, float] = (0, 0)) -> None:
        self.gone, self.mute = gone, mute

    async def next_slice(self, after: datetime | None) -> MarketSlice | None:
        await trio.lowlevel.checkpoint()
        if self.mute[0] <= trio.current_time() < self.mute[1]:
            await trio.sleep_forever()
        if self.gone[0] <= trio.current_time() < self.gone[1]:
            raise FeedUnavailable("gone")
        time = FIRST if after is None else after + MINUTE
        return MarketSlice(time, {"A": BAR}) if time + MINUTE <= self.now() else None

    def is_at_end(self, after: datetime | None) -> bool:
        return False

    def now(self) -> datetime:
        return FIRST + timedelta(seconds=trio.current_time())


class Away(PaperBroker):
    """Is out of reach between two moments on Trio's clock."""

    def __init__(self, since: float, until: float) -> None:
        super().__init__()
        self.since, self.until = since, until

    async def fills(self, symbols, after):
        if self.since <= trio.current_time() < self.until:
            raise BrokerUnavailable("gone")
        return await super().fills(symbols, after)


def buying(asked: list[datetime]) -> Strategy:
    """Return a strategy that buys in each slice that it is asked about, and notes which."""

    async def run(run) -> Sequence[Order]:
        await trio.lowlevel.checkpoint()
        asked.append(run.input.time)
        return [Order("A", Side.BUY, Decimal(1))]

    return Strategy(Agent(run))


async def ran(harness: TradingHarness, until_s: float, **messages: object) -> LocalRuntime:
    """Let it run until a moment on Trio's clock; send it messages at `at_<seconds>`."""
    runtime = LocalRuntime("t")

    async def tell(moment_s: float, message: object) -> None:
        await trio.sleep_until(moment_s)
        await runtime.send("t", message)

    async with trio.open_nursery() as nursery:
        for name, message in messages.items():
            nursery.start_soon(tell, float(name.removeprefix("at_")), message)
        with trio.move_on_at(until_s):
            harness.ending = await harness.run(runtime)
        nursery.cancel_scope.cancel()
    return runtime


def minutes(times: Sequence[datetime]) -> list[int]:
    return [int((time - FIRST) / MINUTE) for time in times]


def slices(harness: TradingHarness) -> list[int]:
    return minutes([step.input.time for step in harness.step_history if step.input is not None])


async def test_after_an_outage_all_slices_are_taken_in_at_once_and_only_the_newest_is_traded_on(autojump_clock):
    asked: list[datetime] = []
    harness = TradingHarness(Live(), Away(570, 4200), buying(asked), period_s=60.0, patience_s=10_000.0)

    await ran(harness, 4201)

    assert slices(harness) == list(range(70))
    assert set(range(10, 67)).isdisjoint(minutes(asked))
    assert minutes(asked)[-1] == 69


async def test_a_harness_resumed_an_hour_later_trades_on_nothing_of_that_hour(autojump_clock):
    asked, broker = list[datetime](), PaperBroker()
    first = TradingHarness(Live(), broker, buying([]))
    await ran(first, 600)
    await trio.sleep(3600)

    second = TradingHarness(Live(), broker, buying(asked), initial_state=first.state)
    await ran(second, 4201)

    assert (slices(second)[0], slices(second)[-1]) == (slices(first)[-1] + 1, 69)
    assert set(minutes(asked)) <= {67, 68, 69}


async def test_a_live_feed_that_keeps_up_is_never_stale(autojump_clock):
    asked: list[datetime] = []
    harness = TradingHarness(Live(), strategy=buying(asked), period_s=47.0)

    await ran(harness, 3600)

    assert minutes(asked) == slices(harness) == list(range(len(asked)))
    assert len(asked) >= 58


async def test_a_limit_of_ones_own_takes_the_place_of_the_default(autojump_clock):
    asked: list[datetime] = []
    harness = TradingHarness(Live(), Away(570, 4200), buying(asked), patience_s=10_000.0, limits=Limits(max_age_s=1e9))

    await ran(harness, 4201)

    assert minutes(asked) == list(range(70))


async def test_a_recording_is_never_stale_at_whatever_speed_it_is_played(autojump_clock):
    asked: list[datetime] = []
    feed = ReplayFeed({"A": {FIRST + minute * MINUTE: BAR for minute in range(100)}}, speed=60.0)

    await TradingHarness(feed, strategy=buying(asked), period_s=30.0).run()

    assert minutes(asked) == list(range(100))
    assert trio.current_time() < 150


async def test_a_feed_that_is_gone_stops_entries_and_the_harness_goes_on_when_it_is_back(autojump_clock):
    harness = TradingHarness(Live(gone=(600, 900)), strategy=buying([]), patience_s=400.0)

    await ran(harness, 1201)

    held = [step.output for step in harness.step_history if step.input is None][1:]
    assert [(output.risk, output.why.split(":")[0]) for output in held] == [("reducing", "stale data")]
    assert slices(harness) == list(range(20))


async def test_an_outage_of_feed_or_venue_is_told_once_and_so_is_its_end(autojump_clock, monkeypatch):
    broker = Away(1500, 1700)
    harness = TradingHarness(Live(gone=(600, 900)), broker, buying([]), period_s=60.0, patience_s=400.0)
    told: list[str] = []
    monkeypatch.setattr(harness, "log", told.append)

    await ran(harness, 2401)

    assert told[1:] == [
        "the feed does not answer, and is asked again for 400 s: gone",
        "the feed answers again",
        "the venue does not answer, and is asked again for 400 s: gone",
        "the venue answers again",
    ]


@pytest.mark.parametrize("trouble", ["gone", "mute"])
async def test_an_operator_is_heard_while_the_feed_is_of_no_use(autojump_clock, trouble):
    harness = TradingHarness(Live(**{trouble: (600.0, 9000.0)}), strategy=buying([]), patience_s=8000.0)

    await ran(harness, 1201, at_700={"do": "flatten"}, at_900={"do": "stop"})

    assert (harness.ending, harness.state.book.units("A")) == (Ending.STOPPED, 0)
    assert trio.current_time() <= 1020


@pytest.mark.parametrize(("trouble", "why"), [("gone", "gone"), ("mute", "feed of A does not answer")])
async def test_a_feed_that_is_of_no_use_for_too_long_fails_the_harness(autojump_clock, trouble, why):
    harness = TradingHarness(Live(**{trouble: (600.0, 9e9)}), strategy=buying([]), patience_s=300.0)

    with pytest.raises(FeedUnavailable, match=why):
        await harness.run()

    assert 840 < trio.current_time() <= 1020
