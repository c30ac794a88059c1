"""Strategies: agents that are asked about a `Market` and answer with the orders that they want, plus their indicators.

What the harness does for a strategy, at each slice, for each symbol whose price is believed:

    state     standings: Mapping[str, Mapping[str, Standing]]      by symbol, by name; empty at the start
    split     standings[symbol] = after_split(strategy.indicators, standings.get(symbol, {}), float(bar.split))
    price     standings[symbol] = after_price(strategy.indicators, standings.get(symbol, {}), float(close), before)
              `before` is the price that `close` is compared with, None for the first of a symbol
    quote     Quote(close, units, values(strategy.indicators, standings[symbol]), pending, lot)
    ask       orders = await self.run_agent(strategy.agent, Market(time, quotes, cash, equity, previous))

A strategy is pure but for the agent's `async`: it has no state of its own, so nothing of it is lost in a crash. Ready-made:

    rsi_strategy         buys what has fallen too fast, sells what has risen too fast
    cross_strategy       holds a symbol while its fast moving average is above its slow one
    portfolio_strategy   holds several symbols in given parts, and sets them right when they have drifted

The position that is wanted follows from the numbers of the moment, not from having seen averages cross: what a crash, a latch
or a venue has prevented at the crossing is made good at the next slice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import ROUND_DOWN, Decimal
from typing import Any, TypeAlias

from attrs import field, frozen

from harnesses.agent import Agent, AgentRun
from harnesses.budgets.usage import REPORTABLE
from harnesses.errors import HarnessMisuse
from harnesses.trading.indicators import Ema, Indicator, Indicators, Rsi
from harnesses.trading.market.orders import ONE, ZERO, Order, Side, exact


@frozen
class Quote:
    """What a strategy is told of one symbol that it may trade now."""

    close: Decimal
    units: Decimal = ZERO
    """Held, 0 or more."""
    indicators: Mapping[str, float | None] = field(factory=dict[str, float | None])
    """The numbers of the indicators that the strategy named; None for one that has not seen enough prices."""
    pending: Decimal = ZERO
    """Units that orders which are still open may bring; below 0 if they sell."""
    lot: Decimal = ONE
    """Units are bought and sold in multiples of it."""

    @property
    def sellable(self) -> Decimal:
        """Units held that no open order sells already, in whole lots."""
        return self.whole(self.units + min(self.pending, ZERO))

    @property
    def expected(self) -> Decimal:
        """Units held once the open orders are filled."""
        return self.units + self.pending

    def whole(self, units: Decimal) -> Decimal:
        """Return the largest multiple of the lot that is not above `units`; 0 for less than nothing."""
        return (max(units, ZERO) / self.lot).to_integral_value(ROUND_DOWN) * self.lot

    def bought_for(self, money: Decimal) -> Decimal:
        """Return the units, in whole lots, that `money` buys at the close."""
        return self.whole(money / self.close)


@frozen
class Market:
    """What a strategy is asked about: the market at one moment, and the account."""

    time: datetime
    """Of the slice; aware UTC."""
    quotes: Mapping[str, Quote]
    """By symbol; one that did not trade, or whose price is not believed, is missing."""
    cash: Decimal
    equity: Decimal
    previous: datetime | None = None
    """The time of the slice that the strategy was asked about last; None for the first. A slice does not count if nothing
    came of it: it was halted, or the data were stale, or what it wanted was kept back by the kill switch."""

    @property
    def free_cash(self) -> Decimal:
        """Cash less what the open orders that buy may cost, at the close."""
        return self.cash - sum((max(quote.pending, ZERO) * quote.close for quote in self.quotes.values()), ZERO)


StrategyAgent: TypeAlias = Agent[Any, Market, Sequence[Order]]
"""Asked at each slice; what it wants done, in the order in which it wants it done."""


@frozen
class Strategy:
    """An agent that trades, and the indicators that it wants to be told of. It has no state of its own."""

    agent: StrategyAgent
    indicators: Indicators = field(factory=dict[str, Indicator])
    """Kept by the harness for each symbol, in its state; given to the agent in `Quote.indicators`, by the same names."""

    def __attrs_post_init__(self) -> None:
        if isinstance(self.agent, type) or not callable(getattr(self.agent, "run", None)):
            raise HarnessMisuse(
                f"Strategy: agent: expected an Agent, was {self.agent!r:.120}; write Strategy(Agent(function))"
            )

    @property
    def name(self) -> str:
        """The agent's."""
        return self.agent.name


def check_part(who: str, name: str, part: Decimal, *, least: Decimal | None = None) -> Decimal:
    """Return `part`; raise `HarnessMisuse` unless it is above 0 and at most 1; from `least` on, if there is one."""
    part = exact(f"{who}: {name}", part)
    if part.is_finite() and part <= 1 and (part > 0 if least is None else part >= least):
        return part
    bounds = "above 0" if least is None else f"from {least} up"
    raise HarnessMisuse(f"{who}: {name}: expected a part of the equity, {bounds} and at most 1, was {part}")


