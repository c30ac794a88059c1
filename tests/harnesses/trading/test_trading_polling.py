"""A polled feed gives each bar once, in order, and bears with a server that is slow, busy or broken, though not for ever.

The server is a real one, on the loopback. The clock is Trio's virtual one: it stands still unless a test moves it, or has it
jump when for a moment nothing has happened on the wire.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import format_datetime
from functools import partial

import pytest
import trio
from attrs import field, frozen, mutable
from hypothesis import given
from hypothesis import strategies as st

from harnesses import HarnessMisuse
from harnesses.errors import NotReady
from harnesses.timing.clock import WallClock
from harnesses.trading.feeds.feed_request import wait_for
from harnesses.trading.feeds.polled_bars import SliceBuilder, TimedBar, parse_bars
from harnesses.trading.feeds.polling_feed import PollingFeed, PollingStatistics
from harnesses.trading.market.bars import BadMarketData, Bar, MarketSlice
from harnesses.trading.market.feed import FeedUnavailable

START = datetime(2000, 3, 1, tzinfo=UTC)
BAR = Bar(Decimal(10), Decimal(12), Decimal(9), Decimal("11.50"), Decimal(100))


def at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def rows(*minutes: int) -> str:
    return json.dumps([[at(minute).isoformat(), 10, 12, "9", "11.50", 100] for minute in minutes])


@frozen
class Reply:
    body: str = "[]"
    status: int = 200
    headers: dict[str, str] = field(factory=dict)
    silent: bool = False
    """Accepts the request, and never answers."""
    cut: bool = False
    """Closes the connection in the middle of the body."""


@mutable
class Server:
    """Answers what it was told to, by symbol, the last answer again and again."""

    replies: dict[str, list[Reply]]
    targets: list[str] = field(factory=list)
    heads: list[str] = field(factory=list)
    port: int = 0

    async def handle(self, stream: trio.SocketStream) -> None:
        head = await stream.receive_some()
        if not head.startswith(b"GET "):
            return
        while b"\r\n\r\n" not in head:
            head += await stream.receive_some()
        target = head.split()[1].decode()
        self.targets.append(target)
        self.heads.append(head.decode())
        replies = self.replies[target.split("?")[0].strip("/")]
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        if reply.silent:
            await trio.sleep_forever()
        body = reply.body.encode()
        headers = {"Content-Type": "application/json", "Content-Length": len(body), "Connection": "close", **reply.headers}
        lines = [f"HTTP/1.1 {reply.status} So", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        with suppress(trio.BrokenResourceError):
            await stream.send_all("\r\n".join(lines).encode() + (body[: len(body) // 2] if reply.cut else body))
        await stream.aclose()


@pytest.fixture
async def serve(nursery, mock_clock, monkeypatch):
    """Start a server that gives these answers, for one symbol or by symbol; return it."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    async def start(*replies: Reply | str, **by_symbol: list[Reply | str]) -> Server:
        told = by_symbol or {"A": list(replies)}
        as_reply = {
            symbol: [one if isinstance(one, Reply) else Reply(one) for one in several] for symbol, several in told.items()
        }
        server = Server(as_reply)
        listeners = await nursery.start(partial(trio.serve_tcp, server.handle, 0, host="127.0.0.1"))
        server.port = listeners[0].socket.getsockname()[1]
        return server

    return start


def feed(server: Server, **options: object) -> PollingFeed:
    clock = WallClock(lambda: START.timestamp() + trio.current_time())
    address = f"http://127.0.0.1:{server.port}/{{symbol}}?after={{after}}"
    return PollingFeed(address, list(server.replies), **{"clock": clock, **options})


async def all_there(polled: PollingFeed, after: datetime | None = None) -> list[MarketSlice]:
    slices = []
    while (slice_ := await polled.next_slice(after)) is not None:
        slices.append(slice_)
        after = slice_.time
    return slices


async def times(polled: PollingFeed, after: datetime | None = None) -> list[datetime]:
    return [slice_.time for slice_ in await all_there(polled, after)]


