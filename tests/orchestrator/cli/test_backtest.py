"""`orchestrator backtest`: each trial is what its harness alone comes to, is run once, and knows nothing of its future."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from harnesses.trading import (
    Bar,
    Fees,
    PaperBroker,
    ReplayFeed,
    Strategy,
    TradingHarness,
    cross_strategy,
    portfolio_strategy,
    rsi_strategy,
)
from harnesses.trading.feeds.bar_files import read_bars
from harnesses.trading.report.report_figures import account_of
from harnesses.trading.warm_up import warm_up
from orchestrator.cli import main
from orchestrator.cli.backtest.backtest_plan import Plan, trading_table, trial_of
from orchestrator.cli.backtest.backtest_results import Result, choose
from orchestrator.cli.backtest.backtest_worker import Maker
from orchestrator.cli.backtest.walk_forward import fold
from orchestrator.cli.run.run_file import read_run_file
from orchestrator.store import SqliteReader
from tests import ROOT
from tests.orchestrator.commanding import Command, Ended, harnesses, heads, wait_until

DATA = ROOT / "examples" / "data"
FIRST = datetime(2000, 3, 1, tzinfo=UTC)


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        yield command


def run_file(folder: Path, *, limit: int = 240, strategy: str = '{ name = "cross", stake = "0.9" }', broker: str = "") -> Path:
    path = folder / "run.toml"
    path.write_text(
        f"""
