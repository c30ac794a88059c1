"""The trading harness: one step a slice, decided once, traded within limits, and resumable from its state alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec
import pytest
import trio
from attrs import evolve

from harnesses import Agent, Ending, HarnessMisuse
from harnesses.errors import Latched
from harnesses.runtime import LocalRuntime
from harnesses.trading import (
    BadMarketData,
    Bar,
    BooksDiffer,
    BrokerUnavailable,
    Fees,
    Limits,
    Market,
    MarketSlice,
    Order,
    OrderKind,
    OrderReport,
    PaperBroker,
    PlacedOrder,
    ReplayFeed,
    RiskState,
    Side,
    Source,
    Strategy,
    TradingHarness,
    TradingState,
    VenueAccount,
    rsi_strategy,
)
from harnesses.trading.market.instruments import Charges
from tests.benchmarks.trading import backtest

FIRST = datetime(2000, 3, 1, tzinfo=UTC)
CLOSES = [100 + (day * 37) % 23 - (day // 9) for day in range(60)]
Orders = Sequence[Order]


def feed(closes: Sequence[object] = CLOSES, splits: dict[int, int] | None = None, **more: object) -> ReplayFeed:
    splits = splits or {}
    bars = {
        FIRST + timedelta(day): Bar(*[Decimal(str(close))] * 4, 10_000, Decimal(splits.get(day, 1)))
        for day, close in enumerate(closes)
    }
    return ReplayFeed({"A": bars}, **more)


def order(side: Side, units: object, **more: object) -> Order:
    return Order("A", side, Decimal(str(units)), **more)


def strategy(decide: Callable[[Market], Orders]) -> Strategy:
    async def run(run) -> Orders:
        await trio.lowlevel.checkpoint()
        return decide(run.input)

    return Strategy(Agent(run))


def always(side: Side, units: object, **more: object) -> Strategy:
    return strategy(lambda market: [order(side, units, **more)] if market.quotes else [])


def plan(**days: Orders) -> Strategy:
    """Return a strategy that wants these orders on these days: `d0`, `d1` …"""
    return strategy(lambda market: days.get(f"d{(market.time - FIRST).days}", []))


def said(harness: TradingHarness) -> list[tuple]:
    return [(step.input, step.output, step.state_delta) for step in harness.step_history]


def outputs(harness: TradingHarness) -> list:
    """Return what was said after the books were opened."""
    return [step.output for step in harness.step_history][1:]


def fills(harness: TradingHarness) -> list[tuple]:
    return [
        ((output.time - FIRST).days, one.fill.side, one.fill.units, one.fill.price, one.wanted_by)
        for output in outputs(harness)
        for one in output.fills
    ]


async def ran(*args: object, **more: object) -> TradingHarness:
    harness = TradingHarness(*args, **more)
    await harness.run()
    return harness


# the pace, and what a step says


async def test_the_books_are_opened_then_there_is_one_step_for_each_slice_and_the_end_completes(autojump_clock):
    harness = TradingHarness(feed())

    ending = await harness.run()

    opening, *steps = harness.step_history
    assert (ending, opening.input, opening.output.adopted) == (Ending.COMPLETED, None, VenueAccount(Decimal(10_000), {}))
    assert [step.input.time for step in steps] == [FIRST + timedelta(day) for day in range(60)]


async def test_the_feed_is_polled_once_a_period(autojump_clock):
    await ran(feed(), period_s=5.0)

    assert trio.current_time() == pytest.approx(59 * 5.0)


async def test_without_a_period_each_slice_is_taken_at_once_with_the_same_results(autojump_clock):
    paced = await ran(feed(), period_s=5.0)
    begun_s = trio.current_time()

    at_once = await ran(feed(), period_s=0, bars_per_step=1)

    assert trio.current_time() == begun_s
    assert said(at_once) == said(paced)


async def test_without_a_period_a_feed_that_has_nothing_is_asked_again_after_a_second(autojump_clock):
    harness = TradingHarness(feed(endless=True), period_s=0, bars_per_step=1)

    with trio.move_on_after(10.5):
        await harness.run()

    assert (harness.current_step, trio.current_time()) == (61, 10.5)


async def test_an_endless_feed_never_completes(autojump_clock):
    harness = TradingHarness(feed(endless=True), period_s=5.0)

    with trio.move_on_after(10_000) as scope:
        await harness.run()

    assert scope.cancelled_caught
    assert (harness.current_step, harness.is_complete()) == (61, False)


async def test_a_step_holds_the_market_what_was_decided_and_what_became_of_it(autojump_clock):
    harness = await ran(feed(), PaperBroker(fees=Fees(minimum=Decimal(1))), plan(d0=[order(Side.BUY, 2, reason="cheap")]))

    step = harness.step_history[1]
    (placed,), (report,), (execution,) = step.output.placed, step.output.reports, step.output.fills
    assert (placed.source, placed.order.reason, placed.decided) == (Source.STRATEGY, "cheap", FIRST)
    assert placed.client_id == report.client_id == execution.fill.client_id
    assert (execution.source, execution.wanted_by, execution.fill.price, execution.fill.fee) == ("venue", "strategy", 100, 1)
    assert (step.output.cash, step.output.equity, step.output.positions) == (9799, 9999, {"A": 2})
    assert step.state_delta.summary == "2000-03-01: buy 2 A at 100.00"


async def test_the_default_strategy_trades_by_the_index(autojump_clock):
    harness = await ran(feed([100 - day for day in range(20)] + [80 + 3 * day for day in range(20)]))

    days = [(day, side) for day, side, *_ in fills(harness)]
    assert days[0] == (14, Side.BUY)
    assert Side.SELL in [side for _, side in days]
    assert harness.state.book.units("A") == 0


async def test_an_order_that_the_limits_forbid_is_recorded_with_the_reason(autojump_clock):
    harness = await ran(feed([100]), strategy=always(Side.SELL, 1))

    (refusal,) = harness.step_history[-1].output.refused
    assert (refusal.by, refusal.source, refusal.reason) == (Source.RISK, Source.STRATEGY, "only 0 units available to sell")


class Secretive(PaperBroker):
    """A venue that does not tell its fees."""

    async def connect(self, symbols):
        return {symbol: evolve(one, charges=Charges()) for symbol, one in (await super().connect(symbols)).items()}


async def test_an_order_that_the_venue_refuses_is_recorded_with_its_reason_and_the_harness_goes_on(autojump_clock):
    harness = await ran(feed([100, 100]), Secretive(Decimal(1000), fees=Fees(Decimal("0.1"))), plan(d0=[order(Side.BUY, 10)]))

    (refusal,) = harness.step_history[1].output.refused
    assert (refusal.by, "cash: expected at most 1000" in refusal.reason) == (Source.VENUE, True)
    assert (harness.current_step, harness.state.equity) == (3, 1000)


async def test_a_known_split_changes_nothing_that_is_owned(autojump_clock):
    harness = await ran(
        feed([100, 100, "50.5", 51], {2: 2}), strategy=plan(d0=[order(Side.BUY, 7)], d3=[order(Side.SELL, 14)])
    )

    assert [output.equity for output in outputs(harness)] == [10_000, 10_000, 10_007, 10_014]
    assert harness.state.cash == 10_014


async def test_the_numbers_for_dashboards_are_those_of_the_account(autojump_clock):
    harness = await ran(feed(), strategy=always(Side.BUY, 1))

    state, told = harness.state, harness.gauges

    assert told["equity"] == pytest.approx(float(outputs(harness)[-1].equity))
    assert (told["cash"], told["fees"], told["turnover"]) == tuple(
        map(float, (state.cash, state.book.fees, state.book.turnover))
    )
    assert told["drawdown"] == pytest.approx(float(outputs(harness)[-1].drawdown))
    assert TradingHarness(feed()).gauges == {}


async def test_an_order_that_waits_is_followed_until_it_is_filled(autojump_clock):
    limit = order(Side.BUY, 3, kind=OrderKind.LIMIT, limit_price=Decimal(95))

    harness = await ran(feed([100, 97, 94, 96]), strategy=plan(d0=[limit]))

    assert [[str(report.status) for report in output.reports] for output in outputs(harness)] == [["open"], [], ["filled"], []]
    assert fills(harness) == [(2, Side.BUY, 3, 94, Source.STRATEGY)]
    assert harness.state.open == {}


async def test_the_agent_gets_the_constraints_and_the_market(autojump_clock):
    seen = []

    async def run(run):
        seen.append((run.constraints, run.input.time, run.input.cash, run.step_number))
        return []

    await ran(feed([100]), strategy=Strategy(Agent(run)), cash=Decimal(500), constraints={"max_drawdown": "0.2"})

    assert seen == [({"max_drawdown": "0.2"}, FIRST, Decimal(500), 2)]


def test_a_limit_in_the_constraints_is_enforced_and_checked():
    with pytest.raises(HarnessMisuse, match="limit 'max_drawdown': expected a part above 0 and at most 1"):
        TradingHarness(feed(), constraints={"max_drawdown": 2})


def test_a_debt_to_begin_with_is_refused():
    with pytest.raises(HarnessMisuse, match="cash: expected a number from 0 up, was -1"):
        TradingHarness(feed(), cash=Decimal(-1))


async def test_a_feed_that_goes_backwards_fails_the_harness(autojump_clock):
    class Backwards(ReplayFeed):
        async def next_slice(self, after: datetime | None) -> MarketSlice | None:
            return await super().next_slice(None)

    bar = Bar(*[Decimal(1)] * 4, 1)
    harness = TradingHarness(Backwards({"A": {FIRST: bar, FIRST + timedelta(1): bar}}))

    with pytest.raises(BadMarketData, match=r"slice 2000-03-01 .* of the feed: expected one after 2000-03-01"):
        await harness.run()

    assert harness.current_step == 2


async def test_an_agent_that_fails_leaves_the_state_as_it_was(autojump_clock):
    def fail(market: Market) -> Orders:
        raise ValueError("no answer")

    harness = TradingHarness(feed(), strategy=strategy(fail))

    with pytest.raises(ValueError, match="no answer"):
        await harness.run()

    assert (harness.current_step, harness.state.time) == (1, None)


# resuming


@pytest.mark.parametrize("steps", [0, 1, 13, 14, 15, 40, 59])
async def test_a_harness_made_from_the_state_of_another_goes_on_identically(autojump_clock, steps):
    half = rsi_strategy(Decimal("0.5"))
    whole = await ran(feed(), PaperBroker(), half)
    broker = PaperBroker()
    first = await ran(feed(CLOSES[:steps]), broker, half)

    stored = msgspec.json.decode(msgspec.json.encode(first.state), type=TradingState)
    second = await ran(feed(), broker, half, initial_state=stored)

    assert market_said(first) + market_said(second) == market_said(whole)
    assert second.state == evolve(whole.state, book=second.state.book, salt=second.state.salt)
    assert second.state.book == whole.state.book


def market_said(harness: TradingHarness) -> list[tuple]:
    """Return what was said, but for the ids of orders: they come of the numbers of the steps, and of the life."""
    return [
        (step.input, step.output.equity, [one.fill.units for one in step.output.fills], step.state_delta.summary)
        for step in harness.step_history
        if step.input is not None
    ]


async def test_two_runs_are_the_same_to_the_last_bit(autojump_clock):
    one, other = [await ran(feed(), PaperBroker(), rsi_strategy(Decimal("0.5"))) for _ in range(2)]

    assert msgspec.json.encode(said(one)) == msgspec.json.encode(said(other))
    assert msgspec.json.encode(one.state) == msgspec.json.encode(other.state)


async def test_the_state_does_not_grow(autojump_clock):
    harness = await ran(feed([*CLOSES] * 20))

    assert harness.current_step == 1201
    assert len(msgspec.json.encode(harness.state)) < 1000


class Killed(BaseException):
    """Stands for the death of the program: nothing in the harness may catch it."""


def revived(runtime: LocalRuntime) -> LocalRuntime:
    """Return surroundings for another life: what was on record is, the rest is new."""
    other = LocalRuntime(runtime.name)
    other.effects, other.mail = runtime.effects, runtime.mail
    return other


class Mortal(PaperBroker):
    """Dies at one call, before or after it has taken effect."""

    def __init__(self, at: int, after: bool) -> None:
        super().__init__(Decimal(2000), fees=Fees(minimum=Decimal(1)))
        self.calls, self.at, self.after, self.submitted = 0, at, after, 0

    async def _call(self, function, *args):
        self.calls += 1
        if self.calls == self.at and not self.after:
            raise Killed
        result = await function(*args)
        if self.calls == self.at:
            raise Killed
        return result

    async def observe(self, market: MarketSlice) -> None:
        await self._call(super().observe, market)

    async def submit(self, placed: PlacedOrder) -> OrderReport:
        self.submitted += 1
        return await self._call(super().submit, placed)

    async def cancel(self, client_id: str, symbol: str) -> OrderReport | None:
        return await self._call(super().cancel, client_id, symbol)

    async def fills(self, symbols, after):
        return await self._call(super().fills, symbols, after)

    async def open_orders(self, symbols):
        return await self._call(super().open_orders, symbols)


def eventful() -> tuple[ReplayFeed, Strategy]:
    """Return a short life with everything in it: orders of all kinds, a split, a stop entry cancelled by a drawdown."""
    wanted = plan(
        d0=[order(Side.BUY, 3), order(Side.BUY, 2, kind=OrderKind.LIMIT, limit_price=Decimal(95))],
        d1=[order(Side.SELL, 1), order(Side.BUY, 1, kind=OrderKind.STOP, stop_price=Decimal(200))],
        d3=[order(Side.BUY, 4), order(Side.SELL, 2)],
    )
    return feed([100, 101, 94, 47, 48, 20, 21, 22], {3: 2}), wanted


LIFE = Limits(max_drawdown=Decimal("0.05"))


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 40))
async def test_wherever_it_dies_it_goes_on_as_if_it_had_not(autojump_clock, at, after):
    undisturbed = TradingHarness(*eventful_at(Mortal(0, False)), limits=LIFE)
    await undisturbed.run(LocalRuntime("t"))
    broker, runtime = Mortal(at, after), LocalRuntime("t")
    harness = TradingHarness(*eventful_at(broker), limits=LIFE)

    with pytest.raises(Killed):
        await harness.run(runtime)
    await harness.run(revived(runtime))

    assert said(harness) == said(undisturbed)
    assert harness.state == undisturbed.state


def eventful_at(broker: PaperBroker) -> tuple:
    replayed, wanted = eventful()
    return replayed, broker, wanted


async def test_an_eventful_life_has_everything_in_it(autojump_clock):
    harness = TradingHarness(*eventful_at(PaperBroker(Decimal(2000))), limits=LIFE)
    await harness.run()

    assert sum(len(output.cancelled) for output in outputs(harness)) == 1
    assert {one.fill.side for output in outputs(harness) for one in output.fills} == {*Side}
    assert harness.state.risk.state is RiskState.HALTED


async def test_a_step_that_is_taken_up_again_does_not_ask_the_strategy_again(autojump_clock):
    asked = []

    def decide(market: Market) -> Orders:
        asked.append(market.time)
        return [order(Side.BUY, 1)] * 3

    runtime, broker = LocalRuntime("t"), Mortal(0, True)
    harness = TradingHarness(feed([100]), broker, strategy(decide))
    broker.at = await calls_until_second_order(strategy(decide)) + 1
    asked.clear()

    with pytest.raises(Killed):
        await harness.run(runtime)
    await harness.run(revived(runtime))

    assert (asked, broker.submitted, harness.state.book.units("A")) == ([FIRST], 3, 3)


async def calls_until_second_order(wanted: Strategy) -> int:
    counted: list[int] = []

    class Counting(Mortal):
        async def submit(self, placed: PlacedOrder) -> OrderReport:
            counted.append(self.calls)
            return await super().submit(placed)

    await TradingHarness(feed([100]), Counting(0, False), wanted).run()
    return counted[1]


async def test_what_was_not_begun_is_dropped_if_its_data_are_stale_by_now(autojump_clock):
    class Slow(ReplayFeed):
        late = timedelta(0)

        def now(self) -> datetime:
            return FIRST + self.late

    wanted = always(Side.BUY, 1)
    slow = Slow({"A": {FIRST: Bar(*[Decimal(100)] * 4, 1)}})
    broker, runtime = Mortal(0, True), LocalRuntime("t")
    twice = strategy(lambda market: [*wanted_by(market), *wanted_by(market)])
    broker.at = await calls_until_second_order(twice)
    harness = TradingHarness(slow, broker, twice, limits=Limits(max_age_s=60.0))

    with pytest.raises(Killed):
        await harness.run(runtime)
    slow.late = timedelta(seconds=61)
    await harness.run(revived(runtime))

    output = harness.step_history[-1].output
    assert [one.reason for one in output.refused] == [
        "not begun by the attempt that decided it, and now reducing: stale data: nothing new from the feed for more than 60 s"
    ]
    assert (len(output.placed), len(output.fills), wanted.name) == (2, 1, "Agent")


def wanted_by(market: Market) -> Orders:
    return [order(Side.BUY, 1)]


async def killed_after_first_order(wanted: Strategy, closes: Sequence[object]) -> tuple[TradingHarness, LocalRuntime]:
    """Return a harness that has died when its first order had reached the venue, and surroundings for its next life."""

    class Deadly(PaperBroker):
        alive = True

        async def submit(self, placed: PlacedOrder) -> OrderReport:
            report = await super().submit(placed)
            if self.alive:
                self.alive = False
                raise Killed
            return report

    harness, runtime = TradingHarness(feed(closes), Deadly(), wanted), LocalRuntime("t")
    with pytest.raises(Killed):
        await harness.run(runtime)
    return harness, revived(runtime)


WAITING = [order(Side.BUY, units, kind=OrderKind.LIMIT, limit_price=Decimal(50)) for units in (1, 2)]


async def test_told_to_stop_in_a_broken_step_it_cancels_what_was_placed_and_places_no_more(autojump_clock):
    harness, runtime = await killed_after_first_order(plan(d0=WAITING), [100] * 5)
    await runtime.send("t", {"do": "stop"})

    ending = await harness.run(runtime)

    output = harness.step_history[-1].output
    assert (ending, harness.current_step, harness.state.open) == (Ending.STOPPED, 2, {})
    assert [one.report.units for one in output.cancelled] == [1]
    assert [(one.order.units, one.reason.endswith("told to stop")) for one in output.refused] == [(2, True)]


async def test_a_broken_step_is_recorded_though_the_feed_has_ended_meanwhile(autojump_clock, monkeypatch):
    """G1, G5: what was placed is in the book."""
    harness, runtime = await killed_after_first_order(plan(d0=WAITING), [100] * 5)
    monkeypatch.setattr(ReplayFeed, "is_at_end", lambda self, after: True)

    ending = await harness.run(runtime)

    assert (ending, harness.current_step) == (Ending.COMPLETED, 2)
    assert [one.units for one in harness.step_history[-1].output.reports] == [1, 2]


async def test_under_the_latch_a_broken_step_still_tells_of_what_was_placed(autojump_clock):
    harness, before = await killed_after_first_order(plan(d0=WAITING), [100])
    runtime = Latchable("t")
    runtime.effects, runtime.on = before.effects, True

    await harness.run(runtime)

    output = harness.step_history[-1].output
    assert [one.units for one in output.reports] == [1]
    assert [(one.order.units, one.by) for one in output.refused] == [(2, Source.OPERATOR)]


# what the venue does


class Unsure(PaperBroker):
    """Fails to answer to the first `times` orders, having taken them or not."""

    def __init__(self, times: int, taken: bool) -> None:
        super().__init__()
        self.times, self.taken, self.placed = times, taken, 0

    async def submit(self, placed: PlacedOrder) -> OrderReport:
        self.times -= 1
        if self.times >= 0 and not self.taken:
            raise TimeoutError("no answer")
        self.placed += 1
        report = await super().submit(placed)
        if self.times >= 0:
            raise TimeoutError("no answer")
        return report


@pytest.mark.parametrize("taken", [False, True])
@pytest.mark.parametrize("times", [1, 2])
async def test_an_order_without_an_answer_is_found_or_sent_again_but_never_twice(autojump_clock, times, taken):
    broker = Unsure(times, taken)

    harness = await ran(feed([100, 100]), broker, plan(d0=[order(Side.BUY, 1)]))

    assert (broker.placed, fills(harness)) == (1, [(0, Side.BUY, 1, 100, Source.STRATEGY)])


async def test_an_order_that_is_never_taken_counts_as_refused(autojump_clock):
    harness = await ran(feed([100]), Unsure(9, False), plan(d0=[order(Side.BUY, 1)]))

    (refusal,) = harness.step_history[-1].output.refused
    assert (refusal.by, refusal.reason) == (Source.VENUE, "not accepted in 3 attempts: no answer")


async def test_an_order_of_which_nobody_can_say_what_became_of_it_is_asked_for_until_somebody_can(autojump_clock):
    class Mute(Unsure):
        async def find(self, placed: PlacedOrder) -> OrderReport | None:
            if trio.current_time() < 35:
                raise BrokerUnavailable("gone")
            return await super().find(placed)

    broker = Mute(1, True)

    harness = await ran(feed([100, 100]), broker, plan(d0=[order(Side.BUY, 1)]), period_s=10.0)

    assert (broker.placed, fills(harness)) == (1, [(0, Side.BUY, 1, 100, Source.STRATEGY)])
    assert [output.refused for output in outputs(harness)] == [(), ()]


class Away(PaperBroker):
    """Is out of reach between two moments on Trio's clock."""

    def __init__(self, since: float, until: float) -> None:
        super().__init__()
        self.since, self.until = since, until

    async def fills(self, symbols, after):
        if self.since <= trio.current_time() < self.until:
            raise BrokerUnavailable("gone")
        return await super().fills(symbols, after)


