"""Hold several symbols in given parts, and set them right when they have drifted. Pure but for the agent's `async`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import ROUND_DOWN, Decimal
from typing import Any

from attrs import frozen

from harnesses.agent import Agent, AgentRun
from harnesses.budgets.usage import REPORTABLE
from harnesses.errors import HarnessMisuse
from harnesses.trading.market.orders import ONE, ZERO, Order, Side
from harnesses.trading.strategies.strategy_view import Market, Quote, Strategy, check_part


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
    sales = {symbol: _sold_for(quotes[symbol], -drift) for symbol, drift in drifts.items() if drift < 0}
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
        band, every_days, reserve: see `Plan`.
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


def _sold_for(quote: Quote, money: Decimal) -> Decimal:
    return min(quote.bought_for(money), quote.sellable)


def _share(wanted: Mapping[str, Decimal], money: Decimal) -> dict[str, Decimal]:
    """Return how much money each one gets: what it wants, or if there is not so much, a part of it in proportion."""
    total = sum(wanted.values(), ZERO)
    if total <= money:
        return dict(wanted)
    return {symbol: amount * max(money, ZERO) / total for symbol, amount in wanted.items()}
