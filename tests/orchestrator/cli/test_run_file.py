"""Run files: every mistake is one line with its place, and a table becomes the harness that it describes."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from harnesses.budgets.budget import Budget
from orchestrator import UsageError
from orchestrator.cli.run.harness_factory import find_state_type, make_all
from orchestrator.cli.run.run_file import RunFile, parse_run_file, read_run_file
from orchestrator.restart import Backoff, Strategy
from tests.orchestrator.commanded import Account, Calm, Later, Limit, Mood, Needy, Quoted, Saving, large_orders

PATH = Path("folder/run.toml")
MODULE = "tests.orchestrator.commanded"
HARNESS = '[[harness]]\nname = "a"\nharness = ":Saving"\n'


def parse(text: str) -> RunFile:
    """Parse it; a harness that is called `:Class` is one of `commanded`."""
    return parse_run_file(text.replace('harness = ":', f'harness = "{MODULE}:'), PATH)


def make(text: str) -> Saving:
    return make_all(parse(text))[0].harness  # type: ignore[return-value]


def test_paths_are_relative_to_the_run_file() -> None:
    file = parse(f'store = "x.db"\nlog = "/var/x.jsonl"\n{HARNESS}')

    assert file.store == Path("folder/x.db")
    assert file.log == Path("/var/x.jsonl")


def test_options_that_are_not_in_the_file_keep_the_orchestrators_defaults() -> None:
    file = parse(f'strategy = "rest_for_one"\nperiod_s = 5\nbackoff = {{ base_s = 1 }}\n{HARNESS}')

    assert file.options == {"strategy": Strategy.REST_FOR_ONE, "period_s": 5.0, "backoff": Backoff(base_s=1.0)}


def test_a_state_is_converted_to_the_declared_type() -> None:
    harness = make(
        f"{HARNESS}max_context_steps = 2\nconstraints = {{ most = 3 }}\n"
        '[harness.initial_state]\ncash = "10.50"\nopened = 2026-01-02\nmood = "wild"\nlimits = [{ most = 0.1 }]\n'
    )

    assert harness.state == Account(Decimal("10.50"), date(2026, 1, 2), Mood.WILD, (Limit(Decimal("0.1")),))
    assert harness.max_context_steps == 2
    assert harness.constraints == {"most": 3}


def test_a_function_gets_what_the_table_gives_and_its_annotations_count() -> None:
    harness = make('[[harness]]\nname = "a"\nharness = ":make_saving"\ninitial_state = { cash = 1.1 }\n')

    assert harness.state == Account(Decimal("1.1"))
    assert harness.max_context_steps == 3


def test_a_function_gets_its_other_arguments_and_the_folder_of_the_file_if_it_asks() -> None:
    table = '[[harness]]\nname = "a"\nharness = ":make_placed"\narguments = { cash = "7.5", tags = ["x"] }\n'

    assert make(table).state == Account(Decimal("7.5"), mood=Mood.CALM)
    assert make(table).constraints == {"beside": Path("folder"), "tags": ["x"]}


def test_a_function_without_parameters_needs_no_table_of_state() -> None:
    assert isinstance(make('[[harness]]\nname = "a"\nharness = ":make_needy"\n'), Needy)


def test_the_state_of_a_harness_is_found_through_generic_bases_and_names_in_quotes() -> None:
    assert find_state_type(Calm) is Mood
    assert find_state_type(Quoted) is Later


def test_budgets_are_read_as_they_are_written() -> None:
    file = parse(
        f'budget = {{ money = "5.10", tokens = 9 }}\n{HARNESS}budget = {{ steps = 100, money = 0.1, working_time_s = 2 }}'
    )

    assert file.options == {"budget": Budget(money=Decimal("5.10"), tokens=9)}
    assert file.harnesses[0].budget == Budget(steps=100, money=Decimal("0.1"), working_time_s=2.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "folder/run.toml: harness: expected [[harness]] tables, was 'nothing'"),
        ("harness = []", "folder/run.toml has no harness: expected at least one"),
        ('[harness]\nname = "a"', "expected [[harness]] tables, was one [harness] table; write each with two brackets"),
        ("a b", "folder/run.toml is not valid TOML: Expected '=' after a key in a key/value pair (at line 1, column 3)"),
        ("stoer = 1", "unknown key 'stoer': expected one of harness, store, log, strategy"),
        (f"drain_s = 'x'\n{HARNESS}", "folder/run.toml: drain_s: expected float, was 'x'"),
        (f"drain_s = -1\n{HARNESS}", "drain_s: expected float > 0.0, was -1"),
        (f"drain_s = nan\n{HARNESS}", "drain_s: expected float > 0.0, was nan"),
        (f"intensity = 1.5\n{HARNESS}", "intensity: expected int, was 1.5"),
        (f'strategy = "all"\n{HARNESS}', "strategy: invalid enum value 'all'"),
        (f"backoff = {{ bas_s = 1 }}\n{HARNESS}", "backoff: unknown key 'bas_s': expected one of base_s"),
        (f"backoff = {{ factor = 0.5 }}\n{HARNESS}", "Backoff: factor: expected a number from 1 up, got 0.5"),
        ('[[harness]]\nharness = "m:C"', "harness number 1 has no name"),
        ('[[harness]]\nname = "a"', "harness 'a' has no harness"),
        ('[[harness]]\nname = "a/b"\nharness = "m:C"', "name: expected letters, digits"),
        ('[[harness]]\nname = 3\nharness = "m:C"', "harness number 1: name: expected str, was 3"),
        (f"{HARNESS}restart = 'always'", "'a': restart: expected permanent, transient or temporary, was 'always'"),
        (f"{HARNESS}deadline_s = 0", "'a': deadline_s: expected seconds above 0, was 0.0"),
        (f"{HARNESS}durability = 'none'", "'a': durability: invalid enum value 'none'"),
        (f"{HARNESS}group_s = -1", "'a': group_s: expected seconds above 0, was -1.0"),
        (f"{HARNESS}max_context_steps = -1", "'a': max_context_steps: expected 0 or more, was -1"),
        (f"{HARNESS}max_steps = 1", "'a': unknown key 'max_steps': expected one of initial_state, name"),
        (f"{HARNESS}{HARNESS}", "name 'a' is used twice"),
        (f"{HARNESS}budget = 3", "harness 'a': budget: expected a table such as { steps = 100 }, was 3"),
        (f"{HARNESS}budget = {{ step = 3 }}", "harness 'a': budget: unknown key 'step': expected one of steps, turns"),
        (f"{HARNESS}budget = {{ steps = -1 }}", "harness 'a': budget: Budget: steps cannot be -1: expected a whole number"),
        (f"{HARNESS}budget = {{ steps = true }}", "budget: Budget: steps cannot be True"),
        (f"{HARNESS}budget = {{ money = 'much' }}", "harness 'a': budget: money: expected an amount, was 'much'"),
        (f"{HARNESS}budget = {{ money = nan }}", "budget: Budget: money cannot be Decimal('NaN')"),
        (f"budget = {{ steps = 1.5 }}\n{HARNESS}", "folder/run.toml: budget: Budget: steps cannot be 1.5"),
    ],
)
def test_a_mistake_in_a_run_file_is_told_with_its_place(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)

    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("harness", "rest", "said"),
    [
        (":Saving", "", "has no initial_state: expected one"),
        (":Saving", "initial_state = { cash = 'x' }", "initial_state.cash: invalid decimal string"),
        (":Saving", "initial_state = { cash = true }", "initial_state.cash: expected decimal, was True"),
        (":Saving", "initial_state = { cash = 1, csh = 1 }", "initial_state: unknown key 'csh': expected one of cash"),
        (":Saving", "initial_state = { cash = 1, limits = [{ mots = 1 }] }", "initial_state.limits[0]: unknown key"),
        (":Saving", "initial_state = { cash = 1, limits = [{ most = [] }] }", "initial_state.limits[0].most: expected"),
        (":Saving", "initial_state = 3", "initial_state: expected object, was 3"),
        (":Calm", "initial_state = 'mad'", "initial_state: invalid enum value 'mad'"),
        (":Needy", "", ":Needy cannot be called: expected a class that takes initial_state, or a function"),
        (":Needy", "initial_state = 3", "initial_state is given: expected none, for :Needy does not take it"),
        (":make_placed", "arguments = { cash = '1', tags = [], taags = 1 }", "taags is given: expected none"),
        (":make_placed", "arguments = { initial_state = 3 }", "arguments: initial_state has a key of its own"),
        (":make_nothing", "", ":make_nothing returned 7: expected a harness"),
        (":make_later", "", "expected a harness"),
        (":make_badly", "", "RuntimeError: no feed today (tests/orchestrator/commanded.py:"),
        (":not_callable", "", ":not_callable is 7: expected a class"),
        ("time:time", "", "time:time: expected a class that takes initial_state, or a function"),
        (":Mood", "", "expected a class that takes initial_state"),
        (":Missing", "", " has no 'Missing': expected one of Account, Answering, Blocking, Calm"),
        ("no_such_module:X", "", "there is no module 'no_such_module': expected it beside the file"),
        (
            "commanded",
            "",
            "expected \"package.module:attribute\" or 'trading' or 'features' or 'coding' or 'pipeline', got 'commanded'",
        ),
        ("../commanded:X", "", 'expected "package.module:attribute"'),
    ],
)
def test_a_harness_that_can_not_be_made_is_told_with_its_place(
    harness: str, rest: str, said: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(request.config.rootpath)
    file = parse(f'[[harness]]\nname = "a"\nharness = "{harness}"\n{rest}\n')

    with pytest.raises(UsageError) as caught:
        make_all(file)

    assert str(caught.value).startswith("folder/run.toml: harness 'a'")
    assert said in str(caught.value).replace(MODULE, "")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_text_is_told(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(b"\xff\xfe")

    with pytest.raises(UsageError, match="is not text: expected UTF-8"):
        read_run_file(path)


def test_a_rule_for_approvals_is_found_like_a_harness() -> None:
    made = make_all(parse(f'{HARNESS.replace("Saving", "Three")}initial_state = 0\napprove = "{MODULE}:large_orders"\n'))[0]

    assert made.rule is large_orders


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ('"nothing"', "approve: expected \"package.module:attribute\", got 'nothing'"),
        (f'"{MODULE}:HOSTILE"', "expected a function of key and arguments"),
        (f'"{MODULE}:nobody"', "has no 'nobody'"),
    ],
)
def test_a_rule_that_is_none_is_told_with_its_place(given: str, says: str) -> None:
    with pytest.raises(UsageError, match="harness 'a'") as raised:
        make_all(parse(f"{HARNESS.replace('Saving', 'Three')}initial_state = 0\napprove = {given}\n"))

    assert says in str(raised.value)
