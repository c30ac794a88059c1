"""A feed of the bars of an exchange through ccxt: polled, or asked for when a stream says that one is over.

Invariants: a bar is given only when it has ended by the venue's own clock; every bar of the venue is given, in order, without
    gaps. Each bar is read by REST, with a stream too: the stream says when to ask, and never what a bar is. So the record does
    not depend on the stream, whatever it says, repeats, corrects or leaves out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any

import trio

from harnesses.errors import HarnessMisuse
from harnesses.trading.exchange.bar_stream import BarStream, Heard
from harnesses.trading.exchange.ccxt_client import CcxtClient, CcxtOptions
from harnesses.trading.exchange.ccxt_translation import CallFailed, parse_instrument
from harnesses.trading.market.bars import BadMarketData, Bar, MarketSlice, parse_bar
from harnesses.trading.market.feed import FeedUnavailable
from harnesses.trading.market.instruments import Instrument

_PAGE = 500
_AGAIN_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds before asking again for a bar that is over by the stream, and not by REST."""
_NEVER = (0, 0.0)
_NO_STREAM = -1
_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CcxtFeed:
    """The bars of an exchange, polled or by a stream. A slice has the time of the start of its bars, as is usual at exchanges.

    Args:
        exchange: ccxt's id of the exchange, such as "binance".
        symbols: in ccxt's form, such as "BTC/USDT".
        timeframe: one of the exchange's timeframes of fixed length, such as "1m", "1h" or "1d".
        start: where to start if nothing has been seen; without it, the last bar that has ended.
        grace_s: seconds after the end of a bar during which it may still arrive; a slice leaves out symbols without one.
        stream: whether to listen at the exchange's WebSocket, inside `listen`, so as to ask for a bar as soon as it is over.
            While there is no stream, bars are polled.
    """

    def __init__(
        self,
        exchange: str,
        symbols: Sequence[str],
        timeframe: str = "1m",
        *,
        options: CcxtOptions | None = None,
        start: datetime | None = None,
        grace_s: float = 10.0,
        stream: bool = False,
    ) -> None:
        if not symbols:
            raise HarnessMisuse(f"CcxtFeed {exchange!r}: expected at least one symbol, was none")
        if start is not None and start.tzinfo is None:
            raise HarnessMisuse(f"CcxtFeed {exchange!r}: start: expected a time with a zone, was {start}; say which")
        self.symbols: Sequence[str] = tuple(symbols)
        self._client = CcxtClient(exchange, options or CcxtOptions())
        self._timeframe = timeframe
        self._period_ms = self._client.length_ms(timeframe)
        self._start_ms = None if start is None else _to_ms(start)
        self._grace_ms = grace_s * 1000
        self._bars: dict[str, dict[int, Bar]] = {symbol: {} for symbol in symbols}
        """Fetched bars that have not been requested yet, by symbol and time."""
        self._given: tuple[datetime | None, MarketSlice] | None = None
        self._streams = stream and self._client.streams("watchOHLCV")
        self._lines: deque[str] = deque()
        """What is to be said about the stream."""
        if stream and not self._streams:
            self._lines.append(f"ccxt:{exchange} has no stream of bars (watchOHLCV): they are polled")
        self._listening = False
        self._stream: BarStream | None = None
        self._news = trio.Event()
        self._wanted_ms: int = 0
        """Start of the next bar to give."""
        self._caught_up = _NO_STREAM
        """Losses of the stream up to the connection since which it has been asked at least once."""
        self._asked = _NEVER
        """How often it has been asked for in vain, and when last on Trio's clock."""

    @property
    def bar_s(self) -> float:
        """Length of a bar in seconds; the age of the first slice is judged by it."""
        return self._period_ms / 1000

    async def instruments(self) -> Mapping[str, Instrument]:
        """Return the exchange's rules for the symbols, for a simulated venue that trades on this feed.

        Raises:
            FeedUnavailable: the exchange does not answer.
        """
        try:
            await self._client.get_ready()
        except CallFailed as error:
            raise FeedUnavailable(f"ccxt:{self._client.exchange} does not provide its markets: {error.text}") from error
        known = self._client.markets
        return {
            symbol: parse_instrument(known[symbol], self._client.precision_mode) for symbol in self.symbols if symbol in known
        }

    async def next_slice(self, after: datetime | None) -> MarketSlice | None:
        if self._given is not None and self._given[0] == after:
            return self._given[1]
        try:
            found = await self._next(after)
        except CallFailed as error:
            raise FeedUnavailable(f"ccxt:{self._client.exchange} does not provide its bars: {error.text}") from error
        if found is not None:
            self._given = (after, found)
        return found

    @property
    def is_streaming(self) -> bool:
        """Whether the exchange says now when a bar is over. If not, bars are polled."""
        return self._heard.is_live

    @contextmanager
    def listen(self) -> Generator[None]:
        """Listen to the stream, if the feed has one, from the first slice asked for inside to the end."""
        self._listening = self._streams
        try:
            yield
        finally:
            self._listening = False
            if self._stream is not None:
                self._stream.stop()
            self._stream, self._caught_up, self._asked = None, _NO_STREAM, _NEVER

    async def wait_for_news(self) -> None:
        """Wait until it is worth asking for the next slice at once: a bar is over, or the stream is lost or back."""
        await trio.lowlevel.checkpoint()
        while not self._lines and (pause_s := self._pause_s()) > 0:
            with trio.move_on_after(pause_s):
                await self._news.wait()

    def take_lines(self) -> Sequence[str]:
        """Return what is to be said about the stream, each line once."""
        return [self._lines.popleft() for _ in range(len(self._lines))]

    def is_at_end(self, after: datetime | None) -> bool:
        return False

    def now(self) -> datetime:
        """Return the time by the venue's clock; by the local clock before the venue has been asked."""
        return _to_time(int(self._client.now_ms()))

    async def _next(self, after: datetime | None) -> MarketSlice | None:
        if self._is_starting:
            self._count_question()
        await self._client.get_ready()
        if unknown := [symbol for symbol in self.symbols if symbol not in self._client.markets]:
            raise HarnessMisuse(f"ccxt:{self._client.exchange} has no market {unknown[0]!r}: expected one such as 'BTC/USDT'")
        period_ms = self._period_ms
        if after is not None:
            first_ms = (_to_ms(after) // period_ms + 1) * period_ms
        elif self._start_ms is not None:
            first_ms = -(-self._start_ms // period_ms) * period_ms
        else:
            first_ms = self._start_ms = (int(await self._client.read_clock()) // period_ms - 1) * period_ms
        self._start()
        self._want(first_ms)
        found_ms = self._settled(first_ms, self._client.now_ms())
        if found_ms is None and self._is_due():
            heard = self._heard
            self._caught_up = heard.losses if heard.is_live else _NO_STREAM
            # Asked before the bars, so that every bar that has ended by this time is complete in the answer.
            now_ms = await self._client.read_clock()
            if first_ms + period_ms <= now_ms:
                for symbol in self.symbols:
                    await self._fetch(symbol, first_ms, now_ms)
                found_ms = self._settled(first_ms, now_ms)
            self._count_question()
        if found_ms is None:
            return None
        bars = {symbol: series[found_ms] for symbol, series in self._bars.items() if found_ms in series}
        self._want(found_ms + period_ms)
        return MarketSlice(_to_time(found_ms), bars)

    # with a stream

    @property
    def _heard(self) -> Heard:
        return Heard() if self._stream is None else self._stream.heard

    def _start(self) -> None:
        """Start the stream, now that the markets are known."""
        if self._is_starting:
            self._stream = BarStream(
                f"ccxt:{self._client.exchange}",
                self._client.make_stream,
                self.symbols,
                self._timeframe,
                wake=self._wake,
                lines=self._lines,
                silence_s=self._client.options.silence_s,
            )
            self._stream.start()

    @property
    def _is_starting(self) -> bool:
        return self._listening and self._stream is None

    def _wake(self) -> None:
        self._news.set()
        self._news = trio.Event()

    def _count_question(self) -> None:
        self._asked = self._asked[0] + 1, trio.current_time()

    def _want(self, start_ms: int) -> None:
        if start_ms != self._wanted_ms:
            self._wanted_ms, self._asked = start_ms, _NEVER

    def _is_due(self) -> bool:
        """Return whether to ask for the wanted bar: always without a stream, else if it is over by the clock or the stream."""
        heard = self._heard
        if not heard.is_live or heard.losses != self._caught_up:
            return True
        return self._is_over() or self._wanted_ms + self._period_ms <= self._client.now_ms()

    def _is_over(self) -> bool:
        """Return whether the stream says that the wanted bar is over: the exchange has begun the next one."""
        begun = self._heard.begun
        return any(start_ms >= self._wanted_ms + self._period_ms for start_ms in begun.values())

    def _pause_s(self) -> float:
        """Return the seconds until the wanted bar is to be asked for; infinite if the stream has not said so.

        A harness that starts again would wait for its next tick, so that the first bar is asked for at once, too.
        """
        times, last_s = self._asked
        if not self._is_over() and not self._is_starting:
            return inf
        return last_s + _AGAIN_S[min(times, len(_AGAIN_S)) - 1] - trio.current_time() if times else 0.0

    def _settled(self, first_ms: int, now_ms: float) -> int | None:
        """Return the time of the first slice from `first_ms` on that is complete; None if there is none yet."""
        for series in self._bars.values():
            for passed_ms in [time_ms for time_ms in series if time_ms < first_ms]:
                del series[passed_ms]
        time_ms = min((min(series) for series in self._bars.values() if series), default=None)
        if time_ms is None:
            return None
        # A bar may still arrive for a symbol that has none at this time, unless it already has a later bar.
        missing = not all(series and max(series) >= time_ms for series in self._bars.values())
        return None if missing and now_ms < time_ms + self._period_ms + self._grace_ms else time_ms

    async def _fetch(self, symbol: str, first_ms: int, now_ms: float) -> None:
        """Fetch a page of bars that had ended at `now_ms`."""
        rows = await self._client.ask("fetch_ohlcv", symbol, self._timeframe, first_ms, _PAGE)
        self._bars[symbol] = {
            int(row[0]): self._parse(symbol, row) for row in rows if first_ms <= row[0] <= now_ms - self._period_ms
        }

    def _parse(self, symbol: str, row: Sequence[Any]) -> Bar:
        time = _to_time(int(row[0]))
        try:
            return parse_bar([time.isoformat(), *map(str, row[1:6])])[1]
        except ValueError as error:
            raise BadMarketData(f"ccxt:{self._client.exchange} {symbol} {time}: {error}") from error


def _to_ms(time: datetime) -> int:
    return (time - _EPOCH) // _MILLISECOND


def _to_time(ms: int) -> datetime:
    return _EPOCH + ms * _MILLISECOND