async def test_a_venue_that_is_away_for_a_while_is_waited_for_and_no_slice_is_missed(autojump_clock):
    harness = await ran(feed([100] * 5), Away(25, 65), always(Side.BUY, 1), period_s=10.0, patience_s=60.0)

    assert (harness.current_step, harness.state.book.units("A")) == (6, 5)
    assert trio.current_time() == 80


async def test_a_venue_that_is_away_for_too_long_fails_the_harness(autojump_clock):
    harness = TradingHarness(feed([100] * 5), Away(25, 10_000), always(Side.BUY, 1), period_s=10.0, patience_s=60.0)

    with pytest.raises(BrokerUnavailable, match="gone"):
        await harness.run()

    assert (trio.current_time(), harness.current_step) == (90, 4)


async def test_a_venue_that_can_not_be_asked_at_the_start_starts_nothing(autojump_clock):
    first = await ran(feed([100]), PaperBroker())
    harness = TradingHarness(feed([100, 100]), Away(0, 10_000), initial_state=first.state)

    with pytest.raises(BrokerUnavailable, match="gone"):
        await harness.run()


async def test_what_the_venue_owns_at_the_very_first_start_is_the_opening_book(autojump_clock):
    broker = PaperBroker()
    await ran(feed([100]), broker, always(Side.BUY, 5))

    harness = await ran(feed([100, 101]), broker, plan())

    assert harness.step_history[0].output.adopted == VenueAccount(Decimal(9500), {"A": Decimal(5)})
    assert [output.equity for output in outputs(harness)] == [10_000, 10_005]


