"""The trading harness at a venue that goes wrong: the code is that of paper trading, the books come out as the venue's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import trio
from attrs import evolve

from harnesses import Agent, AgentRun
from harnesses.trading import Limits, Market, Order, Side, Strategy, TradingHarness, TradingState
from harnesses.trading.ccxt_broker import CcxtBroker
from harnesses.trading.ccxt_client import CcxtOptions
from harnesses.trading.ccxt_feed import CcxtFeed
from orchestrator import Orchestrator

from .hostility import HOSTILE
from .ordering import BTC, ETH
from .running import RunningVenue, closed

SLICES = 6


async def there_and_back(run: AgentRun[TradingState, Market]) -> Sequence[Order]:
    """Buy some of each in one slice and sell less in the next."""
    await trio.lowlevel.checkpoint()
    minute = run.input.time.minute
    side, units = (Side.BUY, "0.03") if minute % 2 else (Side.SELL, "0.02")
    return [Order(symbol, side, Decimal(units)) for symbol in run.input.quotes]


def make(options: CcxtOptions, start: datetime) -> TradingHarness:
    """Return a harness as it is when the program starts."""
    feed = CcxtFeed("binance", [BTC, ETH], options=options, start=start)
    strategy: Any = Strategy(Agent(there_and_back))
    return TradingHarness(feed, CcxtBroker("binance", options), strategy, limits=Limits(max_age_s=3600.0), period_s=0.02)


async def live(store: Path, harness: TradingHarness, seconds: float) -> None:
    """Run it for a while, or until it has seen enough."""
    with trio.move_on_after(seconds):
        async with Orchestrator(store, intensity=1000, handle_signals=False) as orchestrator:
            handle = orchestrator.start(harness, name="live")
            async for step in handle.steps():
                if step.step_number > SLICES:
                    await handle.stop()
                    return


async def test_a_harness_that_is_stopped_again_and_again_has_the_books_of_the_venue(
    venue: RunningVenue, options: CcxtOptions, tmp_path: Path
) -> None:
    venue.hostile(evolve(HOSTILE, limited=0.0, restart=0.0, late_s=0.5))
    start = datetime.now(UTC) - timedelta(minutes=SLICES + 1)
    lives = 0
    while (harness := make(options, start)) and lives < 30:
        lives += 1
        await live(tmp_path / "run.db", harness, 0.5 + lives / 4)
        if harness.current_step > SLICES:
            break

    venue.control("calm")
    await closed(venue)
    books, book = venue.books(), harness.state.book
    assert lives > 1
    assert books["orders"] == books["client_ids"] == 2 * SLICES
    assert book is not None
    fills = await CcxtBroker("binance", options).fills([BTC, ETH], book.last_fill)
    for fill in fills:
        book = book.after(fill)
    assert book.cash == Decimal(books["balances"]["USDT"])
    assert [book.units(BTC), book.units(ETH)] == [Decimal(books["balances"][asset]) for asset in ("BTC", "ETH")]
