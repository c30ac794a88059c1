"""Which limits of a budget hold for which agents. Pure.

    steps, turns, working_time_s    for every agent: the harness counts them itself
    tokens, tool_calls, money       for agents that report them: `Agent.reports`

The law: a limit that would hold nothing is refused before anything is started.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harnesses.agent import Agent
from harnesses.budgets.budget import FIELDS, Budget
from harnesses.budgets.usage import REPORTABLE


def unheld(agents: Iterable[Agent[Any, Any, Any]], budget: Budget) -> str:
    """Return why a budget cannot be held for one of the agents; empty if it can be for all of them."""
    limited = [name for name in FIELDS if name in REPORTABLE and getattr(budget, name) is not None]
    for agent in agents if limited else ():
        reports = getattr(agent, "reports", frozenset[str]())
        if missing := [name for name in limited if name not in reports]:
            return (
                f"its budget of {', '.join(missing)} cannot be held: expected agents that report what they use of it, "
                f"got {agent.name!r:.100}, which reports {', '.join(sorted(reports)) or 'nothing'}; "
                "limit turns, steps or time instead; of an agent of your own that reports it or uses none, say so by `reports`"
            )
    return ""
