"""Strategies: agents that are asked about a `Market` and return the orders they want, plus their indicators.

What the harness does for a strategy, at each slice, for each symbol with a believed price:

    state     standings: Mapping[str, Mapping[str, Standing]]      by symbol, by name; empty at the start
    split     standings[symbol] = after_split(strategy.indicators, standings.get(symbol, {}), float(bar.split))
    price     standings[symbol] = after_bar(strategy.indicators, standings.get(symbol, {}), bar, before)
              `before` is the price that `close` is compared with, None for the first of a symbol
    quote     Quote(close, units, values(strategy.indicators, standings[symbol]), pending, lot)
    ask       orders = await self.run_agent(strategy.agent, Market(time, quotes, cash, equity, previous))

A strategy that asks for bars or timeframes finds them in its quotes too; see `timeframes`.

Apart from the agent's `async`, a strategy is pure: it has no state of its own, so a crash loses nothing of it. Ready-made:

    rsi_strategy         buys what has fallen too fast, sells what has risen too fast
    cross_strategy       holds a symbol while its fast moving average is above its slow one
    portfolio_strategy   holds several symbols at given weights, and rebalances when they have drifted

The wanted position follows from the current numbers, not from the event of averages crossing: an order that a crash, a latch
or a venue prevented at the crossing is placed at the next slice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import ROUND_DOWN, Decimal
from typing import Any, TypeAlias

from attrs import Factory, field, frozen

from harnesses.agent import Agent, AgentRun
from harnesses.budgets.usage import REPORTABLE
from harnesses.errors import HarnessMisuse
from harnesses.trading.account_model import OpenOrder
from harnesses.trading.indicators import AnyIndicator, Ema, Indicators, Rsi
from harnesses.trading.market.bars import Bar
from harnesses.trading.market.orders import ONE, ZERO, Order, Side, exact
from harnesses.trading.position_book import Position
from harnesses.trading.timeframes import Candle, FrameView, Timeframe


def _flat(quote: Quote) -> Bar:
    return Bar(quote.close, quote.close, quote.close, quote.close, ZERO)


@frozen
class Quote:
    """The market and position of one symbol that may be traded now."""

    close: Decimal
    units: Decimal = ZERO
    """Units held; negative if short, which needs a venue with margin."""
    indicators: Mapping[str, float | None] = field(factory=dict[str, float | None])
    """Values of the strategy's indicators by name; None for one that has not seen enough prices."""
    pending: Decimal = ZERO
    """Units that open orders may still buy; negative if they sell."""
    lot: Decimal = ONE
    """Lot size: units are bought and sold in multiples of it."""
    bar: Bar = Factory(_flat, takes_self=True)
    """The whole bar that `close` is of."""
    candles: Sequence[Candle] = ()
    """The last bars up to this one, oldest first, adjusted for splits; at most `Strategy.bars`."""
    timeframes: Mapping[str, FrameView] = field(factory=dict[str, FrameView])
    """The longer timeframes of the strategy by name: only bars that are over."""
    selling: Decimal = ZERO
    """Units that open orders may still sell; `pending` has them less those that others buy."""

    @property
    def sellable(self) -> Decimal:
        """Units that may be sold, in whole lots: those held less those that open orders sell."""
        return self.whole(self.units - max(self.selling, -self.pending))

    @property
    def coverable(self) -> Decimal:
        """Units of a short position that may be bought back, in whole lots: less those that open orders buy."""
        return self.whole(-self.units - max(self.pending + self.selling, ZERO))

    @property
    def expected(self) -> Decimal:
        """Units held once the open orders are filled."""
        return self.units + self.pending

    def whole(self, units: Decimal) -> Decimal:
        """Return the largest multiple of the lot that is not above `units`; 0 for negative units."""
        return (max(units, ZERO) / self.lot).to_integral_value(ROUND_DOWN) * self.lot

    def bought_for(self, money: Decimal) -> Decimal:
        """Return the units, in whole lots, that `money` buys at the close."""
        return self.whole(money / self.close)

    def risked_for(self, money: Decimal, stop_price: Decimal, side: Side = Side.BUY) -> Decimal:
        """Return the units, in whole lots, that lose `money` if they are bought at the close and sold at `stop_price`.

        Args:
            stop_price: below the close; 0 units at one that is not.
            side: with `Side.SELL` they are sold short and bought back at a stop price above the close.
        """
        distance = self.close - stop_price if side is Side.BUY else stop_price - self.close
        return self.whole(money / distance) if distance > 0 else ZERO


