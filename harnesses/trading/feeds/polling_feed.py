"""A feed that polls a server over HTTP: one request for each symbol, when the next slice is asked for and not known yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeAlias
from urllib.parse import quote, urlsplit

import trio
from attrs import evolve, frozen
from trio.lowlevel import checkpoint

from harnesses.errors import HarnessMisuse
from harnesses.timing.clock import WallClock
from harnesses.trading.feeds.feed_request import Answer, Http, Later, judge
from harnesses.trading.feeds.polled_bars import SliceBuilder, TimedBar, in_order, parse_bars
from harnesses.trading.market.bars import BadMarketData, MarketSlice
from harnesses.trading.market.feed import FeedUnavailable

Request: TypeAlias = str | Callable[[str, datetime | None], str]
"""A URL with `{symbol}` and optionally `{after}` in it, or a function that returns the URL for a symbol and a time."""
_MAX_REQUESTS = 8
"""Maximum simultaneous requests of one feed."""


@frozen
class PollingStatistics:
    """Counts of a feed's polls so far."""

    polls: int = 0
    failures: int = 0
    """Polls in which at least one request failed."""
    failures_in_a_row: int = 0
    late: int = 0
    """Bars dropped because they arrived after the slice of their time had been given."""


class PollingFeed:
    """Polls a server for bars. Each harness needs its own feed. It never ends.

    Temporary failures, such as a status 5xx or a timeout, count as "not there yet".

    Args:
        request: the URL to ask. `{after}` in it becomes the time of the last slice that the harness knows, in ISO 8601, empty
            before the first. The server may ignore it: known bars are skipped.
        parse: takes the content type and body of a response; returns the bars, oldest first, or raises `ValueError`.
        headers: of each request, such as an API key. Errors show URLs without the query string.
        timeout_s: maximum seconds for one request. `max_bytes`: maximum size of one response.
        max_failures: number of consecutive failed polls after which the feed raises an error, at each poll until one succeeds.
        bar_s: the length of a bar that is labelled with its start, in seconds: bars that have not ended yet are ignored,
            because they still change. Without it the server must return complete bars only.
        wait_s: maximum seconds to hold back a slice for symbols without a bar at its time or later.
        rate_limited_s: seconds not to ask after a status 429 without Retry-After.
        clock: the wall clock that `now` uses.
    """

    def __init__(
        self,
        request: Request,
        symbols: Sequence[str],
        *,
        parse: Callable[[str, bytes], Iterable[TimedBar]] = parse_bars,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
        max_bytes: int = 16_000_000,
        max_failures: int = 5,
        bar_s: float | None = None,
        wait_s: float = 30.0,
        rate_limited_s: float = 60.0,
        clock: WallClock | None = None,
    ) -> None:
        if max_failures < 1:
            raise HarnessMisuse(f"PollingFeed: max_failures: expected 1 or more, was {max_failures}")
        self.symbols: Sequence[str] = tuple(symbols)
        self._address = _template(request) if isinstance(request, str) else request
        self._http = Http(headers or {}, timeout_s, max_bytes)
        self._parse = parse
        self._max_failures = max_failures
        self._bar = timedelta(seconds=bar_s or 0.0)
        self._wait_s = wait_s
        self._rate_limited_s = rate_limited_s
        self._clock = clock or WallClock()
        self._lock = trio.Lock()
        self._slices = SliceBuilder(self.symbols, None, wait_s)
        self._seconds: trio.abc.Clock | None = None
        self._not_before_s = float("-inf")
        self._statistics = PollingStatistics()
        self._failed: tuple[str, Later] | None = None
        """The last request that failed."""

    async def next_slice(self, after: datetime | None) -> MarketSlice | None:
        await checkpoint()
        async with self._lock:
            self._begin(after)
            found = self._slices.first(after, trio.current_time())
            if found is None and trio.current_time() < self._not_before_s:
                self._check()
            elif found is None:
                await self._poll(after)
                found = self._slices.first(after, trio.current_time())
            return found

    def is_at_end(self, after: datetime | None) -> bool:
        return False

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now(), UTC)

    @property
    def bar_s(self) -> float | None:
        """The length of a bar in seconds, if given."""
        return self._bar.total_seconds() or None

    def statistics(self) -> PollingStatistics:
        """Return the counts of the polls so far."""
        return self._statistics

    def _begin(self, after: datetime | None) -> None:
        """Reset the feed for a caller that knows less than at the last call: it needs bars that have been dropped since.

        Another run of Trio also resets it, because its clock is a different one.
        """
        known, seconds = self._slices.after, trio.lowlevel.current_clock()
        if seconds is not self._seconds:
            self._seconds, self._not_before_s = seconds, float("-inf")
        elif known is None or (after is not None and after >= known):
            return
        self._slices = SliceBuilder(self.symbols, after, self._wait_s)

    async def _poll(self, after: datetime | None) -> None:
        """Ask once for each symbol, and store the bars."""
        answers = await self._ask(after)
        failed: list[tuple[str, Later]] = []
        late = 0
        for symbol, (where, answer) in answers.items():
            judged = answer if isinstance(answer, Later) else judge(answer, where, self.now(), self._rate_limited_s)
            if isinstance(judged, Later):
                failed.append((where, judged))
            else:
                late += self._slices.add(symbol, self._bars(where, judged), trio.current_time())
        self._count(failed, late)

    async def _ask(self, after: datetime | None) -> dict[str, tuple[str, Answer | Later]]:
        answers: dict[str, tuple[str, Answer | Later]] = {}
        limit = trio.CapacityLimiter(_MAX_REQUESTS)

        async def ask(symbol: str) -> None:
            address = self._address(symbol, after)
            async with limit:
                answers[symbol] = (f"feed {_shown(address)}, symbol {symbol}", await self._http.get(client, address))

        async with self._http.client() as client, trio.open_nursery() as nursery:
            for symbol in self.symbols:
                nursery.start_soon(ask, symbol)
        return {symbol: answers[symbol] for symbol in self.symbols}

    def _bars(self, where: str, answer: Answer) -> list[TimedBar]:
        try:
            bars = in_order(self._parse(answer.content_type, answer.body))
        except ValueError as error:
            raise BadMarketData(
                f"{where}: {error}; correct the server's answer, or give the feed a `parse` that reads it"
            ) from error
        return [(time.astimezone(UTC), bar) for time, bar in bars if not self._bar or time + self._bar <= self.now()]

    def _count(self, failed: Sequence[tuple[str, Later]], late: int) -> None:
        """Count a poll. Raises `FeedUnavailable` if too many polls have failed in a row."""
        before = self._statistics
        in_a_row = before.failures_in_a_row + 1 if failed else 0
        self._statistics = evolve(
            before,
            polls=before.polls + 1,
            failures=before.failures + bool(failed),
            failures_in_a_row=in_a_row,
            late=before.late + late,
        )
        if failed:
            self._not_before_s = trio.current_time() + max(later.wait_s for _, later in failed)
            self._failed = failed[-1]
        self._check()

    def _check(self) -> None:
        """Raise `FeedUnavailable` if too many polls have failed in a row; checked between polls too."""
        in_a_row = self._statistics.failures_in_a_row
        if self._failed is not None and in_a_row >= self._max_failures:
            where, later = self._failed
            raise FeedUnavailable(
                f"{where} is not available: expected bars, was {later.why}, {in_a_row} times in a row; "
                "check the server, or raise max_failures"
            )


def _template(text: str) -> Callable[[str, datetime | None], str]:
    def address(symbol: str, after: datetime | None) -> str:
        since = "" if after is None else after.isoformat().replace("+00:00", "Z")
        return text.format(symbol=quote(symbol, safe=""), after=quote(since, safe=""))

    try:
        made = address("S", None)
    except (KeyError, IndexError, ValueError) as error:
        raise HarnessMisuse(f"PollingFeed: request: expected only {{symbol}} and {{after}} in braces, was {text!r}") from error
    if not made.startswith(("http://", "https://")):
        raise HarnessMisuse(f"PollingFeed: request: expected a URL that begins with http:// or https://, was {text!r}")
    return address


def _shown(address: str) -> str:
    """Return a URL without user name, password and query string, for messages."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"
