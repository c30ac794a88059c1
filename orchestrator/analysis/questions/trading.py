"""What trading harnesses have won and lost, by the formulas of `harnesses.trading.report`, read in one pass in little memory.

The law: sums of money are exact, and every figure that the report has too is the same to its last digit.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal, localcontext
from math import sqrt

import msgspec
from attrs import define, field, frozen

from harnesses.trading.account import with_splits
from harnesses.trading.account_nouns import TradingOutput
from harnesses.trading.bars import MarketSlice
from harnesses.trading.book import Book, Position
from harnesses.trading.instruments import EXACT
from harnesses.trading.orders import ZERO, Fill, Side
from orchestrator.analysis.run import Run

YEAR_S = 365.25 * 86_400
_PAGE = 10_000
_SAID = """{"time": "VARCHAR", "equity": "VARCHAR", "cash": "VARCHAR", "refused": ["JSON"], "fills": ["JSON"],
    "adopted": {"cash": "VARCHAR"}}"""
_SPLIT = r"""'"split": *"(1[^"]|[^1])'"""
"""In a slice, a split that is not 1."""
_output = msgspec.json.Decoder(TradingOutput).decode
_market = msgspec.json.Decoder(MarketSlice | None).decode


@define
class Symbol:
    """What was traded of one symbol."""

    fills: int = 0
    sales: int = 0
    hits: int = 0
    """Sales that brought more than their units had cost, fees included."""
    turnover: Decimal = ZERO
    fees: Decimal = ZERO
    gain: Decimal = ZERO
    """Realised, less fees."""


@frozen
class Drawdown:
    """A time below the highest equity so far."""

    depth: float
    begin: datetime
    """When the equity was highest."""
    low: datetime
    end: datetime
    is_over: bool


@define
class Returns:
    """Daily returns, from one day's last equity to the next one's: their number, mean and spread."""

    count: int = 0
    mean: float = 0.0
    _squares: float = 0.0
    _day: date | None = None
    _close: float = 0.0
    _before: float = 0.0

    def take(self, day: date, equity: float) -> None:
        """Take in the equity after a step."""
        if day != self._day:
            self.finish()
            self._day, self._before = day, self._close
        self._close = equity

    def finish(self) -> None:
        """Take in the return of the last day."""
        if self._before > 0:
            one = self._close / self._before - 1
            self.count += 1
            off = one - self.mean
            self.mean += off / self.count
            self._squares += off * (one - self.mean)

    @property
    def deviation(self) -> float:
        """As of a sample."""
        return sqrt(self._squares / (self.count - 1)) if self.count > 1 else 0.0


@define
class Account:
    """What the steps of one harness come to."""

    harness: str
    steps: int = 0
    begin: datetime | None = None
    end: datetime | None = None
    peak: float = 0.0
    total: float = 0.0
    exposure: float = 0.0
    """The sum, over the steps, of the part of the equity that is not cash."""
    turnover: Decimal = ZERO
    fees: Decimal = ZERO
    fills: int = 0
    refused: int = 0
    symbols: dict[str, Symbol] = field(factory=dict[str, Symbol])
    book: Book = field(factory=lambda: Book(ZERO))
    deepest: Drawdown | None = None
    longest: Drawdown | None = None
    returns: Returns = field(factory=Returns)
    _first: str = "0"
    _last: str = "0"
    _below: Drawdown | None = None
    _high_at: datetime | None = None

    @property
    def first(self) -> Decimal:
        """The equity after the first step."""
        return Decimal(self._first)

    @property
    def last(self) -> Decimal:
        """The equity after the last step."""
        return Decimal(self._last)

    @property
    def gain(self) -> Decimal:
        """The part of the first equity that was won."""
        with localcontext(EXACT):
            return self.last / self.first - 1 if self.first else ZERO

    @property
    def span_s(self) -> float:
        """From the first bar to the last."""
        return (self.end - self.begin).total_seconds() if self.begin and self.end else 0.0

    @property
    def yearly_gain(self) -> float | None:
        """The gain for a year, compounded; None for less than a month, which says nothing of a year."""
        gain = float(self.gain)
        if self.span_s < YEAR_S / 12 or gain <= -1:
            return None
        return float((1 + gain) ** (YEAR_S / self.span_s) - 1)

    @property
    def turns(self) -> float:
        """Turnover in parts of the mean equity."""
        mean = self.total / self.steps if self.steps else 0.0
        return float(self.turnover) / mean if mean else 0.0

    @property
    def hits(self) -> tuple[int, int]:
        """Sales that were won, and all."""
        every = self.symbols.values()
        return sum(one.hits for one in every), sum(one.sales for one in every)

    @property
    def sharpe(self) -> float | None:
        """Mean over deviation of the daily returns, for a year of as many days as were seen in one; no riskless rate."""
        daily = self.returns
        if daily.count < 20 or self.span_s < YEAR_S / 12 or not daily.deviation:
            return None
        return daily.mean / daily.deviation * sqrt(daily.count / (self.span_s / YEAR_S))

    def read(self, time: datetime, equity: str, cash: str, refused: int) -> None:
        """Take in where the account stands after a step; numbers as they are written."""
        value = float(equity)
        if not self.steps:
            self._first, self.begin = equity, time
        self.steps, self._last, self.end = self.steps + 1, equity, time
        self.total += value
        self.refused += refused
        self.exposure += 1 - float(cash) / value if value > 0 else 0.0
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
        """Take in a time below the highest equity that is not over, and the last day."""
        self.returns.finish()
        if self._below is not None and self.end is not None:
            self._close(self.end, is_over=False)

    def trade(self, market: MarketSlice | None, output: TradingOutput) -> None:
        """Take in splits, an account that was taken over, and fills."""
        self.book = with_splits(self.book, market)
        if output.adopted is not None:
            held = {symbol: Position(units) for symbol, units in output.positions.items()}
            self.book = Book(output.cash, held)
        for one in output.fills:
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
    """Return the account of each trading harness, by name."""
    found: dict[str, Account] = {}
    with localcontext(EXACT):
        for name, time, equity, cash, refused, traded, given, said in _rows(run, harness):
            account = found.setdefault(name, Account(name))
            if traded:
                try:
                    account.trade(_market(given or "null"), _output(said))
                except msgspec.ValidationError:
                    # A harness of another kind, whose steps read alike.
                    found.pop(name)
                    continue
            account.read(datetime.fromisoformat(time), equity, cash, refused)
        for account in found.values():
            account.finish()
    return [found[name] for name in sorted(found)]


def _rows(run: Run, harness: str | None) -> Iterator[tuple[str, str, str, str, int, bool, str | None, str]]:
    """Yield the steps of trading harnesses in order; what went in and came out only where something was traded."""
    of = "" if harness is None else "AND harness = ?"
    cursor = run.db.execute(
        f"""
        SELECT harness, said.time, said.equity, said.cash, coalesce(len(said.refused), 0), traded,
               CASE WHEN traded THEN input END, CASE WHEN traded THEN output END
        FROM (
            SELECT harness, step_number, input, output, said,
                   coalesce(len(said.fills) > 0 OR said.adopted IS NOT NULL OR regexp_matches(input::VARCHAR, {_SPLIT}), false)
                       AS traded
            FROM (SELECT harness, step_number, input, output, json_transform(output, '{_SAID}') AS said FROM steps)
            WHERE TRY_CAST(said.time AS TIMESTAMP) IS NOT NULL AND TRY_CAST(said.equity AS DOUBLE) IS NOT NULL
              AND TRY_CAST(said.cash AS DOUBLE) IS NOT NULL {of}
        ) ORDER BY harness, step_number
        """,
        [] if harness is None else [harness],
    )
    while page := cursor.fetchmany(_PAGE):
        yield from page
