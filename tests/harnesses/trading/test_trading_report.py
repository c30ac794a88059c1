"""The report: its figures come of recorded steps alone, and what agents have written is harmless in it."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from operator import attrgetter

import msgspec
import pytest
from attrs import frozen

from harnesses import Agent, HarnessMisuse
from harnesses.charts.time_axis import thin
from harnesses.errors import NotReady
from harnesses.trading import Bar, Fees, Limits, Order, PaperBroker, ReplayFeed, Side, Source, Strategy, TradingHarness
from harnesses.trading.account_model import Execution, TradingOutput
from harnesses.trading.market.orders import Fill
from harnesses.trading.position_book import Book
from harnesses.trading.report.report_figures import AccountReading, Interval, Point, account_of
from harnesses.trading.report.trading_report import as_csv, as_text, report, steps
from harnesses.trading.risk import RiskState
from orchestrator import Orchestrator
from orchestrator.store.sqlite.sqlite_reader import SqliteReader

FIRST = datetime(2000, 3, 1, tzinfo=UTC)


async def traded(closes: Sequence[object], splits: dict[int, int] | None = None, reason: str = "", **orders: list) -> list:
    """Return the steps of a harness that has wanted these orders on these days, `d0`, `d1` …; fees are 1."""

    async def run(run):
        wanted = orders.get(f"d{(run.input.time - FIRST).days}", [])
        return [Order("A", side, Decimal(units), reason=reason) for side, units in wanted]

    bars = {
        FIRST + timedelta(day): Bar(*[Decimal(str(close))] * 4, 10_000, Decimal((splits or {}).get(day, 1)))
        for day, close in enumerate(closes)
    }
    broker = PaperBroker(Decimal(1000), fees=Fees(minimum=Decimal(1)))
    harness = TradingHarness(
        ReplayFeed({"A": bars}), broker, Strategy(Agent(run)), limits=Limits(max_drawdown=Decimal("0.25"))
    )
    await harness.run()
    return list(harness.step_history)


BUY_AND_SELL = {"d0": [(Side.BUY, 5)], "d2": [(Side.SELL, 4)]}


async def test_the_figures_are_those_of_the_account(autojump_clock):
    figures = account_of(await traded([100, 110, 120, 110], **BUY_AND_SELL)).figures

    assert (figures.steps, figures.begin, figures.end) == (5, FIRST, FIRST + timedelta(3))
    assert (figures.first_equity, figures.last_equity, figures.gain) == (1000, 1088, Decimal("0.088"))
    assert (figures.trades, figures.fees, figures.turnover) == (2, 2, 980)
    assert figures.max_drawdown == figures.drawdown == pytest.approx(1 - 1088 / 1098)


async def test_a_trade_says_who_wanted_it_why_and_what_it_brought(autojump_clock):
    bought, sold = account_of(await traded([100, 110, 120], reason="so", **BUY_AND_SELL)).trades

    assert (bought.fill.units, bought.gain, bought.wanted_by, bought.reason) == (5, -1, Source.STRATEGY, "so")
    assert (sold.fill.units, sold.gain) == (4, 79)


@pytest.mark.parametrize(
    ("fills", "won", "fees"),
    [
        ([(Side.BUY, 100, "10", 7), (Side.SELL, 100, "10.06", 0)], 0, 7),
        ([(Side.BUY, 100, "10", 7), (Side.SELL, 50, "10.06", 0), (Side.SELL, 50, "10.08", 0)], 1, 7),
        ([(Side.BUY, 100, "10", 7), (Side.SELL, 100, "10.08", 0), (Side.BUY, 1, "1", 0), (Side.SELL, 1, "2", 0)], 2, 7),
        ([(Side.BUY, 50, "10", 4), (Side.BUY, 50, "10", 3), (Side.SELL, 100, "10.08", 2)], 0, 9),
    ],
)
def test_a_sale_wins_if_it_pays_the_fees_of_its_purchase_too(fills, won, fees):
    reading, cash = AccountReading(book=Book(Decimal(1000))), Decimal(1000)
    for number, (side, units, price, fee) in enumerate(fills, 1):
        fill = Fill(str(number), "a", "A", side, Decimal(units), Decimal(price), Decimal(fee), FIRST + timedelta(number))
        cash += (1 if side is Side.SELL else -1) * fill.units * fill.price - fee
        execution = Execution(fill, Source.VENUE, Source.STRATEGY)
        equity = cash if number == len(fills) else Decimal(1000)
        reading.read(None, TradingOutput(fill.time, cash, equity, {}, Decimal(0), RiskState.ACTIVE, fills=(execution,)))

    figures = reading.figures()
    assert (figures.won, figures.sales) == (won, sum(side is Side.SELL for side, *_ in fills))
    assert figures.fees == fees
    assert sum(trade.gain for trade in reading.trades) == figures.last_equity - 1000


async def test_a_split_is_no_gain(autojump_clock):
    account = account_of(await traded([100, 51, 51], {1: 2}, d0=[(Side.BUY, 5)], d2=[(Side.SELL, 10)]))

    assert account.trades[-1].gain == 9


async def test_a_halt_that_is_not_over_lasts_until_now(autojump_clock):
    account = account_of(await traded([100, 70, 71, 72], d0=[(Side.BUY, 9)]))

    assert account.intervals == (
        Interval(
            kind="halted",
            begin=FIRST + timedelta(1),
            end=FIRST + timedelta(3),
            why="drawdown: equity 729.00 is 27.1% below its highest, 1000.00",
            is_over=False,
        ),
    )


@frozen
class Said:
    """A step that says something else than it did."""

    input: object
    output: dict


async def test_a_latch_lasts_until_something_could_be_done_again(autojump_clock):
    plain = [Said(None, msgspec.to_builtins(step.output)) for step in await traded([100] * 5, d4=[(Side.BUY, 1)])]
    plain[2].output["latched"] = "the latch is on"

    assert account_of(plain).intervals == (Interval("latched", FIRST + timedelta(1), FIRST + timedelta(4), "the latch is on"),)


async def test_steps_as_they_are_on_disk_come_to_the_same(autojump_clock):
    recorded = await traded([100, 110, 120], **BUY_AND_SELL)

    plain = [msgspec.json.decode(msgspec.json.encode({"input": step.input, "output": step.output})) for step in recorded]

    assert account_of([Said(**one) for one in plain]) == account_of(recorded)


def test_nothing_yet_is_a_report_too():
    assert "nothing yet" in as_text("Empty", account_of([]))


def test_the_steps_of_another_harness_are_refused():
    with pytest.raises(HarnessMisuse, match="report: step 1 is not one of a trading harness"):
        account_of([Said(None, {"count": 3})])


async def test_the_table_for_spreadsheets_is_exact(autojump_clock):
    rows = list(csv.DictReader(as_csv(account_of(await traded([100, "110.10"], d1=[(Side.BUY, 3)])).trades).splitlines()))

    assert [(row["time"], row["units"], row["price"], row["gain"]) for row in rows] == [
        ("2000-03-02T00:00:00+00:00", "3", "110.10", "-1")
    ]


async def test_what_an_agent_has_written_is_harmless(autojump_clock):
    account = account_of(await traded([100], reason="=1+1\x1b[2J\n", d0=[(Side.BUY, 1)]))

    assert "'=1+1 [2J" in as_csv(account.trades)
    assert "\x1b" not in as_text("Paper", account)
    assert "RSI" not in as_text("Paper", account)


async def test_a_report_is_two_tables_and_two_pictures(autojump_clock, tmp_path):
    pytest.importorskip("vl_convert")
    pytest.importorskip("altair")

    written = report(await traded([100, 70, 71, 72], d0=[(Side.BUY, 9)]), tmp_path / "new", title="Paper & more")

    png, svg = written.pictures
    assert png.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert "<svg" in svg.read_text()
    assert "halted" in svg.read_text()
    assert "Held up" in written.text.read_text()
    assert len(written.trades.read_text().splitlines()) == 3


async def test_a_run_that_goes_on_is_reported_as_far_as_it_is_recorded(autojump_clock, tmp_path):
    bars = {FIRST + timedelta(day): Bar(*[Decimal(100)] * 4, 1) for day in range(9)}

    async with Orchestrator(tmp_path / "run.db") as orchestrator:
        handle = orchestrator.start(TradingHarness(ReplayFeed({"A": bars}, endless=True)), name="t")
        async for step in handle.steps():
            if step.step_number == 5:
                written = report(steps(SqliteReader(tmp_path / "run.db"), "t"), tmp_path / "report", picture=False)
            if step.step_number == 10:
                handle.stop()

    assert 5 <= written.account.figures.steps <= 10
    assert written.account.figures.last_equity == 10_000


async def test_without_what_draws_it_says_what_is_needed_and_writes_nothing(autojump_clock, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    recorded = await traded([100])

    with pytest.raises(NotReady, match=r"a picture needs altair.*pip install .*\[report\].*picture=False"):
        report(recorded, tmp_path / "new")

    assert not (tmp_path / "new").exists()
    assert report(recorded, tmp_path / "new", picture=False).pictures == ()


def test_the_steps_of_a_store_are_read_page_by_page():
    class Store:
        def steps(self, name: str, *, after: int = 0, limit: int = 1000):
            asked.append(after)
            return [Numbered(number) for number in range(after + 1, min(after + limit, 2500) + 1)]

    asked: list[int] = []

    assert [one.step_number for one in steps(Store(), "x")] == list(range(1, 2501))
    assert asked == [0, 1000, 2000, 2500]


@frozen
class Numbered:
    step_number: int


def test_a_long_history_is_drawn_with_its_extremes():
    equities = [1000.0 + day % 7 for day in range(100_000)]
    equities[54_321], equities[65_432] = 1.0, 9999.0
    points = [Point(FIRST + timedelta(minutes=minute), equity, 0.0) for minute, equity in enumerate(equities)]

    kept = thin(points, 2000, attrgetter("equity"), attrgetter("drawdown"))

    assert len(kept) <= 2000
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    assert {1.0, 9999.0} <= {point.equity for point in kept}
