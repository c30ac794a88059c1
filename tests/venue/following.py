"""For tests: a feed followed as a harness follows it, at its ticks and at its news."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import trio
from attrs import define, field

from harnesses.trading.exchange.ccxt_feed import CcxtFeed
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.feed import FeedPoller

_LONGEST_S = 20.0


@define
class Followed:
    """What a feed has given and said so far."""

    feed: CcxtFeed
    slices: list[MarketSlice] = field(factory=list[MarketSlice])
    lines: list[str] = field(factory=list[str])
    woken: int = 0
    """How often it was asked for more."""

    async def until(self, what: Callable[[], bool], why: str, *, within_s: float = _LONGEST_S) -> None:
        """Wait for something."""
        with trio.move_on_after(within_s):
            while not what():  # noqa: ASYNC110  (it is another thread and another process that are waited for)
                await trio.sleep(0.005)
            return
        raise AssertionError(f"not within {within_s} s: {why}; {len(self.slices)} slices, said {self.lines}")

    async def until_slices(self, count: int) -> None:
        """Wait until so many slices have been given."""
        await self.until(lambda: len(self.slices) >= count, f"{count} slices")

    async def until_said(self, word: str) -> None:
        """Wait for a line with a word."""
        await self.until(lambda: any(word in line for line in self.lines), f"to say {word!r}")


@define
class _Ticks:
    """Ticks at a period, as those of a harness: a wait that is cut off goes on with the same tick."""

    period_s: float
    due: float = -math.inf

    def __aiter__(self) -> _Ticks:
        return self

    async def __anext__(self) -> None:
        await trio.sleep_until(max(self.due, trio.current_time()))
        self.due = trio.current_time() + self.period_s


@asynccontextmanager
async def following(feed: CcxtFeed, *, period_s: float = 0.2) -> AsyncGenerator[Followed]:
    """Follow a feed while the block lasts."""
    followed, poller = Followed(feed), FeedPoller(feed, period_s, 300.0)

    async def follow() -> None:
        ticks = _Ticks(period_s)
        with poller.listen():
            while True:
                await poller.next_tick(ticks)
                followed.woken += 1
                while (found := await poller.next_slice(followed.slices[-1].time if followed.slices else None)) is not None:
                    followed.slices.append(found)
                followed.lines += poller.take_lines()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow)
        yield followed
        nursery.cancel_scope.cancel()
