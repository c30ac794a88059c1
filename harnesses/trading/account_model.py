"""The nouns of a trading harness: what it knows and owns, what it decides, and what its steps say. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, localcontext

from attrs import field, frozen

from harnesses.trading.indicators import Standing
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.broker import VenueAccount
from harnesses.trading.market.instruments import EXACT
from harnesses.trading.market.orders import ZERO, Fill, OrderKind, OrderReport, OrderStatus, PlacedOrder, Side, Source
from harnesses.trading.order_screening import Refusal
from harnesses.trading.position_book import Book
from harnesses.trading.risk import Risk, RiskState


@frozen
class Price:
    """What is known of the price of one symbol."""

    close: Decimal
    """The last close, for the guard to compare with."""
    mark: Decimal
    """What the units are valued at: the last close that was no jump."""

    @property
    def believed(self) -> bool:
        """Whether the last close may be traded at."""
        return self.close == self.mark


@frozen
class OpenOrder:
    """An order of ours that may still be filled, or of which fills are still to be told."""

    placed: PlacedOrder
    report: OrderReport
    seen: Decimal = ZERO
    """Units of it whose fills are in the book."""
    late: int = 0
    """Slices since it has ended."""

    @property
    def is_open(self) -> bool:
        """Whether it may still be filled."""
        return self.report.status is OrderStatus.OPEN

    @property
    def left(self) -> Decimal:
        """Units that may still come into the book."""
        return max((self.report.units if self.is_open else self.report.filled) - self.seen, ZERO)

    @property
    def is_selling_now(self) -> bool:
        """Whether it sells at what the market gives."""
        return self.placed.order.side is Side.SELL and self.placed.order.kind is OrderKind.MARKET


_NO_RISK = Risk(ZERO, ZERO)


@frozen
class TradingState:
    """Everything a trading harness needs to go on. Its size depends on the number of symbols and of open orders alone."""

    book: Book | None = None
    """What is owned; None until the venue's account was taken over at the very first start."""
    risk: Risk = _NO_RISK
    time: datetime | None = None
    """Of the last slice; the next one is the first after it."""
    prices: Mapping[str, Price] = field(factory=dict[str, Price])
    """By symbol."""
    standings: Mapping[str, Mapping[str, Standing]] = field(factory=dict[str, Mapping[str, Standing]])
    """Where the strategy's indicators stand, by symbol and by name."""
    open: Mapping[str, OpenOrder] = field(factory=dict[str, OpenOrder])
    """Orders that may still be filled, or whose fills are still to be told, by client id."""
    asked: datetime | None = None
    """Of the last slice that the strategy was asked about, if what it wanted was not kept from being placed."""
    salt: str = ""
    """What tells the ids of this account's orders from those of another life of a harness of its name, at the same venue. Made
    when the books are opened; on record before the first order."""
    gaps_s: tuple[float, ...] = ()
    """Seconds between the last slices, at most two of them: how long a bar is, as far as one can see."""

    @property
    def cash(self) -> Decimal:
        """What is owned in cash, reserved or not."""
        return self.book.cash if self.book else ZERO

    @property
    def equity(self) -> Decimal:
        """Cash, and what the positions are worth at prices that are believed; one without a price yet counts nothing."""
        if self.book is None:
            return ZERO
        held = ((symbol, one.units) for symbol, one in self.book.positions.items() if one.units and symbol in self.prices)
        with localcontext(EXACT):
            return sum((units * self.prices[symbol].mark for symbol, units in held), self.book.cash)


@frozen
class Execution:
    """A fill, and whose order it was."""

    fill: Fill
    source: Source
    """Who says so."""
    wanted_by: Source | None
    """Who wanted the order; None for one that is not ours."""


@frozen
class Command:
    """What an operator has asked for, and whether it was done."""

    do: str
    reason: str = ""
    refused: str = ""
    """Why it was not done; empty if it was."""
    source: Source = Source.OPERATOR


@frozen
class Cancelled:
    """An order that was asked to be cancelled."""

    client_id: str
    symbol: str
    source: Source
    """Who wanted that."""
    reason: str
    report: OrderReport | None = None
    """Where the order stands; None if the venue was not asked, or has none."""
    refused: str = ""
    """Why the venue was not asked."""


@frozen
class Decision:
    """What is to be placed in a step: kept as an effect before the first order goes out, so that it is made once."""

    market: MarketSlice | None
    """What it goes by; None if an operator wanted it between two slices."""
    time: datetime
    placed: tuple[PlacedOrder, ...] = ()
    refused: tuple[Refusal, ...] = ()
    asked: bool = False
    """Whether the strategy was asked."""


@frozen
class TradingOutput:
    """What a step has to say: everything that was wanted, and what became of it; each fact with its source."""

    time: datetime
    """Of the slice, or by the feed's clock."""
    cash: Decimal
    equity: Decimal
    positions: Mapping[str, Decimal]
    """Units by symbol; what is not held is missing."""
    drawdown: Decimal
    """The part of the highest equity that is lost."""
    risk: RiskState
    why: str = ""
    """Why it is not active."""
    placed: tuple[PlacedOrder, ...] = ()
    """What was decided to be placed; `reports` and `refused` say what became of it."""
    reports: tuple[OrderReport, ...] = ()
    """What the venue says of orders that are new or have changed; source: venue."""
    refused: tuple[Refusal, ...] = ()
    fills: tuple[Execution, ...] = ()
    cancelled: tuple[Cancelled, ...] = ()
    commands: tuple[Command, ...] = ()
    foreign: tuple[OrderReport, ...] = ()
    """Open orders found at the start that are not ours, and left alone; source: venue."""
    adopted: VenueAccount | None = None
    """The account that was taken over as it is; source: venue."""
    latched: str = ""
    """Why no effect could begin, if none could."""


def figures(state: TradingState) -> Mapping[str, Decimal]:
    """Return `equity`, and `position:SYMBOL` for each that is held, as a part of the equity; nothing before the books open.

    A position without a price that is believed yet counts nothing, as in the equity itself.
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
    """Return the time of the last slice: the day of a replay is that of its data."""
    return state.time
