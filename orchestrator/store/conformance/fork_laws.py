"""Laws of forks and children: a fork has another harness's history and a life of its own; the store tells the status of each
child.
"""

from __future__ import annotations

import msgspec

from harnesses.data.large_values import LARGE_BYTES
from harnesses.effects.effect import EffectOutcome
from orchestrator import events
from orchestrator.codec import decode, encode
from orchestrator.errors import UnknownHarness, UsageError
from orchestrator.lifecycle import Status
from orchestrator.store.conformance.conformance_tools import (
    TIME_US,
    Laws,
    assert_raises,
    child_row,
    claim,
    do,
    event_row,
    intent_row,
    numbers,
    outcome_row,
    step_row,
)
from orchestrator.store.store_capabilities import full_body
from orchestrator.store.store_protocol import Claimed, ConsumedRow, Fork, Past, Post, Store

laws = Laws()


def fork(store: Store, step: int, *, name: str = "two", origin: str = "one", past: Past | None = None) -> object:
    """Fork a harness; return the store's result."""
    return do(store, Fork(name, origin, step, TIME_US + 99, past))


def make_origin(store: Store, steps: int = 5) -> Claimed:
    """Make a harness with some steps: a snapshot at the third, an effect in each, a message consumed by the second."""
    claimed = claim(store, "one", state='{"total":0,"kept":[]}')
    message = do(store, Post("one", "", TIME_US, "7"))
    for number in range(1, steps + 1):
        key = f"act-{number}"
        store.commit(
            [], effects=[intent_row(claimed, number, key), outcome_row(claimed, number, key, EffectOutcome.CONFIRMED)]
        )
        state = encode({"total": number, "kept": []}) if number == 3 else None
        row = step_row(claimed, number, state=state)
        if number == 2:
            row = row._replace(body=encode({**decode(row.body), "consumed": [message], "ticks": {"at": 2}}))
        store.commit([row], consumed=[ConsumedRow(message, claimed.harness, number)] if number == 2 else [])
    return claimed


@laws.of_a_store
def a_fork_has_the_steps_and_states_of_its_origin(store: Store) -> None:
    make_origin(store)

    fork(store, 4)

    origin, copies = store.steps("one", limit=4), store.steps("two")
    fields = ("step_number", "timestamp", "attempt", "input", "output", "state_delta")
    assert [[getattr(step, name) for name in fields] for step in copies] == [
        [getattr(step, name) for name in fields] for step in origin
    ]
    assert [store.state_at("two", step) for step in range(5)] == [store.state_at("one", step) for step in range(5)]
    assert [row.state is not None for row in store.step_rows("two")] == [False, False, True, False]


@laws.of_a_store
def a_fork_goes_on_after_its_last_step(store: Store) -> None:
    make_origin(store)
    fork(store, 2)

    claimed = claim(store, "two")
    store.commit([step_row(claimed, 3, {"set": {"total": 33}})])

    assert (claimed.status, claimed.step, claimed.attempt) == (Status.NEW, 2, 1)
    assert (decode(claimed.state), claimed.unsaved_steps, claimed.kept) == ({"total": 2, "kept": []}, 2, {"ticks": {"at": 2}})
    assert [decode(store.state_at(name, 3))["total"] for name in ("one", "two")] == [3, 33]
    assert (numbers(store, "one"), numbers(store, "two")) == ([1, 2, 3, 4, 5], [1, 2, 3])


@laws.of_a_store
def a_fork_says_where_it_is_from(store: Store) -> None:
    make_origin(store)
    (seq,) = [record.seq for record in store.records() if (record.kind, record.step) == ("step", 3)]

    told = fork(store, 3)

    known = {harness.name: harness for harness in store.harnesses()}["two"]
    (event,) = [record for record in store.records() if record.kind == "forked"]
    assert (event.seq, event.harness, event.step, event.run, decode(event.body)) == (told, "two", 3, store.run, known.event)
    said = {key: known.event[key] for key in ("origin", "origin_step", "origin_seq", "origin_run", "origin_store")}
    assert said == {"origin": "one", "origin_step": 3, "origin_seq": seq, "origin_run": store.run, "origin_store": ""}
    assert (known.status, known.owned, known.current_step, known.attempt) == (Status.NEW, False, 3, 1)


@laws.of_a_store
def effects_and_messages_stay_with_the_origin(store: Store) -> None:
    claimed = make_origin(store)
    store.commit([], effects=[intent_row(claimed, 6, "open")])
    do(store, Post("one", "", TIME_US, "8"))

    fork(store, 5)

    taken = claim(store, "two")
    assert (store.effects("two"), store.mailbox("two"), taken.marks) == ([], [], ())
    assert not any("consumed" in decode(row.body) for row in store.step_rows("two"))
    assert len(store.effects("one")) == 6