async def differing() -> TradingHarness:
    first = await ran(feed([100]), PaperBroker(), always(Side.BUY, 5))
    other = PaperBroker(Decimal(777))
    await ran(feed([100]), other, plan(d0=[order(Side.BUY, 1), order(Side.BUY, 1)]))
    return TradingHarness(feed([100, 100]), other, plan(), initial_state=first.state)


async def test_books_that_differ_start_nothing_and_say_what_and_the_way_out(autojump_clock):
    harness = await differing()

    with pytest.raises(BooksDiffer) as raised:
        await harness.run()

    message = str(raised.value)
    assert message.startswith(
        f"to continue with the venue's account: `orchestrator trading adopt {harness.name}`, then start again"
    )
    assert message.endswith("cash: expected 9400.00, was 577.00; A: expected 6 units, was 2")
    assert harness.current_step == 0


async def test_books_that_differ_are_adopted_if_an_operator_says_so(autojump_clock):
    harness, runtime = await differing(), LocalRuntime("t")
    await runtime.send("t", {"do": "adopt", "reason": "moved house"})

    await harness.run(runtime)

    output = harness.step_history[0].output
    assert (output.adopted, output.cash, output.positions) == (VenueAccount(Decimal(577), {"A": Decimal(2)}), 577, {"A": 2})
    assert [(one.do, one.reason, one.source) for one in output.commands] == [("adopt", "moved house", Source.OPERATOR)]


