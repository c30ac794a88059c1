"""The protocol of a broker: the connection to a venue, simulated or real.

Every broker must keep these rules; the harness relies on them:

    * an order is placed under the given client id and no other
    * `submit` either returns the venue's report, or raises `OrderRefused` if the venue has certainly not accepted the order;
      any other error means that the outcome is unknown
    * `find` answers only what is certain: None means that the venue does not have the order and never will
    * fills come in the venue's order for each symbol, each once
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Protocol

from attrs import frozen

from harnesses.errors import OrchestratorError, Refused
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.instruments import Instrument
from harnesses.trading.market.orders import ZERO, Fill, OrderReport, PlacedOrder


class OrderRefused(Refused):
    """The venue refused an order: nothing was placed."""


class BrokerUnavailable(OrchestratorError):
    """The venue cannot be reached, or its answers are unreliable."""


@frozen
class VenueAccount:
    """The venue's statement of the account."""

    cash: Decimal
    """Cash, free and reserved."""
    positions: Mapping[str, Decimal]
    """Units by symbol, free and reserved; symbols without units may be left out."""
    shared: str = ""
    """Name of the account of which this is one harness's share; empty: it is the whole account."""
    financing: Decimal = ZERO
    """What its loans have cost so far; already taken from the cash."""


class Broker(Protocol):
    """A connection to a venue."""

    name: str

    async def connect(self, symbols: Sequence[str]) -> Mapping[str, Instrument]:
        """Prepare to trade `symbols`; return their rules.

        Raises:
            BrokerUnavailable: the venue cannot be reached now.
            HarnessMisuse: the venue does not have one of the symbols.
        """
        ...

    async def observe(self, market: MarketSlice) -> None:
        """Pass a slice to a simulated venue; a real venue ignores it. Passing the same slice twice has no further effect."""
        ...

    async def submit(self, placed: PlacedOrder) -> OrderReport:
        """Place an order once; never retry.

        Raises:
            OrderRefused: the venue refused the order.
            Exception: it is unknown whether the venue accepted the order; ask `find`.
        """
        ...

    async def cancel(self, client_id: str, symbol: str) -> OrderReport | None:
        """Cancel the rest of an order; return its state then, or None if the venue has no such order. Idempotent."""
        ...

    async def find(self, placed: PlacedOrder) -> OrderReport | None:
        """Return the venue's report on an order that may have reached it; None if it has not and never will.

        Waits until that is certain: while a sent request may still be accepted, "not found" is not an answer.

        Raises:
            BrokerUnavailable: there is no certain answer now.
        """
        ...

    async def open_orders(self, symbols: Sequence[str]) -> Sequence[OrderReport]:
        """Return all open orders of the account in `symbols`, including those that others placed."""
        ...

    async def fills(self, symbols: Sequence[str], after: Mapping[str, str]) -> Sequence[Fill]:
        """Return all fills since those in `after`, oldest first.

        Args:
            after: by symbol, the `fill_id` of the last known fill; a missing symbol starts from the beginning.
        """
        ...

    async def account(self, symbols: Sequence[str]) -> VenueAccount:
        """Return cash and positions."""
        ...
