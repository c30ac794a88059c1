"""Hold what rises: a symbol is held while its fast moving average is above its slow one. Pure but for the agent's `async`.

The position that is wanted follows from the averages of the moment, not from having seen them cross: what a crash, a latch or
a venue has prevented at the crossing is made good at the next slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from harnesses.agent import Agent, AgentRun
from harnesses.budgets.usage import REPORTABLE
from harnesses.errors import HarnessMisuse
from harnesses.trading.indicators.moving_average import Ema
from harnesses.trading.market.orders import ZERO, Order, Side
from harnesses.trading.strategies.strategy_view import Market, Strategy, check_part


def trend(fast: float | None, slow: float | None) -> int:
    """Return 1 if the fast average is above the slow one, -1 if it is below, 0 if they are equal or not there yet."""
    if fast is None or slow is None:
        return 0
    return (fast > slow) - (fast < slow)


def cross_orders(market: Market, fast: str, slow: str, stake: Decimal) -> list[Order]:
    """Return the orders for one slice, sales first: all of what falls is sold, `stake` of the equity buys what rises.

    Args:
        fast, slow: the names of the averages.
    """
    trends = {symbol: trend(quote.indicators[fast], quote.indicators[slow]) for symbol, quote in market.quotes.items()}
    orders = [
        Order(symbol, Side.SELL, quote.sellable, reason=f"{fast} below {slow}")
        for symbol, quote in market.quotes.items()
        if trends[symbol] < 0 and quote.sellable
    ]
    left = market.free_cash
    for symbol, quote in market.quotes.items():
        if trends[symbol] > 0 and not quote.whole(quote.expected):
            units = quote.bought_for(min(max(market.equity, ZERO) * stake, left))
            left -= units * quote.close
            orders += [Order(symbol, Side.BUY, units, reason=f"{fast} above {slow}")] if units else []
    return orders


def cross_strategy(fast: int = 20, slow: int = 50, stake: Decimal = Decimal("0.1")) -> Strategy:
    """Return a strategy that follows two exponential moving averages.

    Args:
        fast, slow: windows, in slices; the fast one is the shorter.
        stake: the part of the equity that is put in each symbol.
    """
    if not 0 < fast < slow:
        raise HarnessMisuse(f"cross_strategy: windows: expected 0 < fast < slow, was fast {fast}, slow {slow}")
    stake = check_part("cross_strategy", "stake", stake)
    names = f"ema{fast}", f"ema{slow}"

    async def run(run: AgentRun[Any, Market]) -> Sequence[Order]:
        return cross_orders(run.input, *names, stake)

    return Strategy(Agent(run, name="cross", reports=REPORTABLE), dict(zip(names, (Ema(fast), Ema(slow)), strict=True)))