async def test_open_orders_that_are_not_ours_are_recorded_and_left_alone(autojump_clock):
    broker = PaperBroker()
    await broker.connect(["A"])
    theirs = PlacedOrder("theirs", order(Side.BUY, 1, kind=OrderKind.LIMIT, limit_price=Decimal(1)), Source.OPERATOR, FIRST)
    await broker.submit(theirs)

    harness = await ran(feed([100, 100]), broker, plan())

    assert [[one.client_id for one in step.output.foreign] for step in harness.step_history] == [["theirs"], [], []]
    assert len(await broker.open_orders(["A"])) == 1


async def test_a_trade_of_somebody_else_on_the_account_is_taken_into_the_book(autojump_clock):
    broker = PaperBroker()

    def meddle(market: Market) -> Orders:
        meddling.append(PlacedOrder("theirs", order(Side.BUY, 1), Source.OPERATOR, FIRST))
        return []

    class Meddled(PaperBroker):
        async def observe(self, market: MarketSlice) -> None:
            await super().observe(market)
            while meddling:
                await super().submit(meddling.pop())

    meddling: list[PlacedOrder] = []
    broker = Meddled()
    harness = await ran(feed([100, 100]), broker, strategy(meddle))

    assert [(one.fill.client_id, one.wanted_by) for one in outputs(harness)[1].fills] == [("theirs", None)]
    assert harness.state.cash == 9900


