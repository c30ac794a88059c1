"""A conformance test for feeds, to run over your own.

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
    """Check the first slices of a feed, and return them.

    Args:
        make: makes the feed; called twice, and both feeds must be of the same market.
        slices: maximum slices to read; there must be at least two.
        period_s: seconds between polls while a slice is not there yet.
        patience_s: maximum seconds to wait for a slice.

    Raises:
        AssertionError: the feed breaks a rule of the protocol; the message says which.
    """
    read = await _read(make(), None, slices, period_s, patience_s)
    assert len(read) > 1, f"there must be at least two slices, was {len(read)}; give the feed more data"
    middle = len(read) // 2
    resumed = await _read(make(), read[middle - 1].time, len(read) - middle, period_s, patience_s)
    assert resumed == read[middle:], "a new feed continues after the given time, with the same slices"
    return read


async def _read(feed: Feed, after: datetime | None, count: int, period_s: float, patience_s: float) -> list[MarketSlice]:
    read: list[MarketSlice] = []
    while len(read) < count and not feed.is_at_end(after):
        found = await _wait(feed, after, period_s, patience_s)
        _check(feed, found, after)
        assert await feed.next_slice(after) == found, f"asked again after {after}, the feed must return the same slice"
        read.append(found)
        after = found.time
    if feed.is_at_end(after):
        assert await feed.next_slice(after) is None, f"is_at_end({after}) is true, so there must be no slice"
    return read


async def _wait(feed: Feed, after: datetime | None, period_s: float, patience_s: float) -> MarketSlice:
    waited_s = 0.0
    while (found := await feed.next_slice(after)) is None:
        assert not feed.is_at_end(after), f"is_at_end changed: after {after} there must be a slice, or the end"
        assert waited_s < patience_s, f"no slice after {after} within {patience_s:g} s"
        await trio.sleep(period_s)
        waited_s += period_s
    return found


def _check(feed: Feed, found: MarketSlice, after: datetime | None) -> None:
    assert found.time.utcoffset() == timedelta(0), f"times must be UTC with a zone, was {found.time!r}"
    assert after is None or found.time > after, f"times of slices must increase: {found.time} was given after {after}"
    assert found.bars, f"a slice must have a bar, the one of {found.time} has none"
    assert set(found.bars) <= set(feed.symbols), f"bars must be of the symbols of the feed, was {', '.join(found.bars)}"
    assert feed.now() >= found.time, f"now() must not be before the last slice, was {feed.now()} at the slice of {found.time}"
