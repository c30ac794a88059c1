"""What a run file says of one harness. A value: nothing is loaded or checked here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic

from attrs import field, frozen

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
