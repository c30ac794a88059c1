"""A broker that trades on paper: a simulated venue of its own, in memory or in a file.

    submit, observe, cancel  ──►  matching (pure)  ──►  ledger: one commit  ──►  the new books count

The books are the venue's, not the harness's, as a real venue's would be: what was acknowledged is there after a `kill -9`,
whatever the harness remembers. Books in memory end with the program; a harness that is to be resumed needs a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary

from trio.lowlevel import checkpoint

from harnesses.errors import HarnessMisuse, one_of
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.broker import VenueAccount
from harnesses.trading.market.instruments import Instrument
from harnesses.trading.market.orders import ZERO, Fill, OrderReport, PlacedOrder, exact
from harnesses.trading.paper.order_matching import accept, cancel, match
from harnesses.trading.paper.paper_books import Books, Fees, Matched, Rules
from harnesses.trading.paper.paper_ledger import FileLedger, Ledger, MemoryLedger


class PaperBroker:
    """Trades on paper.

    Args:
        cash: what there is at first. A file that exists already goes on with what it has.
        instruments: by symbol, all that the venue has; without them any symbol, in lots of 1, at prices as they come.
        slippage_bps: how much worse than the market a market order gets it, in parts of 10,000.
        max_share: the part of a bar's volume that may be filled in it.
        fill_at: what a market order is filled at.
        path: the venue's file, made if it is not there; one process at a time. Each call that changes anything is a commit,
            which waits for the disk in the thread of Trio's loop: some milliseconds in which nothing else in the program
            goes on. For a few harnesses; many of them want books in memory, or programs of their own.

    Raises:
        BrokerUnavailable: the file is in use, or cannot be used.
        HarnessMisuse: an argument is none that a venue can have.
    """

    def __init__(
        self,
        cash: Decimal = Decimal(10_000),
        *,
        instruments: Mapping[str, Instrument] | None = None,
        fees: Fees = Fees(),  # noqa: B008  (frozen)
        slippage_bps: Decimal = ZERO,
        max_share: Decimal | None = None,
        fill_at: Literal["close", "next_open"] = "close",
        path: str | Path | None = None,
        name: str = "paper",
    ) -> None:
        cash = exact("PaperBroker: cash", cash)
        if not (cash.is_finite() and cash >= 0):
            raise HarnessMisuse(f"PaperBroker: cash: expected a number from 0 up, was {cash}")
        self.name = name
        self.rules = Rules(instruments, fees, slippage_bps, max_share, fill_at)
        self._ledger: Ledger = MemoryLedger(Books(cash))
        if path is not None:
            self._open(Path(path))

    def _open(self, path: Path) -> None:
        """Deal by the books in a file, made of those there are if it is not there."""
        self._ledger = FileLedger(path, self._ledger.books())

    @property
    def accepted(self) -> int:
        """How many orders the venue has taken, over all its life."""
        return self._ledger.books().accepted

    def close(self) -> None:
        """Let go of the file."""
        self._ledger.close()

    async def connect(self, symbols: Sequence[str]) -> Mapping[str, Instrument]:
        await checkpoint()
        for symbol in symbols:
            if not self.rules.has(symbol):
                known = one_of(self.rules.instruments or (), "it has no instruments; give it some")
                raise HarnessMisuse(f"paper venue {self.name}: it has no symbol {symbol!r}: {known}")
        return {symbol: self.rules.instrument(symbol) for symbol in symbols}

    async def observe(self, market: MarketSlice) -> None:
        await checkpoint()
        self._commit(match(self._ledger.books(), market, self.rules))

    async def submit(self, placed: PlacedOrder) -> OrderReport:
        """Place an order. One whose id the venue has had is not placed again; what became of the first is returned."""
        await checkpoint()
        known = self._ledger.report(placed.client_id)
        if known is not None:
            return known
        return self._commit(accept(self._ledger.books(), placed, self.rules)).reports[-1]

    async def cancel(self, client_id: str, symbol: str) -> OrderReport | None:
        await checkpoint()
        self._commit(cancel(self._ledger.books(), client_id))
        return self._ledger.report(client_id)

    async def find(self, placed: PlacedOrder) -> OrderReport | None:
        """Return what became of an order. Certain at once: an order is placed when `submit` returns, or never."""
        await checkpoint()
        return self._ledger.report(placed.client_id)

    async def open_orders(self, symbols: Sequence[str]) -> Sequence[OrderReport]:
        await checkpoint()
        return [order.report() for order in self._ledger.books().orders.values() if order.placed.order.symbol in symbols]

    async def fills(self, symbols: Sequence[str], after: Mapping[str, str]) -> Sequence[Fill]:
        await checkpoint()
        found = [fill for symbol in set(symbols) for fill in self._ledger.fills(symbol, self._number(symbol, after))]
        return sorted(found, key=lambda fill: int(fill.fill_id))

    async def account(self, symbols: Sequence[str]) -> VenueAccount:
        await checkpoint()
        books = self._ledger.books()
        held = {symbol: books.positions.get(symbol, ZERO) for symbol in symbols}
        return VenueAccount(books.cash, {symbol: units for symbol, units in held.items() if units})

    def _commit(self, matched: Matched) -> Matched:
        if matched.books is not self._ledger.books():
            self._ledger.write(matched)
        return matched

    def _number(self, symbol: str, after: Mapping[str, str]) -> int:
        """Return the number of the last fill that is known; a fill that this venue never made shows that it is another one."""
        last, newest = after.get(symbol, "0"), self._ledger.books().fills
        if last.isdecimal() and int(last) <= newest:
            return int(last)
        raise HarnessMisuse(
            f"paper venue {self.name}: fills of {symbol} after {last!r}: expected a fill from 1 to {newest}; these "
            "are not the books that the harness has traded on: give it their file (books in memory end with the program)"
        )


_OPENED: WeakValueDictionary[tuple[str, str], PaperBroker] = WeakValueDictionary()
"""By file and owner, in this process."""


class PaperBrokerLater(PaperBroker):
    """A `PaperBroker` whose file is opened when a harness connects: what is only looked at, as a run file is, makes no file.

    Until then its books are in memory and nobody may trade there: they are for checking its arguments.

    Args:
        path: the venue's file.
        owner: the harness that trades there. One that is made anew under that name takes the file over from the one before.
        arguments: what else `PaperBroker` is called with.

    Raises:
        HarnessMisuse: an argument is none that a venue can have.
    """

    def __init__(self, path: str | Path, cash: Decimal = Decimal(10_000), *, owner: str = "", **arguments: Any) -> None:
        super().__init__(cash, **arguments)
        self.path = Path(path)
        self._owner = owner
        self._is_opened = False

    async def connect(self, symbols: Sequence[str]) -> Mapping[str, Instrument]:
        if not self._is_opened:
            key = (str(self.path.resolve()), self._owner)
            if (before := _OPENED.pop(key, None)) is not None and self._owner:
                before.close()
            self._open(self.path)
            self._is_opened, _OPENED[key] = True, self
        return await super().connect(symbols)