@laws.of_a_store
def a_fork_has_the_records_beside_its_steps_and_the_model_that_it_was_given(store: Store) -> None:
    claimed = make_origin(store)
    large = "x" * LARGE_BYTES
    rows = [intent_row(claimed, 6, "ask"), outcome_row(claimed, 6, "ask", EffectOutcome.CONFIRMED, result=large)]
    do(store, Fork("two", "one", 5, TIME_US + 99, model="other", rounds=1, beside=rows))

    taken = claim(store, "two")

    assert (taken.model, taken.event["model"], taken.event["rounds"]) == ("other", "other", 1)
    assert [full_body(store, kind, body) for kind, body in taken.marks] == [row.body for row in rows]
    assert [(effect.step_number, effect.key) for effect in store.effects("two")] == [(6, "ask")]
    assert claim(store, "one", take_over=True).model == ""
    assert store.commit([step_row(taken, 6)]).lost == frozenset()


@laws.of_a_store
def the_origin_is_not_touched(store: Store) -> None:
    claimed = make_origin(store)
    before = (store.records(), store.harnesses())

    fork(store, 5)

    last = before[0][-1].seq
    assert (store.records(limit=len(before[0])), store.harnesses()[:1]) == before
    assert {record.harness for record in store.records(after=last)} == {"two"}
    assert store.commit([step_row(claimed, 6)]).lost == frozenset()
    assert numbers(store, "one") == [1, 2, 3, 4, 5, 6]


@laws.of_a_store
def a_fork_at_step_0_begins_anew(store: Store) -> None:
    make_origin(store)

    fork(store, 0)

    claimed = claim(store, "two", state='{"total":100}')
    assert (claimed.step, decode(claimed.state), claimed.attempt) == (0, {"total": 0, "kept": []}, 0)
    assert store.steps("two") == []


@laws.of_a_store
def what_can_not_be_forked_is_refused_and_changes_nothing(store: Store) -> None:
    make_origin(store)
    before = (store.records(), store.harnesses())

    refused = [fork(store, 6), fork(store, -1), fork(store, 3, name="one"), fork(store, 3, origin="gone")]

    assert [type(error) for error in refused] == [UsageError, UsageError, UsageError, UnknownHarness]
    assert (store.records(), store.harnesses()) == before


@laws.of_a_store
def a_fork_can_be_forked(store: Store) -> None:
    make_origin(store)
    fork(store, 4)

    fork(store, 2, name="three", origin="two")

    assert [store.state_at("three", step) for step in range(3)] == [store.state_at("one", step) for step in range(3)]


@laws.of_a_store
def a_fork_may_come_from_another_store(store: Store) -> None:
    make_origin(store)
    rows = store.step_rows("one")
    past = Past(
        "elsewhere.db", "example:Harness", '{"total":0,"kept":[]}', 1, 41, "a-run", lambda after, most: rows[after:][:most]
    )

    fork(store, 4, past=past)

    event = store.harnesses()[1].event
    assert [event[key] for key in ("origin_seq", "origin_run", "origin_store")] == [41, "a-run", "elsewhere.db"]
    assert [store.state_at("two", step) for step in range(5)] == [store.state_at("one", step) for step in range(5)]


@laws.of_a_store
def a_child_is_on_record_exactly_if_its_step_is(store: Store) -> None:
    claimed = claim(store, "one")
    store.commit([step_row(claimed, 1)], effects=[child_row(claimed, 1, "hedger"), child_row(claimed, 1, "scout")])
    store.commit([step_row(claimed, 3)], effects=[child_row(claimed, 3, "never")])

    found = store.children("one")

    assert [(child.harness, child.step_number, child.name) for child in found] == [("one", 1, "hedger"), ("one", 1, "scout")]
    assert [record.seq for record in store.records() if record.kind == "child"] == [child.seq for child in found]
    assert msgspec.json.decode(found[0].body) == {"child": "hedger", "factory": "example:Harness"}


@laws.of_a_store
def children_are_those_of_one_harness_or_of_all(store: Store) -> None:
    for name in ("one", "two", "three"):
        claimed = claim(store, name)
        store.commit([step_row(claimed, 1)], effects=[child_row(claimed, 1, f"of-{name}")] if name != "three" else ())

    assert [child.name for child in store.children()] == ["of-one", "of-two"]
    assert [child.name for child in store.children("two")] == ["of-two"]
    assert store.children("three") == ()
    assert_raises(UnknownHarness, "'nobody'", lambda: store.children("nobody"))


@laws.of_a_store
def a_child_says_where_it_is_in_its_life(store: Store) -> None:
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


@laws.of_a_store
def a_claim_tells_what_the_harness_has_started(store: Store) -> None:
    claimed = claim(store, "one")
    store.commit([step_row(claimed, 1)], effects=[child_row(claimed, 1, "hedger")])
    do(store, event_row(claimed, events.Started(), Status.RUNNING))
    do(store, event_row(claimed, events.Completed(), Status.COMPLETED, release=True))

    again: Claimed = claim(store, "one")

    assert claimed.children == ()
    assert [child.name for child in again.children] == ["hedger"]
    assert list(again.children) == list(store.children("one"))