@frozen
class Market:
    """What a strategy is asked about: the market at one time, and the account."""

    time: datetime
    """Time of the slice; UTC, with zone."""
    quotes: Mapping[str, Quote]
    """Quotes by symbol; a symbol that did not trade, or whose price is not believed, is left out."""
    cash: Decimal
    equity: Decimal
    previous: datetime | None = None
    """Time of the last slice that the strategy was asked about; None for the first. Slices whose orders were prevented, by a
    halt, stale data or the kill switch, do not count."""
    orders: Sequence[OpenOrder] = ()
    """Our open orders, of all symbols, in the order in which they were placed."""
    positions: Mapping[str, Position] = field(factory=dict[str, Position])
    """Units held of all symbols, and their cost; read-only."""
    margin_power: Decimal | None = None
    """What orders may still open at a venue with margin, which `buying_power` returns; None without margin."""

    def as_task(self) -> dict[str, object]:
        """Return what an agent of a model is told, always in the same order, so that recorded answers are found again."""
        names = "close", "indicators", "lot", "pending", "units"
        quotes = {symbol: {name: getattr(quote, name) for name in names} for symbol, quote in self.quotes.items()}
        account: dict[str, object] = {"cash": self.cash, "equity": self.equity, "previous": self.previous}
        if self.margin_power is not None:
            account["buying_power"] = self.buying_power
        return {**account, "quotes": quotes, "time": self.time}

    @property
    def free_cash(self) -> Decimal:
        """Cash less the cost of all open purchases, at the close."""
        return self.cash - sum((max(one.pending + one.selling, ZERO) * one.close for one in self.quotes.values()), ZERO)

    @property
    def buying_power(self) -> Decimal:
        """Worth of the positions that orders may still open, long or short; 0 or more. Without margin the free cash."""
        return max(self.free_cash if self.margin_power is None else self.margin_power, ZERO)


StrategyAgent: TypeAlias = Agent[Any, Market, Sequence[Any]]
"""An agent that is asked at each slice, and returns wishes: orders (`Order`) in order of priority, and changes of open ones
(`Cancel`, `Replace`)."""


@frozen
class Strategy:
    """A trading agent and the indicators it needs. It has no state of its own."""

    agent: StrategyAgent
    indicators: Indicators = field(factory=dict[str, AnyIndicator])
    """Indicators by name; the harness keeps their standings for each symbol and passes the values in `Quote.indicators`."""
    bars: int = 0
    """Number of bars of the feed to see in `Quote.candles`. They are part of the recorded state."""
    timeframes: Mapping[str, Timeframe] = field(factory=dict[str, Timeframe])
    """Longer timeframes to see in `Quote.timeframes`, by name. Do not reuse a name for another one."""
    shorts: bool = False
    """Whether it sells short, so that it is refused at a venue without margin."""

    def __attrs_post_init__(self) -> None:
        if self.bars < 0:
            raise HarnessMisuse(f"Strategy: bars: expected 0 or more, was {self.bars}; leave it out for the current one alone")
        if isinstance(self.agent, type) or not callable(getattr(self.agent, "run", None)):
            raise HarnessMisuse(
                f"Strategy: agent: expected an Agent, was {self.agent!r:.120}; write Strategy(Agent(function))"
            )

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.agent.name


def check_part(who: str, name: str, part: Decimal, *, least: Decimal | None = None) -> Decimal:
    """Return `part`; raise `HarnessMisuse` unless it is above 0 and at most 1, or from `least` to 1 if that is given."""
    part = exact(f"{who}: {name}", part)
    if part.is_finite() and part <= 1 and (part > 0 if least is None else part >= least):
        return part
    bounds = "above 0" if least is None else f"from {least} up"
    raise HarnessMisuse(f"{who}: {name}: expected a part of the equity, {bounds} and at most 1, was {part}")


LOW, HIGH = 30.0, 70.0


def decide(rsi: float | None) -> Side | None:
    """Return BUY below 30, SELL above 70, else None; also None without an index."""
    if rsi is None or LOW <= rsi <= HIGH:
        return None
    return Side.BUY if rsi < LOW else Side.SELL


def rsi_orders(market: Market, stake: Decimal, name: str = "rsi") -> list[Order]:
    """Return the orders for one slice, sales first: SELL sells all units, BUY spends `stake` of the equity."""
    sides = {symbol: decide(quote.indicators[name]) for symbol, quote in market.quotes.items()}
    return _follow_signals(market, stake, sides, lambda quote, _: f"RSI {quote.indicators[name]:.1f}")


