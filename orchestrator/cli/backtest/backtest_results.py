"""The results of trials: read from the store, ranked, and as tables."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from math import prod
from typing import Literal, TypeAlias

import msgspec
from attrs import frozen

from harnesses.trading.account import withheld_bars
from harnesses.trading.feeds.replay_feed import ReplayFeed
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.report.performance import BuyAndHold
from harnesses.trading.report.report_figures import Account, AccountReading, Figures, Interval, Point, TradeRow
from orchestrator.analysis.answers.answer import Answer, Cell, Table, money, times
from orchestrator.cli.backtest.backtest_plan import Trial
from orchestrator.cli.backtest.parameter_grid import label
from orchestrator.cli.backtest.walk_forward import Fold
from orchestrator.errors import UsageError
from orchestrator.presets.trading_course import TradingStep
from orchestrator.store.sqlite.sqlite_reader import SqliteReader

_PAGE = 1_000
_NAMED = 5
"""Withheld bars that are named."""
_read_step = msgspec.json.Decoder(TradingStep).decode
Measure: TypeAlias = Literal["sharpe", "sortino", "calmar", "gain"]
"""What trials are ranked by."""
_MEASURES = {"sharpe": "Sharpe ratio", "sortino": "Sortino ratio", "calmar": "Calmar ratio", "gain": "gain"}
_COLUMNS = (
    "gain_share benchmark_share yearly_gain_share sharpe sortino calmar max_drawdown_share win_rate_share exposure_share "
    "trades fees financing refused expired equity"
)
_NOTE = (
    "benchmark: the first equity, held in equal parts of all symbols, without costs. sharpe, sortino: of daily returns, for a "
    "year, without a risk-free rate. calmar: yearly gain over the largest drawdown. win rate: sales with more than their "
    "units had cost, fees included. exposure: the mean share of the equity that is not cash. refused, expired: orders or "
    "parts of them."
)
_LOANS = " financing: what borrowed units and money cost; sales include purchases that cover a short position."
"""What the note adds if anything was borrowed; then there is a column of it."""


@frozen
class Result:
    """What came of a trial."""

    trial: Trial
    figures: Figures

    def measure(self, by: Measure) -> float | None:
        """Return what it is ranked by; None if it cannot be told."""
        value = getattr(self.figures, by)
        return None if value is None else float(value)


def read_account(reader: SqliteReader, trial: Trial) -> Account:
    """Return the whole account of a trial."""
    return _read(reader, trial, AccountReading(since=trial.since)).account()


def read_result(reader: SqliteReader, trial: Trial) -> Result:
    """Return the figures of a trial, in little memory."""
    points, trades, intervals = deque[Point](maxlen=1), deque[TradeRow](maxlen=1), deque[Interval](maxlen=1)
    reading = AccountReading(points=points, trades=trades, intervals=intervals, since=trial.since)
    return Result(trial, _read(reader, trial, reading).figures())


def _read(reader: SqliteReader, trial: Trial, reading: AccountReading) -> AccountReading:
    after = 0
    while rows := reader.step_rows(trial.name, after=after, limit=_PAGE):
        for row in rows:
            step = _read_step(row.body)
            reading.read(step.input, step.output)
        after = rows[-1].step
    return reading


def rank(results: Iterable[Result], by: Measure) -> list[Result]:
    """Return results, the best first; of equal ones the first; those that cannot be told last."""

    def key(one: Result) -> tuple[bool, float]:
        value = one.measure(by)
        return value is None, -(value or 0.0)

    return sorted(results, key=key)


def choose(results: Sequence[Result], by: Measure) -> Trial:
    """Return the best trial.

    Raises:
        UsageError: there is no result, or none can be told.
    """
    best = rank(results, by)[0] if results else None
    if best is None or best.measure(by) is None:
        raise UsageError(
            f"--by {by}: expected a trial with a {_MEASURES[by]}, was none: the period is too short, or nothing was traded; "
            "choose --by gain, or give a longer recording"
        )
    return best.trial


def known_measure(results: Iterable[Result], by: Measure) -> Measure:
    """Return what results can be ranked by: the gain if another measure is known for none of them."""
    return by if any(one.measure(by) is not None for one in results) else "gain"


def grid_answer(results: Sequence[Result], wanted: Measure, planned: int = 0) -> Answer:
    """Return the results as a table, the best first.

    Args:
        wanted: what they are ranked by, if it is known for any of them.
        planned: the number of combinations that were to run; more than there are results if some failed.
    """
    by = known_measure(results, wanted)
    ranked = rank(results, by)
    names = list(ranked[0].trial.options) if ranked else []
    loans = _have_loans(results)
    rows = [(*_options(one.trial, names), *_cells(one.figures, loans)) for one in ranked]
    said = list[str]()
    if len(ranked) > 1:
        best = ranked[0]
        value = best.measure(by)
        shown = "not known" if value is None else f"{value:+.2%}" if by == "gain" else f"{value:.2f}"
        unknown = f"No combination has a {_MEASURES[wanted]}: the period is too short, or nothing was traded. "
        failed = f" ({planned - len(ranked)} of {planned} failed)" if planned > len(ranked) else ""
        said = [
            f"{unknown if by != wanted else ''}The best of {times(len(ranked), 'combination')}{failed} by its "
            f"{_MEASURES[by]}, {shown}, is {label(best.trial.options)}. It was chosen by what happened afterwards: "
            "--walk-forward tells what such a choice would have been worth."
        ]
    note = _NOTE + _LOANS if loans else _NOTE
    return Answer("combinations", [Table("combinations", (*names, *_columns(loans)), rows, note)], said)


def held_gain(feed: ReplayFeed) -> float:
    """Return what holding brings from the first close of a recording to its last, as a fraction."""
    held = BuyAndHold()
    for market in _slices(feed):
        held.take(market)
    return held.growth - 1


def withheld(feed: ReplayFeed, max_jump: Decimal) -> Iterator[str]:
    """Yield a sentence about the bars of a recording that are not believed, if there are any."""
    bars = [
        f"{symbol} {time:%Y-%m-%d %H:%M}".removesuffix(" 00:00") for time, symbol in withheld_bars(_slices(feed), max_jump)
    ]
    if bars:
        more = f" and {len(bars) - _NAMED} more" if len(bars) > _NAMED else ""
        yield (
            f"{times(len(bars), 'bar')} withheld, more than max_jump ({max_jump}) from the close before: "
            f"{', '.join(bars[:_NAMED])}{more}; give a split in the file of splits, or raise max_jump if it is real"
        )


def _slices(feed: ReplayFeed) -> Iterator[MarketSlice]:
    time = None
    while (market := feed.slice_after(time)) is not None:
        yield market
        time = market.time


def forward_answer(
    folds: Sequence[Fold], chosen: Mapping[int, Result], tests: Mapping[int, Result], by: Measure, held: float
) -> Answer:
    """Return what was chosen in each fold, and what came of it in the test.

    Args:
        held: what holding brought from the first close of the first test to the last of the last; see `held_gain`.
    """
    names = list(next(iter(chosen.values())).trial.options) if chosen else []
    rows, loans = list[tuple[Cell, ...]](), _have_loans(tests.values())
    for one in folds:
        best, test = chosen[one.number], tests[one.number]
        period = (str(one.test.date()), str(test.figures.end.date()) if test.figures.end else "")
        chosen_cells = (*_options(best.trial, names), best.measure(by))
        rows.append((one.number, str(one.begin.date()), *period, *chosen_cells, *_cells(test.figures, loans)))
    gain = prod(1 + float(tests[one.number].figures.gain) for one in folds) - 1
    subject = f"Chosen by the {_MEASURES[by]} of the past, the options"
    if not names:
        subject = "Nothing was chosen, for there is no --grid: the options of the file"
    said = [
        f"{subject} brought {gain:+.2%} in {times(len(folds), 'test')} on what came after; held, the money would have brought "
        f"{held:+.2%}."
    ]
    head = ("fold", "chosen_from", "test_from", "test_to", *names, f"chosen_by_{by}", *_columns(loans))
    return Answer("walk-forward", [Table("folds", head, rows, _NOTE + _LOANS if loans else _NOTE)], said)


def _have_loans(results: Iterable[Result]) -> bool:
    return any(one.figures.financing for one in results)


def _columns(loans: bool) -> list[str]:
    return [name for name in _COLUMNS.split() if loans or name != "financing"]


def _options(trial: Trial, names: Sequence[str]) -> Iterator[Cell]:
    for name in names:
        value = trial.options.get(name)
        yield value if isinstance(value, bool | str | int | float) else str(value)


def _cells(figures: Figures, loans: bool) -> tuple[Cell, ...]:
    return (
        float(figures.gain),
        figures.benchmark,
        figures.yearly_gain,
        figures.sharpe,
        figures.sortino,
        figures.calmar,
        figures.max_drawdown,
        figures.win_rate,
        figures.exposure,
        figures.trades,
        money(figures.fees),
        *([money(figures.financing)] if loans else []),
        figures.refused,
        figures.expired,
        money(figures.last_equity),
    )
