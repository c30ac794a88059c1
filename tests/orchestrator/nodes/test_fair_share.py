"""Every harness has one place, the same for all nodes; load is even as far as needs allow; nothing moves without a reason."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.nodes.fair_share import Group, Room, spread

LABELS = st.frozensets(st.sampled_from(["git", "gpu"]))
ROOMS = st.lists(st.tuples(LABELS, st.sampled_from([1.0, 2.0, 4.0])), max_size=5).map(
    lambda found: [Room(f"n{at}", labels, cpus) for at, (labels, cpus) in enumerate(found)]
)
GROUPS = st.lists(st.tuples(LABELS, st.sampled_from([0.0, 0.0, 1.0]), st.integers(1, 3)), max_size=20).map(
    lambda found: [
        Group(tuple(f"h{at}-{number}" for number in range(size)), needs, cpus) for at, (needs, cpus, size) in enumerate(found)
    ]
)


@given(groups=GROUPS, rooms=ROOMS, seed=st.integers(0, 9))
def test_each_group_has_a_place_that_can_take_it_or_a_reason_and_all_nodes_agree(
    groups: list[Group], rooms: list[Room], seed: int
) -> None:
    chance = random.Random(seed)
    held = {group.key: chance.choice(["gone", *(room.name for room in rooms)]) for group in groups if chance.random() < 0.7}

    found = spread(groups, rooms, held)

    named = {room.name: room for room in rooms}
    assert found.nodes.keys() | found.unplaced.keys() == {group.key for group in groups}
    assert not found.nodes.keys() & found.unplaced.keys()
    for group in groups:
        if (at := found.nodes.get(group.key)) is not None:
            assert group.needs <= named[at].labels
    for room in rooms:
        assert sum(group.cpus for group in groups if found.nodes.get(group.key) == room.name) <= room.cpus
    shuffled = [*groups], [*rooms]
    for one in shuffled:
        chance.shuffle(one)  # type: ignore[arg-type]
    assert spread(*shuffled, held) == found


@given(groups=GROUPS, rooms=ROOMS)
def test_what_is_spread_stays(groups: list[Group], rooms: list[Room]) -> None:
    """Nodes look again and again: a distribution that is once reached must not change by itself."""
    first = again = spread(groups, rooms, {})
    for _ in range(8):
        again = spread(groups, rooms, first.nodes)
        if again.nodes == first.nodes:
            return
        first = again
    assert again.nodes == first.nodes


@given(count=st.integers(0, 200), rooms=st.lists(st.sampled_from([1.0, 2.0, 4.0]), min_size=1, max_size=5))
def test_load_is_even_for_each_processor(count: int, rooms: list[float]) -> None:
    groups = [Group((f"h{number}",)) for number in range(count)]
    found = spread(groups, [Room(f"n{at}", cpus=cpus) for at, cpus in enumerate(rooms)], {})
    loads = [[*found.nodes.values()].count(f"n{at}") / cpus for at, cpus in enumerate(rooms)]
    assert max(loads) - min(loads) <= 1.0


def test_a_node_that_joins_gets_its_share_and_no_other_harness_moves() -> None:
    groups = [Group((f"h{number:03}",)) for number in range(90)]
    before = spread(groups, [Room("a"), Room("b")], {}).nodes
    after = spread(groups, [Room("a"), Room("b"), Room("c")], before).nodes
    moved = {key for key in before if before[key] != after[key]}
    assert [[*after.values()].count(name) for name in "abc"] == [30, 30, 30]
    assert (len(moved), {after[key] for key in moved}) == (30, {"c"})


@pytest.mark.parametrize(
    ("group", "rooms", "why"),
    [
        (Group(("h",)), [], "no node is there"),
        (Group(("h",), frozenset(["gpu"])), [Room("a", frozenset(["git"]))], "expected a node with gpu, got nodes with git"),
        (Group(("h",), frozenset(["gpu"])), [Room("a")], "got nodes with no label; start one with --label gpu"),
        (Group(("h",), cpus=3), [Room("a", cpus=2)], "expected a node with 3 cpus, got at most 2"),
    ],
)
def test_what_no_node_can_take_has_a_reason(group: Group, rooms: list[Room], why: str) -> None:
    assert why in spread([group], rooms, {}).unplaced["h"]


def test_processors_that_are_taken_are_not_given_twice() -> None:
    groups = [Group((f"h{number}",), cpus=1) for number in range(3)]
    found = spread(groups, [Room("a", cpus=2)], {})
    assert [*found.nodes.values()] == ["a", "a"]
    assert "all are taken" in found.unplaced["h2"]
