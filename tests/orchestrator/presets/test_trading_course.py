"""The course of an account: the figures of the report however it is read, and a curve that is short and has each extreme."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from harnesses.trading.account_model import Execution, TradingOutput
from harnesses.trading.market.bars import Bar, MarketSlice
from harnesses.trading.market.orders import Fill, Side, Source
from harnesses.trading.report.report_figures import account_of
from harnesses.trading.report.trading_report import steps
from harnesses.trading.risk import RiskState
from orchestrator import analysis
from orchestrator.analysis.presets.trading_questions import accounts
from orchestrator.errors import UsageError
from orchestrator.presets.curve import Curve
from orchestrator.presets.ready_made_kinds import Kinds
from orchestrator.presets.trading_course import TradingCourse, now_of
from orchestrator.presets.trading_told import told_account
from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.pruning.prune_store import prune
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from tests.orchestrator.analysis.figured import record_all

FIRST = datetime(2024, 1, 1, tzinfo=UTC)
ALL = 1_000_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_all(tmp_path_factory.getbasetemp()) / "run.db"


def course(store: Path, *, pages: int = 1) -> TradingCourse:
    """Return the course of `trading`, read in so many looks."""
    read = TradingCourse(SqliteReader(store), "trading")
    last = next(one.current_step for one in read.reader.harnesses() if one.name == "trading")
    for page in range(1, pages + 1):
        read.advance(last * page // pages, 60)
    return read


@pytest.mark.parametrize("pages", [1, 7])
def test_the_account_is_that_of_the_report_to_the_last_digit_however_it_is_read(store: Path, pages: int) -> None:
    told = account_of(steps(SqliteReader(store), "trading"))

    read = course(store, pages=pages)

    assert read.figures() == told.figures
    assert tuple(one.row for one in read.fills) == told.trades
    assert read.restrictions() == told.intervals


def test_where_it_stands_is_what_its_newest_step_and_state_say(store: Path) -> None:
    read = course(store)
    now = now_of(read.reader, "trading", read.step)

    assert now is not None
    assert now.output.equity == read.figures().last_equity
    assert now.output.cash + sum(one.value or 0 for one in now.positions) == now.output.equity
    assert {one.symbol: one.units for one in now.positions} == now.output.positions
    refused = told_account(read)["refused"]
    assert len(refused) == read.figures().refused
    assert (refused[-1]["kind"], refused[-1]["why"][:26]) == ("cancel nobody", "unknown client id 'nobody'")


def test_a_pruned_account_is_the_one_that_the_analysis_tells(store: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run.db"
    copy.write_bytes(store.read_bytes())
    prune(copy, Rule(keep=40, context=0), ["trading"], by="ann")
    with analysis.open(copy) as run:
        [told] = accounts(run, "trading")

    figures = course(copy).figures()

    assert 0 < figures.steps < 111
    assert (figures.first_equity, figures.last_equity, figures.steps) == (told.first, told.last, told.steps)
    assert (figures.turnover, figures.fees, figures.trades) == (told.turnover, told.fees, told.fills)


def test_harnesses_are_told_apart_by_their_records(store: Path) -> None:
    kinds = Kinds(SqliteReader(store))

    found = {name: kinds.of(name) for name in ("trading", "features", "pipe", "spender")}

    assert found == {"trading": "trading", "features": "features", "pipe": "tasks", "spender": ""}


def test_the_steps_of_another_harness_are_refused(store: Path) -> None:
    with pytest.raises(UsageError, match="step 1 is not one of a trading harness"):
        TradingCourse(SqliteReader(store), "features").advance(1, 1)


def output(day: float, equity: float, *fills: Fill, risk: RiskState = RiskState.ACTIVE) -> TradingOutput:
    made = tuple(Execution(fill, Source.VENUE, None) for fill in fills)
    amount = Decimal(str(equity))
    return TradingOutput(FIRST + timedelta(day), amount, amount, {}, Decimal(0), risk, fills=made)


def bars(day: float, close: float, split: int = 1) -> MarketSlice:
    price = Decimal(str(close))
    return MarketSlice(FIRST + timedelta(day), {"A": Bar(price, price + 1, price - 1, price, Decimal(1), Decimal(split))})


@pytest.mark.parametrize("count", [1, 20, 21, 22, 40, 41, 1000, 1283])
def test_a_curve_of_any_number_of_steps_is_short_ascends_and_has_every_extreme(count: int) -> None:
    curve = Curve(most=20)
    values = [float((number * 7919) % 1009) for number in range(count)]
    for number, value in enumerate(values):
        risk = RiskState.HALTED if number == count // 2 else RiskState.ACTIVE
        curve.add(number + 1, bars(number, value + 2), output(number, value, risk=risk), value / 2000)

    rows = [*curve.rows("A")]

    assert len(rows) <= 20 or count <= 20
    assert len(rows) > 10 or count <= 10
    assert [row[0] for row in rows] == sorted({row[0] for row in rows})
    assert (max(row[2] for row in rows), min(row[3] for row in rows), rows[-1][1]) == (max(values), min(values), values[-1])
    assert max(row[4] for row in rows) == max(values) / 2000
    assert max(row[5] for row in rows) == 2
    assert (max(row[7] for row in rows), min(row[8] for row in rows)) == (max(values) + 3, min(values) + 1)
    assert (rows[0][6], rows[-1][9]) == (values[0] + 2, values[-1] + 2)


def test_steps_of_the_same_time_or_an_earlier_one_are_one_place_in_the_curve() -> None:
    curve = Curve()
    for number, (day, equity) in enumerate([(0.0, 10.0), (0.5, 11.0), (0.5, 9.0), (0.2, 12.0), (1.0, 10.0)], 1):
        curve.add(number, None, output(day, equity), 0.0)

    assert [row[1] for row in curve.rows("A")] == [10.0, 12.0, 10.0]
    assert [row[6] for row in curve.rows("A")] == [None] * 3


def test_a_split_makes_no_step_in_prices_and_units() -> None:
    curve = Curve()
    fill = Fill("1", "", "A", Side.BUY, Decimal(5), Decimal(100), Decimal(0), FIRST)
    curve.add(1, bars(0, 100), output(0, 1000, fill), 0.0)
    before = curve.revision
    curve.add(2, bars(1, 50, split=2), output(1, 1000), 0.0)

    assert [row[9:] for row in curve.rows("A")] == [[50.0, 10.0, 0.0], [50.0, 0.0, 0.0]]
    assert curve.revision > before