async def test_bars_of_an_answer_are_given_one_by_one_and_the_server_is_asked_no_more_than_needed(serve):
    server = await serve(rows(1, 2, 3), rows(2, 3))

    slices = await all_there(feed(server))

    assert slices == [MarketSlice(at(minute), {"A": BAR}) for minute in (1, 2, 3)]
    assert server.targets == ["/A?after=", "/A?after=2000-03-01T00%3A03%3A00Z"]


async def test_each_bar_is_given_once_however_often_the_server_says_it(serve):
    server = await serve(rows(1), rows(1, 2), rows(1, 2), rows(2, 3))
    polled = feed(server)

    assert await times(polled) == [at(1), at(2)]
    assert await times(polled, at(2)) == [at(3)]


async def test_asked_the_same_again_a_feed_gives_the_same_slice_again(serve):
    server = await serve(rows(1, 2), rows(3))
    polled = feed(server)
    first = await polled.next_slice(None)
    second = await polled.next_slice(at(1))

    assert await polled.next_slice(at(1)) == second
    assert await polled.next_slice(None) == MarketSlice(at(3), {"A": BAR}) != first


async def test_a_feed_begun_anew_goes_on_after_what_the_harness_has_seen(serve):
    server = await serve(rows(1, 2, 3))

    assert await times(feed(server), at(2)) == [at(3)]


async def test_bars_as_csv_are_understood(serve):
    server = await serve(
        Reply("date,open,high,low,close,volume\n2000-03-01,10,12,9,11.50,100\n", headers={"Content-Type": "text/csv"})
    )

    assert await feed(server).next_slice(None) == MarketSlice(START, {"A": BAR})


async def test_a_parser_of_ones_own_is_asked(serve):
    server = await serve("whatever")

    def parse(content_type: str, body: bytes) -> Iterable[TimedBar]:
        assert (content_type, body) == ("application/json", b"whatever")
        return [(at(4), BAR)]

    assert await times(feed(server, parse=parse)) == [at(4)]


async def test_an_address_can_be_made_by_a_function_and_headers_are_sent(serve):
    server = await serve(rows(1))
    polled = PollingFeed(lambda symbol, after: f"http://127.0.0.1:{server.port}/{symbol}", ["A"], headers={"X-Key": "k1"})

    await polled.next_slice(None)

    assert server.targets == ["/A"]
    assert "x-key: k1" in server.heads[0].lower()


# --- several symbols


async def test_a_slice_holds_the_bars_of_all_symbols(serve):
    server = await serve(A=[rows(1, 2)], B=[rows(1, 2)])

    assert [list(slice_.bars) for slice_ in await all_there(feed(server))] == [["A", "B"], ["A", "B"]]


async def test_a_slice_waits_for_the_bar_of_every_symbol(serve):
    server = await serve(A=[rows(1)], B=["[]", rows(1)])
    polled = feed(server)

    assert await polled.next_slice(None) is None
    assert await polled.next_slice(None) == MarketSlice(at(1), {"A": BAR, "B": BAR})


async def test_a_symbol_that_was_not_traded_does_not_hold_up_what_came_after(serve):
    server = await serve(A=[rows(1, 2)], B=[rows(2)])

    assert [list(slice_.bars) for slice_ in await all_there(feed(server))] == [["A"], ["A", "B"]]


async def test_a_symbol_that_stays_away_is_waited_for_so_long_and_is_late_then(serve, mock_clock):
    server = await serve(A=[rows(1)], B=["[]", "[]", rows(1, 2)])
    polled = feed(server, wait_s=30)

    assert await polled.next_slice(None) is None
    mock_clock.jump(29.9)
    assert await polled.next_slice(None) is None
    mock_clock.jump(0.1)
    assert await polled.next_slice(None) == MarketSlice(at(1), {"A": BAR})
    assert await polled.next_slice(at(1)) is None
    assert polled.statistics() == PollingStatistics(polls=3, late=1)


async def test_a_bar_that_has_not_ended_is_left_for_later(serve, mock_clock):
    server = await serve(rows(0, 1))
    polled = feed(server, bar_s=60)
    mock_clock.jump(119)

    assert await times(polled) == [at(0)]
    mock_clock.jump(1)
    assert await times(polled, at(0)) == [at(1)]


