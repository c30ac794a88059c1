"""A paper broker whose file is opened when a harness connects: what is only looked at, as a run file is, makes no file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.broker import VenueAccount
from harnesses.trading.market.instruments import Instrument
from harnesses.trading.market.orders import Fill, OrderReport, PlacedOrder
from harnesses.trading.paper.paper_broker import PaperBroker

_OPENED: WeakValueDictionary[tuple[str, str], PaperBroker] = WeakValueDictionary()
"""By file and owner, in this process."""


class PaperBrokerLater:
    """A `PaperBroker` with its books in a file, which is opened at the first `connect`.

    Args:
        path: the venue's file.
        owner: the harness that trades there. One that is made anew under that name takes the file over from the one before.
        arguments: what else `PaperBroker` is called with.

    Raises:
        HarnessMisuse: an argument is none that a venue can have.
    """

    def __init__(self, path: str | Path, cash: Decimal = Decimal(10_000), *, owner: str = "", **arguments: Any) -> None:
        # In memory: it is checked, and nobody trades there.
        self.name = PaperBroker(cash, **arguments).name
        self.path = Path(path)
        self._owner = owner
        self._arguments: dict[str, Any] = {"cash": cash, **arguments}
        self._opened: PaperBroker | None = None

    @property
    def _broker(self) -> PaperBroker:
        if self._opened is None:
            key = (str(self.path.resolve()), self._owner)
            if (before := _OPENED.pop(key, None)) is not None and self._owner:
                before.close()
            self._opened = _OPENED[key] = PaperBroker(path=self.path, **self._arguments)
        return self._opened

    def close(self) -> None:
        """Let go of the file."""
        if self._opened is not None:
            self._opened.close()

    async def connect(self, symbols: Sequence[str]) -> Mapping[str, Instrument]:
        return await self._broker.connect(symbols)

    async def observe(self, market: MarketSlice) -> None:
        await self._broker.observe(market)

    async def submit(self, placed: PlacedOrder) -> OrderReport:
        return await self._broker.submit(placed)

    async def cancel(self, client_id: str, symbol: str) -> OrderReport | None:
        return await self._broker.cancel(client_id, symbol)

    async def find(self, placed: PlacedOrder) -> OrderReport | None:
        return await self._broker.find(placed)

    async def open_orders(self, symbols: Sequence[str]) -> Sequence[OrderReport]:
        return await self._broker.open_orders(symbols)

    async def fills(self, symbols: Sequence[str], after: Mapping[str, str]) -> Sequence[Fill]:
        return await self._broker.fills(symbols, after)

    async def account(self, symbols: Sequence[str]) -> VenueAccount:
        return await self._broker.account(symbols)
