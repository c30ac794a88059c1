"""Buy what has fallen too fast, sell what has risen too fast. Pure but for the agent's `async`."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from harnesses.agent import Agent, AgentRun
from harnesses.budgets.usage import REPORTABLE
from harnesses.trading.indicators.relative_strength import Rsi
from harnesses.trading.market.orders import ZERO, Order, Side
from harnesses.trading.strategies.strategy_view import Market, Quote, Strategy, check_part

LOW, HIGH = 30.0, 70.0


def decide(rsi: float | None) -> Side | None:
    """Return BUY below 30, SELL above 70, else None; 30 and 70 themselves are None, and so is no index yet."""
    if rsi is None or LOW <= rsi <= HIGH:
        return None
    return Side.BUY if rsi < LOW else Side.SELL


def rsi_orders(market: Market, stake: Decimal, name: str = "rsi") -> list[Order]:
    """Return the orders for one slice, sales first: SELL gives all, BUY spends `stake` of the equity if there is the cash."""
    orders = [
        Order(symbol, Side.SELL, quote.sellable, reason=_reason(quote, name))
        for symbol, quote in market.quotes.items()
        if quote.sellable and decide(quote.indicators[name]) is Side.SELL
    ]
    left = market.free_cash
    for symbol, quote in market.quotes.items():
        if decide(quote.indicators[name]) is Side.BUY:
            units = quote.bought_for(min(max(market.equity, ZERO) * stake, left))
            left -= units * quote.close
            orders += [Order(symbol, Side.BUY, units, reason=_reason(quote, name))] if units else []
    return orders


def rsi_strategy(stake: Decimal = Decimal("0.1"), *, period: int = 14) -> Strategy:
    """Return a strategy that decides by the relative strength index alone.

    Args:
        stake: the part of the equity that one BUY may spend. It buys again at each slice at which the index is below 30.
        period: prices that the index is over.
    """
    stake = check_part("rsi_strategy", "stake", stake)
    name = f"rsi{period}"

    async def run(run: AgentRun[Any, Market]) -> Sequence[Order]:
        return rsi_orders(run.input, stake, name)

    return Strategy(Agent(run, name="rsi", reports=REPORTABLE), {name: Rsi(period)})


def _reason(quote: Quote, name: str) -> str:
    return f"RSI {quote.indicators[name]:.1f}"
