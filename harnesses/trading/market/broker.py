"""What a broker is: the way to a venue, be it simulated or real.

The laws, which every broker keeps and the harness relies on:

    an order goes under the client id that it is given, and under no other
    `submit` either returns what the venue said, or raises `OrderRefused` if the venue has certainly not taken the order;
    any other error leaves open whether it has
    `find` answers only what is certain: None means that the venue has no such order and never will
    fills come in the venue's order, each once, by symbol
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Protocol

from attrs import frozen

from harnesses.errors import OrchestratorError, Refused
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.instruments import Instrument
from harnesses.trading.market.orders import Fill, OrderReport, PlacedOrder


class OrderRefused(Refused):
    """The venue has said no to an order: nothing was placed."""


class BrokerUnavailable(OrchestratorError):
    """The venue cannot be reached, or does not answer in a way that can be relied on."""


@frozen
class VenueAccount:
    """What the venue says we own."""

    cash: Decimal
    """Free and reserved together."""
    positions: Mapping[str, Decimal]
    """Units by symbol, free and reserved together; a symbol of which there is nothing may be missing."""


class Broker(Protocol):
    """The way to a venue."""

    name: str

    async def connect(self, symbols: Sequence[str]) -> Mapping[str, Instrument]:
        """Get ready to trade `symbols`; return their rules.

        Raises:
            BrokerUnavailable: not now. `HarnessMisuse`: the venue has no such symbol.
        """
        ...

    async def observe(self, market: MarketSlice) -> None:
        """Let a simulated venue know what the market did; a real one knows. The same slice twice counts once."""
        ...

    async def submit(self, placed: PlacedOrder) -> OrderReport:
        """Place an order once. Never tries again by itself.

        Raises:
            OrderRefused: the venue has said no.
            Exception: it is unknown whether the venue has taken the order; ask `find`.
        """
        ...

    async def cancel(self, client_id: str, symbol: str) -> OrderReport | None:
        """Cancel what is left of an order; return where it stands then. None if the venue has none of that id. Idempotent."""
        ...

    async def find(self, placed: PlacedOrder) -> OrderReport | None:
        """Return what the venue says of an order that may have reached it; None if it has not, and never will.

        Waits until that is certain: as long as a request that was sent may still be taken, "not found" is no answer.

        Raises:
            BrokerUnavailable: there is no certain answer now.
        """
        ...

    async def open_orders(self, symbols: Sequence[str]) -> Sequence[OrderReport]:
        """Return all orders of the account in `symbols` that may still be filled, whoever placed them."""
        ...

    async def fills(self, symbols: Sequence[str], after: Mapping[str, str]) -> Sequence[Fill]:
        """Return all fills since those in `after`, oldest first.

        Args:
            after: by symbol, the `fill_id` of the last fill that is known; from the beginning for one that is missing.
        """
        ...

    async def account(self, symbols: Sequence[str]) -> VenueAccount:
        """Return cash and positions."""
        ...
