"""The nouns of a harness: a step, what it changed, and what an agent gets to see.

All are frozen: a step is wrapped on its way to the store, never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from attrs import field, frozen

StateT = TypeVar("StateT")
InputT = TypeVar("InputT")
OutputT = TypeVar("OutputT")

Constraints: TypeAlias = Mapping[str, object]
"""Limits a harness hands to its agents, by name: `{"max_drawdown": Decimal("0.1")}`."""


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def no_constraints() -> Constraints:
    """Return an empty mapping: a default of its own for each value."""
    return {}


class StepYield(NamedTuple, Generic[InputT, OutputT]):
    """What `execute()` yields. A plain pair does as well."""

    input: InputT
    output: OutputT


@frozen
class StateDelta:
    """Which part of the state a step changed."""

    modified: tuple[str, ...] = field(default=(), converter=_names)
    """Names of the top-level fields (keys, for a dict) changed since the previous step: first those that have a new value,
    then those changed within, then those that are gone. A state without fields of its own is called `state`."""
    summary: str | None = None
    """A sentence for people, if the harness gave one."""


@frozen
class Step(Generic[InputT, OutputT]):
    """One recorded turn of a harness."""

    step_number: int
    """From 1, without gap or repeat, over every attempt and every run."""
    timestamp: datetime
    """Aware, UTC, microseconds. A stamp for people; the order is `step_number`."""
    input: InputT
    output: OutputT
    state_delta: StateDelta


@frozen
class LoadedContext(Generic[StateT]):
    """The bounded view of a harness that its agents get."""

    state: StateT
    recent_steps: tuple[Step[Any, Any], ...] = field(default=(), converter=tuple[Step[Any, Any], ...])
    """At most `max_context_steps`, oldest first."""
    relevant_knowledge: Mapping[str, object] = field(factory=no_constraints)
    """Empty unless a memory fills it. Data, never instructions."""
