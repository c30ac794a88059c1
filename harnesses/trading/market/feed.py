"""What a feed is: where market data comes from; and the poller of a harness, which asks it with patience.

The laws: messages and the venue have their turn however long the feed keeps silent; and a feed is asked by time, never by
position, so that a harness resumed a week later, over data that has grown since, goes on with the first slice it has not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import trio

from harnesses.errors import OrchestratorError
from harnesses.trading.market.bars import BadMarketData, MarketSlice


class FeedUnavailable(OrchestratorError):
    """The source of a feed cannot be reached, or does not answer in a way that can be relied on."""


class Feed(Protocol):
    """Something to poll for what a market did. All times are aware UTC."""

    @property
    def symbols(self) -> Sequence[str]:
        """The symbols that its slices may have bars of."""
        ...

    async def next_slice(self, after: datetime | None) -> MarketSlice | None:
        """Return the first slice later than `after`, or the first of all; None if it is not there yet.

        Asked the same again, it gives the same slice again: a harness that has crashed asks twice.

        Raises:
            FeedUnavailable: the source has failed too often.
            BadMarketData: the source says what cannot be.
        """
        ...

    def is_at_end(self, after: datetime | None) -> bool:
        """Return whether no slice later than `after` will ever come. Always false for a feed that never ends."""
        ...

    def now(self) -> datetime:
        """Return the time by the feed's own clock: what the guard against stale data compares the last slice with."""
        ...


_ANSWER_S = 15.0
"""How long a feed is waited for at least, however short the period is, before messages and the venue have their turn."""


class FeedPoller:
    """Polls a feed for slices.

    Args:
        period_s: seconds from one poll to the next.
        patience_s: how long the feed may be of no use.
    """

    def __init__(self, feed: Feed, period_s: float, patience_s: float) -> None:
        self.is_live = bool(getattr(feed, "is_live", True))
        """Whether the feed tells of a market as it is now. So does every one that does not say `is_live = False`."""
        self._feed = feed
        self._period_s = period_s
        self._patience_s = patience_s
        self._heard = 0.0

    def begin(self) -> None:
        """Begin to count the time that the feed says nothing."""
        self._heard = trio.current_time()

    @property
    def bar_s(self) -> float | None:
        """Seconds of a bar, if the feed says so: `bar_s`."""
        seconds: float | None = getattr(self._feed, "bar_s", None)
        return seconds

    async def next_slice(self, after: datetime | None) -> MarketSlice | None:
        """Return the first slice after a time; None if it is not there yet, or the feed cannot be asked now.

        Raises:
            FeedUnavailable: it could not be asked for longer than patience lasts.
            BadMarketData: what it gives is not later.
        """
        try:
            market = await self._answer(after)
        except FeedUnavailable:
            if trio.current_time() - self._heard > self._patience_s:
                raise
            return None
        self._heard = trio.current_time()
        if market is not None and after is not None and market.time <= after:
            raise BadMarketData(f"slice {market.time} of the feed: expected one after {after}; a feed goes forward only")
        return market

    async def _answer(self, after: datetime | None) -> MarketSlice | None:
        limit_s = max(self._period_s, _ANSWER_S)
        with trio.move_on_after(limit_s):
            return await self._feed.next_slice(after)
        raise FeedUnavailable(
            f"feed of {', '.join(self._feed.symbols)} does not answer: expected a slice, or none, within {limit_s:g} s; "
            "check its source"
        )
