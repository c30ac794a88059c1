"""A harness that polls a market and trades on a broker within risk limits, until its feed ends.

    feed ──slice──►  account  ──►  risk  ──►  strategy  ──orders──►  screening  ──►  `once`  ──►  broker ──► venue
                        ▲                                                                            │
                        └───────────────────────── fills, reports ───────────────────────────────────┘

`market`, `position_book`, `account`, `risk` and the strategies are pure; `feeds`, `paper` and `exchange` do I/O;
`trading_harness` combines them.
"""

from harnesses.trading.account_model import Command, Execution, OpenOrder, QuietBar, TradingOutput, TradingState, bars_of
from harnesses.trading.bar_indicators import Atr, Bollinger, Donchian, Macd, Obv, RateOfChange, Sma, Stochastic, Vwap
from harnesses.trading.exchange.ccxt_broker import CcxtBroker
from harnesses.trading.exchange.ccxt_client import CcxtOptions
from harnesses.trading.exchange.ccxt_feed import CcxtFeed
from harnesses.trading.feeds.polling_feed import PollingFeed
from harnesses.trading.feeds.replay_feed import ReplayFeed
from harnesses.trading.indicators import Ema, Rsi
from harnesses.trading.market.bars import BadMarketData, Bar, MarketSlice, SliceRun
from harnesses.trading.market.broker import Broker, BrokerUnavailable, OrderRefused, VenueAccount
from harnesses.trading.market.feed import Feed, FeedUnavailable
from harnesses.trading.market.instruments import Instrument, Margin
from harnesses.trading.market.orders import (
    Cancel,
    Fill,
    Order,
    OrderKind,
    OrderReport,
    OrderStatus,
    PlacedOrder,
    Replace,
    Side,
    Source,
    TimeInForce,
)
from harnesses.trading.market_turn import Verb
from harnesses.trading.order_screening import Refusal
from harnesses.trading.paper.paper_books import Fees
from harnesses.trading.paper.paper_broker import PaperBroker
from harnesses.trading.position_book import Book, Position
from harnesses.trading.risk import Limits, RiskState
from harnesses.trading.sharing.shared_account import SharedAccount
from harnesses.trading.strategies import Market, Quote, Strategy, cross_strategy, portfolio_strategy, rsi_strategy
from harnesses.trading.talib_indicators import TaLib
from harnesses.trading.timeframes import Candle, FrameView, Timeframe
from harnesses.trading.trading_harness import BooksDiffer, TradingHarness

__all__ = [
    "Atr",
    "BadMarketData",
    "Bar",
    "Bollinger",
    "Book",
    "BooksDiffer",
    "Broker",
    "BrokerUnavailable",
    "Cancel",
    "Candle",
    "CcxtBroker",
    "CcxtFeed",
    "CcxtOptions",
    "Command",
    "Donchian",
    "Ema",
    "Execution",
    "Feed",
    "FeedUnavailable",
    "Fees",
    "Fill",
    "FrameView",
    "Instrument",
    "Limits",
    "Macd",
    "Margin",
    "Market",
    "MarketSlice",
    "Obv",
    "OpenOrder",
    "Order",
    "OrderKind",
    "OrderRefused",
    "OrderReport",
    "OrderStatus",
    "PaperBroker",
    "PlacedOrder",
    "PollingFeed",
    "Position",
    "QuietBar",
    "Quote",
    "RateOfChange",
    "Refusal",
    "Replace",
    "ReplayFeed",
    "RiskState",
    "Rsi",
    "SharedAccount",
    "Side",
    "SliceRun",
    "Sma",
    "Source",
    "Stochastic",
    "Strategy",
    "TaLib",
    "TimeInForce",
    "Timeframe",
    "TradingHarness",
    "TradingOutput",
    "TradingState",
    "VenueAccount",
    "Verb",
    "Vwap",
    "bars_of",
    "cross_strategy",
    "portfolio_strategy",
    "rsi_strategy",
]
