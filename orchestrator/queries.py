"""Questions to a live harness, answered from the state of its last recorded step.

The law: a query is asked of a copy of the harness, which `update_state` changes and nothing else. It has no surroundings, so
it sends nothing, spends nothing and waits for nothing; what it raises is raised for whoever asks, and for nobody else.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any

from harnesses.base import BaseHarness
from harnesses.choices import one_of
from harnesses.requests import queries_of
from harnesses.values import detach
from orchestrator.errors import UsageError


def ask_query(harness: BaseHarness[Any, Any, Any], name: str, args: Sequence[Any]) -> Any:
    """Return what a query of a harness says, as a value of the caller's own.

    Raises:
        UsageError: there is no such query, or it is a coroutine function.
        Exception: what it raised.
    """
    queries = queries_of(type(harness))
    if name not in queries:
        known = one_of(sorted(queries), "it has none; mark a method with `@query`")
        raise UsageError(f"query {name!r:.100} of {type(harness).__name__}: {known}")
    method = queries[name]
    if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
        raise UsageError(f"query {name!r} of {type(harness).__name__}: expected a plain method, was one that waits; use `ask`")
    return detach(method(_recorded_copy(harness), *args))


def _recorded_copy(harness: BaseHarness[Any, Any, Any]) -> BaseHarness[Any, Any, Any]:
    """Return a copy of a harness that does not run, with the state of the last recorded step."""
    view = copy.copy(harness)
    view.become_recorded()
    return view
