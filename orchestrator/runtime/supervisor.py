"""Supervisors: their children in order, and which of them an exit affects. They use `restart.decide`.

The root under `one_for_one` counts restarts for each child separately, so that a harness which gives up leaves its siblings
running. Every other supervisor counts for all its children, as in OTP: when it gives up, all of them end, and its own
supervisor decides whether it is started again as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Protocol, TypeAlias

from attrs import define, evolve, field, frozen

from orchestrator.restart import Again, GiveUp, Intensity, Restart, Stop, Strategy, affected, decide

MAX_DEPTH = 100
"""Limit on supervisor levels below the root, since some operations are recursive."""


class Leaf(Protocol):
    """What a supervisor needs from a child that is a harness."""

    restarts: tuple[float, ...]
    parent: Supervisor

    @property
    def name(self) -> str: ...
    @property
    def restart(self) -> Restart: ...


class ExitAction(Enum):
    """What follows an exit."""

    LEAVE = "leave"
    RESTART = "restart"
    GIVE_UP = "give up"


@frozen
class ExitDecision:
    """What follows an exit, and for which harnesses."""

    action: ExitAction
    harnesses: tuple[Leaf, ...] = ()
    restarts: tuple[float, ...] = ()
    """The restarts that count, including this one."""
    counts: tuple[tuple[Node, tuple[float, ...]], ...] = ()
    """For each node, the restarts that count from now on; see `count_restarts`."""


@define(eq=False, repr=False)
class Supervisor:
    """A node of the supervision tree."""

    name: str
    strategy: Strategy = Strategy.ONE_FOR_ONE
    intensity: Intensity = field(factory=Intensity)
    restart: Restart = Restart.TRANSIENT
    parent: Supervisor | None = None
    restarts: tuple[float, ...] = ()
    """Times of its own restarts, where its parent counts each child separately."""
    counted: tuple[float, ...] = ()
    """Times of its children's restarts, where it counts them together."""
    children: list[Node] = field(factory=list["Node"])
    supervisors: set[str] = field(factory=set[str])
    """Names of the children that are supervisors."""

    is_recorded: bool = False
    """Whether the store has a record of it by this program."""

    @property
    def path(self) -> str:
        """Names from the level below the root on, with `/` between; empty for the root."""
        names, node = list[str](), self
        while node.parent is not None:
            names.append(node.name)
            node = node.parent
        return "/".join(reversed(names))

    @property
    def depth(self) -> int:
        """Number of supervisors above it."""
        return 0 if self.parent is None else self.parent.depth + 1

    @property
    def counts_each(self) -> bool:
        """Whether restarts are counted for each child separately."""
        return self.parent is None and self.strategy is Strategy.ONE_FOR_ONE

    def leaves(self) -> Iterator[Leaf]:
        """Yield every harness below, in start order."""
        for child in self.children:
            if isinstance(child, Supervisor):
                yield from child.leaves()
            else:
                yield child

    def recall(self, child: Leaf, restarts: Iterable[float]) -> None:
        """Load the restarts of `child` that an earlier run recorded."""
        if self.counts_each:
            child.restarts = tuple(restarts)
        else:
            self.counted = tuple(sorted({*self.counted, *restarts}))


Node: TypeAlias = Leaf | Supervisor


def decide_exit(node: Node, *, crashed: bool, now: float) -> ExitDecision:
    """Decide what follows the exit of `node`. Nothing is changed; `count_restarts` counts its restarts.

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
    """Count the restarts of a decision for later ones."""
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