# risk


async def test_the_limit_on_drawdown_sells_everything_and_nothing_is_bought_again(autojump_clock):
    harness = await ran(
        feed([100, 100, 90, 79, 79, 120]), strategy=always(Side.BUY, 100), constraints={"max_drawdown": Decimal("0.2")}
    )

    assert [output.risk for output in outputs(harness)] == ["active"] * 3 + ["halted"] * 3
    assert fills(harness)[1:] == [(3, Side.SELL, 100, 79, Source.RISK)]
    assert harness.state.cash == harness.state.equity == 7900


async def test_a_halted_harness_sells_what_jumped_as_soon_as_the_price_is_believed(autojump_clock):
    harness = await ran(feed([100, 40, 41, 42]), strategy=always(Side.BUY, 100), limits=Limits(max_drawdown=Decimal("0.5")))

    assert fills(harness)[1:] == [(2, Side.SELL, 100, 41, Source.RISK)]


async def test_a_halted_harness_is_still_halted_after_a_restart(autojump_clock):
    limits, broker = Limits(max_drawdown=Decimal("0.2")), PaperBroker()
    first = await ran(feed([100, 70]), broker, always(Side.BUY, 100), limits=limits)

    second = await ran(feed([100, 70, 200]), broker, always(Side.BUY, 100), limits=limits, initial_state=first.state)

    assert second.step_history[-1].output.why == "drawdown: equity 7000.00 is 30.0% below its highest, 10000.00"
    assert second.state.cash == 7000


