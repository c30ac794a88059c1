"""Supervisors: which children there are, in what order, and whom a crash concerns. They ask `restart.decide`.

The root under `one_for_one` counts restarts for each child by itself, so that a harness which gives up leaves its siblings
running. Everywhere else the supervisor counts, as in OTP: one that gives up ends all its children, and its own supervisor
decides whether the whole of it is started again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Protocol, TypeAlias

from attrs import define, evolve, field, frozen

from orchestrator.restart import Again, GiveUp, Intensity, Restart, Stop, Strategy, affected, decide

MAX_DEPTH = 100
"""Levels of supervisors below the root: what goes through them recurses."""


class Leaf(Protocol):
    """What a supervisor knows of a child that is a harness."""

    restarts: tuple[float, ...]
    parent: Supervisor

    @property
    def name(self) -> str: ...
    @property
    def restart(self) -> Restart: ...


class ExitAction(Enum):
    """What is done about an exit."""

    LEAVE = "leave"
    RESTART = "restart"
    GIVE_UP = "give up"


@frozen
class ExitDecision:
    """What is done about an exit, and to which harnesses."""

    action: ExitAction
    harnesses: tuple[Leaf, ...] = ()
    restarts: tuple[float, ...] = ()
    """The restarts that count, this one included."""
    counts: tuple[tuple[Node, tuple[float, ...]], ...] = ()
    """For whose exit which restarts count from now on; see `count_restarts`."""


@define(eq=False, repr=False)
class Supervisor:
    """A node of the supervision tree."""

    name: str
    strategy: Strategy = Strategy.ONE_FOR_ONE
    intensity: Intensity = field(factory=Intensity)
    restart: Restart = Restart.TRANSIENT
    parent: Supervisor | None = None
    restarts: tuple[float, ...] = ()
    """Of itself, where its parent counts each child by itself."""
    counted: tuple[float, ...] = ()
    """Of its children, where it counts them together."""
    children: list[Node] = field(factory=list["Node"])
    supervisors: set[str] = field(factory=set[str])
    """Names of those children that are supervisors."""

    @property
    def depth(self) -> int:
        """How many supervisors are above it."""
        return 0 if self.parent is None else self.parent.depth + 1

    @property
    def counts_each(self) -> bool:
        """Whether restarts are counted for each child by itself."""
        return self.parent is None and self.strategy is Strategy.ONE_FOR_ONE

    def leaves(self) -> Iterator[Leaf]:
        """Yield every harness below, in the order of their start."""
        for child in self.children:
            if isinstance(child, Supervisor):
                yield from child.leaves()
            else:
                yield child

    def recall(self, child: Leaf, restarts: Iterable[float]) -> None:
        """Take up restarts that an earlier run of the program has recorded for `child`."""
        if self.counts_each:
            child.restarts = tuple(restarts)
        else:
            self.counted = tuple(sorted({*self.counted, *restarts}))


Node: TypeAlias = Leaf | Supervisor


def decide_exit(node: Node, *, crashed: bool, now: float) -> ExitDecision:
    """Return what is done about the exit of `node`. Nothing is changed; `count_restarts` has its restarts counted.

    Args:
        crashed: whether it ended with an error.
        now: seconds, on the clock of the earlier restarts.
    """
    supervisor = node.parent
    assert supervisor is not None
    earlier = node.restarts if supervisor.counts_each else supervisor.counted
    match decide(node.restart, supervisor.intensity, crashed=crashed, restarts=earlier, now=now):
        case Again(restarts):
            names = affected(supervisor.strategy, [child.name for child in supervisor.children], node.name)
            chosen = [child for child in supervisor.children if child.name in names]
            leaves = tuple(leaf for child in chosen for leaf in _below(child))
            return ExitDecision(ExitAction.RESTART, leaves, restarts, ((node, restarts),))
        case Stop():
            if isinstance(node, Supervisor):
                return ExitDecision(ExitAction.GIVE_UP, tuple(node.leaves()))
            return ExitDecision(ExitAction.LEAVE)
        case GiveUp():
            if supervisor.parent is None:
                concerned = _below(node) if supervisor.counts_each else supervisor.leaves()
                return ExitDecision(ExitAction.GIVE_UP, tuple(concerned), earlier, ((node, ()),))
            decision = decide_exit(supervisor, crashed=True, now=now)
            return evolve(decision, restarts=decision.restarts or earlier, counts=((node, ()), *decision.counts))


def count_restarts(decision: ExitDecision) -> None:
    """Have the restarts of a decision count for those that follow."""
    for node, restarts in decision.counts:
        supervisor = node.parent
        assert supervisor is not None
        if supervisor.counts_each:
            node.restarts = restarts
        else:
            supervisor.counted = restarts


def _below(node: Node) -> Iterator[Leaf]:
    if isinstance(node, Supervisor):
        yield from node.leaves()
    else:
        yield node
