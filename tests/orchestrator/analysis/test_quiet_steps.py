"""Whatever reads the steps of a backtest tells the same whether its quiet bars share steps or not."""

from __future__ import annotations

import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import astuple
from trio.testing import MockClock

from harnesses import Agent, AgentRun
from harnesses.trading import Fees, Margin, PaperBroker, TradingHarness
from harnesses.trading.market.orders import Order, OrderKind, Side, TimeInForce
from harnesses.trading.report.report_figures import account_of
from harnesses.trading.report.trading_report import steps
from harnesses.trading.strategies import Market, Strategy
from orchestrator import Orchestrator, analysis
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.pictures import picture
from orchestrator.analysis.presets.trading_questions import accounts
from orchestrator.analysis.questions import QUESTIONS
from orchestrator.analysis.sources import copied_columns, store_source, store_summary
from orchestrator.cli.backtest.venue_replay import restore
from orchestrator.presets.trading_course import TradingCourse
from orchestrator.presets.trading_told import told_account
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from tests.harnesses.trading.test_trading_quiet_bars import now_and_then, recording

NAME = "trading"
STEPS = (1, 40)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same backtest with a step for each bar, and with one for several."""
    folder, paths = tmp_path_factory.mktemp("quiet"), list[Path]()
    for most in STEPS:
        paths.append(folder / f"{most}.db")

        async def run(path: Path = paths[-1], most: int = most) -> None:
            async with Orchestrator(path) as orchestrator:
                harness = TradingHarness(recording(wild=True), PaperBroker(), now_and_then(30), period_s=0, bars_per_step=most)
                orchestrator.start(harness, name=NAME)

        trio.run(run, clock=MockClock(autojump_threshold=0))
    return paths[0], paths[1]


@pytest.fixture(params=["as it is", "copied"])
def copying(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the store itself, and its copy in columns: of two ranges, made without another process."""

    def nowhere(store: object) -> None:
        return None

    def two_cores(pid: int) -> set[int]:
        return {0, 1}

    monkeypatch.setattr(store_summary, "usable_folder", nowhere)
    monkeypatch.setattr(store_source, "LEAST", 1 if request.param == "copied" else 1 << 30)
    monkeypatch.setattr(copied_columns, "SHARE", 10)
    monkeypatch.setattr(copied_columns, "FEW", 1 << 30)
    monkeypatch.setattr(os, "sched_getaffinity", two_cores)


def same_of(stores: tuple[Path, Path], read: Callable[[Run], Any]) -> Any:
    """Return what was read of both stores."""
    found = list[Any]()
    for store in stores:
        with analysis.open(store) as run:
            run.expect()
            found.append(read(run))
    assert found[0] == found[1]
    return found[0]


def test_frames_have_a_row_for_each_bar(stores: tuple[Path, Path], copying: None) -> None:
    columns = "time, equity, cash, exposure_share, drawdown_share, risk, latched, positions::VARCHAR"

    rows = same_of(stores, lambda run: run.rows(f"SELECT {columns} FROM equity ORDER BY step_number, time"))
    fills = same_of(
        stores, lambda run: run.rows("SELECT time, bar_time, symbol, quantity, price, realised FROM trades ORDER BY ALL")
    )

    assert len(rows) == 1 + len(recording(wild=True).times)
    assert len(fills) > 10


def test_answers_and_pictures_are_the_same(stores: tuple[Path, Path], copying: None) -> None:
    same_of(stores, accounts)
    same_of(stores, lambda run: [astuple(one) for one in QUESTIONS["progress"](run).tables if one.name != "harnesses"])
    same_of(stores, lambda run: picture(run, "equity").spec)


