"""A small strategy: buy what has fallen too fast, sell what has risen too fast. Pure but for the agent's `async`."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from harnesses.agent import Agent, AgentRun
from harnesses.errors import HarnessMisuse
from harnesses.trading.account import Action, Market, Order, Signal, TradingState

LOW, HIGH = 30.0, 70.0


def decide(rsi: float | None) -> Action:
    """Return BUY below 30, SELL above 70, else HOLD; 30 and 70 themselves are HOLD, and so is no index yet."""
    if rsi is None or LOW <= rsi <= HIGH:
        return Action.HOLD
    return Action.BUY if rsi < LOW else Action.SELL


def order_for(signal: Signal, budget: Decimal) -> Order:
    """Return the order for one symbol: BUY spends `budget`, SELL gives all."""
    action = decide(signal.rsi)
    if action is Action.HOLD:
        return Order(reason="no index yet" if signal.rsi is None else "")
    amount = budget // signal.close if action is Action.BUY else signal.units
    return Order(action, amount, f"RSI {signal.rsi:.1f}")


def rsi_agent(stake: Decimal = Decimal("0.1")) -> Agent[TradingState, Market, Mapping[str, Order]]:
    """Return an agent that decides by the index alone.

    Args:
        stake: the part of the equity that one BUY may spend.
    """
    if not 0 < stake <= 1:
        raise HarnessMisuse(f"rsi_agent: stake: expected a part of the equity, above 0 and at most 1, was {stake}")

    async def run(run: AgentRun[TradingState, Market]) -> Mapping[str, Order]:
        budget = max(run.input.equity, Decimal(0)) * stake
        return {symbol: order_for(signal, budget) for symbol, signal in run.input.signals.items()}

    return Agent(run, name="rsi")
