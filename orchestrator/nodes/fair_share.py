"""Which node runs which harnesses of a fleet. Pure.

Every node computes the same from the same table, so nobody has to lead. A group of harnesses stays where it is, unless

    its node is gone, drains, lacks a label or has too few processors     it goes to the least loaded node that can take it
    another node that can take it would be less loaded with it            it goes there

The load of a node is its number of harnesses for each processor. Whoever disagrees for a moment, because the table has
changed, does no harm: a harness is claimed in the store, once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import define, field, frozen

_ROUNDING = 1e-9


@frozen
class Group:
    """Harnesses that one node runs: one, or those that are restarted together."""

    names: tuple[str, ...]
    needs: frozenset[str] = frozenset()
    """Labels that the node must have."""
    cpus: float = 0.0
    """Processors that the node must have left for it."""

    @property
    def key(self) -> str:
        return self.names[0]


@frozen
class Room:
    """What a node can take."""

    name: str
    labels: frozenset[str] = frozenset()
    cpus: float = 1.0


@frozen
class Spread:
    """Where the groups belong."""

    nodes: Mapping[str, str]
    """Name of the node of each group, by the key of the group."""
    unplaced: Mapping[str, str]
    """Why no node can take a group, by its key."""


@define
class _Load:
    """What is placed on a node so far."""

    room: Room
    groups: dict[str, Group] = field(factory=dict[str, Group])
    harnesses: int = 0
    cpus: float = 0.0

    def put(self, group: Group) -> None:
        self.groups[group.key] = group
        self.harnesses += len(group.names)
        self.cpus += group.cpus

    def take(self, group: Group) -> None:
        del self.groups[group.key]
        self.harnesses -= len(group.names)
        self.cpus -= group.cpus

    def can_take(self, group: Group) -> bool:
        return group.needs <= self.room.labels and self.cpus + group.cpus <= self.room.cpus + _ROUNDING

    def load(self, more: int = 0) -> float:
        return (self.harnesses + more) / self.room.cpus


def spread(groups: Sequence[Group], rooms: Sequence[Room], held: Mapping[str, str]) -> Spread:
    """Return where each group belongs; the same for the same table, in whatever order it comes.

    Args:
        groups: those that are to run.
        rooms: the nodes that take harnesses.
        held: the name of the node that has a group now, by the key of the group; nodes that take none may be among them.
    """
    loads = {room.name: _Load(room) for room in sorted(rooms, key=lambda room: room.name)}
    ordered = sorted(groups, key=lambda group: (-group.cpus, -len(group.needs), group.key))
    homeless: list[Group] = []
    for group in ordered:
        here = loads.get(held.get(group.key, ""))
        if here is not None and here.can_take(group):
            here.put(group)
        else:
            homeless.append(group)
    unplaced: dict[str, str] = {}
    for group in homeless:
        if (best := _least([*loads.values()], group)) is not None:
            best.put(group)
        else:
            unplaced[group.key] = _why_not(group, rooms)
    _even_out([*loads.values()])
    return Spread({key: load.room.name for load in loads.values() for key in load.groups}, unplaced)


def _least(loads: Sequence[_Load], group: Group) -> _Load | None:
    """Return the node that would be least loaded with a group; None if no node can take it."""
    able = [load for load in loads if load.can_take(group)]
    return min(able, key=lambda load: (load.load(len(group.names)), load.room.name), default=None)


def _even_out(loads: Sequence[_Load]) -> None:
    """Move groups from the fullest node, as long as that makes it less loaded than the one they go to would be."""
    left = {load.room.name: sorted(load.groups.values(), key=lambda group: group.key) for load in loads}
    while going := [load for load in loads if left[load.room.name]]:
        full = max(going, key=lambda load: (load.load(), load.room.name))
        if min(load.load(1) for load in loads) >= full.load() - _ROUNDING:
            return
        group = left[full.room.name].pop()
        best = _least([load for load in loads if load is not full], group)
        if best is not None and best.load(len(group.names)) < full.load() - _ROUNDING:
            full.take(group)
            best.put(group)


def _why_not(group: Group, rooms: Sequence[Room]) -> str:
    """Return why no node can take a group: expected …, got …"""
    if not rooms:
        return "no node is there that takes harnesses; start one"
    if not (labelled := [room for room in rooms if group.needs <= room.labels]):
        known = ", ".join(sorted({label for room in rooms for label in room.labels})) or "no label"
        wanted = sorted(group.needs)
        options = " ".join(f"--label {label}" for label in wanted)
        return f"expected a node with {', '.join(wanted)}, got nodes with {known}; start one with {options}"
    most = max(room.cpus for room in labelled)
    if most + _ROUNDING < group.cpus:
        return f"expected a node with {group.cpus:g} cpus, got at most {most:g}; start a larger one"
    return f"expected {group.cpus:g} cpus left on a node, all are taken; start another node"
