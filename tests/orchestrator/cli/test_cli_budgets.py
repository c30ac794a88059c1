"""Budgets of a run file, and the verb that shows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.orchestrator.commanding import Command, heads

HARNESS = '[[harness]]\nname = "ticking"\nharness = "tests.orchestrator.commanded:Ticking"\ninitial_state = 0\n'


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        yield command


def test_a_harness_that_has_spent_its_budget_goes_on_when_it_is_raised(command: Command) -> None:
    command.write("run.toml", f"{HARNESS}budget = {{ steps = 3 }}\n")
    spent = command("run", "run.toml")
    command.write("run.toml", f"{HARNESS}budget = {{ steps = 5 }}\n")
    raised = command("run", "run.toml")

    assert (spent.code, raised.code) == (3, 3)
    assert "ticking  budget spent  3" in spent.err
    assert spent.err.splitlines()[-2:] == [
        "to go on with a budget that is spent: raise it in run.toml",
        "to go on: orchestrator run run.toml",
    ]
    assert "Traceback" not in spent.err
    assert heads(command.folder / "run.db") == {"ticking": 5}


def test_a_limit_that_an_operator_sets_is_on_record_and_holds_until_the_run_file_says_otherwise(command: Command) -> None:
    budget = "budget = {{ steps = {} }}\n"
    command.write("run.toml", f"{HARNESS}{budget.format(2)}")
    command("run", "run.toml", "--quiet")

    unknown, none, wrong, raised, again = command.each(
        ["budgets", "set", "harness/nobody", "steps=3"],
        ["budgets", "set", "harness/ticking", "steps=many"],
        ["budgets", "set", "harness/ticking", "steps=-1"],
        ["budgets", "set", "harness/ticking", "steps=4", "--by", "ann", "--reason", "worth it", "--json"],
        ["budgets", "set", "harness/ticking", "steps=4", "--by", "ann"],
    )
    command("run", "run.toml", "--quiet")
    went_on = heads(command.folder / "run.db")
    command.write("run.toml", f"{HARNESS}{budget.format(3)}")
    command("run", "run.toml", "--quiet")

    assert (unknown.code, none.code, wrong.code, raised.code, again.code) == (2, 2, 2, 0, 0)
    assert went_on == {"ticking": 4}, "the run file says what it said before"
    assert (raised.objects[0]["limits"], raised.objects[0]["changed"]) == ({"steps": 4}, True)
    assert again.err == "harness/ticking has already steps 4\n"
    shown = [(pool["pool"], pool["limits"]) for pool in command("budgets", "--json").objects]
    assert shown == [("harness/ticking", {"steps": 3})], "the run file says something else now"
    records = [one for one in command("logs", "--json").objects if one.get("by") == "ann"]
    assert [(one["limits"], one["reason"]) for one in records] == [({"steps": 4}, "worth it")]


def test_budgets_are_shown_pool_by_pool(command: Command) -> None:
    command.write("run.toml", f'budget = {{ steps = 3, money = "5.00" }}\n{HARNESS}')
    command("run", "run.toml", "--quiet")

    table, as_json = command.each(["budgets"], ["budgets", "--json"])

    head, *rows = [line.split() for line in table.out.splitlines()]
    assert head == ["POOL", "OF", "LIMIT", "SPENT", "RESERVED", "LEFT"]
    assert [row[-5:] for row in rows] == [["steps", "3", "3", "0", "0"], ["money", "5.00", "0", "0", "5.00"]]
    (pool,) = as_json.objects
    assert (pool["limits"], pool["spent"], pool["left"]) == (
        {"steps": 3, "money": "5.00"},
        {"steps": 3},
        {"steps": 0, "money": "5.00"},
    )


def test_a_store_without_budgets_is_told(command: Command) -> None:
    command.run_file("Three")
    command("run", "run.toml", "--quiet")

    missing, none = command.each(["budgets", "--store", "none.db"], ["budgets"])

    assert (missing.code, missing.err.count("\n")) == (2, 1)
    assert (none.code, none.out, none.err) == (0, "", "run.db has no budget\n")
