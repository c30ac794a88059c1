"""Strategies: agents that are asked about a `Market` and answer with the orders that they want, plus their indicators.

What the harness does for a strategy, at each slice, for each symbol whose price is believed:

    state     standings: Mapping[str, Mapping[str, Standing]]      by symbol, by name; empty at the start
    split     standings[symbol] = after_split(strategy.indicators, standings.get(symbol, {}), float(bar.split))
    price     standings[symbol] = after_price(strategy.indicators, standings.get(symbol, {}), float(close), before)
              `before` is the price that `close` is compared with, None for the first of a symbol
    quote     Quote(close, units, values(strategy.indicators, standings[symbol]), pending, lot)
    ask       orders = await self.run_agent(strategy.agent, Market(time, quotes, cash, equity, previous))

A strategy is pure but for the agent's `async`: it has no state of its own, so nothing of it is lost in a crash.
"""

from harnesses.trading.strategies.crossing_averages import cross_strategy
from harnesses.trading.strategies.portfolio import portfolio_strategy
from harnesses.trading.strategies.rsi_orders import rsi_strategy
from harnesses.trading.strategies.strategy_view import Market, Quote, Strategy, StrategyAgent

__all__ = [
    "Market",
    "Quote",
    "Strategy",
    "StrategyAgent",
    "cross_strategy",
    "portfolio_strategy",
    "rsi_strategy",
]
