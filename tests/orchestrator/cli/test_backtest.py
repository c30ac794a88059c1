"""`orchestrator backtest`: each trial is what its harness alone comes to, is run once, and knows nothing of its future."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import StringIO
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
    TradingOutput,
    bars_of,
    cross_strategy,
    portfolio_strategy,
    rsi_strategy,
)
from harnesses.trading.feeds.bar_files import read_bars
from harnesses.trading.report.report_figures import Figures, account_of
from harnesses.trading.warm_up import warm_up
from orchestrator.cli import main
from orchestrator.cli.backtest.backtest_plan import Plan, digests, stamp, trading_table, trial_of
from orchestrator.cli.backtest.backtest_results import Result, choose
from orchestrator.cli.backtest.backtest_verb import Asked, _Backtest
from orchestrator.cli.backtest.backtest_worker import Maker
from orchestrator.cli.backtest.walk_forward import fold
from orchestrator.cli.run.run_file import read_run_file
from orchestrator.errors import UsageError
from orchestrator.lifecycle import Status
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


def backtest(*words: object) -> Ended:
    """Run the verb in this process; its workers are processes of their own."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main(["backtest", *map(str, words)])
    return Ended(code, out.getvalue(), err.getvalue())


def rows_of(said: Ended) -> list[dict[str, Any]]:
    assert said.code == 0, said.err
    return [row for row in said.objects if row["table"] in ("combinations", "folds")]


def run_alone(harness: Any) -> list[Any]:
    """Return the steps of a harness without an orchestrator."""
    trio.run(harness.run, clock=MockClock(autojump_threshold=0))
    return list(harness.step_history)


def outputs_at_each_bar(harness: TradingHarness) -> list[TradingOutput]:
    return [output for step in run_alone(harness) for _, output in bars_of(step.input, step.output)]


def figures_alone(fast: int, slow: int, limit: int) -> Figures:
    """Return what the harness of the run file comes to without an orchestrator."""
    feed = ReplayFeed.read({"AAPL": DATA / "aapl.csv"}, limit=limit)
    broker = PaperBroker(Decimal(100_000), fees=Fees(rate=Decimal("0.001")))
    return account_of(run_alone(TradingHarness(feed, broker, cross_strategy(fast, slow, Decimal("0.9"))))).figures


def assert_as_alone(rows: list[dict[str, Any]], limit: int) -> None:
    for row in rows:
        alone = figures_alone(row["fast"], row["slow"], limit)
        assert (Decimal(row["equity"]), row["sharpe"], row["trades"]) == (alone.last_equity, alone.sharpe, alone.trades)


