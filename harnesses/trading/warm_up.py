"""A strategy that looks at a market before it trades: its indicators see the earlier prices, and it is not asked yet. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from attrs import evolve

from harnesses.agent import Agent, AgentRun
from harnesses.trading.market.orders import Order
from harnesses.trading.quiet_bars import MarketGlance
from harnesses.trading.strategies import Market, Strategy


def warm_up(strategy: Strategy, until: datetime) -> Strategy:
    """Return a strategy that wants no orders before a time, and from then on what the given one wants.

    At its first question it has not been asked before, as at the start of an account.
    """
    agent = strategy.agent

    async def run(run: AgentRun[Any, Market]) -> Sequence[Order]:
        market = run.input
        if market.time < until:
            return ()
        if market.previous is not None and market.previous < until:
            first = evolve(market, previous=None)
            run = run.about(first) if isinstance(run, MarketGlance) else evolve(run, input=first)
        return await agent.answer(run)

    return evolve(strategy, agent=Agent(run, name=agent.name, is_complete=agent.is_complete, reports=agent.reports))