LOW, HIGH = 30.0, 70.0


def decide(rsi: float | None) -> Side | None:
    """Return BUY below 30, SELL above 70, else None; 30 and 70 themselves are None, and so is no index yet."""
    if rsi is None or LOW <= rsi <= HIGH:
        return None
    return Side.BUY if rsi < LOW else Side.SELL


def rsi_orders(market: Market, stake: Decimal, name: str = "rsi") -> list[Order]:
    """Return the orders for one slice, sales first: SELL gives all, BUY spends `stake` of the equity if there is the cash."""
    sides = {symbol: decide(quote.indicators[name]) for symbol, quote in market.quotes.items()}
    return _follow_signals(market, stake, sides, lambda quote, _: f"RSI {quote.indicators[name]:.1f}")


def _follow_signals(
    market: Market, stake: Decimal, sides: Mapping[str, Side | None], reason: Callable[[Quote, Side], str]
) -> list[Order]:
    """Return the orders that follow from a signal for each symbol: all is sold, `stake` of the equity spent on a purchase."""
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
        stake: the part of the equity that one BUY may spend. It buys again at each slice at which the index is below 30.
        period: prices that the index is over.
    """
    stake = check_part("rsi_strategy", "stake", stake)
    name = f"rsi{period}"

    async def run(run: AgentRun[Any, Market]) -> Sequence[Order]:
        return rsi_orders(run.input, stake, name)

    return Strategy(Agent(run, name="rsi", reports=REPORTABLE), {name: Rsi(period)})


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
    sides: dict[str, Side | None] = {}
    for symbol, quote in market.quotes.items():
        way = trend(quote.indicators[fast], quote.indicators[slow])
        buys = way > 0 and not quote.whole(quote.expected)
        sides[symbol] = Side.SELL if way < 0 else Side.BUY if buys else None
    return _follow_signals(market, stake, sides, lambda _, side: f"{fast} {'below' if side is Side.SELL else 'above'} {slow}")


def cross_strategy(fast: int = 20, slow: int = 50, stake: Decimal = Decimal("0.1")) -> Strategy:
    """Return a strategy that follows two exponential moving averages.

    Args:
        fast: window in slices, the shorter one.
        slow: window in slices, the longer one.
        stake: the part of the equity that is put in each symbol.
    """
    if not 0 < fast < slow:
        raise HarnessMisuse(f"cross_strategy: windows: expected 0 < fast < slow, was fast {fast}, slow {slow}")
    stake = check_part("cross_strategy", "stake", stake)
    names = f"ema{fast}", f"ema{slow}"

    async def run(run: AgentRun[Any, Market]) -> Sequence[Order]:
        return cross_orders(run.input, *names, stake)

    return Strategy(Agent(run, name="cross", reports=REPORTABLE), dict(zip(names, (Ema(fast), Ema(slow)), strict=True)))


@frozen
class Plan:
    """What the portfolio is to be."""

    weights: Mapping[str, Decimal]
    """By symbol, parts of what is invested; together at most 1. What is held of other symbols is left alone."""
    reserve: Decimal
    """The part of the equity that stays in cash, for fees and for prices that move before an order is filled."""
    band: Decimal
    """Nothing is traded while every symbol is within this part of the equity from its target."""
    every_days: int | None
    """Calendar days from one look at the portfolio to the next; None looks at every slice."""


def portfolio_orders(market: Market, plan: Plan) -> list[Order]:
    """Return the orders that make of the portfolio what it is to be, sales first; none if it is near enough."""
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
    """Return whether a period of `every_days` calendar days has begun since `previous`. The periods are the same for all."""
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
    """Return a strategy that keeps several symbols in given parts.

    Args:
        weights: by symbol, together at most 1; symbols alone share equally.
        band: nothing is traded while every symbol is within this part of the equity from its target.
        every_days: calendar days between rebalances; None checks at every slice.
        reserve: the part of the equity that stays in cash, for fees and price moves before an order is filled.
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
    """Return the same part for each symbol; together no more than 1."""
    if not symbols or isinstance(symbols, str):
        raise HarnessMisuse(f"portfolio_strategy: weights: expected a list of symbols, was {symbols!r}")
    return dict.fromkeys(symbols, (ONE / len(symbols)).quantize(Decimal("1e-9"), ROUND_DOWN))


def _share(wanted: Mapping[str, Decimal], money: Decimal) -> dict[str, Decimal]:
    """Return how much money each one gets: what it wants, or if there is not so much, a part of it in proportion."""
    total = sum(wanted.values(), ZERO)
    if total <= money:
        return dict(wanted)
    return {symbol: amount * max(money, ZERO) / total for symbol, amount in wanted.items()}
