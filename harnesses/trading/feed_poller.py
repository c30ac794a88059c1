"""The lookout of a trading harness: asks the feed, with patience, and says how old a slice may be.

The law: messages and the venue have their turn however long the feed keeps silent.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import trio

from harnesses.trading.market.bars import BadMarketData, MarketSlice
from harnesses.trading.market.feed import Feed, FeedUnavailable, bar_s, is_live
from harnesses.trading.risk import Limits, limits_for

_ANSWER_S = 15.0
"""How long a feed is waited for at least, however short the period is, before messages and the venue have their turn."""


class Lookout:
    """Looks out for slices.

    Args:
        period_s: seconds from one look to the next.
        patience_s: how long the feed may be of no use.
    """

    def __init__(self, feed: Feed, period_s: float, patience_s: float) -> None:
        self.is_live = is_live(feed)
        self._feed = feed
        self._period_s = period_s
        self._patience_s = patience_s
        self._heard = 0.0

    def begin(self) -> None:
        """Begin to count the time that the feed says nothing."""
        self._heard = trio.current_time()

    def limits(self, limits: Limits, gaps_s: Sequence[float]) -> Limits:
        """Return the limits with that on age in place; see `limits_for`."""
        return limits_for(limits, live=self.is_live, bar_s=bar_s(self._feed), gaps_s=gaps_s, period_s=self._period_s)

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
