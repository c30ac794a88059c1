"""What a strategy is asked about, and what one is. Pure values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeAlias

from attrs import field, frozen

from harnesses.agent import Agent
from harnesses.trading.indicators import Indicator, Indicators
from harnesses.trading.orders import ONE, ZERO, Order


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
    """The time of the slice before, which the strategy was asked about last; None for the first."""


StrategyAgent: TypeAlias = Agent[Any, Market, Sequence[Order]]
"""Asked at each slice; what it wants done, in the order in which it wants it done."""


@frozen
class Strategy:
    """An agent that trades, and the indicators that it wants to be told of. It has no state of its own."""

    agent: StrategyAgent
    indicators: Indicators = field(factory=_no_indicators)
    """Kept by the harness for each symbol, in its state; given to the agent in `Quote.indicators`, by the same names."""

    @property
    def name(self) -> str:
        """The agent's."""
        return self.agent.name
