"""A broker for paper trading: a simulated venue, in memory or in a file.

    submit, observe, cancel  ──►  matching (pure)  ──►  ledger: one commit  ──►  the new books take effect

The books belong to the venue, not to the harness, as with a real venue: what was acknowledged survives a `kill -9`, whatever
the harness remembers. Books in memory end with the program; a harness that is to be resumed needs a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote
from weakref import WeakValueDictionary

from attrs import evolve
from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from harnesses.errors import HarnessMisuse, one_of
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.broker import VenueAccount
from harnesses.trading.market.instruments import Instrument, Margin
from harnesses.trading.market.orders import ZERO, Fill, OrderReport, PlacedOrder, exact
from harnesses.trading.paper.order_matching import accept, cancel, match, pass_by
from harnesses.trading.paper.paper_books import Books, Fees, Matched, Rules
from harnesses.trading.paper.paper_ledger import FileLedger, Ledger, MemoryLedger


class PaperBroker:
    """A broker that trades on a simulated venue.

    Args:
        cash: initial cash. An existing file keeps its own.
        instruments: all of the venue's, by symbol. None allows any symbol: lot and tick come from the feed, see `derive`.
        slippage_bps: slippage of a market order, in basis points (1/10,000).
        max_share: maximum fraction of a bar's volume that may be filled in it.
        fill_at: fill price of a market order, "close" or "next_open".
        margin: terms at which units are lent to sell short, and money. Without it no position is short and no cash negative.
        path: the venue's file, created if missing; one process at a time. Each call that changes anything commits in the
            thread of Trio's loop, which blocks the whole program for some milliseconds. Suitable for a few harnesses; for
            many, use books in memory or separate programs.

    Raises:
        BrokerUnavailable: the file is in use, or cannot be used.
        HarnessMisuse: an argument is invalid.
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
        margin: Margin | None = None,
        path: str | Path | None = None,
        name: str = "paper",
    ) -> None:
        cash = exact("PaperBroker: cash", cash)
        if not (cash.is_finite() and cash >= 0):
            raise HarnessMisuse(f"PaperBroker: cash: expected a number from 0 up, was {cash}")
        self.name = name
        self.rules = Rules(instruments, fees, slippage_bps, max_share, fill_at, margin=margin)
        self._ledger: Ledger = MemoryLedger(Books(cash))
        self.path = None if path is None else Path(path)
        if self.path is not None:
            self._open(self.path)

    def _open(self, path: Path) -> None:
        """Switch to the books in a file; create it from the current books if it is missing."""
        self._ledger = FileLedger(path, self._ledger.books())

    def part(self, member: str, cash: Decimal) -> PaperBroker:
        """Return a venue with the same rules for one member of a shared account: with bars, orders and books of its own.

        Its file is next to that of this venue, with `-MEMBER` after the name, and is opened when the member connects.
        """
        made = PaperBroker(cash, name=self.name)
        if self.path is not None:
            path = self.path.with_name(f"{self.path.name}-{quote(member, safe='')}")
            made = PaperBrokerLater(path, cash, owner=member, name=self.name)
        made.rules = self.rules
        return made

    @property
    def is_lasting(self) -> bool:
        """Whether the books outlive the program."""
        return not isinstance(self._ledger, MemoryLedger)

    @property
    def accepted(self) -> int:
        """Number of orders the venue has accepted since its creation."""
        return self._ledger.books().accepted

    @property
    def financing(self) -> Decimal | None:
        """What borrowed units and money have cost so far; None if the venue lends nothing."""
        return None if self.rules.margin is None else self._ledger.books().financing

    def close(self) -> None:
        """Release the file."""
        self._ledger.close()

    def derive(self, instruments: Mapping[str, Instrument]) -> None:
        """Use the rules that a feed derives from its data. Has no effect on a venue with instruments of its own.

        A symbol that the feed says nothing about trades in lots of 1, at unrounded prices.
        """
        if self.rules.instruments is None:
            self.rules = evolve(self.rules, derived=dict(instruments))

    @property
    def guesses(self) -> bool:
        """Whether lots and ticks are derived, because the venue has no instruments."""
        return self.rules.instruments is None

    async def connect(self, symbols: Sequence[str]) -> Mapping[str, Instrument]:
        await checkpoint()
        for symbol in symbols:
            if not self.rules.has(symbol):
                known = one_of(self.rules.instruments or (), "it has no instruments; add some")
                raise HarnessMisuse(f"paper venue {self.name}: it has no symbol {symbol!r}: {known}")
        books, charges, margin = self._ledger.books(), self.rules.charges, self.rules.margin
        if margin is None and books.is_owing():
            raise HarnessMisuse(
                f"paper venue {self.name}: its books owe units or money (cash {books.cash:f}): expected margin, was none; "
                "give it the margin that it had, or another path"
            )
        return {symbol: evolve(self.rules.instrument(symbol), charges=charges, margin=margin) for symbol in symbols}

    async def observe(self, market: MarketSlice) -> None:
        await self._checkpoint()
        self._commit(match(self._ledger.books(), market, self.rules))

    def pass_quietly(self, slices: Sequence[MarketSlice], fills: int) -> bool:
        """Observe slices in which nothing can happen; return False, with no effect, if something could or has happened.

        Only books in memory can: those in a file must not be ahead of the steps of their harness.

        Args:
            slices: at least one; none to ask whether it is worth trying.
            fills: how many fills the harness knows of; more are somebody else's.
        """
        books = self._ledger.books()
        if self.is_lasting or books.orders or books.fills != fills or books.is_owing():
            return False
        after = pass_by(books, slices, self.rules) if slices else books
        if after is not None and after is not books:
            self._ledger.write(Matched(after))
        return after is not None

    async def submit(self, placed: PlacedOrder) -> OrderReport:
        """Place an order. An order whose id is known is not placed again; the outcome of the first is returned."""
        await self._checkpoint()
        known = self._ledger.report(placed.client_id)
        if known is not None:
            return known
        reports = self._commit(accept(self._ledger.books(), placed, self.rules)).reports
        return next(report for report in reversed(reports) if report.client_id == placed.client_id)

    async def cancel(self, client_id: str, symbol: str) -> OrderReport | None:
        await self._checkpoint()
        self._commit(cancel(self._ledger.books(), client_id))
        return self._ledger.report(client_id)

    async def find(self, placed: PlacedOrder) -> OrderReport | None:
        """Return the outcome of an order. It is certain at once, because `submit` either places an order or never does."""
        await checkpoint()
        return self._ledger.report(placed.client_id)

    async def open_orders(self, symbols: Sequence[str]) -> Sequence[OrderReport]:
        await self._checkpoint()
        return [order.report() for order in self._ledger.books().orders.values() if order.placed.order.symbol in symbols]

    async def fills(self, symbols: Sequence[str], after: Mapping[str, str]) -> Sequence[Fill]:
        await self._checkpoint()
        found: list[Fill] = []
        for symbol in dict.fromkeys(symbols):
            found += self._ledger.fills(symbol, self._number(symbol, after))
        return sorted(found, key=lambda fill: int(fill.fill_id)) if found else ()

    async def account(self, symbols: Sequence[str]) -> VenueAccount:
        await checkpoint()
        books = self._ledger.books()
        held = {symbol: books.positions.get(symbol, ZERO) for symbol in symbols}
        return VenueAccount(books.cash, {symbol: units for symbol, units in held.items() if units}, financing=books.financing)

    async def _checkpoint(self) -> None:
        """Let others run, unless the books are in memory: then nothing takes time, and the next step lets them run."""
        if self.is_lasting:
            await checkpoint()
        else:
            await checkpoint_if_cancelled()

    def _commit(self, matched: Matched) -> Matched:
        if matched.books is not self._ledger.books():
            self._ledger.write(matched)
        return matched

    def _number(self, symbol: str, after: Mapping[str, str]) -> int:
        """Return the number of the last known fill; raise if that fill is from another venue."""
        last, newest = after.get(symbol, "0"), self._ledger.books().fills
        if last.isdecimal() and int(last) <= newest:
            return int(last)
        raise HarnessMisuse(
            f"paper venue {self.name}: fills of {symbol} after {last!r}: expected a fill from 1 to {newest}; these "
            "are not the books that the harness traded on: give it their file (books in memory end with the program)"
        )


_OPENED: WeakValueDictionary[tuple[str, str], PaperBroker] = WeakValueDictionary()
"""Open brokers of this process, by file and owner."""


class PaperBrokerLater(PaperBroker):
    """A `PaperBroker` that opens its file when a harness connects, so that checking a run file creates no file.

    Before that its books are in memory, to validate its arguments, and cannot be traded on.

    Args:
        path: the venue's file.
        owner: name of the harness that trades there. A new broker of the same owner takes the file over from the earlier one.
        arguments: other arguments of `PaperBroker`.

    Raises:
        HarnessMisuse: an argument is invalid.
    """

    def __init__(self, path: str | Path, cash: Decimal = Decimal(10_000), *, owner: str = "", **arguments: Any) -> None:
        super().__init__(cash, **arguments)
        self.path: Path = Path(path)
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
