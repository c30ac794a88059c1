"""A harness that polls a market and trades within its limits, for as long as there is a market.

    feed ──MarketDay──►  account.open_day  ──Market──►  agent  ──Orders──►  account.close_day  ──►  step

`bars`, `rsi` and `account` are pure; `feed` reads files; `harness` has the clock.
"""

from harnesses.trading.account import Action, Holding, Limits, Market, Order, Signal, Trade, TradingOutput, TradingState
from harnesses.trading.bars import BadMarketData, Bar, MarketDay
from harnesses.trading.feed import Feed, ReplayFeed
from harnesses.trading.harness import TradingHarness
from harnesses.trading.rsi import Rsi
from harnesses.trading.strategy import rsi_agent

__all__ = [
    "Action",
    "BadMarketData",
    "Bar",
    "Feed",
    "Holding",
    "Limits",
    "Market",
    "MarketDay",
    "Order",
    "ReplayFeed",
    "Rsi",
    "Signal",
    "Trade",
    "TradingHarness",
    "TradingOutput",
    "TradingState",
    "rsi_agent",
]
