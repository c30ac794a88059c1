"""The strategy in a trading harness, in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import trio

from harnesses import Agent, AgentRun
from harnesses.trading import PaperBroker, ReplayFeed, TradingHarness
from harnesses.trading.indicators import Ema
from harnesses.trading.market.bars import Bar
from harnesses.trading.market.orders import Order, Side
from harnesses.trading.strategies import Market, Strategy
from tests.benchmarks.trading_peers.given_bars import CASH, FAST, FIRST, SLOW, UNITS, bars, measure


def harness(count: int, every: int) -> TradingHarness:
    """Return a harness over the bars."""
    feed = ReplayFeed(
        {
            "ABC": {
                bar.time: Bar(*(Decimal(cents).scaleb(-2) for cents in bar[1:5]), Decimal(bar.volume)) for bar in bars(count)
            }
        }
    )

    async def run(run: AgentRun[Any, Market]) -> Sequence[Order]:
        market = run.input
        number = int((market.time - FIRST).total_seconds()) // 60 + 1
        if not every or number % every:
            return []
        held = market.quotes["ABC"].units
        return [Order("ABC", Side.SELL, held) if held else Order("ABC", Side.BUY, Decimal(UNITS))]

    strategy = Strategy(Agent(run, name="orders", reports=("tokens",)), {"fast": Ema(FAST), "slow": Ema(SLOW)})
    return TradingHarness(feed, PaperBroker(Decimal(CASH)), strategy, period_s=0)


def _prepare(count: int, every: int) -> tuple[Callable[[], object], Callable[[], tuple[str, int]]]:
    made = harness(count, every)

    def result() -> tuple[str, int]:
        return f"{made.state.equity:.2f}", sum(len(step.output.fills) for step in made.step_history)

    return lambda: trio.run(made.run), result


if __name__ == "__main__":
    measure(_prepare)