async def test_a_position_that_has_lost_too_much_is_sold_and_its_symbol_left_alone_for_a_while(autojump_clock):
    limits = Limits(stop_loss=Decimal("0.1"), cooldown_s=2.5 * 86_400)

    harness = await ran(feed([100, 89, 89, 89, 89]), strategy=always(Side.BUY, 1), limits=limits)

    assert [(day, side, whose) for day, side, *_, whose in fills(harness)] == [
        (0, Side.BUY, Source.STRATEGY),
        (1, Side.SELL, Source.RISK),
        (4, Side.BUY, Source.STRATEGY),
    ]
    assert outputs(harness)[1].refused[0].reason == "it is being sold already, because of a limit"


async def test_too_many_stop_losses_stop_entries(autojump_clock):
    limits = Limits(stop_loss=Decimal("0.1"), max_stop_losses=2, stop_loss_window_s=86_400.0 * 30)

    harness = await ran(feed([100, 89, 89, 79, 79, 79]), strategy=always(Side.BUY, 1), limits=limits)

    assert [output.risk for output in outputs(harness)] == ["active"] * 3 + ["reducing"] * 3
    assert harness.state.book.units("A") == 0


async def test_an_order_that_waits_to_buy_is_cancelled_when_entries_are_not_allowed_any_more(autojump_clock):
    limit = order(Side.BUY, 1, kind=OrderKind.LIMIT, limit_price=Decimal(50))
    limits = Limits(max_daily_loss=Decimal("0.01"))

    harness = await ran(feed([100, 90]), strategy=plan(d0=[order(Side.BUY, 50), limit]), limits=limits)

    (cancelled,) = harness.step_history[-1].output.cancelled
    assert (cancelled.source, str(cancelled.report.status), cancelled.reason.split(":")[0]) == (
        "risk",
        "cancelled",
        "daily loss",
    )


