"""Values of a trading harness: its state, its decisions, and the outputs of its steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal, localcontext

from attrs import field, frozen

from harnesses.data.frozen_dict import FrozenDict, freeze
from harnesses.trading.indicators import Standing
from harnesses.trading.market.bars import MarketSlice, SliceRun
from harnesses.trading.market.broker import VenueAccount
from harnesses.trading.market.instruments import EXACT
from harnesses.trading.market.orders import ZERO, Cancel, Fill, OrderReport, OrderStatus, PlacedOrder, Source
from harnesses.trading.order_screening import Refusal
from harnesses.trading.position_book import Book
from harnesses.trading.risk import Risk, RiskState
from harnesses.trading.timeframes import Series


@frozen
class Price:
    """The known price of one symbol."""

    close: Decimal
    """The last close, which the jump guard compares the next one with."""
    mark: Decimal
    """The price at which units are valued: the last close that was not a jump."""

    @property
    def believed(self) -> bool:
        """Whether the last close is believed, so that it may be traded at."""
        return self.close == self.mark


@frozen
class OpenOrder:
    """One of our orders that may still be filled, or of which fills have not been received yet."""

    placed: PlacedOrder
    report: OrderReport
    seen: Decimal = ZERO
    """Units whose fills are in the book."""
    late: int = 0
    """Slices since the order ended."""

    @property
    def is_open(self) -> bool:
        """Whether it may still be filled."""
        return self.report.status is OrderStatus.OPEN

    @property
    def left(self) -> Decimal:
        """Units of the order that may still enter the book."""
        return max((self.report.units if self.is_open else self.report.filled) - self.seen, ZERO)


_NO_RISK = Risk(ZERO, ZERO)


@frozen
class TradingState:
    """The state of a trading harness. Its size depends only on the numbers of symbols, open orders, and bars that are seen."""

    book: Book | None = None
    """Cash and positions; None until the first start has taken over the venue's account."""
    risk: Risk = _NO_RISK
    time: datetime | None = None
    """Time of the last slice; the next slice is the first later one."""
    prices: Mapping[str, Price] = field(factory=dict[str, Price])
    """Prices by symbol."""
    standings: Mapping[str, Mapping[str, Standing]] = field(factory=dict[str, Mapping[str, Standing]])
    """Standings of the strategy's indicators, by symbol and by name."""
    open: Mapping[str, OpenOrder] = field(factory=dict[str, OpenOrder])
    """Orders that may still be filled or have fills missing, by client id."""
    asked: datetime | None = None
    """Time of the last slice that the strategy was asked about, unless its orders were prevented from being placed."""
    salt: str = ""
    """Distinguishes the order ids of this account from those of an earlier harness of the same name at the same venue. Created
    when the books are opened, and recorded before the first order."""
    gaps_s: tuple[float, ...] = ()
    """Seconds between the last slices, at most two values; used to estimate the length of a bar."""
    series: Mapping[str, Series] = field(factory=dict[str, Series])
    """What is kept of the bars, by symbol; empty for a strategy that sees only the current one."""

    def __attrs_post_init__(self) -> None:
        if self.standings.__class__ is not FrozenDict:
            object.__setattr__(self, "standings", {symbol: FrozenDict(one) for symbol, one in self.standings.items()})
        freeze(self, "prices", "standings", "open", "series")

    @property
    def cash(self) -> Decimal:
        """Cash, including cash reserved by open orders."""
        return self.book.cash if self.book else ZERO

    @property
    def equity(self) -> Decimal:
        """Cash plus the positions at their believed prices; a position without a price counts as 0."""
        return equity_of(self.book, self.prices)


def equity_of(book: Book | None, prices: Mapping[str, Price]) -> Decimal:
    """Return the cash plus the positions of a book at the believed prices; 0 without a book."""
    if book is None:
        return ZERO
    # A context of its own for the sum would take longer than the sum.
    equity = book.cash
    for symbol, one in book.positions.items():
        if one.units and symbol in prices:
            equity = EXACT.add(equity, EXACT.multiply(one.units, prices[symbol].mark))
    return equity


@frozen
class Execution:
    """A fill, and who wanted its order."""

    fill: Fill
    source: Source
    """Who reported the fill."""
    wanted_by: Source | None
    """Who wanted the order; None for an order that is not ours."""


@frozen
class Command:
    """A command of an operator, and whether it was carried out."""

    do: str
    reason: str = ""
    refused: str = ""
    """Why it was refused; empty if it was carried out."""
    source: Source = Source.OPERATOR