# --- servers that do not answer as they should


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
async def test_a_server_that_is_busy_or_broken_is_not_there_yet(serve, status, mock_clock):
    server = await serve(Reply(status=status), rows(1))
    polled = feed(server)

    assert await polled.next_slice(None) is None
    mock_clock.jump(60)
    assert await times(polled) == [at(1)]
    assert polled.statistics() == PollingStatistics(polls=3, failures=1)


async def test_a_server_that_does_not_answer_in_time_is_not_there_yet(serve, mock_clock):
    mock_clock.autojump_threshold = 0.05
    server = await serve(Reply(silent=True))
    polled = feed(server, timeout_s=7)

    assert await polled.next_slice(None) is None
    assert trio.current_time() == pytest.approx(7)
    assert polled.statistics().failures == 1


async def test_an_answer_that_breaks_off_is_not_there_yet(serve):
    server = await serve(Reply(rows(1), cut=True), rows(1))
    polled = feed(server)

    assert await polled.next_slice(None) is None
    assert await times(polled) == [at(1)]


@pytest.mark.parametrize("bars", [20, 20_000])
async def test_an_answer_that_is_too_long_is_cut_short(serve, bars):
    server = await serve(rows(*range(bars)))

    with pytest.raises(FeedUnavailable, match="was a body of more than 1000 bytes"):
        await feed(server, max_bytes=1000, max_failures=1).next_slice(None)


async def test_an_answer_of_the_allowed_length_is_taken(serve):
    server = await serve(rows(1, 2))

    assert await times(feed(server, max_bytes=len(rows(1, 2)))) == [at(1), at(2)]


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("retry_after", ["20", format_datetime(START + timedelta(seconds=20), usegmt=True)])
async def test_a_server_is_not_asked_before_its_retry_after(serve, mock_clock, status, retry_after):
    server = await serve(Reply(status=status, headers={"Retry-After": retry_after}), rows(1))
    polled = feed(server)

    seen = []
    for _ in range(3):
        seen.append((await polled.next_slice(None), len(server.targets)))
        mock_clock.jump(10)

    assert seen == [(None, 1), (None, 1), (MarketSlice(at(1), {"A": BAR}), 2)]


async def test_of_several_retry_after_the_longest_counts(serve, mock_clock):
    asked = [Reply(status=429, headers={"Retry-After": str(seconds)}) for seconds in (20, 10)]
    server = await serve(A=[asked[0], rows(1)], B=[asked[1], rows(1)])
    polled = feed(server)
    await polled.next_slice(None)

    mock_clock.jump(19.9)
    assert await polled.next_slice(None) is None
    mock_clock.jump(0.1)
    assert await times(polled) == [at(1)]


@pytest.mark.parametrize(
    ("text", "wait_s"),
    [
        ("", 5.0),
        ("soon", 5.0),
        ("-1", 5.0),
        ("0", 0.0),
        ("120", 120.0),
        ("9" * 400, 3600.0),
        ("Wed, 01 Mar 2000 00:01:00 GMT", 60.0),
        ("Wed, 01 Mar 2000 00:01:00 -0000", 60.0),
        ("Tue, 29 Feb 2000 00:00:00 GMT", 0.0),
        ("Fri, 01 Mar 2080 00:00:00 GMT", 3600.0),
    ],
)
def test_a_retry_after_is_a_number_or_a_date(text, wait_s):
    assert wait_for(text, START, 5.0) == wait_s


async def test_failures_in_a_row_end_in_an_error_that_names_them_and_no_secret(serve):
    server = await serve(Reply(status=500))
    polled = PollingFeed(f"http://user:pw@127.0.0.1:{server.port}/{{symbol}}?key=secret", ["A"], max_failures=3)

    assert [await polled.next_slice(None) for _ in range(2)] == [None, None]
    with pytest.raises(FeedUnavailable) as caught:
        await polled.next_slice(None)

    assert str(caught.value) == (
        f"feed http://127.0.0.1:{server.port}/A, symbol A is not available: expected bars, was status 500, 3 times in a "
        "row; check the server, or raise max_failures"
    )


