"""A harness that follows a market and trades at a venue within limits, for as long as there is a market.

    feed ──slice──►  account  ──►  risk  ──►  strategy  ──orders──►  screening  ──►  `once`  ──►  broker ──► venue
                        ▲                                                                            │
                        └───────────────────────── fills, reports ───────────────────────────────────┘

`bars`, `orders`, `book`, `account`, `risk` and the strategies are pure; feeds and brokers have the world; `harness` has both.
"""

from harnesses.trading.account_nouns import Command, Execution, TradingOutput, TradingState
from harnesses.trading.bars import BadMarketData, Bar, MarketSlice
from harnesses.trading.book import Book, Position
from harnesses.trading.broker import Broker, BrokerUnavailable, OrderRefused, VenueAccount
from harnesses.trading.ccxt_broker import CcxtBroker
from harnesses.trading.ccxt_client import CcxtOptions
from harnesses.trading.ccxt_feed import CcxtFeed
from harnesses.trading.feed import Feed, FeedUnavailable
from harnesses.trading.harness import BooksDiffer, TradingHarness
from harnesses.trading.harness_verbs import Verb
from harnesses.trading.instruments import Instrument
from harnesses.trading.orders import Fill, Order, OrderKind, OrderReport, OrderStatus, PlacedOrder, Side, Source
from harnesses.trading.paper import PaperBroker
from harnesses.trading.paper_rules import Fees
from harnesses.trading.polling import PollingFeed
from harnesses.trading.replay import ReplayFeed
from harnesses.trading.risk import Limits, RiskState
from harnesses.trading.risk_screening import Refusal
from harnesses.trading.strategies import Market, Quote, Strategy, cross_strategy, portfolio_strategy, rsi_strategy

__all__ = [
    "BadMarketData",
    "Bar",
    "Book",
    "BooksDiffer",
    "Broker",
    "BrokerUnavailable",
    "CcxtBroker",
    "CcxtFeed",
    "CcxtOptions",
    "Command",
    "Execution",
    "Feed",
    "FeedUnavailable",
    "Fees",
    "Fill",
    "Instrument",
    "Limits",
    "Market",
    "MarketSlice",
    "Order",
    "OrderKind",
    "OrderRefused",
    "OrderReport",
    "OrderStatus",
    "PaperBroker",
    "PlacedOrder",
    "PollingFeed",
    "Position",
    "Quote",
    "Refusal",
    "ReplayFeed",
    "RiskState",
    "Side",
    "Source",
    "Strategy",
    "TradingHarness",
    "TradingOutput",
    "TradingState",
    "VenueAccount",
    "Verb",
    "cross_strategy",
    "portfolio_strategy",
    "rsi_strategy",
]
