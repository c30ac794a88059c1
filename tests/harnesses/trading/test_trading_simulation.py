"""A backtest has exactly the equity, at every bar, of a simulation that knows nothing of this package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
import trio

from harnesses import Agent, AgentRun
from harnesses.trading import Fees, PaperBroker, ReplayFeed, Strategy, TradingHarness, bars_of
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.orders import Order, OrderKind, Side
from harnesses.trading.strategies import Market
from tests import ROOT

FILES = {"IBM": ROOT / "examples" / "data" / "ibm.csv", "MSFT": ROOT / "examples" / "data" / "msft.csv"}
CASH, BARS = Decimal(1_000_000), 250


class Cost(NamedTuple):
    """What the venue takes: fees as a part of the price, and at least so much."""

    rate: Decimal = Decimal(0)
    minimum: Decimal = Decimal(0)


def simulated(slices: Sequence[MarketSlice], symbol: str, cost: Cost) -> Iterator[Decimal]:
    """Give the equity at each bar: purchases at every third, sales at every seventh, a waiting purchase at every fifth."""
    cash, held, waiting = CASH, 0, list[Decimal]()

    def pay(units: int, price: Decimal) -> None:
        nonlocal cash, held
        cash -= units * price + max(cost.minimum, abs(units) * price * cost.rate)
        held += units

    for number, bar in enumerate((one.bars[symbol] for one in slices), 1):
        for price in [price for price in waiting if bar.low <= price]:
            waiting.remove(price)
            pay(2, min(price, bar.open))
        if number % 7 == 0 and held:
            pay(-min(held, 3), bar.close)
        if number % 3 == 0:
            pay(1 + number % 4, bar.close)
        if number % 5 == 0:
            waiting.append(round(bar.close * Decimal("0.99"), 2))
        yield cash + held * bar.close


def strategy(symbol: str, times: Sequence[datetime]) -> Strategy:
    numbers = {time: number for number, time in enumerate(times, 1)}

    async def run(run: AgentRun[Any, Market]) -> Sequence[Order]:
        number, quote = numbers[run.input.time], run.input.quotes[symbol]
        wanted: list[Order] = []
        if number % 7 == 0 and quote.units:
            wanted.append(Order(symbol, Side.SELL, min(quote.units, Decimal(3))))
        if number % 3 == 0:
            wanted.append(Order(symbol, Side.BUY, Decimal(1 + number % 4)))
        if number % 5 == 0:
            price = round(quote.close * Decimal("0.99"), 2)
            wanted.append(Order(symbol, Side.BUY, Decimal(2), OrderKind.LIMIT, limit_price=price))
        return wanted

    return Strategy(Agent(run, name="by number"))


@pytest.mark.parametrize("cost", [Cost(), Cost(rate=Decimal("0.0007")), Cost(Decimal("0.0003"), Decimal("1.25"))])
@pytest.mark.parametrize("symbol", FILES)
def test_the_equity_at_every_bar_is_that_of_an_independent_simulation(symbol: str, cost: Cost) -> None:
    feed = ReplayFeed.read({symbol: FILES[symbol]}, limit=BARS)
    broker = PaperBroker(CASH, fees=Fees(rate=cost.rate, minimum=cost.minimum))
    harness = TradingHarness(feed, broker, strategy(symbol, feed.times), period_s=0)

    trio.run(harness.run)

    bars = [bar for step in harness.step_history[1:] for bar in bars_of(step.input, step.output)]
    slices = [market for market, _ in bars if market is not None]
    assert [output.equity for _, output in bars] == list(simulated(slices, symbol, cost))
    assert sum(len(output.fills) for _, output in bars) > BARS / 3
