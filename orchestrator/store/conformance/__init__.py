"""The laws of `orchestrator.store.store_protocol`, as functions that any store must pass.

    import pytest

    pytest.register_assert_rewrite("orchestrator.store.conformance")  # for messages that show the values
    from orchestrator.store.conformance import LAWS, LAWS_BETWEEN_RUNS

    @pytest.mark.parametrize("law", LAWS + LAWS_BETWEEN_RUNS, ids=lambda law: law.__name__)
    def test_my_store_keeps_the_law(law, tmp_path):
        law(lambda: MyStore(tmp_path / "store"))

A law is called with a function that opens a store, and raises `AssertionError` if the store violates it. Each call of that
function must be another run over the same data. A store that ends with its process is tested with `LAWS` only, each of
which opens one store.
"""

from __future__ import annotations

from orchestrator.store.conformance.budget_laws import laws as budgets
from orchestrator.store.conformance.capability_laws import laws as capabilities
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
from orchestrator.store.conformance.effect_laws import laws as effects
from orchestrator.store.conformance.fork_laws import laws as forks
from orchestrator.store.conformance.message_laws import laws as messages
from orchestrator.store.conformance.operator_laws import laws as operators
from orchestrator.store.conformance.ownership_laws import laws as ownership
from orchestrator.store.conformance.step_laws import laws as steps

_ALL = (steps, ownership, messages, effects, operators, forks, budgets, capabilities)

LAWS: tuple[Law, ...] = tuple(law for laws in _ALL for law in laws.opening_one)
"""Laws for every store. Each opens one store."""

LAWS_BETWEEN_RUNS: tuple[Law, ...] = tuple(law for laws in _ALL for law in laws.opening_two)
"""Laws for a store that outlives its process. Each opens two."""

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
