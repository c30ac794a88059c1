"""Guardrails of tasks in a run file: handed on to who asks for them, put around the agent of a feature harness, or refused.

the maker takes `guardrails`     they are handed on, and are its own business
a feature or coding harness      a try is a task: its agent is limited, and its policy
any other                        refused: those of its own table always, those of all harnesses if it asks agents
"""

from __future__ import annotations

from typing import Any

from harnesses.base import BaseHarness
from harnesses.features.loop.feature_harness import FeatureHarness
from harnesses.governance.limits.counted_agent import limited
from harnesses.governance.limits.guardrails import TASK_LIMITS
from orchestrator.cli.run.run_file import Table
from orchestrator.errors import UsageError

_COUNTED = ("max_messages_per_task", "max_tool_calls_per_task")
_TRIES = "max_task_attempts"


def hold_task_limits(table: Table, harness: BaseHarness[Any, Any, Any]) -> None:
    """Have a harness whose maker does not take `guardrails` hold those of its tasks.

    Raises:
        UsageError: it cannot.
    """
    own, named = table.limits & TASK_LIMITS, (table.limits | table.shared_limits) & TASK_LIMITS
    if isinstance(harness, FeatureHarness):
        _refuse(table, sorted(own - {*_COUNTED, _TRIES}), "a harness with tasks that can be told apart by them")
        _limit(table, harness, named)
    elif own or harness.asked_agents():
        wanted = "a class or function that takes `guardrails`, for they are of its tasks"
        _refuse(table, sorted(named if harness.asked_agents() else own), wanted)


def _limit(table: Table, harness: FeatureHarness, named: frozenset[str]) -> None:
    if counted := sorted(named & set(_COUNTED)):
        for agent in harness.asked_agents():
            if "tool_calls" not in agent.reports:
                _refuse(table, counted, f"an agent whose messages and tool calls can be counted, which {agent.name!r} is not")
        harness.wrap_agent(lambda agent: limited(agent, table.guardrails))
    if _TRIES in named:
        if table.guardrails.max_task_attempts < 1:
            _refuse(table, [_TRIES], "1 or more for a harness that tries features")
        harness.limit_tries(table.guardrails.max_task_attempts)


def _refuse(table: Table, names: list[str], wanted: str) -> None:
    if names:
        raise UsageError(
            f"{table.where}: guardrails: {', '.join(names)} cannot be held: expected {wanted}, was {table.config.harness}; "
            "remove them, or move those of all harnesses to the tables of harnesses that hold them"
        )