def test_orders_that_expired_are_counted(tmp_path: Path, copying: None) -> None:
    async def hopeful(run: AgentRun[Any, Market]) -> list[Order]:
        part = {7: Decimal("1.02"), 9: Decimal("0.9")}.get(run.input.time.hour)
        if part is None:
            return []
        price = (run.input.quotes["A"].close * part).quantize(Decimal("0.01"))
        return [Order("A", Side.BUY, Decimal(1), OrderKind.LIMIT, limit_price=price, time_in_force=TimeInForce.DAY)]

    async def trade() -> None:
        async with Orchestrator(tmp_path / "run.db") as orchestrator:
            strategy = Strategy(Agent(hopeful, name="hopeful"))
            orchestrator.start(TradingHarness(recording(60), PaperBroker(), strategy, period_s=0), name=NAME)

    trio.run(trade, clock=MockClock(autojump_threshold=0))

    figures = account_of(steps(SqliteReader(tmp_path / "run.db"), NAME)).figures
    with analysis.open(tmp_path / "run.db") as run:
        (account,) = accounts(run)
        tables = {one.name: one for one in QUESTIONS["progress"](run).tables}
    assert (account.fills, account.expired) == (figures.trades, figures.expired)
    assert min(account.fills, account.expired) > 1
    assert tables["trading"].dicts()[0]["expired"] == account.expired


def test_sales_of_short_positions_are_counted_as_in_the_report(tmp_path: Path) -> None:
    async def turn(run: AgentRun[Any, Market]) -> list[Order]:
        if run.input.time.hour % 5:
            return []
        side = Side.SELL if run.input.quotes["A"].units > 0 or not run.input.time.hour % 2 else Side.BUY
        return [Order("A", side, Decimal(3))]

    async def trade() -> None:
        async with Orchestrator(tmp_path / "run.db") as orchestrator:
            venue = PaperBroker(fees=Fees(rate=Decimal("0.001")), margin=Margin(borrow_rate=Decimal("0.1")))
            strategy = Strategy(Agent(turn, name="turn"), shorts=True)
            orchestrator.start(TradingHarness(recording(200), venue, strategy, period_s=0), name=NAME)

    trio.run(trade, clock=MockClock(autojump_threshold=0))

    told = account_of(steps(SqliteReader(tmp_path / "run.db"), NAME))
    with analysis.open(tmp_path / "run.db") as run:
        (account,) = accounts(run)
    assert account.hits == (told.figures.won, told.figures.sales)
    opening = sum(row.fill.side is Side.SELL and row.direction == "short" for row in told.trades)
    assert 0 < told.figures.won < told.figures.sales < account.fills
    assert opening


def test_report_and_page_are_the_same(stores: tuple[Path, Path]) -> None:
    told, curves = list[Any](), list[Any]()
    for store in stores:
        reader = SqliteReader(store)
        course = TradingCourse(reader, NAME)
        course.advance(1 << 30, 60)
        account = told_account(course)
        rest = [without_steps(account[name]) for name in ("fills", "orders", "refused")]
        told.append([account["figures"], account["restrictions"], rest, account_of(steps(reader, NAME)).points])
        curves.append([*course.curve.rows("A"), *course.curve.rows("B")])

    assert told[0] == told[1]
    assert curves[0] == curves[1]


def without_steps(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in ("step", "client_id")} for row in rows]


def test_a_venue_is_brought_to_where_it_was(stores: tuple[Path, Path]) -> None:
    books = list[Any]()
    for store in stores:
        venue = PaperBroker()
        trio.run(restore, venue, recording(wild=True), SqliteReader(store), NAME)
        books.append(venue._ledger.books())  # pyright: ignore[reportPrivateUsage]

    assert books[0] == books[1]
    assert books[0].time == recording(wild=True).times[-1]


async def test_a_store_with_a_step_for_each_bar_goes_on_with_several(tmp_path: Path, autojump_clock: MockClock) -> None:
    whole, store, path = None, list[Any](), tmp_path / "run.db"
    for stop_after in (None, 60, 90, 100, None):
        venue, feed = PaperBroker(), recording(wild=True)
        most = 1 if stop_after == 60 else 40
        harness = TradingHarness(feed, venue, now_and_then(30), period_s=0, bars_per_step=most)
        async with Orchestrator(tmp_path / "whole.db" if whole is None else path) as orchestrator:
            if whole is not None and path.exists() and stop_after != 60:
                await restore(venue, feed, SqliteReader(path), NAME)
            handle = orchestrator.start(harness, name=NAME)
            async for step in handle.steps():
                if step.step_number == stop_after:
                    handle.stop()
            await handle.wait()
            store.append(harness.state.equity)
        whole = whole or tmp_path / "whole.db"

    assert account_of(steps(SqliteReader(path), NAME)).points == account_of(steps(SqliteReader(whole), NAME)).points
