"""Questions to a live harness, answered from the state of its last recorded step.

The law: a query is asked of a copy of the harness, which `update_state` changes and nothing else. It has no surroundings, so
it sends nothing, spends nothing and waits for nothing; what it raises is raised for whoever asks, and for nobody else.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from harnesses.base import BaseHarness
from harnesses.data.values import detach
from harnesses.errors import one_of
from harnesses.messages.requests import queries_of
from orchestrator.errors import UsageError

_CONVERTED: tuple[type, ...] = (int, float, bool)
"""What arguments are made, where they are annotated so, by the type or its name."""
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


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
    return detach(method(_recorded_copy(harness), *_converted(name, method, args)))


def _converted(name: str, method: Callable[..., Any], args: Sequence[Any]) -> list[Any]:
    """Return arguments as they are annotated, where that is int, float or bool: a command line has text and whole numbers.

    Raises:
        UsageError: one cannot be made that.
    """
    _, *parameters = inspect.signature(method).parameters.values()
    by_place = [parameter for parameter in parameters if parameter.kind in _BY_PLACE]
    made = [_made(name, parameter, value) for parameter, value in zip(by_place, args, strict=False)]
    return [*made, *args[len(made) :]]


def _made(name: str, parameter: inspect.Parameter, value: Any) -> Any:
    kind = next((one for one in _CONVERTED if parameter.annotation in (one, one.__name__)), None)
    if kind is None or isinstance(value, kind) or value is parameter.default:
        return value
    try:
        return msgspec.convert(value, cast(Any, kind), strict=False)
    except msgspec.ValidationError:
        raise UsageError(
            f"query {name!r}: {parameter.name}: expected {kind.__name__}, was {value!r:.100}; correct the argument"
        ) from None


def _recorded_copy(harness: BaseHarness[Any, Any, Any]) -> BaseHarness[Any, Any, Any]:
    """Return a copy of a harness that does not run, with the state of the last recorded step."""
    view = copy.copy(harness)
    view.become_recorded()
    return view
