"""What every feed must keep to, as a test to run over one of your own.

async def test_my_feed_is_a_feed():
    await check_feed(lambda: MyFeed("EURUSD"))
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import trio

from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.feed import Feed


async def check_feed(
    make: Callable[[], Feed], *, slices: int = 20, period_s: float = 1.0, patience_s: float = 60.0
) -> list[MarketSlice]:
    """Read the first slices of a feed, and return them.

    Args:
        make: makes the feed; called twice, both must be of the same market.
        slices: how many to read, at most; there must be two.
        period_s: seconds between polls while a slice is not there yet.
        patience_s: how long to wait for one.

    Raises:
        AssertionError: the feed breaks a law; the message says which.
    """
    read = await _read(make(), None, slices, period_s, patience_s)
    assert len(read) > 1, f"there must be two slices to look at, was {len(read)}; give it more of a market"
    middle = len(read) // 2
    resumed = await _read(make(), read[middle - 1].time, len(read) - middle, period_s, patience_s)
    assert resumed == read[middle:], "a feed made anew goes on after the time it is asked for, with the same slices"
    return read


async def _read(feed: Feed, after: datetime | None, count: int, period_s: float, patience_s: float) -> list[MarketSlice]:
    read: list[MarketSlice] = []
    while len(read) < count and not feed.is_at_end(after):
        found = await _wait(feed, after, period_s, patience_s)
        _check(feed, found, after)
        assert await feed.next_slice(after) == found, f"asked the same again after {after}, it gives the same slice again"
        read.append(found)
        after = found.time
    if feed.is_at_end(after):
        assert await feed.next_slice(after) is None, f"at its end after {after}, there is no slice"
    return read


async def _wait(feed: Feed, after: datetime | None, period_s: float, patience_s: float) -> MarketSlice:
    waited_s = 0.0
    while (found := await feed.next_slice(after)) is None:
        assert not feed.is_at_end(after), f"there is a slice after {after}, or it is at its end; it changed its mind"
        assert waited_s < patience_s, f"no slice after {after} within {patience_s:g} s"
        await trio.sleep(period_s)
        waited_s += period_s
    return found


def _check(feed: Feed, found: MarketSlice, after: datetime | None) -> None:
    assert found.time.utcoffset() == timedelta(0), f"times are aware and UTC, was {found.time!r}"
    assert after is None or found.time > after, f"slices go forward: {found.time} was given after {after}"
    assert found.bars, f"a slice has a bar, the one of {found.time} has none"
    assert set(found.bars) <= set(feed.symbols), f"bars are of symbols that it names, was {', '.join(found.bars)}"
    assert feed.now() >= found.time, f"its clock is not behind its slices, was {feed.now()} at the slice of {found.time}"
