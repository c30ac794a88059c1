"""What a node does follows from the table alone: what it takes, what it gives away, and what it leaves."""

from __future__ import annotations

import pytest

from orchestrator.nodes.fair_share import Group
from orchestrator.nodes.node_share import Share, View, decide_share, needs_parents, wait_s, without_families
from orchestrator.store.postgres.postgres_nodes import HarnessPlace, NodeRow

GROUPS = [Group((f"h{number}",)) for number in range(4)]


def node(name: str, *, draining: bool = False, digest: str = "same", left_s: float = 5.0) -> NodeRow:
    return NodeRow(
        fleet="desk",
        name=name,
        run=f"run-{name}",
        labels=frozenset(),
        cpus=1.0,
        digest=digest,
        draining=draining,
        unplaced={},
        time_us=0,
        left_s=left_s,
    )


def view(nodes: list[NodeRow], **places: str | None) -> View:
    return View(nodes, {name: HarnessPlace(name, run, "running", False) for name, run in places.items()})


def share(seen: View, name: str = "a") -> Share:
    return decide_share(GROUPS, seen, f"run-{name}")


def test_new_harnesses_are_taken_by_one_node_each() -> None:
    seen = view([node("a"), node("b")])
    assert (share(seen).take, share(seen, "b").take) == (("h0", "h2"), ("h1", "h3"))


def test_those_of_a_lost_node_are_taken_and_those_of_a_living_one_are_not() -> None:
    lost = view([node("a"), node("b", left_s=0)], h0="run-a", h1="run-a", h2=None, h3=None)
    assert share(lost).take == ("h2", "h3")
    alive = view([node("a"), node("b")], h0="run-a", h1="run-a", h2="run-b", h3="run-b")
    assert (share(alive), share(alive, "b")) == (Share(), Share())


def test_a_node_gives_away_what_belongs_to_one_that_joined_and_that_one_waits_for_it() -> None:
    seen = view([node("a"), node("b")], h0="run-a", h1="run-a", h2="run-a", h3="run-a")
    assert share(seen).hand_over == {"h3": "b", "h2": "b"}
    assert share(seen, "b") == Share()


def test_a_node_that_drains_gives_everything_away_even_if_nobody_can_take_it() -> None:
    alone = view([node("a", draining=True)], h0="run-a", h1=None)
    assert (share(alone).hand_over, share(alone).take) == ({"h0": ""}, ())
    other = view([node("a", draining=True), node("b")], h0="run-a")
    assert (share(other).hand_over, share(other, "b").take) == ({"h0": "b"}, ("h1", "h2", "h3"))


@pytest.mark.parametrize(
    ("status", "is_program_ended", "is_taken"),
    [
        ("running", False, True),
        ("paused", False, True),
        ("backing_off", False, True),
        ("new", False, True),
        ("stopped", True, True),
        ("stopped", False, False),
        ("completed", False, False),
        ("finished", False, False),
        ("failed", False, False),
        ("gave_up", False, False),
        ("blocked", False, False),
        ("budget_spent", False, False),
    ],
)
def test_what_has_ended_is_not_started_again(status: str, is_program_ended: bool, is_taken: bool) -> None:
    """A stop by an operator outlasts a take-over; one because the program ended does not."""
    place = HarnessPlace("h0", None, status, is_program_ended)
    found = decide_share(GROUPS[:1], View([node("a")], {"h0": place}), "run-a")
    assert (found.take == ("h0",)) is is_taken


def test_nodes_with_another_file_keep_what_they_have() -> None:
    seen = view([node("a"), node("b", digest="other")], h0="run-b", h1="run-b", h2="run-a", h3="run-a")
    assert (share(seen), share(seen, "b")) == (Share(), Share())
    gone = view([node("a"), node("b", digest="other", left_s=0)], h0=None, h1=None, h2="run-a", h3="run-a")
    assert share(gone).take == ("h0", "h1")


def test_a_harness_of_a_program_that_is_no_node_is_left_alone() -> None:
    seen = view([node("a")], h0="another", h1="run-a", h2="run-a", h3="run-a")
    assert share(seen) == Share()


def test_a_run_that_is_not_in_the_table_does_nothing() -> None:
    assert share(view([node("b")]), "a") == Share()


def test_harnesses_under_one_supervisor_are_taken_together_without_those_that_have_ended() -> None:
    places = {"x": HarnessPlace("x", None, "completed", False)}
    found = decide_share([Group(("x", "y", "z"))], View([node("a"), node("b")], places), "run-a")
    assert found.take == ("y", "z")


def test_a_harness_whose_child_still_runs_elsewhere_is_taken_later() -> None:
    """The child would refuse to be claimed, and the parent would take it for failed."""
    seen = view([node("a"), node("b")], h0=None, child="run-b", grandchild=None)
    parents = {"child": "h0", "grandchild": "child"}
    known = {group.key for group in GROUPS}
    assert needs_parents(("h0",), known, seen, "run-a")
    assert without_families(("h0", "h1"), parents, seen, "run-a") == ("h1",)
    free = view([node("a")], h0=None, child=None)
    assert not needs_parents(("h0",), known, free, "run-a")


def test_a_node_looks_again_when_the_next_lease_lapses() -> None:
    seen = view([node("a", left_s=0.1), node("b", left_s=0.3), node("c", left_s=0)])
    assert wait_s(seen, "run-a", 1.0) == pytest.approx(0.305)
    assert wait_s(view([node("a")]), "run-a", 1.0) == 1.0
