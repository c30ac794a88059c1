"""What is said of a harness that is to be started: by a run file, or by the harness that starts it. Values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic

from attrs import field, frozen

from harnesses.budgets.budget import Budget
from harnesses.step import Constraints, StateT, no_constraints


@frozen(kw_only=True)
class HarnessConfig(Generic[StateT]):
    """One `[[harness]]` table of a run file."""

    initial_state: StateT
    """The state before the first step. In a run file: JSON-like data, converted to the harness's state type."""
    name: str = ""
    """The durable identity: `[A-Za-z0-9][A-Za-z0-9._-]*`."""
    harness: str = ""
    """Where the class, or a function that makes the harness, is found: `package.module:attribute`."""
    max_context_steps: int = 10
    """How many recent steps agents get to see."""
    constraints: Constraints = field(factory=no_constraints)
    arguments: Mapping[str, object] = field(factory=dict[str, object])
    """What else the class or function is called with, by the names of its parameters."""
    restart: str = "transient"
    """`permanent`, `transient` or `temporary`, as in OTP."""
    step_timeout_s: float | None = None
    deadline_s: float | None = None
    approve: str = ""
    """Where a function is found that says which of its effects need a person's approval: `package.module:attribute`. It gets
    key and arguments, and returns an `Action`, a category, or None."""


@frozen(kw_only=True)
class ChildOrder:
    """The harness that is to be started, and on what terms."""

    factory: Callable[..., object]
    """A class, or a function that makes the harness, that another start of the program can import."""
    name: str
    """The durable identity."""
    args: tuple[object, ...] = ()
    arguments: Mapping[str, object] = field(factory=dict[str, object])
    """What the factory is called with by name."""
    restart: str = "transient"
    grace_s: float | None = None
    """Seconds that it gets when it is stopped; None for as many as its parent gets."""
    step_timeout_s: float | None = None
    deadline_s: float | None = None
    """Seconds from each start of the program, or from its first start, by which it must have ended."""
    budget: Budget | None = None
    """What it may spend by itself; its parent's budgets are charged as well."""
