"""Gains and losses of trading harnesses, by the formulas of the trading report, read in one pass with little memory.

For pruned runs, the book at the oldest existing step is used. Invariant: sums of money are exact, and every figure that the
report has too is the same to its last digit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation, localcontext
from math import sqrt
from typing import Any

import msgspec
from attrs import define, field, frozen

from harnesses.trading.account import with_splits
from harnesses.trading.account_model import Execution
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.instruments import EXACT
from harnesses.trading.market.orders import ZERO, Fill, Side
from harnesses.trading.position_book import Book, Position
from harnesses.trading.report.report_figures import YEAR_S, yearly
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.run_tables import look
from orchestrator.analysis.sources import StoreSource
from orchestrator.errors import StoreError, UsageError
from orchestrator.store.sqlite.sqlite_reader import SqliteReader

_PAGE = 10_000
_SAID = '{"time": "VARCHAR", "equity": "VARCHAR", "cash": "VARCHAR", "refused": ["JSON"]}'
_SPLIT = r"""'"split": *"(1[^"]|[^1])'"""
"""Matches a split other than 1 in a slice."""
_market = msgspec.json.Decoder(MarketSlice | None).decode
_fills = msgspec.json.Decoder(tuple[Execution, ...]).decode
_positions = msgspec.json.Decoder(dict[str, Decimal]).decode


@define
class Symbol:
    """The trades of one symbol."""

    fills: int = 0
    sales: int = 0
    hits: int = 0
    """Sales that gained more than the cost of their units, fees included."""
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


@define
class Returns:
    """Daily returns, from one day's last equity to the next one's: their number, mean and variance."""

    count: int = 0
    mean: float = 0.0
    _squares: float = 0.0
    _day: date | None = None
    _close: float = 0.0
    _before: float = 0.0

    def take(self, day: date, equity: float) -> None:
        """Add the equity after a step."""
        if day != self._day:
            self.finish()
            self._day, self._before = day, self._close
        self._close = equity

    def finish(self) -> None:
        """Add the return of the last day."""
        if self._before > 0:
            one = self._close / self._before - 1
            self.count += 1
            off = one - self.mean
            self.mean += off / self.count
            self._squares += off * (one - self.mean)

    @property
    def deviation(self) -> float:
        """Standard deviation of a sample."""
        return sqrt(self._squares / (self.count - 1)) if self.count > 1 else 0.0


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
    peak: float = 0.0
    total: float = 0.0
    exposure: float = 0.0
    """Sum over the steps of the share of the equity that is not cash."""
    turnover: Decimal = ZERO
    fees: Decimal = ZERO
    fills: int = 0
    refused: int = 0
    symbols: dict[str, Symbol] = field(factory=dict[str, Symbol])
    deepest: Drawdown | None = None
    longest: Drawdown | None = None
    returns: Returns = field(factory=Returns)
    _below: Drawdown | None = None
    _high_at: datetime | None = None

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
        daily = self.returns
        if daily.count < 20 or self.span_s < YEAR_S / 12 or not daily.deviation:
            return None
        return daily.mean / daily.deviation * sqrt(daily.count / (self.span_s / YEAR_S))

    def read(self, time: datetime, value: float, cash: float, refused: int) -> None:
        """Add the values of the account after a step."""
        if not self.steps:
            self.begin = time
        self.steps, self.end = self.steps + 1, time
        self.total += value
        self.refused += refused
        self.exposure += 1 - cash / value if value > 0 else 0.0
        self.returns.take(time.date(), value)
        self._sink(time, value)

    def _sink(self, time: datetime, value: float) -> None:
        if value >= self.peak or self._high_at is None:
            if self._below is not None:
                self._close(time, is_over=True)
            self.peak, self._high_at = max(self.peak, value), time
            return
        depth = 1 - value / self.peak if self.peak > 0 else 0.0
        below = self._below
        if below is None or depth > below.depth:
            self._below = Drawdown(depth, self._high_at, time, time, is_over=False)

    def _close(self, time: datetime, *, is_over: bool) -> None:
        below = self._below
        assert below is not None
        spell = Drawdown(below.depth, below.begin, below.low, time, is_over)
        if self.deepest is None or spell.depth > self.deepest.depth:
            self.deepest = spell
        if self.longest is None or spell.end - spell.begin > self.longest.end - self.longest.begin:
            self.longest = spell
        self._below = None

    def finish(self) -> None:
        """Add a drawdown that is not over, and the last day."""
        self.returns.finish()
        if self._below is not None and self.end is not None:
            self._close(self.end, is_over=False)

    def trade(self, market: str | None, fills: str | None, cash: str | None, positions: str | None) -> None:
        """Add splits, an account that was taken over, and fills, each as JSON where there is any."""
        if market is not None:
            self.book = with_splits(self.book, _market(market))
        if cash is not None and positions is not None:
            self.book = Book(Decimal(cash), {symbol: Position(units) for symbol, units in _positions(positions).items()})
        for one in () if fills is None else _fills(fills):
            self._fill(one.fill)

    def _fill(self, fill: Fill) -> None:
        after = self.book.after(fill)
        gain = after.realised - self.book.realised - fill.fee
        notional = fill.units * fill.price
        tally = self.symbols.setdefault(fill.symbol, Symbol())
        tally.fills += 1
        tally.turnover += notional
        tally.fees += fill.fee
        tally.gain += gain
        if fill.side is Side.SELL:
            tally.sales += 1
            tally.hits += gain > 0
        self.turnover += notional
        self.fees += fill.fee
        self.fills += 1
        self.book = after


def accounts(run: Run, harness: str | None = None) -> list[Account]:
    """Return the account of each trading harness, by name; the temporary table `walked` has their values over time."""
    _walk(run, harness)
    ends = run.rows("SELECT harness, arg_min(equity, step_number), arg_max(equity, step_number) FROM walked GROUP BY harness")
    begun = first_books(run)
    found = {
        name: Account(name, Decimal(first), Decimal(last), *begun.get(name, (0, True, Book(ZERO))))
        for name, first, last in ends
    }
    strange: set[str] = set()
    traded = iter(_traded(run))
    due = next(traded, None)
    with localcontext(EXACT):
        for name, step, time, equity, cash, refused in _pages(run):
            account = found[name]
            while due is not None and due[:2] == (name, step):
                try:
                    if step > account.after:
                        account.trade(*due[2:])
                except (msgspec.ValidationError, InvalidOperation):
                    # A harness of another kind whose steps look the same.
                    strange.add(name)
                due = next(traded, None)
            account.read(time.replace(tzinfo=UTC), equity, cash, refused)
        for account in found.values():
            account.finish()
    return [found[name] for name in sorted(found.keys() - strange)]


def _walk(run: Run, harness: str | None) -> None:
    """Store the values of each account after each step, in narrow rows, so that many can be sorted."""
    run.rows(
        f"""
        CREATE OR REPLACE TEMP TABLE walked AS
        SELECT harness, step_number, time, said.equity AS equity, said.cash::DOUBLE AS cash,
               coalesce(len(said.refused), 0) AS refused
        FROM (SELECT harness, step_number, TRY_CAST(said.time AS TIMESTAMP) AS time, said
              FROM (SELECT harness, step_number, json_transform(output, '{_SAID}') AS said FROM step_results
                    WHERE harness = coalesce(?, harness)))
        WHERE time IS NOT NULL AND TRY_CAST(said.equity AS DOUBLE) IS NOT NULL AND TRY_CAST(said.cash AS DOUBLE) IS NOT NULL
        """,
        [harness],
    )


def _traded(run: Run) -> list[tuple[Any, ...]]:
    """Return fills, splits and takeovers as JSON, in the order of `walked`."""
    return run.rows(
        f"""
        SELECT harness, step_number, CASE WHEN is_split THEN input END,
               CASE WHEN is_filled THEN json_extract(output, '$.fills') END,
               CASE WHEN is_adopted THEN json_extract_string(output, '$.cash') END,
               CASE WHEN is_adopted THEN json_extract(output, '$.positions') END
        FROM (
            SELECT *, json_extract_string(output, '$.fills[0].fill.fill_id') IS NOT NULL AS is_filled,
                   json_type(output, '$.adopted') = 'OBJECT' AS is_adopted,
                   coalesce(regexp_matches(input::VARCHAR, {_SPLIT}), false) AS is_split
            FROM (SELECT harness, step_number, input, output FROM step_results SEMI JOIN walked USING (harness, step_number))
        ) WHERE is_filled OR is_adopted OR is_split ORDER BY harness, step_number
        """
    )


def _pages(run: Run) -> Iterator[tuple[Any, ...]]:
    cursor = run.execute(
        "SELECT harness, step_number, time, equity::DOUBLE, cash, refused FROM walked ORDER BY harness, step_number", []
    )
    while page := cursor.fetchmany(_PAGE):
        yield from page


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
