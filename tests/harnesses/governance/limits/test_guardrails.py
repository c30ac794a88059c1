"""Guardrails have their defaults, are read strictly, and of two the tighter one holds."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses.budgets.budget import Budget
from harnesses.governance import GuardrailError, Guardrails, NoProgress, read_guardrails, read_together


def test_the_nine_have_their_defaults() -> None:
    rails = Guardrails()

    assert (rails.max_task_attempts, rails.max_destructive_task_attempts) == (2, 1)
    assert (rails.max_tool_calls_per_task, rails.max_messages_per_task) == (40, 25)
    assert rails.require_builder_contract
    assert rails.require_validator_contract
    assert rails.require_evidence_for_pass
    assert rails.require_user_approval_for_destructive_actions
    assert rails.require_user_approval_for_publish_deploy_or_force_push
    assert (rails.budget, rails.deadline_s, rails.watches) == (None, None, False)


def test_a_table_names_what_is_not_the_default() -> None:
    table = {
        "max_task_attempts": 3,
        "require_evidence_for_pass": False,
        "max_cost": "5.00",
        "max_drawdown": 0.1,
        "max_position": 1,
        "max_steps": 100,
        "deadline_s": 60,
        "no_progress": {"steps": 5, "policy": "restart", "ignore": ["count"]},
    }

    assert read_guardrails(table) == Guardrails(
        max_task_attempts=3,
        require_evidence_for_pass=False,
        max_cost=Decimal("5.00"),
        max_drawdown=Decimal("0.1"),
        max_position=Decimal(1),
        max_steps=100,
        deadline_s=60.0,
        no_progress=NoProgress(5, "restart", ("count",)),
    )


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"max_task_attemps": 3}, "unknown key 'max_task_attemps': expected 'max_task_attempts'"),
        ({"maxTaskAttempts": 3}, "unknown key 'maxTaskAttempts': expected 'max_task_attempts'"),
        ({"zzz": 3}, "unknown key 'zzz': expected one of max_task_attempts, "),
        ({3: 3}, "unknown key 3: "),
        ({"max_task_attempts": -1}, "max_task_attempts: expected a whole number from 0 to 1000000000, got -1"),
        ({"max_task_attempts": 2.0}, "max_task_attempts: expected a whole number"),
        ({"max_task_attempts": "2"}, "max_task_attempts: expected a whole number from 0 to 1000000000, got '2'"),
        ({"max_task_attempts": True}, "max_task_attempts: expected a whole number from 0 to 1000000000, got true"),
        ({"max_task_attempts": None}, "max_task_attempts: expected a whole number"),
        ({"max_task_attempts": 10**5000}, "max_task_attempts: expected a whole number"),
        ({"require_builder_contract": "true"}, "require_builder_contract: expected true or false, got 'true'"),
        ({"require_builder_contract": 1}, "require_builder_contract: expected true or false, got 1"),
        ({"max_cost": "five"}, "max_cost: expected an amount from 0 up, such as \"10.00\", got 'five'"),
        ({"max_cost": -1}, "max_cost: expected an amount"),
        ({"max_cost": "1e-19"}, "max_cost: expected an amount"),
        ({"max_cost": float("nan")}, "max_cost: expected an amount"),
        ({"max_cost": True}, 'max_cost: expected an amount from 0 up, such as "10.00", got true'),
        ({"max_drawdown": 0}, "max_drawdown: expected a fraction above 0 and at most 1"),
        ({"max_drawdown": 1.5}, "max_drawdown: expected a fraction above 0 and at most 1"),
        ({"max_daily_loss": "inf"}, "max_daily_loss: expected a fraction"),
        ({"max_position": "1e30"}, "max_position: expected an amount"),
        ({"deadline_s": 0}, "deadline_s: expected a number of seconds above 0, got 0.0"),
        ({"deadline_s": float("inf")}, "deadline_s: expected a number of seconds above 0"),
        ({"deadline_s": "60"}, "deadline_s: expected a number of seconds above 0, got '60'"),
        ({"no_progress": 5}, 'no_progress: expected a table such as { steps = 5, policy = "block" }, got 5'),
        ({"no_progress": {}}, "no_progress: steps: expected a whole number from 1 up, got none"),
        ({"no_progress": {"steps": 0}}, "no_progress: steps: expected a whole number from 1"),
        (
            {"no_progress": {"steps": 5, "policy": "shout"}},
            "no_progress: policy: expected tell, restart or block, got 'shout'",
        ),
        ({"no_progress": {"steps": 5, "ignore": "count"}}, "no_progress: ignore: expected names of fields"),
        ({"no_progress": {"steps": 5, "polcy": "block"}}, "no_progress: unknown key 'polcy': expected 'policy'"),
        ([], "guardrails: expected a table such as { max_task_attempts = 3 }, got []"),
        ("none", "guardrails: expected a table"),
    ],
)
def test_what_can_not_be_read_is_an_error_that_names_it(table: Any, problem: str) -> None:
    with pytest.raises(GuardrailError) as caught:
        read_guardrails(table)

    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(GuardrailError, match=r"max_task_attempts: .*; .*zzz.*; .*max_cost: "):
        read_guardrails({"max_task_attempts": -1, "zzz": 1, "max_cost": "x"})


@pytest.mark.parametrize("more", [{"max_task_attempts": True}, {"max_cost": 5.0}, {"no_progress": {"steps": 5}}])
def test_what_a_program_writes_is_checked_as_strictly(more: Any) -> None:
    with pytest.raises(GuardrailError):
        Guardrails(**more)


values = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just({"steps": 5}) | st.lists(st.none())
)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([field.name for field in attrs.fields(Guardrails)]) | st.text(max_size=5), values, max_size=4
    )
)
def test_whatever_a_table_says_is_read_as_it_says_or_refused_in_one_line(table: dict[str, Any]) -> None:
    said = ""
    try:
        rails = read_guardrails(table)
    except GuardrailError as error:
        said = str(error)
    else:
        assert all(getattr(rails, name) is not None for name, value in table.items() if value is not None)

    assert "\n" not in said


def test_steps_and_money_are_held_by_the_budget() -> None:
    assert Guardrails(max_steps=3, max_cost=Decimal(1)).budget == Budget(steps=3, money=Decimal(1))


def test_of_what_two_tables_name_the_tighter_limit_holds_and_of_the_rest_each() -> None:
    everyone = {"max_task_attempts": 3, "max_steps": 10, "require_evidence_for_pass": True, "max_drawdown": 0.2}
    own = {"max_task_attempts": 5, "max_steps": 4, "require_evidence_for_pass": False, "no_progress": {"steps": 3}}

    assert read_together(everyone, own) == Guardrails(
        max_task_attempts=3, max_steps=4, max_drawdown=Decimal("0.2"), no_progress=NoProgress(3)
    )
    assert read_together({}, {"max_task_attempts": 9}).max_task_attempts == 9


def test_an_agent_can_be_told_what_will_stop_it() -> None:
    summary = Guardrails(max_cost=Decimal("5.00")).summary()

    assert summary[0] == "max_task_attempts: 2"
    assert "require_evidence_for_pass: true" in summary
    assert "max_cost: 5.00" in summary
