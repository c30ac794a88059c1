"""What the run file of `tests.kill.both` names: a feed of past minutes that ends when it is told to, and a strategy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import trio

from harnesses import Agent, AgentRun
from harnesses.trading import Market, Order, Side, Strategy, TradingState
from harnesses.trading.exchange.ccxt_feed import CcxtFeed
from harnesses.trading.market.bars import MarketSlice
from tests.venue.ordering import BTC, ETH
from tests.venue.placing import reach

_PACE_S = 0.3
"""Between two slices, so that trading leaves the processor to coding."""


class UntilTold(CcxtFeed):
    """Is at its end with the slice of the time in a file, once that is there."""

    told: Path

    async def next_slice(self, after: datetime | None) -> MarketSlice | None:
        await trio.sleep(_PACE_S)
        return await super().next_slice(after)

    def is_at_end(self, after: datetime | None) -> bool:
        return after is not None and self.told.exists() and after >= datetime.fromisoformat(self.told.read_text())


def make_feed(url: str, start: str, told: str) -> CcxtFeed:
    """Return a feed of a venue's bars since `start`, to the time in the file `told`, once that is there."""
    feed = UntilTold("binance", [BTC, ETH], options=reach(url, 4), start=datetime.fromisoformat(start))
    feed.told = Path(told)
    return feed


async def there_and_back(run: AgentRun[TradingState, Market]) -> Sequence[Order]:
    """Buy some of each in one slice, and sell as much in the next."""
    await trio.lowlevel.checkpoint()
    side = Side.BUY if run.input.time.minute % 2 else Side.SELL
    return [Order(symbol, side, Decimal("0.02")) for symbol in run.input.quotes]


def make_strategy() -> Strategy:
    """Return the strategy."""
    strategy: Any = Strategy(Agent(there_and_back))
    return strategy