[[harness]]
name = "apple"
[harness.trading]
feed = {{ files = {{ AAPL = "{DATA / "aapl.csv"}" }}, limit = {limit} }}
strategy = {strategy}
broker = {broker or '{ paper = true, cash = 100_000, fees = { rate = "0.001" } }'}
"""
    )
    return path


def rows_of(said: Ended) -> list[dict[str, Any]]:
    assert said.code == 0, said.err
    return [row for row in said.objects if row["table"] in ("combinations", "folds")]


def run_alone(harness: Any) -> list[Any]:
    """Return the steps of a harness without an orchestrator."""
    trio.run(harness.run, clock=MockClock(autojump_threshold=0))
    return list(harness.step_history)


def test_a_grid_is_ranked_and_each_trial_is_what_its_harness_alone_comes_to(command: Command) -> None:
    file = run_file(command.folder)
    words = ["backtest", str(file), "--grid", "fast=5,10,30", "--grid", "slow=20,40", "--workers", "2"]

    first = command(*words, "--html", "page.html", "--json")
    again, other = command.each([*words, "--json"], [*words, "--by", "gain"])

    rows = rows_of(first)
    assert "1 of 6 combinations are left out; fast-30.slow-20: strategy: cross_strategy: windows" in first.err
    assert "5 of 5 to run" in first.err
    assert rows_of(again) == rows
    assert "to run" not in again.err + other.err
    assert [row["sharpe"] for row in rows] == sorted((row["sharpe"] for row in rows), reverse=True)
    assert other.out.startswith("The best of 5 combinations by its gain")
    for row in rows:
        feed = ReplayFeed.read({"AAPL": DATA / "aapl.csv"}, limit=240)
        broker = PaperBroker(Decimal(100_000), fees=Fees(rate=Decimal("0.001")))
        strategy = cross_strategy(row["fast"], row["slow"], Decimal("0.9"))
        figures = account_of(run_alone(TradingHarness(feed, broker, strategy))).figures
        assert (Decimal(row["equity"]), row["sharpe"], row["trades"]) == (figures.last_equity, figures.sharpe, figures.trades)
    page = (command.folder / "page.html").read_text()
    assert page.count("<svg") == 2
    assert "<script" not in page


def test_a_backtest_that_was_killed_goes_on_and_comes_to_the_same(command: Command) -> None:
    file = run_file(command.folder, limit=500)
    words = ["backtest", str(file), "--grid", "fast=5,10", "--grid", "slow=20,40", "--workers", "1", "--json"]
    store = command.folder / "run-backtest.db"
    process = command.start(*words)
    wait_until(lambda: max(heads(store).values(), default=0) > 100, 40)
    process.kill()
    process.wait()
    wait_until(lambda: not any(one.owned for one in harnesses(store)), 40)
    before = heads(store)

    rows = rows_of(command(*words))

    assert all(0 < head < 501 for head in before.values())
    assert [one.attempt for one in harnesses(store)] == [2] * len(before) + [1] * (4 - len(before))
    assert sorted(rows, key=str) == sorted(rows_of(command(*words, "--store", "whole.db")), key=str)


def test_what_has_changed_is_not_taken_for_what_was_run(command: Command) -> None:
    words = ["backtest", str(run_file(command.folder, limit=60)), "--grid", "fast=5", "--grid", "slow=20", "--by", "gain"]
    assert command(*words).code == 0

    run_file(command.folder, limit=61)
    changed = command(*words)
    more = command(*words[:3], "fast=5,6", *words[4:], "--store", "new.db")

    assert changed.code == 2
    assert "has apple.fast-5.slow-20 from other options, data or code" in changed.err
    assert "2 of 2 to run" in more.err


@pytest.mark.parametrize(
    ("table", "words", "why"),
    [
        ({}, ["--grid", "fsat=1"], "did you mean 'fast'?"),
        ({}, ["--grid", "fast=1,2", "--most", "1"], "expected at most 1 combinations"),
        ({"broker": '{ exchange = "binance" }'}, [], "broker: expected one on paper for a backtest"),
        ({"limit": 5}, ["--walk-forward", "4"], "expected a recording of 14 slices or more"),
        ({"limit": 50}, ["--harness", "pear"], "no trading harness 'pear': expected one of apple"),
    ],
)
def test_a_mistake_is_told_before_anything_runs(
    table: dict[str, Any], words: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["backtest", str(run_file(tmp_path, **table)), *words])

    assert code == 2
    assert why in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.toml"]


# no look-ahead


def shifted(bars: Mapping[str, Mapping[datetime, Bar]], since: datetime) -> dict[str, dict[datetime, Bar]]:
    """Return bars with another future: from a time on, prices are those of a market upside down."""

    def turn(bar: Bar) -> Bar:
        open, high, low, close = (1000 / one for one in (bar.open, bar.low, bar.high, bar.close))
        return Bar(open, high, low, close, bar.volume)

    return {symbol: {time: bar if time < since else turn(bar) for time, bar in each.items()} for symbol, each in bars.items()}


def recorded(limit: int) -> dict[str, dict[datetime, Bar]]:
    return {name: read_bars(DATA / f"{name.lower()}.csv", limit=limit) for name in ("AAPL", "IBM")}


STRATEGIES: tuple[Callable[[], Strategy], ...] = (
    lambda: rsi_strategy(Decimal("0.4"), period=5),
    lambda: cross_strategy(3, 8, Decimal("0.4")),
    lambda: portfolio_strategy(["AAPL", "IBM"], band=Decimal("0.01"), every_days=5),
    lambda: warm_up(cross_strategy(3, 8, Decimal("0.4")), FIRST + timedelta(days=40)),
)


@pytest.mark.parametrize("make", STRATEGIES)
@pytest.mark.parametrize("fill_at", ["close", "next_open"])
def test_no_step_depends_on_anything_after_its_slice(make: Callable[[], Strategy], fill_at: Any) -> None:
    bars, since = recorded(120), FIRST + timedelta(days=100)
    one, other = (
        run_alone(TradingHarness(ReplayFeed(each), PaperBroker(fill_at=fill_at), make()))
        for each in (bars, shifted(bars, since))
    )

    before = [step.output for step in one if step.output.time < since]

    assert len(before) > 60
    assert any(output.fills for output in before)
    assert [step.output for step in other[: len(before)]] == before
    assert one[-1].output.equity != other[-1].output.equity


def test_a_choice_depends_on_nothing_at_or_after_its_test(tmp_path: Path) -> None:
    bars = {"AAPL": recorded(150)["AAPL"]}
    since = fold([*bars["AAPL"]], 2, 3)[0].test

    found = [chosen_of(tmp_path / str(number), each) for number, each in enumerate((bars, shifted(bars, since)))]

    assert found[0][0] == found[1][0], "the figures of all trials that the first choice depends on"
    assert found[0][1] != found[1][1], "those of the second, which sees what has changed"


def chosen_of(folder: Path, bars: Mapping[str, Mapping[datetime, Bar]]) -> list[list[Any]]:
    """Return, for each fold, its choice by gain and the figures of all trials that it was made from."""
    folder.mkdir()
    lines = (f"{time:%Y-%m-%d},{bar.open},{bar.high},{bar.low},{bar.close},{bar.volume}" for time, bar in bars["AAPL"].items())
    (folder / "aapl.csv").write_text("\n".join(["date,open,high,low,close,volume", *lines]))
    path = run_file(folder, limit=1000)
    path.write_text(path.read_text().replace(str(DATA / "aapl.csv"), "aapl.csv"))
    table, maker = trading_table(read_run_file(path), None), Maker.of(Plan(str(path), path.read_text()), folder / "run.db")
    told: list[list[Any]] = []
    for one in fold(maker.recording(table).times, 2, 3):
        results: list[Result] = []
        for fast in (3, 5, 8):
            trial = trial_of(table, {"fast": fast, "slow": 15}, one)
            results.append(Result(trial, account_of(run_alone(maker.make(trial).made.harness)).figures))
        told.append([choose(results, "gain").options, *(each.figures for each in results)])
    return told


def test_a_test_trades_from_its_begin_with_indicators_that_know_the_past(command: Command) -> None:
    words = ["backtest", str(run_file(command.folder)), "--grid", "fast=3,5", "--grid", "slow=10", "--walk-forward", "2"]

    rows = rows_of(command(*words, "--by", "gain", "--json", "--html", "page.html"))

    assert [row["fold"] for row in rows] == [1, 2]
    with closing(SqliteReader(command.folder / "run-backtest.db")) as reader:
        for row in rows:
            name = f"apple.fold-{row['fold']}-test.fast-{row['fast']}.slow-10"
            steps = reader.steps(name, limit=1000)
            traded = [step.output["time"][:10] for step in steps if step.output["fills"]]
            assert steps[1].output["time"][:10] == row["chosen_from"]
            assert row["gain_share"] == float(Decimal(row["equity"]) / 100_000 - 1)
            assert traded
            assert min(traded) >= row["test_from"]
            assert steps[-1].output["time"][:10] == row["test_to"]
    assert (command.folder / "page.html").read_text().count("<svg") == 2
