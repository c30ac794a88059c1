"""`TradingHarness`: polls a feed, asks an agent, trades within limits; one step for each day of the market."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from decimal import Decimal, InvalidOperation

from harnesses.agent import Agent
from harnesses.base import BaseHarness
from harnesses.errors import HarnessMisuse
from harnesses.step import Constraints, StepYield
from harnesses.trading.account import (
    Limits,
    Market,
    Order,
    TradingOutput,
    TradingState,
    close_day,
    market,
    open_account,
    open_day,
)
from harnesses.trading.bars import BadMarketData, MarketDay
from harnesses.trading.feed import Feed
from harnesses.trading.strategy import rsi_agent


class TradingHarness(BaseHarness[TradingState, MarketDay, TradingOutput]):
    """Trades the symbols of a feed on paper: orders are filled at the close of the day they answer.

    It is complete when the feed is at its end; over an endless feed it never is. A passed limit on drawdown does not end
    it: it sells everything and goes on recording the market, `state.halted` being true.

    Args:
        feed: is asked for the day after `state.last_day`, so a resumed harness goes on with the next one.
        agent: is asked after each close what to do. The default goes by the relative strength index.
        cash: what the account starts with.
        period_s: seconds from one poll to the next.
        constraints: `max_drawdown` and `max_jump`, as in `Limits`, are enforced whatever the agent wants. All of it is
            handed to the agent.
        initial_state: a state to go on from, instead of an open account with `cash`.
    """

    def __init__(
        self,
        feed: Feed,
        agent: Agent[TradingState, Market, Mapping[str, Order]] | None = None,
        *,
        cash: Decimal = Decimal(10_000),
        period_s: float = 60.0,
        max_context_steps: int = 10,
        constraints: Constraints | None = None,
        initial_state: TradingState | None = None,
    ) -> None:
        state = initial_state or open_account(cash, tuple(feed.symbols))
        super().__init__(state, max_context_steps=max_context_steps, constraints=constraints)
        if not cash >= 0:
            raise HarnessMisuse(f"TradingHarness: cash: expected 0 or more, was {cash}")
        self._limits = limits_from(self.constraints)
        self._feed = feed
        self._agent = agent or rsi_agent()
        self._period_s = period_s

    def is_complete(self) -> bool:
        return self._feed.is_at_end(self.state.last_day)

    async def execute(self) -> AsyncIterator[StepYield[MarketDay, TradingOutput]]:
        async for _ in self.every(self._period_s):
            if self.is_complete():
                return
            day = await self._feed.next_day(self.state.last_day)
            if day is not None:
                yield StepYield(day, await self._trade(day))

    async def _trade(self, day: MarketDay) -> TradingOutput:
        last_day = self.state.last_day
        if last_day is not None and day.day <= last_day:
            raise BadMarketData(f"day {day.day} of the feed: expected one after {last_day}; a feed goes forward only")
        opened = open_day(self.state, day, self._limits)
        orders: Mapping[str, Order] = {}
        if not opened.halted:
            orders = await self.run_agent(self._agent, market(opened, day))
        closed, output = close_day(opened, day, orders)
        self.update_state(lambda _: closed, summary=_summary(day, output))
        return output


def limits_from(constraints: Constraints) -> Limits:
    """Return the limits that `constraints` name: parts between 0 and 1, as Decimal, whole number or text."""
    return Limits(**{name: _part(name, constraints[name]) for name in ("max_drawdown", "max_jump") if name in constraints})


def _part(name: str, value: object) -> Decimal:
    try:
        part = Decimal(str(value))
    except InvalidOperation:
        part = Decimal("NaN")
    if part.is_finite() and 0 < part <= 1:
        return part
    raise HarnessMisuse(f"constraint {name!r}: expected a part above 0 and at most 1, such as 0.2, was {value!r}")


def _summary(day: MarketDay, output: TradingOutput) -> str | None:
    """Return a sentence if something was traded."""
    done = [
        f"{trade.action} {trade.amount} {symbol} at {trade.price}" for symbol, trade in output.trades.items() if trade.amount
    ]
    return f"{day.day}: {', '.join(done)}" if done else None
