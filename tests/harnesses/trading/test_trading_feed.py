"""Every feed of ours keeps to what a feed must; each law is one that a feed could break."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial

import pytest
import trio
from attrs import evolve

from harnesses.timing.clock import WallClock
from harnesses.trading.feeds.polling_feed import PollingFeed
from harnesses.trading.feeds.replay_feed import ReplayFeed
from harnesses.trading.market.bars import Bar, MarketSlice
from harnesses.trading.market.feed import Feed
from harnesses.trading.market.feed_conformance import check_feed

START = datetime(2000, 3, 1, tzinfo=UTC)
NEVER = START - timedelta(1)
TIMES = [START + timedelta(hours=number) for number in range(10)]
BAR = Bar(Decimal(10), Decimal(12), Decimal(9), Decimal("11.50"), Decimal(100))
BARS = {"A": dict.fromkeys(TIMES, BAR), "B": dict.fromkeys(TIMES[::2], BAR)}


async def test_a_replay_is_a_feed():
    assert len(await check_feed(lambda: ReplayFeed(BARS))) == 10


async def test_a_replay_at_a_pace_is_a_feed(autojump_clock):
    assert len(await check_feed(lambda: ReplayFeed(BARS, speed=60.0))) == 10


async def test_a_polled_server_is_a_feed(nursery):
    async def handle(stream: trio.SocketStream) -> None:
        symbol = (await stream.receive_some()).split()[1].decode().strip("/")
        body = json.dumps([[time.isoformat(), 10, 12, 9, 11.5, 100] for time in BARS[symbol]]).encode()
        await stream.send_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    listeners = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
    port = listeners[0].socket.getsockname()[1]
    clock = WallClock(lambda: TIMES[-1].timestamp())

    def make() -> PollingFeed:
        return PollingFeed(f"http://127.0.0.1:{port}/{{symbol}}", ["A", "B"], wait_s=0.0, clock=clock)

    assert len(await check_feed(make, slices=10)) == 10


class Broken(ReplayFeed):
    """Breaks one law."""

    def __init__(self, spoil: Callable[[MarketSlice, int], MarketSlice | None]) -> None:
        super().__init__(BARS)
        self._spoil = spoil
        self._asked = 0

    async def next_slice(self, after: datetime | None) -> MarketSlice | None:
        found = await super().next_slice(after)
        self._asked += 1
        return None if found is None else self._spoil(found, self._asked)


@pytest.mark.parametrize(
    ("spoil", "law"),
    [
        (lambda found, _: evolve(found, time=found.time.replace(tzinfo=None)), "times must be UTC with a zone"),
        (lambda found, _: evolve(found, time=START), "times of slices must increase"),
        (lambda found, _: evolve(found, bars={}), "a slice must have a bar"),
        (lambda found, _: evolve(found, bars={"C": BAR}), "bars must be of the symbols of the feed"),
        (lambda found, _: evolve(found, time=found.time + timedelta(9)), "must not be before the last slice"),
        (lambda found, asked: evolve(found, bars={"A": evolve(BAR, volume=Decimal(asked))}), "asked again after"),
        (lambda found, asked: None if asked % 2 == 0 else found, "asked again after"),
        (lambda found, asked: None, "no slice after None within 60 s"),
    ],
)
async def test_a_feed_that_breaks_a_law_is_told_which(autojump_clock, spoil, law):
    with pytest.raises(AssertionError, match=law):
        await check_feed(lambda: Broken(spoil))


async def test_a_feed_that_goes_by_position_is_told_so():
    class ByPosition(ReplayFeed):
        last, position = None, 0

        def _index(self, after: datetime | None) -> int:
            self.last, self.position = after, self.position + (after != self.last)
            return self.position

    with pytest.raises(AssertionError, match="times of slices must increase"):
        await check_feed(lambda: ByPosition(BARS))


async def test_a_feed_that_forgets_what_came_while_it_was_away_is_told_so():
    class Forgetful(ReplayFeed):
        first: datetime | None = NEVER

        def _index(self, after: datetime | None) -> int:
            self.first = after if self.first == NEVER else self.first
            return super()._index(after) + (after is not None and after == self.first)

    with pytest.raises(AssertionError, match="a new feed continues after the given time"):
        await check_feed(lambda: Forgetful(BARS))


async def test_a_feed_that_ends_too_soon_is_told_so():
    class Ending(ReplayFeed):
        def is_at_end(self, after: datetime | None) -> bool:
            return after == TIMES[4]

    with pytest.raises(AssertionError, match="so there must be no slice"):
        await check_feed(lambda: Ending(BARS))


async def test_a_feed_without_a_market_can_not_be_judged():
    with pytest.raises(AssertionError, match="there must be at least two slices"):
        await check_feed(lambda: ReplayFeed({}))


def test_the_feeds_are_feeds_to_a_type_checker_too():
    feeds: list[Feed] = [ReplayFeed({}), PollingFeed("http://localhost/{symbol}", ["A"])]

    assert [feed.symbols for feed in feeds] == [(), ("A",)]
