"""A feed that polls the bars of an exchange through ccxt.

Invariants: a bar is given only when it has ended by the venue's own clock; every bar of the venue is given, in order, without
    gaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from harnesses.errors import HarnessMisuse
from harnesses.trading.exchange.ccxt_client import CcxtClient, CcxtOptions
from harnesses.trading.exchange.ccxt_translation import CallFailed, parse_instrument
from harnesses.trading.market.bars import BadMarketData, Bar, MarketSlice, parse_bar
from harnesses.trading.market.feed import FeedUnavailable
from harnesses.trading.market.instruments import Instrument

_PAGE = 500
_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CcxtFeed:
    """Polls the bars of an exchange. The time of a slice is the start of its bars, as is usual at exchanges.

    Args:
        exchange: ccxt's id of the exchange, such as "binance".
        symbols: in ccxt's form, such as "BTC/USDT".
        timeframe: one of the exchange's timeframes of fixed length, such as "1m", "1h" or "1d".
        start: where to start if nothing has been seen; without it, the last bar that has ended.
        grace_s: seconds after the end of a bar during which it may still arrive; a slice leaves out symbols without one.
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

    def is_at_end(self, after: datetime | None) -> bool:
        return False

    def now(self) -> datetime:
        """Return the time by the venue's clock; by the local clock before the venue has been asked."""
        return _to_time(int(self._client.now_ms()))

    async def _next(self, after: datetime | None) -> MarketSlice | None:
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
        found_ms = self._settled(first_ms, self._client.now_ms())
        if found_ms is None:
            # Asked before the bars, so that every bar that has ended by this time is complete in the answer.
            now_ms = await self._client.read_clock()
            if first_ms + period_ms <= now_ms:
                for symbol in self.symbols:
                    await self._fetch(symbol, first_ms, now_ms)
                found_ms = self._settled(first_ms, now_ms)
        if found_ms is None:
            return None
        bars = {symbol: series[found_ms] for symbol, series in self._bars.items() if found_ms in series}
        return MarketSlice(_to_time(found_ms), bars)

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