def _follow_signals(
    market: Market, stake: Decimal, sides: Mapping[str, Side | None], reason: Callable[[Quote, Side], str]
) -> list[Order]:
    """Return the orders for each symbol's signal: a sale of all units, or a purchase for `stake` of the equity."""
    orders = [
        Order(symbol, Side.SELL, quote.sellable, reason=reason(quote, Side.SELL))
        for symbol, quote in market.quotes.items()
        if quote.sellable and sides[symbol] is Side.SELL
    ]
    left = market.free_cash
    for symbol, quote in market.quotes.items():
        if sides[symbol] is Side.BUY:
            units = quote.bought_for(min(max(market.equity, ZERO) * stake, left))
            left -= units * quote.close
            orders += [Order(symbol, Side.BUY, units, reason=reason(quote, Side.BUY))] if units else []
    return orders


def rsi_strategy(stake: Decimal = Decimal("0.1"), *, period: int = 14) -> Strategy:
    """Return a strategy that decides by the relative strength index alone.

    Args:
        stake: fraction of the equity that one BUY may spend. It buys again at each slice with the index below 30.
        period: number of price changes in the index.
    """
    stake = check_part("rsi_strategy", "stake", stake)
    name = f"rsi{period}"

    async def run(run: AgentRun[Any, Market]) -> Sequence[Order]:
        return rsi_orders(run.input, stake, name)

    return Strategy(Agent(run, name="rsi", reports=REPORTABLE), {name: Rsi(period)})


def trend(fast: float | None, slow: float | None) -> int:
    """Return 1 if the fast average is above the slow one, -1 if it is below, 0 if they are equal or one is missing."""
    if fast is None or slow is None:
        return 0
    return (fast > slow) - (fast < slow)


def cross_orders(market: Market, fast: str, slow: str, stake: Decimal, *, shorts: bool = False) -> list[Order]:
    """Return the orders for one slice, sales first: sell all units in a downtrend, spend `stake` of the equity in an uptrend.

    Args:
        fast, slow: the names of the averages.
        shorts: whether to sell short for `stake` of the equity in a downtrend.
    """
    sides: dict[str, Side | None] = {}
    for symbol, quote in market.quotes.items():
        way = trend(quote.indicators[fast], quote.indicators[slow])
        is_in = quote.whole(quote.expected * way)
        buys = way > 0 and not is_in
        sides[symbol] = Side.SELL if way < 0 and not (shorts and is_in) else Side.BUY if buys else None

    def reason(quote: Quote, side: Side) -> str:
        return f"{fast} {'below' if side is Side.SELL else 'above'} {slow}"

    return _turn_over(market, stake, sides, reason) if shorts else _follow_signals(market, stake, sides, reason)


def _turn_over(
    market: Market, stake: Decimal, sides: Mapping[str, Side | None], reason: Callable[[Quote, Side], str]
) -> list[Order]:
    """Return an order for each signal that closes a position of the other side, and opens one for `stake` of the equity."""
    orders: list[Order] = []
    for symbol, quote in market.quotes.items():
        side = sides[symbol]
        if side is None:
            continue
        closing = quote.coverable if side is Side.BUY else quote.sellable
        units = closing + quote.bought_for(max(market.equity, ZERO) * stake)
        orders += [Order(symbol, side, units, reason=reason(quote, side))] if units else []
    return sorted(orders, key=lambda order: order.side is Side.BUY)


def cross_strategy(fast: int = 20, slow: int = 50, stake: Decimal = Decimal("0.1"), *, shorts: bool = False) -> Strategy:
    """Return a strategy that follows two exponential moving averages.

    Args:
        fast: window of the fast average, in slices; below `slow`.
        slow: window of the slow average, in slices.
        stake: fraction of the equity to invest in each symbol.
        shorts: whether to sell short in a downtrend, at a venue with margin.
    """
    if not 0 < fast < slow:
        raise HarnessMisuse(f"cross_strategy: windows: expected 0 < fast < slow, was fast {fast}, slow {slow}")
    stake = check_part("cross_strategy", "stake", stake)
    names = f"ema{fast}", f"ema{slow}"

    async def run(run: AgentRun[Any, Market]) -> Sequence[Order]:
        return cross_orders(run.input, *names, stake, shorts=shorts)

    agent: StrategyAgent = Agent(run, name="cross", reports=REPORTABLE)
    return Strategy(agent, dict(zip(names, (Ema(fast), Ema(slow)), strict=True)), shorts=shorts)


