"""A feed with a stream: whatever the socket says or leaves out, its bars are those of REST, each once and in order."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio
from attrs import evolve, field, frozen

from harnesses.trading.exchange import bar_stream, ccxt_client
from harnesses.trading.exchange.bar_stream import BarStream
from harnesses.trading.exchange.ccxt_client import CcxtOptions
from harnesses.trading.exchange.ccxt_feed import CcxtFeed
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.feed_conformance import check_feed

from .following import following
from .ordering import BTC, ETH
from .running import RunningVenue
from .spoken import in_dialect

MINUTE = timedelta(minutes=1)
_MINUTE_MS = 60_000


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bar_stream, "_PAUSES_S", (0.02, 0.1))
    monkeypatch.setattr(bar_stream, "_CLOSE_S", 0.2)
    monkeypatch.setattr(bar_stream, "_CHECK_S", 0.05)
    # The venue's clock jumps here, and is looked at as often as a real one, which does not.
    monkeypatch.setattr(ccxt_client, "_RESYNC_S", 0.1)


def feed_at(options: CcxtOptions, *, start: datetime, stream: bool = True, exchange: str = "binance") -> CcxtFeed:
    return CcxtFeed(exchange, [BTC, ETH], options=options, start=start, stream=stream)


def minutes_ago(count: int) -> datetime:
    return datetime.now(UTC) - count * MINUTE


async def polled(options: CcxtOptions, start: datetime, exchange: str = "binance") -> list[MarketSlice]:
    """Return all slices that there are, by polling alone."""
    feed, slices = feed_at(options, start=start, stream=False, exchange=exchange), list[MarketSlice]()
    while (found := await feed.next_slice(slices[-1].time if slices else None)) is not None:
        slices.append(found)
    return slices


def kline(symbol: str, start_ms: int, price: str = "1") -> str:
    prices = dict.fromkeys("ohlcv", price)
    return json.dumps({"e": "kline", "s": symbol, "k": {"t": start_ms, "s": symbol, "i": "1m", "x": True} | prices})


def say(text: str, times: int = 1) -> Callable[[RunningVenue], object]:
    return lambda venue: venue.control("stream", text, do="say", times=times)


def say_bar(symbol: str, minutes: int, price: str = "1", times: int = 1) -> Callable[[RunningVenue], object]:
    """Return what says something about the bar that begins that many minutes after the present one."""

    def act(venue: RunningVenue) -> object:
        now_ms = int(venue.books()["now_ms"])
        return say(kline(symbol, (now_ms // _MINUTE_MS + minutes) * _MINUTE_MS, price), times)(venue)

    return act


def fault(name: str) -> Callable[[RunningVenue], object]:
    return lambda venue: venue.control("stream", do="fault", name=name)


def order(do: str) -> Callable[[RunningVenue], object]:
    return lambda venue: venue.control("stream", do=do)


def refuse(venue: RunningVenue) -> None:
    fault("refuse")(venue)
    order("drop")(venue)


def flood(venue: RunningVenue) -> None:
    venue.control("stream", kline("ZZZ%d", _MINUTE_MS), do="flood", times=700)


@frozen
class Fault:
    """Something that goes wrong, and the guard that notices it."""

    act: Callable[[RunningVenue], object]
    lost: str = ""
    """What is said about the loss; empty if there is none."""
    options: Mapping[str, Any] = field(factory=dict[str, Any])
    keep_alive_ms: int = 10_000
    guard: tuple[object, str, object] | None = None
    """What is put in the place of which attribute, so that it is not noticed."""


def _no(*_: object) -> bool:
    """Notice nothing."""
    return False


_IMPATIENT = {"silence_s": 1.0}
_UNGUARDED_SILENCE = (BarStream, "_is_silent", _no)
FAULTS = {
    "the socket is closed": Fault(order("close"), "lost: "),
    "the socket breaks": Fault(order("drop"), "lost: "),
    "connections are refused": Fault(refuse, "lost: "),
    "it falls silent": Fault(fault("silent"), "lost: no bar for 1 s", _IMPATIENT, guard=_UNGUARDED_SILENCE),
    "it is half open": Fault(fault("deaf"), "lost: no bar for 1 s", _IMPATIENT, guard=_UNGUARDED_SILENCE),
    "pings are not answered": Fault(
        fault("pongless"), "ping-pong keepalive", keep_alive_ms=100, guard=(ccxt_client, "_KEEP_ALIVE_MS", 180_000)
    ),
    "rubbish": Fault(say('{"e": "kline", '), "lost: ", guard=(BarStream, "_on_error", _no)),
    "a bar without numbers": Fault(say('{"e": "kline", "k": [1]}'), "lost: ", guard=(BarStream, "_on_error", _no)),
    "a large message": Fault(say("x" * 1_100_000), "lost: ", guard=(bar_stream, "_LARGEST_BYTES", 10**8)),
    "symbols without end": Fault(flood, "that nobody has asked for", guard=(bar_stream, "_MOST_KEPT", 10**9)),
    "words": Fault(say("be greeted")),
    "a list": Fault(say("[1, 2]"), "lost: ", guard=(BarStream, "_on_error", _no)),
    "another symbol": Fault(say_bar("SOLUSDT", 1)),
    "an old bar": Fault(say_bar("BTCUSDT", -3)),
    "a bar again and again": Fault(say_bar("BTCUSDT", 0, times=50)),
    "a bar that is corrected": Fault(say_bar("BTCUSDT", -1, price="2")),
    "the next bar, too early": Fault(say_bar("BTCUSDT", 1)),
    "a bar of the next century": Fault(say_bar("BTCUSDT", 10**8)),
    "it stays at one bar": Fault(fault("stuck")),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_whatever_the_stream_does_the_bars_are_those_of_polling_each_once_in_order(
    venue: RunningVenue, options: CcxtOptions, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong, start = FAULTS[name], minutes_ago(4)
    monkeypatch.setattr(ccxt_client, "_KEEP_ALIVE_MS", wrong.keep_alive_ms)
    async with following(feed_at(evolve(options, **wrong.options), start=start)) as followed:
        await followed.until(lambda: followed.feed.is_streaming and len(followed.slices) >= 3, "it begins")
        count = len(followed.slices)

        wrong.act(venue)
        for _ in range(2):
            venue.control("clock", jump_s=60)
            count += 1
            await followed.until_slices(count)
        if wrong.lost:
            await followed.until_said(wrong.lost)
        venue.control("stream", do="calm")
        if wrong.lost:
            await followed.until_said("binance is back")
        venue.control("clock", jump_s=60)
        await followed.until_slices(count + 1)
        await followed.until(lambda: followed.feed.is_streaming, "it is live")

    # The real clock may have ended another bar since.
    assert followed.slices == (await polled(options, start))[: len(followed.slices)]
    said = ["is lost" in line for line in followed.lines]
    assert said == [True, False] * (len(said) // 2), "a loss is said once, and once that it is over"
    assert bool(said) is bool(wrong.lost)


@pytest.mark.parametrize("name", [name for name, wrong in FAULTS.items() if wrong.guard])
async def test_a_fault_goes_unnoticed_without_its_guard(
    venue: RunningVenue, options: CcxtOptions, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = FAULTS[name]
    assert wrong.guard is not None
    monkeypatch.setattr(ccxt_client, "_KEEP_ALIVE_MS", wrong.keep_alive_ms)
    guard: Any = wrong.guard
    monkeypatch.setattr(*guard)
    async with following(feed_at(evolve(options, **wrong.options), start=minutes_ago(2))) as followed:
        await followed.until(lambda: followed.feed.is_streaming, "it begins")
        wrong.act(venue)

        within_s = 0.6 + wrong.options.get("silence_s", 0.0)
        with pytest.raises(AssertionError, match="to say 'lost'"):
            await followed.until(lambda: bool(followed.lines), "to say 'lost'", within_s=within_s)


@pytest.mark.parametrize("exchange", ["binance", "kraken", "okx"])
async def test_a_bar_comes_with_the_news_and_not_with_the_tick(
    venue: RunningVenue, options: CcxtOptions, exchange: str
) -> None:
    start, options = minutes_ago(2), in_dialect(options, exchange, venue.url)
    async with following(feed_at(options, start=start, exchange=exchange), period_s=60.0) as followed:
        await followed.until(lambda: followed.feed.is_streaming and len(followed.slices) >= 1, "it begins")
        for count in range(len(followed.slices), len(followed.slices) + 3):
            venue.control("clock", jump_s=60)
            await followed.until(lambda count=count: len(followed.slices) > count, "the next bar")

        assert followed.woken <= 6
        order("drop")(venue)
        await followed.until_said(f"{exchange} is back")

    assert followed.slices == (await polled(options, start, exchange))[: len(followed.slices)]


async def test_bars_that_were_over_while_there_was_no_stream_are_caught_up_in_order(
    venue: RunningVenue, options: CcxtOptions
) -> None:
    start = minutes_ago(2)
    async with following(feed_at(options, start=start), period_s=60.0) as followed:
        await followed.until(lambda: followed.feed.is_streaming and len(followed.slices) >= 1, "it begins")
        refuse(venue)
        await followed.until_said("lost")
        venue.control("clock", jump_s=7 * 60)
        venue.control("stream", do="calm")
        await followed.until_said("binance is back")
        await followed.until_slices(8)

    # The real clock may have ended another bar since.
    assert followed.slices == (await polled(options, start))[: len(followed.slices)]


async def test_leaving_closes_the_socket_and_ends_the_thread(venue: RunningVenue, options: CcxtOptions) -> None:
    before = threading.active_count()
    async with following(feed_at(options, start=minutes_ago(2))) as followed:
        await followed.until(lambda: followed.feed.is_streaming, "it begins")
        assert venue.control("stream")["topics"] == [2]
        feed = followed.feed

    await followed.until(lambda: not venue.control("stream")["listeners"], "the socket is closed", within_s=1.0)
    await followed.until(lambda: threading.active_count() <= before + 1, "the thread has ended", within_s=1.0)
    assert not feed.is_streaming


async def test_leaving_does_not_wait_for_a_thread_that_hangs(
    venue: RunningVenue, options: CcxtOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, made = threading.Event(), threading.Event()

    def hang(client: ccxt_client.CcxtClient) -> None:
        made.set()
        hanging.wait(20.0)

    monkeypatch.setattr(ccxt_client.CcxtClient, "make_stream", hang)
    before, left_s = threading.active_count(), trio.current_time()
    try:
        async with following(feed_at(options, start=minutes_ago(2))) as followed:
            await followed.until(lambda: made.is_set() and len(followed.slices) >= 1, "bars are polled")
            left_s = trio.current_time()
        assert trio.current_time() - left_s < 1.0
    finally:
        hanging.set()
    await followed.until(lambda: threading.active_count() <= before + 2, "the thread has ended")


async def test_with_a_stream_it_keeps_the_laws_of_feeds(options: CcxtOptions) -> None:
    start = minutes_ago(12)
    with ExitStack() as stack:

        def make() -> CcxtFeed:
            feed = feed_at(options, start=start)
            stack.enter_context(feed.listen())
            return feed

        slices = await check_feed(make, slices=10)

    assert len(slices) == 10


async def test_an_exchange_without_a_stream_is_polled_and_it_is_said_once() -> None:
    feed = CcxtFeed("coinbase", [BTC], stream=True)

    with feed.listen():
        assert feed.take_lines() == ["ccxt:coinbase has no stream of bars (watchOHLCV): they are polled"]
        assert feed.take_lines() == []
        assert not feed.is_streaming


async def test_rest_that_is_behind_the_stream_is_asked_again(venue: RunningVenue, options: CcxtOptions) -> None:
    async with following(feed_at(options, start=minutes_ago(2)), period_s=60.0) as followed:
        await followed.until(lambda: followed.feed.is_streaming and len(followed.slices) >= 1, "it begins")
        count = len(followed.slices)
        venue.control("lag", ms=120_000)
        venue.control("clock", jump_s=60)
        await followed.until(lambda: followed.woken >= 3, "it is asked again")
        assert len(followed.slices) == count
        venue.control("lag", ms=0)
        await followed.until_slices(count + 1)


async def test_a_stream_that_lies_about_the_next_bar_is_no_reason_to_ask_without_end(
    venue: RunningVenue, options: CcxtOptions
) -> None:
    async with following(feed_at(options, start=minutes_ago(2)), period_s=60.0) as followed:
        await followed.until(lambda: followed.feed.is_streaming and len(followed.slices) >= 1, "it begins")
        slices, woken = len(followed.slices), followed.woken
        say_bar("BTCUSDT", 1, times=200)(venue)
        await trio.sleep(1.0)

        assert 1 <= followed.woken - woken <= 5
        assert len(followed.slices) <= slices + 1, "nothing is given before it is over"