@frozen
class Cancelled:
    """A request to cancel an order."""

    client_id: str
    symbol: str
    source: Source
    """Who wanted the cancellation."""
    reason: str
    report: OrderReport | None = None
    """The order's state at the venue; None if the venue was not asked or does not have the order."""
    refused: str = ""
    """Why the venue was not asked."""


@frozen
class Decision:
    """The orders to place in a step; recorded as an effect before the first order is sent, so that it is made only once."""

    market: MarketSlice | None
    """The slice that the decision is based on; None for an operator's command between two slices."""
    time: datetime
    placed: tuple[PlacedOrder, ...] = ()
    refused: tuple[Refusal, ...] = ()
    asked: bool = False
    """Whether the strategy was asked."""
    withdrawn: tuple[Cancel, ...] = ()
    """Open orders that the strategy no longer wanted; cancelled before this was decided."""


@frozen
class QuietBar:
    """The account at a bar in which only prices changed."""

    time: datetime
    equity: Decimal
    drawdown: Decimal
    """Loss from the highest equity, as a fraction."""


@frozen
class TradingOutput:
    """The output of a step: everything that was wanted and its outcome, each fact with its source."""

    time: datetime
    """Time of the slice, or of the feed's clock if there is no slice."""
    cash: Decimal
    equity: Decimal
    positions: Mapping[str, Decimal]
    """Units by symbol, negative if short; symbols without units are left out."""
    drawdown: Decimal
    """Loss from the highest equity, as a fraction."""
    risk: RiskState
    why: str = ""
    """Why the risk state is not active."""
    placed: tuple[PlacedOrder, ...] = ()
    """Orders that were decided on; `reports` and `refused` have their outcome."""
    reports: tuple[OrderReport, ...] = ()
    """The venue's reports on new and changed orders; source: venue."""
    refused: tuple[Refusal, ...] = ()
    fills: tuple[Execution, ...] = ()
    cancelled: tuple[Cancelled, ...] = ()
    commands: tuple[Command, ...] = ()
    foreign: tuple[OrderReport, ...] = ()
    """Open orders found at the start that are not ours and were left alone; source: venue."""
    adopted: VenueAccount | None = None
    """The venue account that was adopted; source: venue."""
    latched: str = ""
    """Why the kill switch prevented effects; empty if it did not."""
    quiet: tuple[QuietBar, ...] = ()
    """The bars before the last one, if the step is of several; see `bars_of`. All else holds for each of them too."""
    financing: Decimal = ZERO
    """What borrowed units and money cost since the slice before; already taken from the cash."""

    def __attrs_post_init__(self) -> None:
        freeze(self, "positions")

    @property
    def refusals(self) -> int:
        """Number of wishes, or parts of them, that were refused: orders and cancellations."""
        return len(self.refused) + sum(bool(one.refused) for one in self.cancelled)


def bars_of(market: MarketSlice | None, output: TradingOutput) -> Iterator[tuple[MarketSlice | None, TradingOutput]]:
    """Yield the input and output of a step bar by bar, oldest first: what a step of each bar alone would have recorded."""
    if not output.quiet or not isinstance(market, SliceRun):
        yield market, output
        return
    now, held = (output.time, output.equity, output.drawdown), (output.positions, output.risk, output.why)
    moments = [*((one.time, one.equity, one.drawdown) for one in output.quiet), now]
    for one, (time, equity, drawdown) in zip((*market.earlier, market.last), moments, strict=True):
        positions, risk, why = held
        yield one, TradingOutput(time, output.cash, equity, positions, drawdown, risk, why)


def figures(state: TradingState) -> Mapping[str, Decimal]:
    """Return `equity`, and `position:SYMBOL` for each position as a fraction of the equity; empty before the books are open.

    A position without a believed price counts as 0, as in the equity.
    """
    if state.book is None:
        return {}
    equity, held = state.equity, {symbol: one.units for symbol, one in state.book.positions.items() if one.units}
    with localcontext(EXACT):
        parts = {
            f"position:{symbol}": units * state.prices[symbol].mark / equity
            for symbol, units in held.items()
            if symbol in state.prices and equity > 0
        }
    return {"equity": equity, **parts}


def moment(state: TradingState) -> datetime | None:
    """Return the time of the last slice, so that in a replay a day is a day of the data."""
    return state.time
