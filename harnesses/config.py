"""Configuration of a harness to be started, by a run file or by a parent harness. Values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, Literal

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
    """Import path of the class, or of a function that makes the harness: `package.module:attribute`."""
    max_context_steps: int = 10
    """How many recent steps agents see."""
    constraints: Constraints = field(factory=no_constraints)
    """Constraints by name, which agents get with each call."""
    arguments: Mapping[str, object] = field(factory=dict[str, object])
    """Further keyword arguments of the class or function."""
    restart: str = "transient"
    """Restart policy: `permanent`, `transient` or `temporary`, as in OTP."""
    step_timeout_s: float | None = None
    """Maximum seconds of one step; None for no limit."""
    deadline_s: float | None = None
    """Seconds after its start, in each run, by which the harness must have ended; None for no limit."""
    durability: Literal["step", "group"] | None = None
    """With `step`, the harness goes on when its step is on disk; with `group`, at once: a crash then loses the steps of the
    last `group_s` seconds at most. None for what the harness prefers: `step`, except for a backtest."""
    group_s: float | None = None
    """With `group`, seconds within which a step is on disk; None for 0.05."""
    approve: str = ""
    """Import path, `package.module:attribute`, of a function that decides which effects need human approval. It is called with
    key and arguments and returns an `Action`, a category, or None."""


@frozen(kw_only=True)
class ChildOrder:
    """A child harness to start, and its terms."""

    factory: Callable[..., object]
    """A class, or a function that makes the harness, importable in the next run of the program."""
    name: str
    """The durable identity."""
    args: tuple[object, ...] = ()
    arguments: Mapping[str, object] = field(factory=dict[str, object])
    """Keyword arguments of the factory."""
    restart: str = "transient"
    grace_s: float | None = None
    """Seconds of clean-up time when it is stopped; None to inherit from its parent."""
    step_timeout_s: float | None = None
    deadline_s: float | None = None
    """Seconds, from its start in each run of the program, by which it must have ended."""
    budget: Budget | None = None
    """The child's own budget; its parent's budgets are charged as well."""