def test_a_grid_is_ranked_and_each_trial_is_what_its_harness_alone_comes_to(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = [run_file(tmp_path, limit=140), "--grid", "fast=5,10", "--grid", "slow=10,20", "--workers", "2"]

    first = backtest(*words, "--html", page, "--json")
    again, other = backtest(*words, "--json"), backtest(*words, "--by", "gain")

    rows = rows_of(first)
    assert "1 of 4 combinations are left out; fast-10.slow-10: strategy: cross_strategy: windows" in first.err
    assert "3 of 3 to run" in first.err
    assert rows_of(again) == rows
    assert "to run" not in again.err + other.err
    assert [row["sharpe"] for row in rows] == sorted((row["sharpe"] for row in rows), reverse=True)
    assert other.out.startswith("The best of 3 combinations by its gain")
    assert_as_alone(rows, 140)
    assert page.read_text().count("<svg") == 2
    assert "<script" not in page.read_text()


def test_what_is_too_short_for_a_ratio_is_ranked_by_gain_and_says_so(tmp_path: Path) -> None:
    said = backtest(run_file(tmp_path, limit=18), "--grid", "fast=2,3", "--grid", "slow=5", "--workers", "1")

    unknown = "No combination has a Sharpe ratio: the period is too short, or nothing was traded."
    assert said.out.startswith(f"{unknown} The best of 2 combinations by its gain, ")
    gains = [float(line.split()[2]) for line in said.out.splitlines() if line.split()[1:2] == ["5"]]
    assert gains == sorted(gains, reverse=True)


def test_without_a_grid_nothing_is_chosen_and_the_lines_of_a_walk_forward_differ(tmp_path: Path) -> None:
    file = run_file(tmp_path, limit=60, strategy='{ name = "cross", fast = 2, slow = 5 }')
    file.write_text(f'{file.read_text()}limits = {{ max_jump = "0.1" }}\n')

    said = backtest(file, "--walk-forward", "1", "--by", "gain", "--workers", "1")

    assert said.out.startswith("Nothing was chosen, for there is no --grid: the options of the file brought ")
    lines = [line.partition(",")[0] for line in said.err.splitlines()]
    # A line every few seconds, where the machine is slow.
    assert [line for line in lines if "finished" not in line] == [
        "1 of 1 to run on the past",
        "1 of 1 to test on what came after",
        "1 bar withheld",
    ]


def test_failed_trials_are_counted_and_each_cause_is_told_once(tmp_path: Path) -> None:
    file = run_file(tmp_path, limit=25, broker="{ paper = true, cash = 20 }")

    said = backtest(file, "--grid", "fast=2,3", "--grid", "slow=5", "--workers", "1")

    assert said.code == 1
    assert "orchestrator: apple.fast-2.slow-5, apple.fast-3.slow-5 failed: HarnessMisuse: harness '…', step 2" in said.err


def test_a_backtest_that_was_killed_goes_on_and_comes_to_the_same(command: Command) -> None:
    words = [str(run_file(command.folder, limit=300)), "--grid", "fast=5,10", "--grid", "slow=20", "--workers", "1", "--json"]
    store = command.folder / "run-backtest.db"
    process = command.start("backtest", *words)
    wait_until(lambda: max(heads(store).values(), default=0) > 30, 120)
    process.kill()
    process.wait()
    wait_until(lambda: not any(one.owned for one in harnesses(store)), 120)
    attempts = {one.name: 1 if one.status in (Status.COMPLETED, Status.FINISHED) else 2 for one in harnesses(store)}

    rows = rows_of(backtest(*words))

    assert {one.name: one.attempt for one in harnesses(store)} == {
        f"apple.fast-{fast}.slow-20": 1 for fast in (5, 10)
    } | attempts
    assert len(rows) == 2
    assert_as_alone(rows, 300)


def test_what_has_changed_is_not_taken_for_what_was_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, store = run_file(tmp_path, limit=60), tmp_path / "run-backtest.db"
    words = [file, "--grid", "slow=20", "--workers", "1", "--by", "gain", "--grid"]

    begun = _Backtest.begin(Asked(file, store, ("slow=20", "fast=5"), None, None, 3, "gain", 10), 1)
    run_file(tmp_path, limit=61)
    assert begun.run(None, as_json=True) == 0
    changed = backtest(*words, "fast=5")
    run_file(tmp_path, limit=60)
    extended = backtest(*words, "fast=5,6")

    assert_as_alone(rows_of(Ended(0, capsys.readouterr().out, "")), 60)
    assert changed.code == 2
    assert "has apple.slow-20.fast-5 from other options, data or code" in changed.err
    assert "1 of 2 to run" in extended.err


def test_a_worker_refuses_data_that_has_changed_since_the_backtest_began(tmp_path: Path) -> None:
    data = tmp_path / "aapl.csv"
    data.write_bytes((DATA / "aapl.csv").read_bytes())
    path = run_file(tmp_path)
    path.write_text(path.read_text().replace(str(DATA / "aapl.csv"), "aapl.csv"))
    begun = _Backtest.begin(Asked(path, tmp_path / "run.db", (), None, None, 3, "gain", 10), 1)
    trial = stamp(trial_of(begun.table, {}), begun.table, digests(begun.table))
    plan = Plan(str(path), begun.text)
    Maker.of(plan, tmp_path / "run.db").make_planned(trial)

    data.write_text(data.read_text().rpartition("\n2")[0] + "\n")  # without its last line

    with pytest.raises(UsageError, match="apple cannot go on: expected data and code as they were when the backtest began"):
        Maker.of(plan, tmp_path / "run.db").make_planned(trial)
    with pytest.raises(UsageError, match="a file has changed; restore it"):
        begun.run(None, as_json=True)


@pytest.mark.parametrize(
    ("table", "words", "why"),
    [
        ({}, ["--grid", "fsat=1"], "did you mean 'fast'?"),
        ({}, ["--grid", "fast=1,2", "--most", "1"], "expected at most 1 combinations"),
        ({"broker": '{ exchange = "binance" }'}, [], "broker: expected one on paper for a backtest"),
        (
            {"broker": '{ paper = true, margin = { borrow_rate = "0.05" } }\naccount = { name = "main", cash = "5000" }'},
            [],
            "account: expected a broker without margin, because a sub-book has no loans",
        ),
        ({"limit": 5}, ["--walk-forward", "4"], "expected a recording of 14 slices or more"),
        ({}, ["--walk-forward", "0"], "--walk-forward 0: expected 1 or more"),
        ({}, ["--in-sample", "3"], "--in-sample 3: expected --walk-forward with it"),
        ({}, ["--html", "no-such-folder/x.html"], "--html no-such-folder/x.html: its folder is not there"),
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
    for period_s in (60.0, 0.0):  # a step for each bar, and one for several
        one, other = (
            outputs_at_each_bar(TradingHarness(ReplayFeed(each), PaperBroker(fill_at=fill_at), make(), period_s=period_s))
            for each in (bars, shifted(bars, since))
        )

        before = [output for output in one if output.time < since]

        assert len(before) > 60
        assert any(output.fills for output in before)
        assert other[: len(before)] == before
        assert one[-1].equity != other[-1].equity


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


def test_a_test_trades_from_its_begin_with_indicators_that_know_the_past(tmp_path: Path) -> None:
    words = [run_file(tmp_path, limit=150), "--grid", "fast=3,5", "--grid", "slow=10", "--walk-forward", "2", "--workers", "1"]

    said = backtest(*words, "--by", "gain", "--json")

    rows = rows_of(said)
    bars = read_bars(DATA / "aapl.csv", limit=150)
    closes = [float(bar.close) for time, bar in bars.items() if f"{time:%Y-%m-%d}" >= rows[0]["test_from"]]
    assert f"held, the money would have brought {closes[-1] / closes[0] - 1:+.2%}." in said.out
    assert [row["fold"] for row in rows] == [1, 2]
    with closing(SqliteReader(tmp_path / "run-backtest.db")) as reader:
        for row in rows:
            name = f"apple.fold-{row['fold']}-test.fast-{row['fast']}.slow-10"
            steps = reader.steps(name, limit=1000)
            traded = [step.output["time"][:10] for step in steps if step.output["fills"]]
            assert steps[1].output["time"][:10] == row["chosen_from"]
            assert row["gain_share"] == float(Decimal(row["equity"]) / 100_000 - 1)
            assert traded
            assert min(traded) >= row["test_from"]
            assert steps[-1].output["time"][:10] == row["test_to"]
