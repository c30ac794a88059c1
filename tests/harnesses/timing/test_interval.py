"""Laws of `every`: the first tick at once, then one at each multiple of the period, through crashes and restarts, no drift."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import trio
from trio.testing import MockClock

from harnesses import BaseHarness, Ending, HarnessMisuse, LocalRuntime
from harnesses.control import Control
from harnesses.timing.clock import WallClock
from harnesses.timing.interval import Every, Tick, TickBook, TickPosition, parse_moment
from harnesses.timing.schedule import Missed, jitter
from orchestrator import Backoff, Orchestrator

DAY_S = 86_400.0
START_S = datetime(2026, 2, 20, 14, tzinfo=UTC).timestamp()


class Ticking(BaseHarness[None, int, float]):
    """Works for so long after each tick; yields the tick and when it came."""

    def __init__(self, period_s: float, work_s: tuple[float, ...]) -> None:
        super().__init__(None)
        self.period_s = period_s
        self.work_s = work_s

    async def execute(self) -> AsyncIterator[tuple[int, float]]:
        began = trio.current_time()
        async for tick in self.every(self.period_s):
            yield tick, trio.current_time() - began
            if self.current_step == len(self.work_s):
                break
            await trio.sleep(self.work_s[self.current_step - 1])

    @property
    def ticks(self) -> list[tuple[int, float]]:
        return [(step.input, step.output) for step in self.step_history]


async def test_the_first_tick_comes_at_once_and_the_others_a_period_apart(autojump_clock: MockClock) -> None:
    harness = Ticking(5, (0,) * 4)

    await harness.run()

    assert harness.ticks == [(0, 0), (1, 5), (2, 10), (3, 15)]


async def test_work_within_the_period_makes_no_drift(autojump_clock: MockClock) -> None:
    harness = Ticking(5, (1, 4.5, 0.25, 4.75))

    await harness.run()

    assert harness.ticks == [(0, 0), (1, 5), (2, 10), (3, 15)]


async def test_a_period_that_no_binary_fraction_can_hold_does_not_drift(autojump_clock: MockClock) -> None:
    harness = Ticking(0.1, (0.05,) * 1_001)

    await harness.run()

    tick, when = harness.ticks[-1]
    assert tick == 1_000
    assert when == pytest.approx(100, abs=1e-6)


async def test_ticks_go_on_counting_from_the_start_of_the_loop(autojump_clock: MockClock) -> None:
    await trio.sleep(3)
    harness = Ticking(5, (0, 0))

    await harness.run()

    assert harness.ticks == [(0, 0), (1, 5)]


async def test_missed_ticks_are_skipped_and_their_numbers_with_them(autojump_clock: MockClock) -> None:
    harness = Ticking(5, (0, 22, 0, 0))

    await harness.run()

    numbers = [tick for tick, _ in harness.ticks]
    assert numbers == sorted(set(numbers))
    assert harness.ticks[-1][0] * 5 == harness.ticks[-1][1]
    assert len(numbers) == 4


async def test_a_tick_that_came_while_a_step_was_at_work_is_missed_although_its_period_lasts(
    autojump_clock: MockClock,
) -> None:
    harness = Ticking(5, (6, 0, 9, 0))

    await harness.run()

    assert harness.ticks == [(0, 0), (2, 10), (3, 15), (5, 25)]


async def test_a_harness_that_waits_for_a_tick_stops_at_once(autojump_clock: MockClock) -> None:
    endings: list[Ending] = []
    harness, control = Ticking(1_000, (0,) * 5), Control()

    async def run() -> None:
        endings.append(await harness.run(LocalRuntime("ticking", control)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await trio.sleep(10)
        control.stop()

    assert endings == [Ending.STOPPED]
    assert trio.current_time() == 10


@pytest.mark.parametrize("period_s", [0, -1, float("nan")])
async def test_a_period_that_is_not_above_0_is_refused(period_s: Any) -> None:
    with pytest.raises(HarnessMisuse, match="every: expected a period above 0 seconds, got"):
        await Ticking(period_s, ()).run()


# a ticker's place in the book


class Bench:
    """A book, and a wall clock that can be set, for tickers that are tried alone."""

    def __init__(self) -> None:
        self.book = TickBook()
        self.ahead_s = 0.0
        self.naps: list[float] = []

    def wall(self) -> float:
        return START_S + trio.current_time() + self.ahead_s

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        await trio.sleep(seconds)

    async def set_after(self, seconds: float, ahead_s: float) -> None:
        await trio.sleep(seconds)
        self.ahead_s = ahead_s

    def every(self, period_s: float = 10, **more: Any) -> Every:
        more = {"book": self.book, "clock": WallClock(self.wall), "harness": "bench", **more}
        return Every(period_s, sleep=self.sleep, **more)

    async def take(self, count: int, **more: Any) -> list[tuple[int, float, int]]:
        """Take ticks with a new iterator, recording each; return their numbers, when they came, and how many they missed."""
        ticks, found = self.every(**more), list[tuple[int, float, int]]()
        while len(found) < count:
            tick = await anext(ticks)
            found.append((int(tick), round(trio.current_time(), 3), tick.missed))
            self.book.settle()
        return found

    def restart(self) -> None:
        """Go on as another process would."""
        data = json.loads(json.dumps(self.book.as_data()))
        self.book = TickBook()
        self.book.restore(data)


NOW = datetime.fromtimestamp(START_S, UTC)
TWO = [pytest.param({}, id="by Trio's clock"), pytest.param({"anchor": NOW}, id="by the wall")]


@pytest.mark.parametrize("more", TWO)
@pytest.mark.parametrize("missed", Missed)
async def test_a_tick_that_no_step_has_used_comes_again_at_once(
    autojump_clock: MockClock, missed: Missed, more: dict[str, Any]
) -> None:
    bench = Bench()
    await bench.take(2, missed=missed, **more)
    lost = await anext(bench.every(missed=missed, **more))
    await trio.sleep(3)

    bench.book.put_back()

    assert lost == 2
    assert await bench.take(2, missed=missed, **more) == [(2, 23, 0), (3, 30, 0)]


@pytest.mark.parametrize("more", TWO)
@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        ("skip", [(6, 60, 4), (7, 70, 0)]),
        ("coalesce", [(5, 55, 3), (6, 60, 0)]),
        ("catch_up", [(2, 55, 0), (3, 55, 0), (4, 55, 0), (5, 55, 0), (6, 60, 0)]),
    ],
)
@pytest.mark.parametrize("restart", [False, True])
async def test_what_was_missed_between_two_attempts_is_dropped_joined_or_caught_up(
    autojump_clock: MockClock, missed: str, expected: list[Any], restart: bool, more: dict[str, Any]
) -> None:
    bench = Bench()
    await bench.take(2, missed=missed, **more)
    bench.book.put_back()
    await trio.sleep(45)
    if restart:
        bench.restart()

    found = await bench.take(len(expected), missed=missed, **more)

    assert found == expected


@pytest.mark.parametrize("more", TWO)
@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        ("skip", [(4, 40, 3), (5, 50, 0)]),
        ("coalesce", [(3, 35, 2), (4, 40, 0)]),
        ("catch_up", [(1, 35, 0), (2, 35, 0), (3, 35, 0), (4, 40, 0)]),
    ],
)
async def test_what_a_long_step_misses_is_dropped_joined_or_caught_up(
    autojump_clock: MockClock, missed: str, expected: list[Any], more: dict[str, Any]
) -> None:
    bench, found = Bench(), list[Any]()

    ticks = bench.every(missed=missed, **more)
    await anext(ticks)
    await trio.sleep(35)
    while len(found) < len(expected):
        tick = await anext(ticks)
        found.append((int(tick), round(trio.current_time(), 3), tick.missed))

    assert found == expected


@pytest.mark.parametrize(
    ("ahead_s", "missed", "expected"),
    [
        (+303, "skip", [(32, 17, 31), (33, 27, 0)]),
        (+303, "coalesce", [(31, 10, 30), (32, 17, 0)]),
        (+303, "catch_up", [(1, 10, 0), (2, 10, 0)]),
        (+5, "skip", [(1, 10, 0), (2, 15, 0)]),
        (-300, "skip", [(1, 310, 0), (2, 320, 0)]),
        (-300, "coalesce", [(1, 310, 0), (2, 320, 0)]),
        (-300, "catch_up", [(1, 310, 0), (2, 320, 0)]),
    ],
)
async def test_with_an_anchor_ticks_follow_a_wall_clock_that_is_set_while_they_wait(
    autojump_clock: MockClock, ahead_s: float, missed: str, expected: list[Any]
) -> None:
    bench = Bench()
    await bench.take(1, missed=missed, anchor=NOW)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.set_after, 5, ahead_s)
        found = await bench.take(2, missed=missed, anchor=NOW)

    assert found == expected


async def test_without_an_anchor_ticks_do_not_care_where_the_wall_clock_is_set(autojump_clock: MockClock) -> None:
    bench = Bench()
    found = await bench.take(2)

    for ahead_s in (+7_200, -7_200):
        bench.ahead_s = ahead_s
        bench.book.put_back()
        found += await bench.take(2)

    assert found == [(n, 10 * n, 0) for n in range(6)]


async def test_a_tick_says_when_it_was_due_by_the_wall_as_it_is_set(autojump_clock: MockClock) -> None:
    bench = Bench()
    ticks = bench.every(10)
    first = await anext(ticks)
    await trio.sleep(3)
    bench.ahead_s = 3_600

    second = await anext(ticks)

    assert first.due == NOW
    assert second.due == NOW + timedelta(seconds=3_610)


@pytest.mark.parametrize(
    ("anchor_s", "number", "came"), [(0, 0, 0), (-95, 10, 5), (-90, 9, 0), (25, 0, 25), (100_000, 0, 100_000)]
)
async def test_with_an_anchor_the_first_tick_is_the_first_that_is_due_from_then_on(
    autojump_clock: MockClock, anchor_s: int, number: int, came: int
) -> None:
    found = await Bench().take(2, anchor=NOW + timedelta(seconds=anchor_s))

    assert found == [(number, came, 0), (number + 1, came + 10, 0)]


async def test_a_first_tick_that_came_due_between_two_attempts_is_not_lost(autojump_clock: MockClock) -> None:
    bench = Bench()
    with trio.move_on_after(4):
        await bench.take(1, anchor=NOW + timedelta(seconds=5))
    bench.book.put_back()
    bench.restart()
    await trio.sleep(3)

    found = await bench.take(2, anchor=NOW + timedelta(seconds=5))

    assert found == [(0, 7, 0), (1, 15, 0)]


async def test_whoever_always_wakes_late_has_ticks_nevertheless(autojump_clock: MockClock) -> None:
    bench = Bench()

    async def oversleep(seconds: float) -> None:
        await trio.sleep(seconds + 25)

    ticks = Every(10, sleep=oversleep, book=bench.book, clock=WallClock(bench.wall), harness="bench", anchor=NOW)
    found = [int(await anext(ticks)) for _ in range(5)]

    assert found == sorted(set(found))
    assert trio.current_time() < 5 * 100


async def test_a_long_wait_on_the_virtual_clock_does_not_wake(autojump_clock: MockClock) -> None:
    bench = Bench()
    clock = WallClock()
    anchor = datetime.fromtimestamp(clock.now() + 1_000, UTC)

    await bench.take(3, period_s=1e7, anchor=anchor, clock=clock)

    assert len(bench.naps) <= 6


async def test_two_tickers_that_are_alike_are_told_apart_by_a_name(autojump_clock: MockClock) -> None:
    bench = Bench()
    first, second, named = bench.every(), bench.every(), bench.every(name="another")
    await anext(first)

    with pytest.raises(HarnessMisuse, match=r"every: two iterators run as '10.0 s': expected one; .* a `name=`"):
        await anext(second)

    assert (await anext(named), await anext(first)) == (0, 1)


async def test_a_ticker_that_was_left_goes_on_when_it_is_begun_again(autojump_clock: MockClock) -> None:
    bench, found = Bench(), list[int]()

    for _ in range(3):
        async for tick in bench.every():
            found.append(int(tick))
            if len(found) % 2:
                break

    assert found == [0, 1, 2, 3, 4]


async def test_a_ticker_whose_wait_was_cancelled_can_be_begun_again_and_has_lost_nothing(autojump_clock: MockClock) -> None:
    bench = Bench()
    left = bench.every()
    await anext(left)
    with trio.move_on_after(5):
        await anext(left)

    assert await bench.take(2) == [(1, 10, 0), (2, 20, 0)]


async def test_after_an_attempt_its_iterators_are_in_nobodys_way(autojump_clock: MockClock) -> None:
    bench = Bench()
    left = bench.every()
    await anext(left)

    bench.book.put_back()

    assert await anext(bench.every()) == 0


@pytest.mark.parametrize("more", TWO)
async def test_under_its_name_a_ticker_counts_on_with_another_period(autojump_clock: MockClock, more: dict[str, Any]) -> None:
    bench = Bench()
    await bench.take(4, name="poll", **more)
    bench.restart()

    found = await bench.take(3, period_s=100, name="poll", **more)

    assert [number for number, _, _ in found] == [4, 5, 6]
    assert [later - earlier for (_, earlier, _), (_, later, _) in pairwise(found)] == [100, 100]
    assert found[0][1] <= 130


async def test_under_its_name_a_ticker_waits_for_an_anchor_that_was_put_off(autojump_clock: MockClock) -> None:
    bench = Bench()
    await bench.take(2, name="poll", anchor=NOW)
    bench.restart()

    found = await bench.take(2, name="poll", anchor=NOW + timedelta(seconds=500))

    assert found == [(2, 500, 0), (3, 510, 0)]


async def test_under_its_name_a_ticker_whose_anchor_moves_a_little_has_one_tick_in_each_period(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    await bench.take(2, name="poll", anchor=NOW)
    bench.restart()

    found = await bench.take(2, name="poll", anchor=NOW + timedelta(seconds=4))

    assert found == [(2, 24, 0), (3, 34, 0)]


def test_in_another_run_of_trio_the_time_between_is_that_of_the_wall() -> None:
    bench = Bench()
    trio.run(bench.take, 2, clock=MockClock(autojump_threshold=0))
    bench.book.put_back()
    bench.ahead_s = 10 + 7

    found = trio.run(bench.take, 2, clock=MockClock(autojump_threshold=0))

    assert found == [(2, 3, 0), (3, 13, 0)]


@pytest.mark.parametrize("more", TWO)
async def test_jitter_comes_on_top_of_the_due_moment_and_is_the_same_after_a_restart(
    autojump_clock: MockClock, more: dict[str, Any]
) -> None:
    bench = Bench()
    seed = f"bench/{bench.every(**more).name}"

    found = await bench.take(3, jitter_s=9, **more)
    bench.restart()
    found += await bench.take(3, jitter_s=9, **more)

    assert found == [(n, round(10 * n + jitter(seed, n, 9), 3), 0) for n in range(6)]
    assert [at.due for at in bench.book.recorded.values()] == [START_S + 50]


async def test_each_harness_has_a_jitter_of_its_own(autojump_clock: MockClock) -> None:
    one, other = Bench(), Bench()

    assert await one.take(1, jitter_s=9, harness="one") != await other.take(1, jitter_s=9, harness="other")


def test_a_book_without_ticks_is_empty() -> None:
    book = TickBook()
    book.settle()
    book.put_back()

    assert book.as_data() == {}


def test_positions_that_were_taken_join_the_recorded_with_a_step_and_are_dropped_without() -> None:
    book = TickBook()
    book.restore({"a": (3, 30.0), "b": [1, 10]})

    book.taken["a"] = TickPosition(4, 40.0)
    kept = book.as_data()
    book.settle()
    book.taken["b"] = TickPosition(2, 20.0)
    book.put_back()

    assert kept == {"a": (4, 40.0), "b": (1, 10.0)}
    assert book.as_data() == kept


def test_only_what_was_kept_with_the_step_is_used_up_by_it() -> None:
    book = TickBook()
    book.taken = {"loop": TickPosition(1, 10.0), "beside it": TickPosition(1, 11.0)}

    kept = book.as_data()
    book.taken["beside it"] = TickPosition(2, 21.0)
    book.settle(kept)

    assert book.recorded == {"loop": TickPosition(1, 10.0), "beside it": TickPosition(1, 11.0)}
    assert book.taken == {"beside it": TickPosition(2, 21.0)}


def test_a_book_forgets_the_tickers_unused_for_longest_when_there_are_too_many() -> None:
    book = TickBook()
    book.restore({f"begun {n}": (0, float(n)) for n in range(100)})

    book.taken = {"begun 0": TickPosition(1, 100.0), "new": TickPosition(0, 100.0)}
    book.settle()
    book.put_back()

    assert len(book.recorded) == 100
    assert "begun 1" not in book.recorded
    assert {"begun 0", "new"} <= book.recorded.keys()


def test_a_tick_is_its_number_and_can_be_copied() -> None:
    tick = Tick(5, NOW, 2)

    for twin in (tick, copy.copy(tick), copy.deepcopy(tick), pickle.loads(pickle.dumps(tick))):
        assert (twin, twin.due, twin.missed) == (5, NOW, 2)
        assert f"{twin}" == "5"


def test_missed_ticks_are_dealt_with_in_one_of_three_ways() -> None:
    with pytest.raises(HarnessMisuse, match="expected `missed` to be one of 'skip', 'coalesce', 'catch_up', got 'all'"):
        Bench().every(missed="all")


def test_a_moment_is_an_aware_datetime_or_seconds_since_1970() -> None:
    assert parse_moment(NOW) == START_S
    assert parse_moment(NOW.astimezone(ZoneInfo("Asia/Kathmandu"))) == START_S
    assert parse_moment(5) == 5.0


@pytest.mark.parametrize("when", [datetime(2026, 1, 1), float("nan"), float("inf"), START_S * 1000, "now", None, True])
def test_what_is_no_moment_is_refused(when: Any) -> None:
    with pytest.raises(HarnessMisuse, match=r"sleep_until: .*expected an aware datetime, or seconds .* since 1970, got "):
        parse_moment(when)


# one ticker over crashes and restarts


class World:
    """True time, of which Trio's clock is a part in each process, and a wall clock that people set.

    Each attempt takes ticks from the position that the last recorded step has left.
    """

    def __init__(self, missed: Missed, *, seed: int = 0, anchor: datetime | None = None, period_s: float = DAY_S) -> None:
        self.chance = Random(seed)
        self.missed, self.anchor, self.period_s = missed, anchor, period_s
        self.before_s = 0.0
        self.ahead_s = 0.0
        self.stored = "{}"
        self.log: list[tuple[Tick, float]] = []
        """The ticks of recorded steps, and when they came in true time."""
        self.delivered = 0
        self.longest_s = 0.0
        """The longest wait for a tick."""

    def true_s(self) -> float:
        return self.before_s + trio.current_time()

    def wall(self) -> float:
        return START_S + self.true_s() + self.ahead_s

    def every(self, book: TickBook, jitter_s: float = 0.0) -> Every:
        return Every(
            self.period_s,
            book=book,
            sleep=trio.sleep,
            clock=WallClock(self.wall, recheck_s=self.period_s / 6),
            harness="world",
            anchor=self.anchor,
            missed=self.missed,
            jitter_s=jitter_s,
        )

    def live(self, until_s: float, attempt: Attempt, down_s: Callable[[], float]) -> None:
        """Run process after process, each down for a while after the one before, until a moment in true time."""

        async def process() -> float:
            book = TickBook()
            book.restore(json.loads(self.stored))
            while self.true_s() < until_s and not await attempt(self, book):
                book.put_back()
            return trio.current_time()

        while self.before_s < until_s:
            self.before_s += trio.run(process, clock=MockClock(autojump_threshold=0))
            self.before_s += down_s()

    def record(self, tick: Tick, book: TickBook) -> None:
        self.stored = json.dumps(book.as_data())
        book.settle()
        self.log.append((tick, self.true_s()))

    @property
    def numbers(self) -> list[int]:
        return [int(tick) for tick, _ in self.log]


Attempt = Callable[[World, TickBook], Awaitable[bool]]


def unlucky(longest_s: float, set_s: float = 0.0) -> Attempt:
    """Return an attempt that works for up to so long, and crashes and dies and has its clock set at random."""

    async def attempt(world: World, book: TickBook) -> bool:
        chance = world.chance
        free_s = world.true_s()
        async for tick in world.every(book):
            came_s = world.true_s()
            world.longest_s = max(world.longest_s, came_s - free_s)
            world.delivered += 1
            if world.anchor is not None:
                assert world.wall() >= tick.due.timestamp()
            await trio.sleep(chance.random() * longest_s)
            if chance.random() < 0.1:
                world.ahead_s += chance.uniform(-set_s, set_s)
            fate = chance.random()
            if fate < 0.15:
                return fate < 0.05
            world.record(tick, book)
            world.log[-1] = (tick, came_s)
            if 0.15 <= fate < 0.3:
                return fate < 0.2
            await trio.sleep(chance.random() * longest_s)
            free_s = world.true_s()
        raise AssertionError("ticks never end")

    return attempt


ANCHORS = [
    datetime(2026, 1, 15, hour, minute, tzinfo=ZoneInfo(zone))
    for zone, hour, minute in [
        ("America/New_York", 9, 30),
        ("America/New_York", 2, 30),
        ("Europe/Berlin", 2, 0),
        ("Australia/Lord_Howe", 1, 45),
        ("Australia/Lord_Howe", 2, 15),
    ]
]


def due(anchor: datetime, period_s: float, number: int) -> datetime:
    """Say when a tick is due, in another way than the schedule does."""
    if period_s != DAY_S:
        return anchor.astimezone(UTC) + number * timedelta(seconds=period_s)
    return datetime.combine(anchor.date() + timedelta(number), anchor.time(), anchor.tzinfo).astimezone(UTC)


@pytest.mark.parametrize("missed", Missed)
@pytest.mark.parametrize("anchor", ANCHORS, ids=str)
@pytest.mark.parametrize("period_s", [DAY_S])
def test_400_days_of_crashes_and_restarts_within_the_period_lose_and_double_no_tick(
    anchor: datetime, missed: Missed, period_s: float
) -> None:
    world = World(missed, anchor=anchor, period_s=period_s)

    world.live(400 * DAY_S, unlucky(period_s / 40), lambda: world.chance.random() * period_s / 40)

    assert world.numbers == list(range(world.numbers[0], world.numbers[0] + len(world.numbers)))
    assert len(world.numbers) >= 400 * DAY_S / period_s
    assert [tick.due for tick, _ in world.log] == [due(anchor, period_s, n) for n in world.numbers]
    assert world.delivered > len(world.numbers) + 30


@pytest.mark.parametrize("missed", Missed)
@pytest.mark.parametrize(("seed", "anchor"), list(enumerate(ANCHORS[::2])), ids=str)
def test_400_days_of_crashes_outages_and_a_clock_that_is_set_repeat_no_tick(
    seed: int, anchor: datetime, missed: Missed
) -> None:
    world = World(missed, seed=seed, anchor=anchor, period_s=DAY_S / 4)

    world.live(400 * DAY_S, unlucky(DAY_S / 2, set_s=DAY_S), lambda: world.chance.random() * DAY_S)

    assert all(one < other for one, other in pairwise(world.numbers))
    assert all(one + 1 + other.missed >= other > one for (one, _), (other, _) in pairwise(world.log))
    assert [tick.due for tick, _ in world.log] == [due(anchor, DAY_S / 4, n) for n in world.numbers]
    if missed is Missed.CATCH_UP:
        assert world.numbers == list(range(world.numbers[0], world.numbers[0] + len(world.numbers)))


@pytest.mark.parametrize("missed", Missed)
def test_400_days_without_an_anchor_lose_and_double_no_tick_and_do_not_drift(missed: Missed) -> None:
    world = World(missed, period_s=DAY_S / 4)

    world.live(400 * DAY_S, unlucky(DAY_S / 160), lambda: world.chance.random() * DAY_S / 160)

    assert world.numbers == list(range(len(world.numbers)))
    assert len(world.numbers) >= 1_600
    assert [tick.due for tick, _ in world.log] == [world.log[0][0].due + n * timedelta(hours=6) for n in world.numbers]
    assert all(-1e-5 < came_s + START_S - tick.due.timestamp() < DAY_S / 4 for tick, came_s in world.log)


@pytest.mark.parametrize("missed", Missed)
@pytest.mark.parametrize("seed", range(3))
def test_without_an_anchor_no_wait_is_longer_than_a_period_wherever_the_clock_is_set(seed: int, missed: Missed) -> None:
    world = World(missed, seed=seed, period_s=3_600)

    world.live(20 * DAY_S, unlucky(60, set_s=DAY_S), lambda: world.chance.random() * 60)

    assert all(one < other for one, other in pairwise(world.numbers))
    assert 3_000 < world.longest_s <= 3_600 + 1e-5
    if missed is Missed.CATCH_UP:
        assert world.numbers == list(range(len(world.numbers)))


@pytest.mark.parametrize("missed", Missed)
def test_without_an_anchor_a_clock_that_is_set_back_loses_and_doubles_no_tick(missed: Missed) -> None:
    world = World(missed, period_s=3_600)

    def down_s() -> float:
        world.ahead_s -= world.chance.random() * DAY_S
        return world.chance.random() * 60

    world.live(20 * DAY_S, unlucky(60), down_s)

    assert world.numbers == list(range(len(world.numbers)))


# through the store


class Failing(BaseHarness[None, int, int]):
    """Yields each tick; at every third it fails once before the step is recorded."""

    def __init__(self) -> None:
        super().__init__(None)
        self.failed: set[int] = set()

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        async for tick in self.every(0.01, missed="catch_up"):
            if tick % 3 == 2 and tick not in self.failed:
                self.failed.add(int(tick))
                raise ConnectionError("lost")
            yield tick, tick.missed


async def test_a_ticker_goes_on_through_failures_and_from_run_to_run(tmp_path: Path, autojump_clock: MockClock) -> None:
    steps: list[int] = []

    # Stopped right after a tick at which it has failed once: it is two steps from the next one, and does not end failed.
    for enough in (6, 12, 18):
        async with Orchestrator(tmp_path / "run.db", intensity=100, backoff=Backoff(0.02)) as orchestrator:
            handle = orchestrator.start(Failing(), name="failing")
            async for record in handle.steps(after=len(steps)):
                steps.append(record.input)
                if len(steps) >= enough:
                    break
            await handle.stop()
            steps += [record.input async for record in handle.steps(after=len(steps))]

    assert steps == list(range(len(steps)))
