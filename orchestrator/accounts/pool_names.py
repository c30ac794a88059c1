"""Pools by name: what is spent from together, and which pools a harness's spends are charged to. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from harnesses.budgets.budget import Budget


@frozen
class Pool:
    """A budget that several harnesses spend from. From `Orchestrator.pool()`; pass it to `start`."""

    name: str
    """In the store."""
    budget: Budget
    parent: Pool | None = None
    """Another pool that is charged with all that is spent from this one."""

    @property
    def chain(self) -> tuple[str, ...]:
        """Its name, and those of all above it."""
        return (self.name, *(() if self.parent is None else self.parent.chain))


RUN = "run"
"""The pool of everything that one program over a store starts with `Orchestrator(budget=…)`."""


def pool_name(kind: str, name: str) -> str:
    """Return the name in the store of what belongs to a harness, a supervisor or a pool. Names have no `/` in them."""
    return f"{kind}/{name}"


def chain_of(pools: Iterable[Pool | None]) -> tuple[str, ...]:
    """Return the names of these pools and of all above them, each once, the nearest first."""
    return tuple(dict.fromkeys(name for pool in pools if pool is not None for name in pool.chain))
