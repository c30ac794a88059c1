"""One harness's share of a paper account: a venue of its own, with the cash that it has been allotted.

    harness alpha ──► paper share ──► its venue ─┐
                                                 ├──► allotments, sub-books (a file)
    harness beta  ──► paper share ──► its venue ─┘

Invariant: each harness trades as if it were alone with its cash: no order of another, and no bar that another has seen,
changes its fills.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal

from attrs import evolve

from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.broker import VenueAccount
from harnesses.trading.market.instruments import Instrument
from harnesses.trading.market.orders import ONE, Fill, OrderReport, PlacedOrder
from harnesses.trading.paper.paper_broker import PaperBroker
from harnesses.trading.sharing.account_ledger import AccountLedger
from harnesses.trading.sharing.shared_books import SharedBooks


class PaperShare:
    """A broker that trades at one member's venue, and keeps its sub-book. Made by `SharedAccount.share`.

    Args:
        join: adds the member and its symbols to the account; returns the books.
    """

    def __init__(
        self,
        account: str,
        ledger: AccountLedger,
        venue: PaperBroker,
        member: str,
        cash: Decimal,
        *,
        join: Callable[[Sequence[str]], Awaitable[SharedBooks]],
    ) -> None:
        self.name, self.shared = f"{venue.name}, account {account}", account
        self._ledger, self._venue, self._join = ledger, venue, join
        self._member, self._cash = member, cash
        self._symbols: Sequence[str] = ()
        self.lacks: tuple[str, ...] = ()

    # what a broker may have beside the protocol

    @property
    def is_lasting(self) -> bool:
        """Whether the books outlive the program."""
        return self._venue.is_lasting

    @property
    def accepted(self) -> int:
        """Number of orders that the venue has accepted since its creation."""
        return self._venue.accepted

    @property
    def guesses(self) -> bool:
        """Whether lots and ticks are derived, because the venue has no instruments."""
        return self._venue.guesses

    def derive(self, instruments: Mapping[str, Instrument]) -> None:
        """Tell the venue the lots and ticks of a feed."""
        self._venue.derive(instruments)

    def pass_quietly(self, slices: Sequence[MarketSlice], fills: int) -> bool:
        """Observe slices in which nothing can happen; see `PaperBroker.pass_quietly`."""
        return self._venue.pass_quietly(slices, fills)

    # the protocol

    async def connect(self, symbols: Sequence[str]) -> Mapping[str, Instrument]:
        books = await self._join(symbols)
        kept = books.kept(self._member, self._cash)
        self._symbols, self.lacks = books.symbols, (kept,) if kept else ()
        return await self._venue.connect(symbols)

    async def observe(self, market: MarketSlice) -> None:
        await self._venue.observe(market)
        if any(bar.split != ONE for bar in market.bars.values()):
            await self._keep(market)

    async def submit(self, placed: PlacedOrder) -> OrderReport:
        return await self._venue.submit(placed)

    async def cancel(self, client_id: str, symbol: str) -> OrderReport | None:
        return await self._venue.cancel(client_id, symbol)

    async def find(self, placed: PlacedOrder) -> OrderReport | None:
        return await self._venue.find(placed)

    async def open_orders(self, symbols: Sequence[str]) -> Sequence[OrderReport]:
        return await self._venue.open_orders(symbols)

    async def fills(self, symbols: Sequence[str], after: Mapping[str, str]) -> Sequence[Fill]:
        found = await self._venue.fills(symbols, after)
        if found:
            await self._keep()
        return found

    async def account(self, symbols: Sequence[str]) -> VenueAccount:
        """Return what the harness has at its venue."""
        return evolve(await self._venue.account(symbols), shared=self.shared)

    async def _keep(self, market: MarketSlice | None = None) -> None:
        """Make the sub-book what the harness has at its venue, maybe after a slice with splits."""
        books = self._ledger.books()
        assert books is not None, "the harness has joined"
        fills = await self._venue.fills(self._symbols, books.members[self._member].last_fill)
        held = await self._venue.account(self._symbols)
        self._ledger.change(lambda now: now and now.with_venue(self._member, fills, held, market))
