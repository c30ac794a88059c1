"""The feed of an exchange: bars that are over, all of them, in order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
import trio
from attrs import evolve

from harnesses.errors import HarnessMisuse
from harnesses.trading.exchange import ccxt_feed
from harnesses.trading.exchange.ccxt_client import CcxtOptions
from harnesses.trading.exchange.ccxt_feed import CcxtFeed
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.feed import FeedUnavailable
from harnesses.trading.market.feed_conformance import check_feed

from .ordering import BTC, ETH
from .running import RunningVenue

MINUTE = timedelta(minutes=1)


def feed_at(options: CcxtOptions, *, start: datetime | None = None) -> CcxtFeed:
    """Return a feed of both symbols."""
    return CcxtFeed("binance", [BTC, ETH], options=options, start=start)


def minutes_ago(count: int) -> datetime:
    """Return a moment in the past."""
    return datetime.now(UTC) - count * MINUTE


async def play(feed: CcxtFeed) -> list[MarketSlice]:
    """Return all slices that there are."""
    slices: list[MarketSlice] = []
    while (found := await feed.next_slice(slices[-1].time if slices else None)) is not None:
        slices.append(found)
    return slices


async def test_it_keeps_the_laws_of_feeds(options: CcxtOptions) -> None:
    start = minutes_ago(25)

    slices = await check_feed(lambda: feed_at(options, start=start), slices=20)

    assert len(slices) == 20


async def test_every_bar_that_is_over_comes_once_in_order(options: CcxtOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ccxt_feed, "_PAGE", 7)
    feed = feed_at(options, start=minutes_ago(31))

    slices = await play(feed)

    assert [b.time - a.time for a, b in pairwise(slices)] == [MINUTE] * (len(slices) - 1)
    assert len(slices) in (30, 31)
    assert all(set(found.bars) == {BTC, ETH} for found in slices)
    assert timedelta(0) <= feed.now() - (slices[-1].time + MINUTE) < MINUTE


async def test_a_bar_comes_when_it_is_over_by_the_venue_s_clock(venue: RunningVenue, options: CcxtOptions) -> None:
    feed = feed_at(options)
    first = await feed.next_slice(None)
    assert first is not None

    too_early = await feed.next_slice(first.time)
    venue.control("clock", jump_s=60)
    second = await feed.next_slice(first.time)

    assert too_early is None or too_early.time == first.time + MINUTE
    assert second is not None
    assert second.time == first.time + MINUTE


async def test_asked_again_it_says_the_same(options: CcxtOptions) -> None:
    start = minutes_ago(5)
    feed = feed_at(options, start=start)
    first = await feed.next_slice(None)
    assert first is not None

    again = await feed_at(options, start=start).next_slice(None)
    second, second_again = await feed.next_slice(first.time), await feed.next_slice(first.time)

    assert again == first
    assert second == second_again
    assert not feed.is_at_end(first.time)


async def test_a_symbol_without_a_bar_is_waited_for_and_then_left_out(venue: RunningVenue, options: CcxtOptions) -> None:
    start = minutes_ago(5)
    first = await feed_at(options, start=start).next_slice(None)
    assert first is not None
    venue.control("silence", symbol="ETHUSDT", from_ms=int((first.time + MINUTE).timestamp() * 1000))

    rest = await play(feed_at(options, start=start))

    assert [set(found.bars) for found in rest[:2]] == [{BTC, ETH}, {BTC}]
    late = CcxtFeed("binance", [BTC, ETH], options=options, start=rest[-1].time, grace_s=600.0)
    assert await late.next_slice(None) is None


async def test_a_feed_that_can_not_be_asked_says_so(venue: RunningVenue, options: CcxtOptions) -> None:
    feed = feed_at(evolve(options, patience_s=0.8))
    await feed.next_slice(None)
    venue.control("restart", down_s=2.0)
    await trio.sleep(0.1)

    with pytest.raises(FeedUnavailable, match="ccxt:binance does not provide its bars"):
        await feed.next_slice(feed.now())


def test_a_timeframe_that_the_exchange_does_not_have_is_named() -> None:
    with pytest.raises(HarnessMisuse, match=r"timeframe '7m' is unknown: expected one of .*1m"):
        CcxtFeed("binance", [BTC], "7m")