@frozen
class Plan:
    """The target of a portfolio."""

    weights: Mapping[str, Decimal]
    """Target weights by symbol, as fractions of the invested money; their sum is at most 1. Other holdings are left alone."""
    reserve: Decimal
    """Fraction of the equity kept in cash, for fees and for price changes before an order is filled."""
    band: Decimal
    """Tolerance as a fraction of the equity: nothing is traded while every symbol is within it."""
    every_days: int | None
    """Calendar days between two rebalancings; None checks at every slice."""


def portfolio_orders(market: Market, plan: Plan) -> list[Order]:
    """Return the orders that bring the portfolio to its target, sales first; none if it is within the band."""
    if market.equity <= 0 or not due(market.previous, market.time, plan.every_days):
        return []
    quotes = {symbol: market.quotes[symbol] for symbol in plan.weights if symbol in market.quotes}
    money = market.equity * (ONE - plan.reserve)
    drifts = {symbol: money * plan.weights[symbol] - quote.expected * quote.close for symbol, quote in quotes.items()}
    if all(abs(drift) <= plan.band * market.equity for drift in drifts.values()):
        return []
    falling = {symbol: (quotes[symbol], -drift) for symbol, drift in drifts.items() if drift < 0}
    sales = {symbol: min(quote.bought_for(excess), quote.sellable) for symbol, (quote, excess) in falling.items()}
    proceeds = sum((units * quotes[symbol].close for symbol, units in sales.items()), ZERO)
    missing = {symbol: drift for symbol, drift in drifts.items() if drift > 0}
    possible = _share(missing, market.free_cash + proceeds - market.equity * plan.reserve)
    purchases = {symbol: quotes[symbol].bought_for(amount) for symbol, amount in possible.items()}
    return [
        Order(symbol, side, units, reason=f"to {plan.weights[symbol]:.1%} of the portfolio")
        for side, trades in ((Side.SELL, sales), (Side.BUY, purchases))
        for symbol, units in trades.items()
        if units
    ]


def due(previous: datetime | None, time: datetime, every_days: int | None) -> bool:
    """Return whether a new period of `every_days` calendar days, counted from a fixed date, has begun since `previous`."""
    if previous is None or every_days is None:
        return True
    return previous.toordinal() // every_days != time.toordinal() // every_days


def portfolio_strategy(
    weights: Mapping[str, Decimal] | Sequence[str],
    *,
    band: Decimal = Decimal("0.05"),
    every_days: int | None = None,
    reserve: Decimal = Decimal("0.02"),
) -> Strategy:
    """Return a strategy that keeps several symbols at given weights.

    Args:
        weights: by symbol, with a sum of at most 1; a plain list of symbols gives equal weights.
        band: tolerance as a fraction of the equity: nothing is traded while every symbol is within it.
        every_days: calendar days between two rebalancings; None checks at every slice.
        reserve: fraction of the equity kept in cash, for fees and for price changes before an order is filled.
    """
    parts = weights if isinstance(weights, Mapping) else equal_weights(weights)
    parts = {
        symbol: check_part("portfolio_strategy", f"weight of {symbol}", weight, least=ZERO) for symbol, weight in parts.items()
    }
    if not 0 < sum(parts.values()) <= 1:
        raise HarnessMisuse(f"portfolio_strategy: weights: expected a sum above 0 and at most 1, was {sum(parts.values())}")
    band = check_part("portfolio_strategy", "band", band, least=ZERO)
    reserve = check_part("portfolio_strategy", "reserve", reserve, least=ZERO)
    if every_days is not None and every_days < 1:
        raise HarnessMisuse(f"portfolio_strategy: every_days: expected 1 or more, was {every_days}")
    plan = Plan(parts, reserve, band, every_days)

    async def run(run: AgentRun[Any, Market]) -> Sequence[Order]:
        return portfolio_orders(run.input, plan)

    return Strategy(Agent(run, name="portfolio", reports=REPORTABLE))


def equal_weights(symbols: Sequence[str]) -> dict[str, Decimal]:
    """Return equal weights for the symbols, with a sum of at most 1."""
    if not symbols or isinstance(symbols, str):
        raise HarnessMisuse(f"portfolio_strategy: weights: expected a list of symbols, was {symbols!r}")
    return dict.fromkeys(symbols, (ONE / len(symbols)).quantize(Decimal("1e-9"), ROUND_DOWN))


def _share(wanted: Mapping[str, Decimal], money: Decimal) -> dict[str, Decimal]:
    """Return the money for each symbol: as wanted, or reduced in proportion if there is not enough."""
    total = sum(wanted.values(), ZERO)
    if total <= money:
        return dict(wanted)
    return {symbol: amount * max(money, ZERO) / total for symbol, amount in wanted.items()}