async def test_a_feed_that_has_stopped_is_noticed_between_two_slices_and_forgiven_with_the_next(autojump_clock):
    bars = {FIRST + timedelta(minutes=minute): Bar(*[Decimal(100)] * 4, 1) for minute in (0, 1, 2, 30, 31)}
    harness = TradingHarness(ReplayFeed({"A": bars}, speed=1.0), strategy=plan(), period_s=10.0, limits=Limits(max_age_s=90.0))

    await harness.run()

    assert [
        (output.risk, step.input is None) for step, output in zip(harness.step_history[1:], outputs(harness), strict=True)
    ] == [
        ("active", False),
        ("active", False),
        ("active", False),
        ("reducing", True),
        ("active", False),
        ("active", False),
    ]


# operators


async def told(messages: dict[int, object], *args: object, **more: object) -> TradingHarness:
    """Return a harness that has run, having got each message before the slice of that day."""
    runtime = LocalRuntime("t")

    class Told(ReplayFeed):
        async def next_slice(self, after: datetime | None) -> MarketSlice | None:
            return await super().next_slice(after)

        def is_at_end(self, after: datetime | None) -> bool:
            day = 0 if after is None else (after - FIRST).days + 1
            message = messages.pop(day, None)
            if message is not None:
                runtime.mail.deliver([message])
            return super().is_at_end(after)

    closes, *rest = args
    replayed = feed(closes)
    harness = TradingHarness(Told({"A": {one.time: one.bars["A"] for one in replayed._slices}}), *rest, **more)
    harness.ending = await harness.run(runtime)
    return harness


async def test_stop_entries_lets_positions_be_sold_and_none_be_bought_until_resumed(autojump_clock):
    wanted = plan(d0=[order(Side.BUY, 9)], d1=[order(Side.BUY, 1), order(Side.SELL, 2)], d2=[order(Side.BUY, 1)])

    harness = await told({1: {"do": "stop entries"}, 2: {"do": "resume entries"}}, [100] * 3, None, wanted)

    assert [(day, side) for day, side, *_ in fills(harness)] == [(0, "buy"), (1, "sell"), (2, "buy")]
    assert [output.risk for output in outputs(harness)] == ["active", "reducing", "active"]
    assert [[one.do for one in output.commands] for output in outputs(harness)] == [[], ["stop entries"], ["resume entries"]]


async def test_flatten_cancels_all_sells_everything_and_halts_until_a_reset(autojump_clock):
    limit = order(Side.SELL, 3, kind=OrderKind.LIMIT, limit_price=Decimal(500))
    wanted = plan(d0=[order(Side.BUY, 5)], d1=[limit], d3=[order(Side.BUY, 7)], d4=[order(Side.BUY, 7)])

    harness = await told({2: {"do": "flatten", "reason": "news"}, 4: {"do": "reset"}}, [100] * 5, None, wanted)

    assert [output.risk for output in outputs(harness)] == ["active", "active", "halted", "halted", "active"]
    assert [(one.source, one.reason) for one in outputs(harness)[2].cancelled] == [(Source.OPERATOR, "flattened: news")]
    assert [(day, side, units, whose) for day, side, units, _, whose in fills(harness)] == [
        (0, "buy", 5, Source.STRATEGY),
        (2, "sell", 5, Source.OPERATOR),
        (4, "buy", 7, Source.STRATEGY),
    ]


async def test_only_steps_that_obey_or_change_the_risk_are_marked_for_those_who_watch(autojump_clock):
    wanted = plan(d0=[order(Side.BUY, 100)])
    limits = Limits(max_drawdown=Decimal("0.2"))

    harness = await told({3: {"do": "reset"}}, [100, 100, 70, 70], None, wanted, limits=limits)

    summaries = [step.state_delta.summary or "" for step in harness.step_history]
    marked = [summary for summary in summaries if summary.startswith("! ")]
    assert len(marked) == 2 < len([summary for summary in summaries if summary])
    assert "halted: drawdown" in marked[0]
    assert marked[1].startswith("! 2000-03-04: reset")


