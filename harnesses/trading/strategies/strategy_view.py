"""What a strategy is asked about, and what one is. Pure values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import ROUND_DOWN, Decimal
from typing import Any, TypeAlias

from attrs import field, frozen

from harnesses.agent import Agent
from harnesses.errors import HarnessMisuse
from harnesses.trading.indicators.indicator import Indicator, Indicators
from harnesses.trading.market.exact_numbers import exact
from harnesses.trading.market.orders import ONE, ZERO, Order


def _no_numbers() -> Mapping[str, float | None]:
    return {}


def _no_indicators() -> Mapping[str, Indicator]:
    return {}


@frozen
class Quote:
    """What a strategy is told of one symbol that it may trade now."""

    close: Decimal
    units: Decimal = ZERO
    """Held, 0 or more."""
    indicators: Mapping[str, float | None] = field(factory=_no_numbers)
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
    indicators: Indicators = field(factory=_no_indicators)
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
