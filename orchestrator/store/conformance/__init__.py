"""The laws of `orchestrator.store.store_protocol`, as functions that any store must pass.

    import pytest

    pytest.register_assert_rewrite("orchestrator.store.conformance")  # for messages that show the values
    from orchestrator.store.conformance import LAWS, LAWS_BETWEEN_RUNS

    @pytest.mark.parametrize("law", LAWS + LAWS_BETWEEN_RUNS, ids=lambda law: law.__name__)
    def test_my_store_keeps_the_law(law, tmp_path):
        law(lambda: MyStore(tmp_path / "store"))

A law is given a function that opens a store, and raises `AssertionError` if the store breaks it. Each call of that function
is to give another run over the same data; a store that ends with its process is held to `LAWS` only, which open one.
"""

from __future__ import annotations

from orchestrator.store.conformance import approval_laws as approvals
from orchestrator.store.conformance import budget_laws as budgets
from orchestrator.store.conformance import capability_laws as capabilities
from orchestrator.store.conformance import child_laws as children
from orchestrator.store.conformance import commit_laws as commits
from orchestrator.store.conformance import effect_laws as effects
from orchestrator.store.conformance import fork_laws as forks
from orchestrator.store.conformance import message_laws as messages
from orchestrator.store.conformance import operator_laws as operators
from orchestrator.store.conformance import ownership_laws as ownership
from orchestrator.store.conformance import run_laws as runs
from orchestrator.store.conformance import step_laws as steps
from orchestrator.store.conformance import version_laws as versions
from orchestrator.store.conformance.conformance_tools import (
    TIME_US,
    Law,
    Open,
    assert_raises,
    attached_row,
    child_row,
    claim,
    do,
    event_row,
    intent_row,
    numbers,
    numbers_after,
    outcome_row,
    step_row,
)

LAWS: tuple[Law, ...] = (
    *commits.LAWS,
    *steps.LAWS,
    *ownership.LAWS,
    *messages.LAWS,
    *effects.LAWS,
    *operators.LAWS,
    *forks.LAWS,
    *approvals.LAWS,
    *budgets.LAWS,
    *capabilities.LAWS,
    *versions.LAWS,
    *children.LAWS,
)
"""What every store keeps. Each opens one."""

LAWS_BETWEEN_RUNS: tuple[Law, ...] = (
    *runs.LAWS,
    *effects.LAWS_BETWEEN_RUNS,
    *operators.LAWS_BETWEEN_RUNS,
    *budgets.LAWS_BETWEEN_RUNS,
)
"""What a store keeps that outlives its process. Each opens two."""

__all__ = [
    "LAWS",
    "LAWS_BETWEEN_RUNS",
    "TIME_US",
    "Law",
    "Open",
    "assert_raises",
    "attached_row",
    "child_row",
    "claim",
    "do",
    "event_row",
    "intent_row",
    "numbers",
    "numbers_after",
    "outcome_row",
    "step_row",
]
