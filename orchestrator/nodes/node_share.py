"""What a node has to do, decided from the table of nodes and the places of the harnesses. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from attrs import frozen

from orchestrator.lifecycle import ENDED, Status
from orchestrator.nodes.fair_share import Group, Room, spread
from orchestrator.store.postgres.postgres_nodes import HarnessPlace, NodeRow


@frozen
class View:
    """The fleet as a node sees it."""

    nodes: Sequence[NodeRow]
    places: Mapping[str, HarnessPlace]
    """Where each harness of the store is, by name."""

    @property
    def alive(self) -> list[NodeRow]:
        return [node for node in self.nodes if node.is_alive]


@frozen
class Share:
    """What a node has to do."""

    take: tuple[str, ...] = ()
    """Harnesses to start, which nobody runs."""
    hand_over: Mapping[str, str] = {}
    """For each harness to be stopped here, the node that it belongs to."""
    unplaced: Mapping[str, str] = {}
    """Why harnesses are not run by any node."""


def decide_share(groups: Sequence[Group], view: View, run: str) -> Share:
    """Return what the node of a run has to do.

    Nodes with another file neither get its harnesses nor give it theirs: each keeps what it has, until it ends.
    """
    own = next((node for node in view.nodes if node.run == run), None)
    if own is None:
        return Share()
    alike = [node for node in view.alive if node.digest == own.digest]
    names = {node.run: node.name for node in alike}
    running = [left for group in groups if (left := _left_of(group, view.places)) is not None]
    owners = {group.key: _owner(group, view.places) for group in running}
    free = [group for group in running if (owner := owners[group.key]) is None or owner in names]
    held = {group.key: names[owner] for group in free if (owner := owners[group.key]) is not None}
    spreading = spread(free, [Room(one.name, one.labels, one.cpus) for one in alike if not one.draining], held)
    take, hand_over = list[str](), dict[str, str]()
    for group in free:
        to = spreading.nodes.get(group.key, "")
        for name in group.names:
            at = _run_of(name, view.places)
            if at is None and to == own.name:
                take.append(name)
            elif at == run and to != own.name and (to or own.draining):
                hand_over[name] = to
    unplaced = {
        name: why
        for group in free
        if (why := spreading.unplaced.get(group.key)) is not None
        for name in group.names
        if _run_of(name, view.places) is None
    }
    return Share(tuple(take), hand_over, unplaced)


def without_families(take: Sequence[str], parents: Mapping[str, str], view: View, run: str) -> tuple[str, ...]:
    """Return the harnesses to take, without those of which another run still has a child: it would refuse to be claimed.

    Args:
        parents: name of the harness that started a harness, by its name.
    """
    waiting: set[str] = set()
    for name, place in view.places.items():
        if name in parents and place.run not in (None, run):
            seen: set[str] = set()
            while name in parents and name not in seen:
                seen.add(name)
                name = parents[name]
            waiting.add(name)
    return tuple(name for name in take if name not in waiting)


def needs_parents(take: Collection[str], known: Collection[str], view: View, run: str) -> bool:
    """Return whether `without_families` may leave any out: another run has a harness that is none of the fleet."""
    return bool(take) and any(place.run not in (None, run) and place.name not in known for place in view.places.values())


def wait_s(view: View, run: str, usual_s: float) -> float:
    """Return for how many seconds a node may wait before it looks again: until the next lease of another lapses, at most."""
    lapses = [node.left_s for node in view.alive if node.run != run]
    return min([usual_s, *(max(left, 0.0) + 0.005 for left in lapses)])


def _left_of(group: Group, places: Mapping[str, HarnessPlace]) -> Group | None:
    """Return a group without those of its harnesses that have ended; None if all have."""
    names = tuple(name for name in group.names if not _is_over(places.get(name)))
    return None if not names else group if names == group.names else Group(names, group.needs, group.cpus)


def _is_over(place: HarnessPlace | None) -> bool:
    if place is None or place.run is not None or place.is_ordered:
        return False
    return Status(place.status) in ENDED and not place.is_program_ended


def _run_of(name: str, places: Mapping[str, HarnessPlace]) -> str | None:
    return None if (place := places.get(name)) is None else place.run


def _owner(group: Group, places: Mapping[str, HarnessPlace]) -> str | None:
    """Return the run that has a group, or a part of it."""
    return next((run for name in group.names if (run := _run_of(name, places)) is not None), None)
