"""What a feed is: where market data comes from.

The law: a feed is asked by time, never by position, so that a harness resumed a week later, over data that has grown since,
goes on with the first slice it has not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from harnesses.errors import OrchestratorError
from harnesses.trading.market.bars import MarketSlice


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


def is_live(feed: Feed) -> bool:
    """Return whether a feed tells of a market as it is now. So does every one that does not say `is_live = False`."""
    return bool(getattr(feed, "is_live", True))


def bar_s(feed: Feed) -> float | None:
    """Return the seconds of a bar, if the feed says so: `bar_s`."""
    seconds: float | None = getattr(feed, "bar_s", None)
    return seconds
