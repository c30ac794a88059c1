"""What a store keeps of the harnesses that harnesses have started: it finds them, and says where each is in its life."""

from __future__ import annotations

from contextlib import closing

import msgspec

from orchestrator import events
from orchestrator.errors import UnknownHarness
from orchestrator.lifecycle import Status
from orchestrator.store.conformance.conformance_tools import (
    Law,
    Open,
    assert_raises,
    child_row,
    claim,
    do,
    event_row,
    step_row,
)
from orchestrator.store.store_protocol import Claimed


def a_child_is_on_record_exactly_if_its_step_is(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        store.commit([step_row(claimed, 1)], effects=[child_row(claimed, 1, "hedger"), child_row(claimed, 1, "scout")])
        store.commit([step_row(claimed, 3)], effects=[child_row(claimed, 3, "never")])

        found = store.children("one")

        assert [(child.harness, child.step_number, child.name) for child in found] == [
            ("one", 1, "hedger"),
            ("one", 1, "scout"),
        ]
        assert [record.seq for record in store.records() if record.kind == "child"] == [child.seq for child in found]
        assert msgspec.json.decode(found[0].body) == {"child": "hedger", "factory": "example:Harness"}


def children_are_those_of_one_harness_or_of_all(open_store: Open) -> None:
    with closing(open_store()) as store:
        for name in ("one", "two", "three"):
            claimed = claim(store, name)
            store.commit([step_row(claimed, 1)], effects=[child_row(claimed, 1, f"of-{name}")] if name != "three" else ())

        assert [child.name for child in store.children()] == ["of-one", "of-two"]
        assert [child.name for child in store.children("two")] == ["of-two"]
        assert store.children("three") == ()
        assert_raises(UnknownHarness, "'nobody'", lambda: store.children("nobody"))


def a_child_says_where_it_is_in_its_life(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        store.commit([step_row(claimed, 1)], effects=[child_row(claimed, 1, "hedger")])
        before = store.children("one")[0]
        child = claim(store, "hedger")
        new = store.children("one")[0]
        do(store, event_row(child, events.Started(), Status.RUNNING))
        do(store, event_row(child, events.Completed(), Status.COMPLETED, release=True))
        after = store.children("one")[0]

        assert (before.status, before.harness_class) == (None, "")
        assert (new.status, new.harness_class) == (Status.NEW, "example:Harness")
        assert after.status is Status.COMPLETED


def a_claim_tells_what_the_harness_has_started(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        store.commit([step_row(claimed, 1)], effects=[child_row(claimed, 1, "hedger")])
        do(store, event_row(claimed, events.Started(), Status.RUNNING))
        do(store, event_row(claimed, events.Completed(), Status.COMPLETED, release=True))

        again: Claimed = claim(store, "one")

        assert claimed.children == ()
        assert [child.name for child in again.children] == ["hedger"]
        assert list(again.children) == list(store.children("one"))


LAWS: tuple[Law, ...] = (
    a_child_is_on_record_exactly_if_its_step_is,
    children_are_those_of_one_harness_or_of_all,
    a_child_says_where_it_is_in_its_life,
    a_claim_tells_what_the_harness_has_started,
)
