"""A grid: what is asked is understood or refused with a way out, and the combinations are all and only those that fit."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harnesses.trading import Strategy, cross_strategy
from orchestrator.cli.backtest.backtest_plan import Plan, read_plan, trial_of, write_plan
from orchestrator.cli.backtest.parameter_grid import Axis, combine, fit, label, parse_axes
from orchestrator.cli.backtest.walk_forward import fold
from orchestrator.errors import UsageError


def fitting(strategy: object, *texts: str):
    axes = parse_axes(texts)
    return fit(strategy, axes, combine(axes, 100), "run.toml: harness 'a'")


def test_values_are_read_as_in_a_run_file() -> None:
    assert parse_axes(["fast=10, 20", "stake=0.1,1e-2", "name=x,true"]) == (
        Axis("fast", (10, 20)),
        Axis("stake", (0.1, 0.01)),
        Axis("name", ("x", True)),
    )


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (["fast"], r"--grid fast: expected NAME=VALUE,VALUE"),
        (["fast="], r"--grid fast=: expected NAME=VALUE"),
        (["fast=1,,2"], r"--grid fast=1,,2: expected NAME=VALUE"),
        (["fast=1,1"], r"--grid fast: expected each value once, was '1' twice"),
        (["fast=1", "fast=2"], r"--grid fast: expected each option once"),
    ],
)
def test_another_form_is_refused(texts: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_axes(texts)


def test_combinations_are_the_product_in_the_order_given() -> None:
    found = combine(parse_axes(["fast=10,20", "slow=50,100"]), 4)

    assert list(map(label, found)) == ["fast-10.slow-50", "fast-10.slow-100", "fast-20.slow-50", "fast-20.slow-100"]
    assert combine((), 1) == [{}]


def test_values_that_differ_have_names_that_differ() -> None:
    values = (True, "True", "true", 1, "1", 1.0, "1.0", "a/b", "a_b", date(2020, 1, 1), "2020-01-01")

    assert len({label({"mode": value}) for value in values}) == len(values)
    assert label({"fast": 10, "stake": 0.1, "turned": True}) == "fast-10.stake-0.1.turned-True"


def noted(note: str) -> Strategy:
    assert note
    return cross_strategy()


def test_combinations_with_one_name_are_refused() -> None:
    same_digits = "note=+<!+<,?*<&?"

    with pytest.raises(UsageError, match=r"expected a name for each combination, note-_-[0-9a-f]{8} would name 2"):
        fitting({"function": f"{__name__}:noted"}, same_digits)


def test_more_combinations_than_wanted_are_refused_with_their_number() -> None:
    with pytest.raises(UsageError, match=r"expected at most 5 combinations, got 2 x 3 = 6; give fewer values, or --most 6"):
        combine(parse_axes(["fast=1,2", "slow=3,4,5"]), 5)


@pytest.mark.parametrize(
    ("strategy", "text", "why"),
    [
        (
            "cross",
            "fsat=10",
            "--grid fsat: no such option of the strategy: expected one of fast, slow, stake, shorts; did you mean 'fast'",
        ),
        ("cross", "fast=1O", "--grid fast: '1O' fits no combination: .*fast: expected a whole number, was '1O'"),
        ("cross", "stake=0.1,7", "--grid stake: 7 fits no combination: .*stake"),
        ({"name": "cros"}, "fast=1", "expected the name of one .*did you mean 'cross'"),
        ({"function": "harnesses.trading:cross_strategi"}, "fast=1", "strategy: harnesses.trading has no 'cross_strategi'"),
        ({"function": "harnesses.trading:cross_strategy"}, "fsat=1", "did you mean 'fast'"),
        ({"function": "harnesses.trading:cross_strategy"}, "fast=abc", "'abc' fits no .*fast: expected a whole number"),
        ({"function": f"{__name__}:since"}, "begin=10", "10 fits no combination: .*begin: expected .*, was 10"),
    ],
)
def test_what_the_strategy_does_not_take_is_refused(strategy: object, text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        fitting(strategy, text)


def since(begin: date, untyped=None) -> Strategy:
    """Make a strategy whose option is a date."""
    return cross_strategy(fast=1, slow=2)


def test_dates_are_dates_again_in_a_plan_that_is_read(tmp_path: Path) -> None:
    found = fitting({"function": f"{__name__}:since"}, "begin=2025-01-31", "untyped=2025-01-31T10:00:00,07:32:00,x")
    table: Any = SimpleNamespace(config=SimpleNamespace(name="a"))
    trials = {one.name: one for one in (trial_of(table, options) for options in found.options)}

    write_plan(tmp_path / "b.db", Plan("run.toml", "", trials))

    plan = read_plan(tmp_path / "b.db")
    assert plan is not None
    assert {name: one.options for name, one in plan.trials.items()} == {name: one.options for name, one in trials.items()}
    assert {type(one.options["begin"]) for one in plan.trials.values()} == {date}


def test_combinations_that_the_strategy_refuses_are_left_out_and_told() -> None:
    found = fitting({"function": "harnesses.trading:cross_strategy"}, "fast=10,60", "slow=50,100")

    assert list(map(label, found.options)) == ["fast-10.slow-50", "fast-10.slow-100", "fast-60.slow-100"]
    assert "fast-60.slow-50" in found.refused[0]
    assert "expected 0 < fast < slow" in found.refused[0]


def test_tests_follow_each_other_and_each_choice_ends_where_its_test_begins() -> None:
    times = [datetime(2020, 1, 1, tzinfo=UTC) + timedelta(day) for day in range(70)]

    folds = fold(times, 4, 3)

    assert [(times.index(one.begin), times.index(one.test), one.end and times.index(one.end)) for one in folds] == [
        (0, 30, 40),
        (10, 40, 50),
        (20, 50, 60),
        (30, 60, None),
    ]
    with pytest.raises(UsageError, match=r"expected a recording of 14 slices or more for 7 parts, was one of 13"):
        fold(times[:13], 4, 3)
