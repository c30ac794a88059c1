"""Supervisors: which children there are, in what order, and whom a crash concerns. They ask `restart.decide`.

The root under `one_for_one` counts restarts for each child by itself, so that a harness which gives up leaves its siblings
running. Everywhere else the supervisor counts, as in OTP: one that gives up ends all its children, and its own supervisor
decides whether the whole of it is started again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Protocol, TypeAlias

from attrs import evolve, frozen

from orchestrator.restart import Again, GiveUp, Intensity, Restart, Stop, Strategy, affected, decide

MAX_DEPTH = 100
"""Levels of supervisors below the root: what goes through them recurses."""


class Leaf(Protocol):
    """What a supervisor knows of a child that is a harness."""

    name: str
    restart: Restart
    restarts: tuple[float, ...]
    parent: Supervisor


class Action(Enum):
    """What is done about an exit."""

    LEAVE = "leave"
    RESTART = "restart"
    GIVE_UP = "give up"


@frozen
class Verdict:
    """What is done about an exit, and to which harnesses."""

    action: Action
    harnesses: tuple[Leaf, ...] = ()
    restarts: tuple[float, ...] = ()
    """The restarts that count, this one included."""


class Supervisor:
    """A node of the supervision tree."""

    def __init__(
        self,
        name: str,
        *,
        strategy: Strategy = Strategy.ONE_FOR_ONE,
        intensity: Intensity | None = None,
        restart: Restart = Restart.TRANSIENT,
        parent: Supervisor | None = None,
    ) -> None:
        self.name = name
        self.strategy = strategy
        self.intensity = intensity or Intensity()
        self.restart = restart
        self.restarts: tuple[float, ...] = ()
        """Of itself, where its parent counts each child by itself."""
        self.counted: tuple[float, ...] = ()
        """Of its children, where it counts them together."""
        self.parent = parent
        self.children: list[Node] = []
        self.supervisors: set[str] = set()
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


def judge(node: Node, *, crashed: bool, now: float) -> Verdict:
    """Return what is done about the exit of `node`, and count the restart if there is to be one.

    Args:
        crashed: whether it ended with an error.
        now: seconds, on the clock of the earlier restarts.
    """
    supervisor = node.parent
    assert supervisor is not None
    earlier = node.restarts if supervisor.counts_each else supervisor.counted
    match decide(node.restart, supervisor.intensity, crashed=crashed, restarts=earlier, now=now):
        case Again(restarts):
            _count(node, restarts)
            names = affected(supervisor.strategy, [child.name for child in supervisor.children], node.name)
            chosen = [child for child in supervisor.children if child.name in names]
            return Verdict(Action.RESTART, tuple(leaf for child in chosen for leaf in _below(child)), restarts)
        case Stop():
            if isinstance(node, Supervisor):
                return Verdict(Action.GIVE_UP, tuple(node.leaves()))
            return Verdict(Action.LEAVE)
        case GiveUp():
            _count(node, ())
            if supervisor.parent is not None:
                verdict = judge(supervisor, crashed=True, now=now)
                return verdict if verdict.restarts else evolve(verdict, restarts=earlier)
            concerned = _below(node) if supervisor.counts_each else supervisor.leaves()
            return Verdict(Action.GIVE_UP, tuple(concerned), earlier)


def _count(node: Node, restarts: tuple[float, ...]) -> None:
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
