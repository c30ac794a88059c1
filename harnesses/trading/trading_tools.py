"""Tools for agents that trade: quotes, account, positions and indicators; orders only where they are asked for.

    agent = ModelAgent("anthropic:claude-…", tools=trading_tools(orders=True))
    TradingHarness(feed, broker, agent_strategy(agent), limits=Limits(max_position=Decimal("0.2")))

    trading_tools()                                  in a strategy: the market that the harness asks about
    trading_tools(venue=Venue(feed, broker))         in any other agent: the newest slice, and the venue's account

Invariant: no tool reaches the venue with an order. An order that an agent wants is recorded, and returned as the answer of the
strategy; the harness screens it by its limits and places it once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
from attrs import define, field
from msgspec import Meta

from harnesses.agent import Agent, AgentRun
from harnesses.agents.tools.function_tool import FunctionTool, function_tool
from harnesses.agents.tools.tool import ToolEffect, ToolError, ToolSetting
from harnesses.effects.effect import EffectOutcome
from harnesses.errors import HarnessMisuse
from harnesses.trading.indicators import AnyIndicator, Indicators, Standing, after_bar, after_split, values
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.broker import Broker
from harnesses.trading.market.feed import Feed
from harnesses.trading.market.instruments import Instrument
from harnesses.trading.market.orders import ONE, ZERO, Order, OrderKind, OrderReport, Side
from harnesses.trading.strategies import Market, Quote, Strategy, StrategyAgent

MAX_SLICES = 100_000
"""Slices of a feed that are read for one call."""
MAX_WANTED = 100
"""Orders that one turn may want."""
LARGEST = Decimal(10**15)
"""Units and price of an order: more, or a price that is smaller than its inverse, is taken for a mistake."""


def trading_tools(*, venue: Venue | None = None, orders: bool = False) -> tuple[FunctionTool, ...]:
    """Return the tools for trading; all of them only read, except `order`.

    Args:
        venue: what to look at; None for the market that the agent of a strategy is asked about.
        orders: whether the agent may want orders: for the agent of an `agent_strategy`.

    Raises:
        HarnessMisuse: orders together with a venue, where no harness would screen and place them.
    """
    if orders and venue is not None:
        raise HarnessMisuse(
            "trading_tools: orders: expected False with a venue, got True; orders go through a TradingHarness, which screens "
            "them by its limits: use `agent_strategy` there"
        )
    view, reads = _View(venue), ToolEffect.READS
    tools = [function_tool(one, effect=reads) for one in (view.quotes, view.account, view.positions, view.indicators)]
    if orders:
        tools += [function_tool(order), function_tool(list_orders, effect=reads, name="wanted_orders")]
    return tuple(tools)


def agent_strategy(agent: Agent[Any, Any, Any], indicators: Mapping[str, AnyIndicator] | None = None) -> Strategy:
    """Return a strategy whose orders are those that an agent wants through the tool `order`.

    Args:
        agent: has `trading_tools(orders=True)`; what it answers is not used.
        indicators: by name; their values are shown to the agent.
    """

    async def decide(run: AgentRun[Any, Market]) -> Sequence[Order]:
        await agent.answer(run)
        return wanted_orders(run)

    asked: StrategyAgent = Agent(decide, name=agent.name, reports=agent.reports)
    return Strategy(asked, dict(indicators or {}))


@define
class Venue:
    """A feed and a broker to look at. It keeps the newest slice that it has seen."""

    feed: Feed
    broker: Broker
    watched: Indicators = field(factory=dict[str, AnyIndicator])
    """Indicators by name."""
    _slice: MarketSlice | None = field(init=False, default=None)
    _closes: dict[str, Decimal] = field(init=False, factory=dict[str, Decimal])
    _standings: dict[str, dict[str, Standing]] = field(init=False, factory=dict[str, dict[str, Standing]])
    _rules: Mapping[str, Instrument] = field(init=False, factory=dict[str, Instrument])

    async def market(self) -> Market:
        """Return the newest slice of the feed, and the account as the venue states it.

        Raises:
            ToolError: the feed has no slice yet.
        """
        symbols = tuple(self.feed.symbols)
        self._rules = self._rules or await self.broker.connect(symbols)
        for _ in range(MAX_SLICES):
            found = await self.feed.next_slice(self._slice.time if self._slice else None)
            if found is None:
                break
            self._take(found)
        if self._slice is None:
            raise ToolError("the feed has no prices yet; try again later")
        account = await self.broker.account(symbols)
        pending = _pending(await self.broker.open_orders(symbols))
        quotes = {
            symbol: Quote(
                close,
                account.positions.get(symbol, ZERO),
                values(self.watched, self._standings[symbol]),
                pending.get(symbol, ZERO),
                self._rules[symbol].lot,
            )
            for symbol, close in self._closes.items()
        }
        worth = sum((quote.units * quote.close for quote in quotes.values()), ZERO)
        return Market(self._slice.time, quotes, account.cash, account.cash + worth)

    def _take(self, market: MarketSlice) -> None:
        self._slice = market
        for symbol, bar in market.bars.items():
            standings, before = self._standings.get(symbol, {}), self._closes.get(symbol)
            if bar.split != ONE:
                standings = after_split(self.watched, standings, float(bar.split))
                before = None if before is None else before / bar.split
            self._standings[symbol] = after_bar(self.watched, standings, bar, None if before is None else float(before))
            self._closes[symbol] = bar.close


def _pending(reports: Sequence[OrderReport]) -> dict[str, Decimal]:
    """Return, by symbol, the units that open orders may still buy, less those that they sell."""
    pending: dict[str, Decimal] = {}
    for report in reports:
        left = report.units - report.filled
        pending[report.symbol] = pending.get(report.symbol, ZERO) + (left if report.side is Side.BUY else -left)
    return pending


class _View:
    """The tools that read."""

    def __init__(self, venue: Venue | None) -> None:
        self._venue = venue

    async def quotes(self, setting: ToolSetting, symbols: list[str] | None = None) -> dict[str, Any]:
        """Return the last price of each symbol that may be traded now, and its lot size.

        Args:
            symbols: only these.
        """
        market = await self._market(setting)
        return {
            "time": market.time,
            "quotes": {name: {"close": quote.close, "lot": quote.lot} for name, quote in _chosen(market, symbols).items()},
        }

    async def account(self, setting: ToolSetting) -> dict[str, Any]:
        """Return the cash, the cash that open purchases leave free, and the equity."""
        market = await self._market(setting)
        return {"time": market.time, "cash": market.cash, "free_cash": market.free_cash, "equity": market.equity}

    async def positions(self, setting: ToolSetting) -> dict[str, Any]:
        """Return the units held of each symbol, their worth, and the units that open orders may still buy or sell."""
        market = await self._market(setting)
        return {
            name: {"units": quote.units, "worth": quote.units * quote.close, "pending": quote.pending}
            for name, quote in market.quotes.items()
            if quote.units or quote.pending
        }

    async def indicators(self, setting: ToolSetting, symbols: list[str] | None = None) -> dict[str, Any]:
        """Return the indicators of each symbol; null for one that has not seen enough prices.

        Args:
            symbols: only these.
        """
        return {name: dict(quote.indicators) for name, quote in _chosen(await self._market(setting), symbols).items()}

    async def _market(self, setting: ToolSetting) -> Market:
        return market_of(setting) if self._venue is None else await self._venue.market()


def market_of(setting: ToolSetting) -> Market:
    """Return the market that the agent of a strategy is asked about.

    Raises:
        HarnessMisuse: the agent is not asked by a trading harness.
    """
    market = setting.run.input
    if not isinstance(market, Market):
        raise HarnessMisuse(
            f"trading tools: expected an agent that a TradingHarness asks about a Market, got the input {market!r:.100}; "
            "give the tools a `venue`"
        )
    return market


def _chosen(market: Market, symbols: Sequence[str] | None) -> Mapping[str, Quote]:
    if symbols is None:
        return market.quotes
    if unknown := [name for name in symbols if name not in market.quotes]:
        raise ToolError(f"symbol {unknown[0]!r:.60} is not traded now: expected some of {', '.join(market.quotes)}")
    return {name: market.quotes[name] for name in symbols}


# orders


async def order(
    symbol: str,
    side: Literal["buy", "sell"],
    units: Annotated[Decimal, Meta(description="above 0, in whole lots")],
    setting: ToolSetting,
    kind: Literal["market", "limit", "stop"] = "market",
    limit_price: Decimal | None = None,
    stop_price: Decimal | None = None,
    reason: Annotated[str, Meta(max_length=300)] = "",
) -> str:
    """Want an order. It is screened by the limits and placed after your answer; the same order is wanted once.

    Args:
        kind: when it may be filled: at once, at the limit price or better, or once the stop price is reached.
        reason: why, for the record.
    """
    quote = _chosen(market_of(setting), [symbol])[symbol]
    if not units.is_finite() or not ZERO < units <= LARGEST or quote.whole(units) != units:
        raise ToolError(f"units: expected a multiple of the lot {quote.lot} above 0, at most {LARGEST:,}, got {units:.30}")
    _check_price("limit_price", limit_price, kind, "limit")
    _check_price("stop_price", stop_price, kind, "stop")
    wanted = Order(symbol, Side(side), units, OrderKind(kind), limit_price, stop_price, reason)
    known = wanted_orders(setting.run)
    if wanted in known:
        return "this order is wanted already"
    if len(known) >= MAX_WANTED:
        raise ToolError(f"expected at most {MAX_WANTED} orders at a time; finish your answer")
    await setting.run.once(_key(len(known) + 1), _want, wanted, idempotent=True)
    return f"order {len(known) + 1} is wanted; it is placed after your answer if the limits allow it"


def _check_price(name: str, price: Decimal | None, kind: str, needed_by: str) -> None:
    """Check that an order has a price exactly if its kind needs one.

    Raises:
        ToolError: it has not, or the price is not possible.
    """
    if kind != needed_by:
        if price is not None:
            raise ToolError(f"{name}: expected none for a {kind} order, got {price:.30}; leave it out, or set `kind`")
    elif price is None or not price.is_finite() or not 1 / LARGEST < price <= LARGEST:
        got = "none" if price is None else f"{price:.30}"
        raise ToolError(f"{name}: expected a price above 0, which a {kind} order needs, got {got}; correct it, or the kind")


async def list_orders(setting: ToolSetting) -> list[Order]:
    """Return the orders that you have wanted so far."""
    return list(wanted_orders(setting.run))


async def _want(order: Order) -> Order:
    return order


def wanted_orders(run: AgentRun[Any, Any]) -> tuple[Order, ...]:
    """Return the orders that an agent has wanted in a turn, from their records."""
    orders = list[Order]()
    while len(orders) < MAX_WANTED:
        known = run.recorded(_key(len(orders) + 1))
        if known is None or known.outcome is not EffectOutcome.CONFIRMED:
            break
        orders.append(msgspec.convert(known.result, Order))
    return tuple(orders)


def _key(number: int) -> str:
    return f"wanted/{number}"