async def test_a_feed_that_has_failed_too_often_says_so_until_it_is_back(serve):
    server = await serve(Reply(status=500), Reply(status=500), Reply(status=500), rows(1))
    polled = feed(server, max_failures=2)
    await polled.next_slice(None)

    for times_ in (2, 3):
        with pytest.raises(FeedUnavailable, match=f"{times_} times in a row"):
            await polled.next_slice(None)

    assert await times(polled) == [at(1)]
    assert polled.statistics().failures_in_a_row == 0


async def test_a_feed_that_is_gone_is_gone_also_while_it_may_not_ask(serve):
    server = await serve(Reply(status=429), rows(1))
    polled = feed(server, max_failures=1, rate_limited_s=60.0)

    for _ in range(2):
        with pytest.raises(FeedUnavailable, match="1 times in a row"):
            await polled.next_slice(None)

    assert polled.statistics().polls == 1


async def test_failures_that_are_not_in_a_row_are_borne(serve):
    server = await serve(*[Reply(status=500), Reply(status=500), "[]"] * 5)
    polled = feed(server, max_failures=3)

    assert [await polled.next_slice(None) for _ in range(15)] == [None] * 15
    assert polled.statistics() == PollingStatistics(polls=15, failures=10)


async def test_what_other_symbols_said_in_a_failed_poll_is_kept(serve):
    server = await serve(A=[rows(1), "[]"], B=[Reply(status=500), rows(1)])
    polled = feed(server)

    assert await polled.next_slice(None) is None
    assert await polled.next_slice(None) == MarketSlice(at(1), {"A": BAR, "B": BAR})


async def test_nobody_listening_is_a_failure(serve):
    server = await serve()
    unused = server.port
    server = Server({"A": []}, port=unused)
    with trio.socket.socket() as other:
        await other.bind(("127.0.0.1", 0))
        server.port = other.getsockname()[1]

        with pytest.raises(FeedUnavailable, match=r"was ConnectError: .*onnect.*, 1 times in a row"):
            await feed(server, max_failures=1).next_slice(None)


async def test_an_error_that_says_nothing_is_told_by_the_one_behind_it(serve):
    server = await serve(rows(1))
    polled = PollingFeed(f"https://127.0.0.1:{server.port}/{{symbol}}", ["A"], max_failures=1)

    with pytest.raises(FeedUnavailable, match=r"was ConnectError: .*SSL"):
        await polled.next_slice(None)


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404])
async def test_a_refusal_is_an_error_at_once(serve, status):
    server = await serve(Reply("who are you?", status=status))

    with pytest.raises(FeedUnavailable, match=rf"symbol A refused: expected status 200, was {status}: 'who are you\?'"):
        await feed(server).next_slice(None)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (rows(2, 1), "time of a bar: expected one after 2000-03-01T00:02:00.00:00, was 2000-03-01T00:01:00"),
        (rows(1, 1), "time of a bar: expected one after"),
        ("<html>", "expected a list of bars as JSON, was '<html>'"),
        ('{"error": 1}', "expected a list of bars as JSON"),
        ('[["2000-03-01", 1, 2, 3]]', "bar 1: expected 6 fields"),
        ('[["2000-03-01", 1, 2, 1, 0, 1]]', "bar 1: close: expected a number above 0, was '0'"),
        ("[5]", "bar 1: expected 6 fields"),
    ],
)
async def test_an_answer_that_can_not_be_is_refused_with_where_it_is_from(serve, body, what):
    server = await serve(body)

    with pytest.raises(BadMarketData, match=rf"feed http://127.0.0.1:\d+/A, symbol A: {what}"):
        await feed(server).next_slice(None)


async def test_a_poll_that_is_cancelled_loses_nothing(serve, mock_clock):
    mock_clock.autojump_threshold = 0.05
    server = await serve(Reply(silent=True), rows(1))
    polled = feed(server)

    with trio.move_on_after(1) as scope:
        await polled.next_slice(None)

    assert scope.cancelled_caught
    assert await times(polled) == [at(1)]