async def test_stop_cancels_keeps_positions_and_ends_the_harness_with_a_last_step(autojump_clock):
    limit = order(Side.BUY, 1, kind=OrderKind.LIMIT, limit_price=Decimal(50))

    harness = await told({2: {"do": "stop"}}, [100] * 9, None, plan(d0=[order(Side.BUY, 5), limit]))

    last = harness.step_history[-1].output
    assert (harness.ending, harness.current_step) == (Ending.STOPPED, 4)
    assert ([one.do for one in last.commands], last.positions) == (["stop"], {"A": 5})
    assert (len(last.cancelled), harness.state.open) == (1, {})


async def test_a_reset_after_a_drawdown_begins_a_new_high_water_mark(autojump_clock):
    harness = await told(
        {2: {"do": "reset"}}, [100, 70, 70, 71], None, always(Side.BUY, 100), limits=Limits(max_drawdown=Decimal("0.2"))
    )

    assert [output.risk for output in outputs(harness)] == ["active", "halted", "active", "active"]
    assert harness.state.risk.high_water == 7100


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"do": "panic"}, "expected one of stop, stop entries, flatten, resume entries, reset, adopt"),
        ("hello", 'expected {"do": …, "reason": …}'),
        ({"do": "resume entries"}, "there was nothing to do"),
    ],
)
async def test_a_message_that_says_nothing_is_recorded_as_refused(autojump_clock, message, why):
    harness = await told({1: message}, [100, 100])

    assert [one.refused for one in harness.step_history[-1].output.commands] == [why]


# the latch


class Latchable(LocalRuntime):
    on = False

    def check_latch(self) -> None:
        if self.on:
            raise Latched("the latch is on")


async def test_under_the_latch_the_market_is_recorded_and_nothing_is_traded(autojump_clock):
    runtime = Latchable("t")

    def decide(market: Market) -> Orders:
        runtime.on = market.time in (FIRST + timedelta(1), FIRST + timedelta(2))
        return [order(Side.BUY, 1)]

    harness = TradingHarness(feed([100] * 4), strategy=strategy(decide))
    await harness.run(runtime)

    assert [day for day, *_ in fills(harness)] == [0, 3]
    assert [[(one.by, one.reason) for one in output.refused] for output in outputs(harness)[1:3]] == [
        [(Source.OPERATOR, "the latch is on")],
        [(Source.OPERATOR, "the latch is on")],
    ]
    assert [bool(output.latched) for output in outputs(harness)] == [False, True, True, False]


async def test_a_latch_between_two_orders_of_a_step_keeps_the_second_back(autojump_clock):
    runtime = Latchable("t")

    class Latching(PaperBroker):
        async def submit(self, placed: PlacedOrder) -> OrderReport:
            runtime.on = True
            return await super().submit(placed)

    harness = TradingHarness(feed([100]), Latching(), plan(d0=[order(Side.BUY, 1), order(Side.BUY, 2)]))
    await harness.run(runtime)

    output = harness.step_history[-1].output
    assert (output.positions, [one.order.units for one in output.refused]) == ({"A": 1}, [2])


async def test_a_cancel_waits_under_the_latch_too_and_is_done_when_it_is_lifted(autojump_clock):
    runtime = Latchable("t")

    class Lifting(ReplayFeed):
        async def next_slice(self, after: datetime | None) -> MarketSlice | None:
            runtime.on = after is None
            return await super().next_slice(after)

    limits = Limits(max_daily_loss=Decimal("0.01"))
    broker = PaperBroker()
    first = await ran(feed([100]), broker, plan(d0=[order(Side.BUY, 50), WAITING[0]]))
    replayed = Lifting({"A": {one.time: one.bars["A"] for one in feed([100, 90, 80])._slices}})
    harness = TradingHarness(replayed, broker, plan(), limits=limits, initial_state=evolve(first.state, time=None))

    await runtime.send("t", {"do": "stop entries"})
    await harness.run(runtime)

    held, done, *_ = [step.output.cancelled for step in harness.step_history]
    assert (held[0].refused, held[0].report) == ("the latch is on", None)
    assert (done[0].refused, str(done[0].report.status)) == ("", "cancelled")
    assert await broker.open_orders(["A"]) == []


# speed


def test_twelve_years_take_seconds_and_are_the_same_in_two_processes():
    """Three symbols, under two hash seeds. `python -m tests.benchmarks.trading` measures the time of a run without digests."""
    figures = backtest(briefly=True)

    assert (figures["slices"], figures["orders"] > 100, figures["identical"]) == (3270, True, True)
    assert figures["processor_seconds"] < 15
