"""What a harness asks for when it starts another. A value."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import field, frozen

from harnesses.budgets.budget import Budget


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