async def test_the_clock_of_a_feed_is_the_wall_clock_and_it_never_ends(serve, mock_clock):
    server = await serve(rows(1))
    polled = feed(server)

    mock_clock.jump(90)

    assert polled.now() == START + timedelta(seconds=90)
    assert not polled.is_at_end(at(1))


@pytest.mark.parametrize("request_", ["http://h/{other}", "http://h/{", "http://h/{}", "ftp://h/{symbol}", "h/{symbol}"])
def test_an_address_that_can_not_be_asked_is_refused(request_):
    with pytest.raises(HarnessMisuse, match="PollingFeed: request: expected"):
        PollingFeed(request_, ["A"])


def test_a_feed_can_be_made_before_trio_runs_and_outlive_the_run():
    polled = PollingFeed("http://127.0.0.1:9/{symbol}", ["A"], timeout_s=5)

    assert [trio.run(polled.next_slice, None) for _ in range(2)] == [None, None]
    assert polled.statistics().failures == 2


def test_without_httpx2_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx2", None)

    with pytest.raises(NotReady, match=r"PollingFeed needs httpx2, .*run `python -m pip install .*\[http\]'`"):
        PollingFeed("http://h/{symbol}", ["A"])


# --- the pure parts


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", '[["2000-03-01", 10, 12.0, 9.00, 11.50, 100]]'),
        ("application/json", '[["2000-03-01T00:00:00Z", "10", "12", "9", "11.50", "100"]]'),
        ("application/json", "[[951868800000, 10, 12, 9, 11.50, 1e2]]"),
        ("", '[{"date": "2000-03-01", "open": 10, "close": 11.5, "high": 12, "low": 9, "volume": 100, "trades": 7}]'),
        ("text/csv; charset=utf-8", "\ufeffdate,open,high,low,close,volume\r\n\r\n2000-03-01,10,12,9,11.50,100\r\n"),
    ],
)
def test_a_bar_is_understood_in_each_of_its_forms(content_type, body):
    assert parse_bars(content_type, body.encode()) == [(START, BAR)]


def test_a_price_keeps_all_its_digits():
    ((_, bar),) = parse_bars("", b'[["2000-03-01", 0.1, 0.30000000000000000001, 0.1, 0.1, 0]]')

    assert bar.high == Decimal("0.30000000000000000001")


@pytest.mark.parametrize("body", ["", " \n", "[]"])
def test_an_empty_answer_says_no_bars(body):
    assert parse_bars("", body.encode()) == []


@pytest.mark.parametrize("body", [b"\xff", b"date,open\n", b'"'])
def test_csv_that_can_not_be_is_refused(body):
    with pytest.raises(ValueError, match=r"expected|decode"):
        parse_bars("text/csv", body)


deliveries = st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 12), st.integers(1, 4), st.integers(0, 20)), max_size=30)


@given(deliveries)
def test_however_bars_arrive_slices_go_forward_and_each_bar_is_in_one_or_late(deliveries):
    gathering, now_s, after, given, late = SliceBuilder("AB", None, 15.0), 0, None, [], 0
    known: dict[str, set[int]] = {"A": set(), "B": set()}
    for symbol, first, count, pause_s in deliveries:
        now_s += pause_s
        new = [minute for minute in range(first, first + count) if minute > max(known[symbol], default=-1)]
        late += gathering.add(symbol, [(at(minute), BAR) for minute in range(first, first + count)], now_s)
        known[symbol].update(new)
        while (slice_ := gathering.first(after, now_s)) is not None:
            assert gathering.first(after, now_s) == slice_
            after = slice_.time
            given.append(slice_)
    while (slice_ := gathering.first(after, now_s + 15)) is not None:
        after = slice_.time
        given.append(slice_)

    order = [slice_.time for slice_ in given]
    assert order == sorted(set(order))
    assert sum(len(slice_.bars) for slice_ in given) + late == sum(map(len, known.values()))
