"""The protocol of a feed, the source of market data; and the poller through which a harness asks it.

Invariants: a slow feed never blocks messages and the venue for long; a feed is asked by time, never by position, so that a
harness resumed a week later, over data that has grown since, continues with the first slice it has not seen.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Protocol, runtime_checkable

import trio

from harnesses.errors import OrchestratorError
from harnesses.nurseries import open_beside
from harnesses.trading.market.bars import BadMarketData, MarketSlice
from harnesses.trading.market.instruments import Instrument


class FeedUnavailable(OrchestratorError):
    """The source of a feed cannot be reached, or its answers are unreliable."""


class Feed(Protocol):
    """A source of market slices that is polled. All times are UTC, with zone."""

    @property
    def symbols(self) -> Sequence[str]:
        """The symbols whose bars its slices may contain."""
        ...

    async def next_slice(self, after: datetime | None) -> MarketSlice | None:
        """Return the first slice later than `after`, or the very first for None; return None if it is not there yet.

        The same call returns the same slice again, because a harness that has crashed asks twice.

        Raises:
            FeedUnavailable: the source has failed too often.
            BadMarketData: the source returned invalid data.
        """
        ...

    def is_at_end(self, after: datetime | None) -> bool:
        """Return whether there will never be a slice later than `after`. Always false for a feed that never ends."""
        ...

    def now(self) -> datetime:
        """Return the time by the feed's own clock, which the stale data guard compares with the last slice."""
        ...


async def instruments_of(feed: Feed) -> Mapping[str, Instrument]:
    """Return the rules that a feed derives from its data, by symbol; empty for a feed without a method `instruments`.

    Raises:
        FeedUnavailable: the feed has to ask its source, which does not answer.
    """
    instruments: Callable[[], Awaitable[Mapping[str, Instrument]]] | None = getattr(feed, "instruments", None)
    return {} if instruments is None else await instruments()


@runtime_checkable
class StreamedFeed(Feed, Protocol):
    """A feed that says when to ask it."""

    def listen(self) -> AbstractContextManager[None]:
        """Listen to the source, from here to the end of the block. Entering and leaving do not wait."""
        ...

    async def wait_for_news(self) -> None:
        """Wait until it is worth asking for the next slice before the period has passed."""
        ...

    def take_lines(self) -> Sequence[str]:
        """Return what an operator should know about the source, each line once."""
        ...


_ANSWER_S = 15.0
"""Minimum seconds to wait for an answer of the feed, even if the period is shorter."""


class Reach:
    """Whether something outside can be reached, and for how long it could not.

    Args:
        what: such as "the venue".
        patience_s: maximum seconds without an answer.
    """

    def __init__(self, what: str, patience_s: float) -> None:
        self._what = what
        self._patience_s = patience_s
        self._answered_s = 0.0
        """When it last answered, on Trio's clock."""
        self._lines: list[str] = []
        self._is_away = False

    def begin(self) -> None:
        """Start counting the time without an answer."""
        self._answered_s = trio.current_time()

    def note_answer(self) -> None:
        """Note that it answers."""
        self._answered_s = trio.current_time()
        if self._is_away:
            self._is_away = False
            self._lines.append(f"{self._what} answers again")

    def is_lost(self, error: Exception) -> bool:
        """Note that it does not answer; return whether that has lasted too long."""
        passed_s = trio.current_time() - self._answered_s
        if not self._is_away:
            self._is_away = True
            self._lines.append(f"{self._what} does not answer, and is asked again for {self._patience_s:g} s: {error}")
        return passed_s > self._patience_s

    def take_lines(self) -> Sequence[str]:
        """Return what is to be logged, each line once."""
        lines, self._lines = self._lines, []
        return lines


class FeedPoller:
    """Polls a feed for slices.

    Args:
        period_s: seconds between two polls.
        patience_s: maximum seconds for which the feed may fail.
    """

    def __init__(self, feed: Feed, period_s: float, patience_s: float) -> None:
        self.is_live = bool(getattr(feed, "is_live", True))
        """Whether the feed delivers current data; true unless the feed sets `is_live = False`."""
        self._feed = feed
        self.period_s = period_s
        self._reach = Reach("the feed", patience_s)
        self._slice_after: Callable[[datetime | None], MarketSlice | None] | None = None
        self._streamed = feed if isinstance(feed, StreamedFeed) else None
        kind = type(feed)
        if _definer(kind, "slice_after") is _definer(kind, "next_slice"):
            self._slice_after = getattr(feed, "slice_after", None)

    @property
    def is_instant(self) -> bool:
        """Whether the feed answers without waiting: it has a method `slice_after` beside `next_slice`, which is not async."""
        return self._slice_after is not None

    def slice_after(self, after: datetime | None) -> MarketSlice | None:
        """Return what `next_slice` returns, without waiting; only if the feed is instant.

        Raises:
            BadMarketData: the returned slice is not later.
        """
        assert self._slice_after is not None, "the feed is instant"
        return _checked(self._slice_after(after), after)

    def listen(self) -> AbstractContextManager[None]:
        """Listen to the source of a feed that says when to ask it."""
        return nullcontext() if self._streamed is None else self._streamed.listen()

    async def next_tick(self, ticks: AsyncIterator[object]) -> None:
        """Wait for the next tick, or for news of the feed before it."""
        streamed = self._streamed
        if streamed is None:
            await anext(ticks)
            return

        async def listen() -> None:
            await streamed.wait_for_news()
            nursery.cancel_scope.cancel()

        async with open_beside() as nursery:
            nursery.start_soon(listen)
            await anext(ticks)

    def take_lines(self) -> Sequence[str]:
        """Return what is to be logged about the source, each line once."""
        return [*self._reach.take_lines(), *(() if self._streamed is None else self._streamed.take_lines())]

    def begin(self) -> None:
        """Start counting the time without an answer from the feed."""
        self._reach.begin()

    @property
    def bar_s(self) -> float | None:
        """Length of a bar in seconds, from the feed's `bar_s`; None if it has none."""
        seconds: float | None = getattr(self._feed, "bar_s", None)
        return seconds

    async def next_slice(self, after: datetime | None) -> MarketSlice | None:
        """Return the first slice after a time; None if it is not there yet, or the feed cannot be asked now.

        Raises:
            FeedUnavailable: the feed has failed for longer than `patience_s`.
            BadMarketData: the returned slice is not later.
        """
        if self._slice_after is not None:
            return self.slice_after(after)
        try:
            market = await self._answer(after)
        except FeedUnavailable as error:
            if self._reach.is_lost(error):
                raise
            return None
        self._reach.note_answer()
        return _checked(market, after)

    async def _answer(self, after: datetime | None) -> MarketSlice | None:
        limit_s = max(self.period_s, _ANSWER_S)
        with trio.move_on_after(limit_s):
            return await self._feed.next_slice(after)
        raise FeedUnavailable(
            f"feed of {', '.join(self._feed.symbols)} does not answer: expected a slice, or none, within {limit_s:g} s; "
            "check its source"
        )


def _checked(market: MarketSlice | None, after: datetime | None) -> MarketSlice | None:
    if market is not None and after is not None and market.time <= after:
        raise BadMarketData(
            f"slice {market.time} of the feed: expected one after {after}; correct the feed, whose times must increase"
        )
    return market


def _definer(kind: type, method: str) -> type | None:
    """Return the class that defines a method: a subclass may have replaced one of two that go together."""
    return next((base for base in kind.__mro__ if method in vars(base)), None)
