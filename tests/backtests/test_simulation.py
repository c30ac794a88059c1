"""A grid comes to what a simulation comes to that shares no code with it, to the last digit at every bar."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.cli import main
from tests.backtests.brackets import BRACKETS, Bracket, backtest, first_difference, simulate
from tests.backtests.comparison import compare, run_file
from tests.backtests.margin import TRENDS, Trend
from tests.backtests.margin import backtest as backtest_on_margin
from tests.backtests.margin import simulate as simulate_on_margin


def test_every_trial_of_a_grid_is_what_an_independent_simulation_comes_to(tmp_path: Path) -> None:
    file, store = tmp_path / "aapl.toml", tmp_path / "run.db"
    file.write_text(run_file("AAPL", 160))  # with the split of 2000-06-21

    code = main(["backtest", str(file), "--grid", "fast=3,8", "--grid", "slow=13,21", "--store", str(store), "--by", "gain"])

    found = list(compare(store, "AAPL", 160))
    assert code == 0
    assert [(one.bars, one.first_difference) for one in found] == [(160, "")] * 4
    assert len({one.equity for one in found}) == 4


@pytest.mark.parametrize("bracket", BRACKETS, ids=lambda bracket: str(bracket.take))
def test_brackets_and_trailing_stops_come_to_what_an_independent_simulation_comes_to(bracket: Bracket) -> None:
    found = backtest("AAPL", 160, bracket)

    assert len(found) == 160
    assert first_difference(found, list(simulate("AAPL", 160, bracket))) == ""


@pytest.mark.parametrize("trend", TRENDS, ids=lambda trend: f"{trend.leverage}-times")
def test_shorts_loans_and_margin_calls_come_to_what_an_independent_simulation_comes_to(trend: Trend) -> None:
    wanted = list(simulate_on_margin("AAPL", 220, trend))

    found, calls = backtest_on_margin("AAPL", 220, trend)
    again = [backtest_on_margin("AAPL", 220, trend, bars_per_step=most)[0] for most in (1, 7)]

    assert first_difference(found, wanted) == ""
    assert again == [found, found]
    assert bool(calls) == (trend.leverage > 1)
