"""The course of a trading harness, read from its records page by page: its account, and a curve of limited length.

    state at the newest step ──► now: cash, positions, open orders, risk        at once, however many steps there are
    steps, oldest first ──────► figures, fills, refusals, curve                 continued where the last look ended

Invariants: a step is read once; memory does not depend on their number; figures are those of the trading report, to the last
digit. Of a pruned harness, the book after its oldest step is taken from its state, and trades are those after that step.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from decimal import Decimal
from threading import Lock

import msgspec
from attrs import define, evolve, field, frozen

from harnesses.data.newest import drop_oldest
from harnesses.trading.account_model import Cancelled, OpenOrder, Price, TradingOutput, bars_of
from harnesses.trading.market.bars import MarketSlice, SliceRun
from harnesses.trading.market.instruments import EXACT
from harnesses.trading.market.orders import ZERO, OrderReport, PlacedOrder
from harnesses.trading.order_screening import Refusal
from harnesses.trading.position_book import Book
from harnesses.trading.report.report_figures import AccountReading, Figures, Interval, Point, TradeRow
from orchestrator.errors import UsageError
from orchestrator.presets.curve import Curve
from orchestrator.store.sqlite.sqlite_reader import SqliteReader

_PAGE = 1_000
NEWEST = 200
"""Fills, orders and refusals that are kept: the newest ones."""
_INTERVALS = 100
_REASONS = 10_000
"""Orders whose reasons are kept, for fills that come later."""


@frozen
class TradingStep:
    """The input and output of a step of a trading harness."""

    input: SliceRun | None
    """One without earlier slices is that of a step of one bar."""
    output: TradingOutput


@frozen
class _Kept:
    """The fields of a trading harness's state that are used."""

    book: Book | None = None
    prices: Mapping[str, Price] = field(factory=dict[str, Price])
    open: Mapping[str, OpenOrder] = field(factory=dict[str, OpenOrder])


_read_step = msgspec.json.Decoder(TradingStep).decode
_read_state = msgspec.json.Decoder(_Kept).decode


def is_trading(body: str) -> bool:
    """Return whether the body of a step's record is that of a trading harness."""
    try:
        _read_step(body)
    except (msgspec.MsgspecError, UnicodeError):
        return False
    return True


@frozen
class OrderRow:
    """An order that was decided on, and what became of it."""

    step: int
    placed: PlacedOrder
    report: OrderReport | None = None
    """The venue's last report on it."""


@frozen
class FillRow:
    """A fill, and the step that recorded it."""

    step: int
    row: TradeRow


@frozen
class Position:
    """A holding, valued at the last price that is believed."""

    symbol: str
    units: Decimal
    cost: Decimal
    """What its units cost, without fees."""
    price: Decimal | None
    value: Decimal | None

    @property
    def gain(self) -> Decimal | None:
        """Value less cost: what a sale at this price would realise."""
        return None if self.value is None else EXACT.subtract(self.value, self.cost)


@frozen
class Now:
    """The account after the newest step."""

    step: int
    output: TradingOutput
    positions: tuple[Position, ...]
    open: tuple[OpenOrder, ...]


@define(eq=False)
class TradingCourse:
    """What is known of a trading harness so far.

    Args:
        reader: the store.
        name: the harness.
    """

    reader: SqliteReader
    name: str
    step: int = field(default=0, init=False)
    """The last step that was read."""
    curve: Curve = field(factory=Curve, init=False)
    fills: deque[FillRow] = field(factory=lambda: deque[FillRow](maxlen=NEWEST), init=False)
    refused: deque[tuple[int, Refusal | Cancelled]] = field(
        factory=lambda: deque[tuple[int, Refusal | Cancelled]](maxlen=NEWEST), init=False
    )
    """Refusals of orders and of cancellations, each with its step."""
    orders: dict[str, OrderRow] = field(factory=dict[str, OrderRow], init=False)
    """The newest orders, by client id, oldest first."""
    lock: Lock = field(factory=Lock, init=False)
    """Held while it is read or told."""
    _reading: AccountReading = field(init=False)

    def __attrs_post_init__(self) -> None:
        points, intervals = deque[Point](maxlen=1), deque[Interval](maxlen=_INTERVALS)
        self._reading = AccountReading(points=points, intervals=intervals)

    def advance(self, until: int, limit_s: float) -> None:
        """Read steps up to a number, but for no longer than about so many seconds of processor time.

        Raises:
            UsageError: a step is not one of a trading harness.
        """
        begun = time.thread_time()
        while self.step < until and time.thread_time() - begun < limit_s:
            rows = self.reader.step_rows(self.name, after=self.step, limit=min(_PAGE, until - self.step))
            if not rows:
                return
            for row in rows:
                self._read(row.step, row.body)

    def _read(self, step: int, body: str) -> None:
        try:
            read = _read_step(body)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise UsageError(f"harness {self.name!r}: step {step} is not one of a trading harness: {error}") from error
        is_known = self.step > 0 or step == 1
        if not is_known:
            # The steps before were pruned: the state has what they came to.
            self._reading.book = _read_state(self.reader.state_at(self.name, step)).book or Book(ZERO)
        for market, output in bars_of(read.input, read.output):
            if is_known:
                self._take(step, market, output)
            else:
                self._take(step, None, evolve(output, fills=(), adopted=None))
            self.curve.add(step, market, output, self._reading.points[-1].drawdown)
            is_known = True
        self.step = step

    def _take(self, step: int, market: MarketSlice | None, output: TradingOutput) -> None:
        trades: list[TradeRow] = []
        self._reading.trades = trades
        self._reading.read(market, output)
        self.fills.extend(FillRow(step, row) for row in trades)
        self.refused.extend((step, one) for one in output.refused)
        self.refused.extend((step, one) for one in output.cancelled if one.refused)
        for placed in output.placed:
            self.orders[placed.client_id] = OrderRow(step, placed)
        for report in output.reports:
            if (known := self.orders.get(report.client_id)) is not None:
                self.orders[report.client_id] = evolve(known, report=report)
        drop_oldest(self.orders, NEWEST)
        drop_oldest(self._reading.reasons, _REASONS)

    def figures(self) -> Figures:
        """Return the figures of the steps that were read."""
        return self._reading.figures()

    def restrictions(self) -> tuple[Interval, ...]:
        """Return the newest periods in which trading was restricted, by their begin."""
        return self._reading.restrictions()


def now_of(reader: SqliteReader, name: str, step: int) -> Now | None:
    """Return the account of a trading harness after a step; None if it has not made one, or it is not there any more.

    Raises:
        StoreError: the state cannot be read.
    """
    rows = reader.step_rows(name, after=step - 1, limit=1) if step else []
    if not rows:
        return None
    output = _read_step(rows[0].body).output
    state = _read_state(reader.state_at(name, rows[0].step))
    return Now(rows[0].step, output, tuple(_positions(state)), tuple(state.open.values()))


def _positions(state: _Kept) -> Iterator[Position]:
    for symbol, one in state.book.positions.items() if state.book else ():
        if one.units:
            price = state.prices[symbol].mark if symbol in state.prices else None
            value = None if price is None else EXACT.multiply(one.units, price)
            yield Position(symbol, one.units, one.cost, price, value)


__all__ = ["NEWEST", "FillRow", "Now", "OrderRow", "Position", "TradingCourse", "is_trading", "now_of"]
