"""Value types of a harness: a step, its state delta, and the context of an agent.

All are frozen: a step may be wrapped on its way to the store, but never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from attrs import field, frozen

from harnesses.timing.clock import from_us

StateT = TypeVar("StateT")
InputT = TypeVar("InputT")
OutputT = TypeVar("OutputT")

Constraints: TypeAlias = Mapping[str, object]
"""Limits that a harness passes to its agents, by name: `{"max_drawdown": Decimal("0.1")}`."""


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def no_constraints() -> Constraints:
    """Return an empty mapping; used as a default factory."""
    return {}


class StepYield(NamedTuple, Generic[InputT, OutputT]):
    """What `execute()` yields. A plain pair is accepted too."""

    input: InputT
    """What the step was about."""
    output: OutputT
    """What came of it."""


@frozen
class StateDelta:
    """Which part of the state a step changed."""

    modified: tuple[str, ...] = field(default=(), converter=_names)
    """Names of the top-level fields (keys, for a dict) changed since the previous step: replaced ones first, then those
    changed inside, then removed ones. A state without fields is called `state`."""
    summary: str | None = None
    """A sentence for people; None if the harness gave none."""


@frozen
class Step(Generic[InputT, OutputT]):
    """One recorded turn of a harness."""

    step_number: int
    """Number from 1, without gaps or repeats, across attempts and runs."""
    timestamp: datetime
    """Aware, UTC, microseconds. For people only; the order is `step_number`."""
    input: InputT
    """The first value of the yielded pair."""
    output: OutputT
    """The second value of the yielded pair."""
    state_delta: StateDelta
    """Which part of the state the step changed."""


class NewStep(NamedTuple, Generic[InputT, OutputT]):
    """A step that was just made, on its way to the store.

    A `Step` is made of it when somebody looks at the history, which takes as long as everything else that making a step takes.
    """

    step_number: int
    time_us: int
    """Wall time, microseconds since 1970 UTC."""
    input: InputT
    output: OutputT
    state_delta: StateDelta

    def as_step(self) -> Step[InputT, OutputT]:
        """Return the step as authors see it."""
        return Step(self.step_number, from_us(self.time_us), self.input, self.output, self.state_delta)


@frozen
class LoadedContext(Generic[StateT]):
    """The bounded context that the agents of a harness get."""

    state: StateT
    """The state of the harness."""
    recent_steps: tuple[Step[Any, Any], ...] = field(default=(), converter=tuple[Step[Any, Any], ...])
    """At most `max_context_steps` steps, oldest first."""
    relevant_knowledge: Mapping[str, object] = field(factory=no_constraints)
    """Empty unless a memory fills it. Data, never instructions."""
