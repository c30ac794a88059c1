"""Gains and losses of trading harnesses, by the formulas of the trading report.

For pruned runs, the book at the oldest existing step is used. Invariant: sums of money are exact, and every figure that the
report has too is the same to its last digit, but the exposure with short positions: here they count as negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation, localcontext
from importlib import import_module
from itertools import pairwise
from typing import Any

import msgspec
from attrs import define, field, frozen

from harnesses.trading.account import with_splits
from harnesses.trading.account_model import Execution
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.instruments import EXACT
from harnesses.trading.market.orders import ZERO, Fill
from harnesses.trading.position_book import Book, Position
from harnesses.trading.report.closing_fills import ClosingFills
from harnesses.trading.report.performance import DailyReturns
from harnesses.trading.report.report_figures import yearly
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.run_tables import look
from orchestrator.analysis.sources import StoreSource
from orchestrator.errors import StoreError, UsageError
from orchestrator.store.sqlite.sqlite_reader import SqliteReader

_PAGE = 10_000
_MOST_VALUES = 2_000_000
"""Maximum number of steps of which the values are read at a time, unless one harness has more: 28 bytes each."""
_market = msgspec.json.Decoder(MarketSlice | None).decode
_fills = msgspec.json.Decoder(tuple[Execution, ...]).decode
_positions = msgspec.json.Decoder(dict[str, Decimal]).decode


@define
class Symbol:
    """The trades of one symbol."""

    fills: int = 0
    sales: int = 0
    """Fills that close a position, at least in part: sales, and purchases that cover a short position."""
    hits: int = 0
    """Sales that brought more than their units had cost on average, fees included."""
    turnover: Decimal = ZERO
    fees: Decimal = ZERO
    gain: Decimal = ZERO
    """Realised gain, less fees."""


@frozen
class Drawdown:
    """A time below the highest equity so far."""

    depth: float
    begin: datetime
    """Time of the highest equity."""
    low: datetime
    end: datetime
    is_over: bool


@frozen
class Values:
    """The values of an account after each of its steps: NumPy arrays of the same length."""

    time: Any
    """Time of the bar, `datetime64[us]`, UTC."""
    equity: Any
    cash: Any
    refused: Any
    """Number of orders that were refused."""
    expired: Any
    """Number of orders whose time in force was over."""


@define
class Account:
    """The course of one account."""

    harness: str
    first: Decimal = ZERO
    """The equity after the first step, exact."""
    last: Decimal = ZERO
    after: int = 0
    """The step from which the account is known; trades are those after it. 0 if all steps exist."""
    is_known: bool = True
    """Whether the first holdings are known; otherwise gains of sales are unknown."""
    book: Book = field(factory=lambda: Book(ZERO))
    steps: int = 0
    begin: datetime | None = None
    end: datetime | None = None
    total: float = 0.0
    exposure: float = 0.0
    """Sum over the steps of the share of the equity that is not cash; short positions count as negative."""
    refused: int = 0
    expired: int = 0
    symbols: dict[str, Symbol] = field(factory=dict[str, Symbol])
    deepest: Drawdown | None = None
    longest: Drawdown | None = None
    returns: DailyReturns = field(factory=DailyReturns)
    _closing: ClosingFills = field(factory=ClosingFills, init=False)
    shared: str = ""
    """Name of the account, if the harness shares it with others."""

    @property
    def fills(self) -> int:
        """Number of fills of all symbols."""
        return sum(one.fills for one in self.symbols.values())

    @property
    def turnover(self) -> Decimal:
        """Turnover of all symbols."""
        with localcontext(EXACT):
            return sum((one.turnover for one in self.symbols.values()), ZERO)

    @property
    def fees(self) -> Decimal:
        """Fees of all symbols."""
        with localcontext(EXACT):
            return sum((one.fees for one in self.symbols.values()), ZERO)

    @property
    def gain(self) -> Decimal:
        """Relative gain over the first equity."""
        with localcontext(EXACT):
            return self.last / self.first - 1 if self.first else ZERO

    @property
    def span_s(self) -> float:
        """Seconds from the first bar to the last."""
        return (self.end - self.begin).total_seconds() if self.begin and self.end else 0.0

    @property
    def yearly_gain(self) -> float | None:
        """The gain for a year, compounded; None for less than a month."""
        return yearly(float(self.gain), self.span_s)

    @property
    def turns(self) -> float:
        """Turnover as a multiple of the mean equity."""
        mean = self.total / self.steps if self.steps else 0.0
        return float(self.turnover) / mean if mean else 0.0

    @property
    def hits(self) -> tuple[int | None, int]:
        """Number of winning sales, if known, and of all."""
        every = self.symbols.values()
        return sum(one.hits for one in every) if self.is_known else None, sum(one.sales for one in every)

    @property
    def sharpe(self) -> float | None:
        """Mean over standard deviation of the daily returns, annualised by the observed days per year; no risk-free rate."""
        return self.returns.sharpe(self.span_s)

    def read(self, values: Values) -> None:
        """Add the values of the account after each of its steps; sums are made in the order of the steps."""
        numpy: Any = import_module("numpy")
        value = values.equity
        self.steps, self.begin, self.end = len(value), _moment(values.time[0]), _moment(values.time[-1])
        self.refused, self.expired = int(values.refused.sum()), int(values.expired.sum())
        with numpy.errstate(divide="ignore", invalid="ignore"):
            self.total = float(numpy.cumsum(value)[-1])
            self.exposure = float(numpy.cumsum(numpy.where(value > 0, 1 - values.cash / value, 0.0))[-1])
            self._sink(values, numpy)
        days = values.time.astype("datetime64[D]")
        closes = value[numpy.append(days[1:] != days[:-1], True)].tolist()
        for before, close in pairwise(closes):
            self.returns.take(before, close)

    def _sink(self, values: Values, numpy: Any) -> None:
        """Find the deepest and the longest time below the highest equity so far."""
        value, count = values.equity, len(values.equity)
        peak = numpy.fmax.accumulate(numpy.append(0.0, value))
        is_below = value < peak[:-1]
        is_below[0] = False
        edges = numpy.flatnonzero(numpy.diff(numpy.concatenate(([False], is_below, [False])).astype("int8")))
        if not len(edges):
            return
        depth = numpy.where(peak[1:] > 0, 1 - value / peak[1:], 0.0)
        spells = edges.reshape(-1, 2)
        depths = numpy.fmax.reduceat(depth, edges[edges < count])[::2]
        lengths = values.time[numpy.minimum(spells[:, 1], count - 1)] - values.time[spells[:, 0] - 1]
        self.deepest, self.longest = (
            _spell(values, depth, *spells[int(numpy.argmax(each))].tolist()) for each in (depths, lengths)
        )

    def trade(
        self, market: str | None, fills: str | None, cash: str | None, positions: str | None, shared: str | None
    ) -> None:
        """Add splits, an account that was taken over, and fills, each as JSON where there is any."""
        self.shared = shared or self.shared
        if market is not None:
            self.book = with_splits(self.book, _market(market))
        if cash is not None and positions is not None:
            self.book = Book(Decimal(cash), {symbol: Position(units) for symbol, units in _positions(positions).items()})
            self._closing.forget()
        for one in () if fills is None else _fills(fills):
            self._fill(one.fill)

    def _fill(self, fill: Fill) -> None:
        booked = self._closing.book(self.book, fill)
        tally = self.symbols.get(fill.symbol)
        if tally is None:
            tally = self.symbols[fill.symbol] = Symbol()
        tally.fills += 1
        tally.turnover += fill.units * fill.price
        tally.fees += fill.fee
        tally.gain += booked.gain
        tally.sales += booked.closes
        tally.hits += booked.has_won
        self.book = booked.book


def _moment(time: Any) -> datetime:
    moment: datetime = time.astype("datetime64[us]").item()
    return moment.replace(tzinfo=UTC)


def _spell(values: Values, depth: Any, begin: int, end: int) -> Drawdown:
    """Return the time below the highest equity from one step until before another; the last one may not be over."""
    low = begin + int(depth[begin:end].argmax())
    last = min(end, len(depth) - 1)
    times = [_moment(values.time[at]) for at in (begin - 1, low, last)]
    return Drawdown(float(depth[low]), times[0], times[1], times[2], is_over=end == last)


@frozen
class Together:
    """The sum of the harnesses that share an account."""

    name: str
    harnesses: tuple[str, ...]
    first: Decimal
    """Sum of their equities after the first step of each."""
    last: Decimal
    fees: Decimal
    fills: int
    units: Mapping[str, Decimal]
    """By symbol."""

    @property
    def gain(self) -> float:
        """Relative gain over the first equity."""
        return float(self.last / self.first - 1) if self.first else 0.0


def shared_accounts(books: Sequence[Account]) -> list[Together]:
    """Return the accounts that harnesses share, by name."""
    found: list[Together] = []
    for name in sorted({one.shared for one in books if one.shared}):
        parts, units = [one for one in books if one.shared == name], dict[str, Decimal]()
        with localcontext(EXACT):
            for symbol, position in (each for one in parts for each in one.book.positions.items()):
                units[symbol] = units.get(symbol, ZERO) + position.units
            first, last, fees = (sum((getattr(one, each) for one in parts), ZERO) for each in ("first", "last", "fees"))
        members = tuple(one.harness for one in parts)
        found.append(Together(name, members, first, last, fees, sum(one.fills for one in parts), units))
    return found


def accounts(run: Run, harness: str | None = None) -> list[Account]:
    """Return the account of each trading harness, by name."""
    ends = run.rows(
        """SELECT harness, arg_min(equity, (step_number, time)), arg_max(equity, (step_number, time)), count(*)
           FROM account_steps WHERE harness = coalesce(?, harness) GROUP BY harness ORDER BY harness""",
        [harness],
    )
    begun = first_books(run) if ends else {}
    found = {
        name: Account(name, Decimal(first), Decimal(last), *begun.get(name, (0, True, Book(ZERO))))
        for name, first, last, _ in ends
    }
    strange: set[str] = set()
    with localcontext(EXACT):
        for name, step, *changes in _changes(run, harness):
            account = found[name]
            try:
                if step > account.after:
                    account.trade(*changes)
            except (msgspec.ValidationError, InvalidOperation):
                # A harness of another kind whose steps look the same.
                strange.add(name)
    for some in _some_at_a_time([(name, count) for name, *_, count in ends]):
        for name, values in _values(run, some):
            found[name].read(values)
    return [account for name, account in found.items() if name not in strange]


def _changes(run: Run, harness: str | None) -> Iterator[tuple[Any, ...]]:
    """Yield what has changed accounts, as JSON, in the order of steps."""
    cursor = run.execute(
        """SELECT harness, step_number, split, fills, adopted_cash, adopted_positions, adopted_shared FROM account_steps
           WHERE harness = coalesce(?, harness) AND coalesce(split, fills, adopted_cash) IS NOT NULL
           ORDER BY harness, step_number""",
        [harness],
    )
    while page := cursor.fetchmany(_PAGE):
        yield from page


def _some_at_a_time(counts: Iterable[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
    """Yield harnesses with their numbers of steps, as many at a time as fit into little memory."""
    some: list[tuple[str, int]] = []
    for one in counts:
        if some and sum(count for _, count in some) + one[1] > _MOST_VALUES:
            yield some
            some = []
        some.append(one)
    if some:
        yield some


def _values(run: Run, some: Sequence[tuple[str, int]]) -> Iterator[tuple[str, Values]]:
    """Yield the values of accounts over time; harnesses and numbers of steps are in the order of names."""
    cursor = run.execute(
        """SELECT time, equity::DOUBLE AS equity, cash, refused, expired FROM account_steps
           WHERE harness BETWEEN ? AND ? ORDER BY harness, step_number, time""",
        [some[0][0], some[-1][0]],
    )
    columns = cursor.fetchnumpy()
    first = 0
    for name, count in some:
        part = slice(first, first + count)
        yield name, Values(*(columns[each][part] for each in ("time", "equity", "cash", "refused", "expired")))
        first += count


@frozen
class Kept:
    """The fields of a trading harness's state that are used."""

    book: Book | None = None


_kept = msgspec.json.Decoder(Kept).decode


def first_books(run: Run) -> dict[str, tuple[int, bool, Book]]:
    """Return, for harnesses with missing first steps: the step from which they are known, whether the book is, and it."""
    look(run)
    found: dict[str, tuple[int, bool, Book]] = {}
    for name, first, missing in run.rows(
        "SELECT harness, first_step, missing FROM remaining WHERE first_step > 1 OR missing > 0"
    ):
        book = None if missing else _book(run, name, first)
        found[name] = (first if first > 1 else 0, book is not None, book or Book(ZERO))
    return found


def _book(run: Run, name: str, step: int) -> Book | None:
    """Return the book after a step, if there is a store to read it from."""
    if not isinstance(run.source, StoreSource):
        return None
    try:
        with closing(SqliteReader(run.location)) as reader:
            return _kept(reader.state_at(name, step)).book
    except (StoreError, UsageError, msgspec.DecodeError):
        return None
