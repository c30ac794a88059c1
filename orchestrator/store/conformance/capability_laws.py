"""Laws of optional capabilities: each one that a store declares works, and no other is used."""

from __future__ import annotations

from typing import cast

from harnesses.data.large_values import LARGE_BYTES
from harnesses.effects.effect import EffectOutcome
from orchestrator.codec import decode, encode
from orchestrator.store.conformance.conformance_tools import TIME_US, Laws, claim, do, intent_row, outcome_row, step_row
from orchestrator.store.conformance.operator_laws import ask, respond
from orchestrator.store.store_capabilities import Counted, Filed, Rostered, Timed, Watched, full_body
from orchestrator.store.store_protocol import ConsumedRow, Post, Store

laws = Laws()


@laws.of_a_store
def messages_that_wait_are_counted(store: Store) -> None:
    if not isinstance(store, Counted):
        return
    one, counts = claim(store, "one"), [store.messages_waiting()]
    claim(store, "two")

    seqs = [do(store, Post(name, "", TIME_US, "1")) for name in ("one", "one", "two")]
    counts.append(store.messages_waiting())
    store.commit([step_row(one, 1)], consumed=[ConsumedRow(seqs[0], one.harness, 1)])

    assert [*counts, store.messages_waiting()] == [0, 3, 2]


@laws.of_a_store
def outlines_are_the_records_with_less_in_them(store: Store) -> None:
    if not isinstance(store, Counted):
        return
    one = claim(store, "one")
    store.commit([step_row(one, 1)], effects=[intent_row(one, 2, "order")])
    do(store, Post("one", "", TIME_US, "1"))
    store.commit([step_row(one, 2)])

    records, outlines = store.records(), store.outlines()

    assert [(line.seq, line.harness, line.kind, line.step, line.run) for line in outlines] == [
        (record.seq, record.harness, record.kind, record.step, record.run) for record in records
    ]
    assert all(
        decode(line.body).items() <= decode(record.body).items() for line, record in zip(outlines, records, strict=True)
    )
    assert [line.seq for line in store.outlines(after=records[0].seq, limit=2)] == [record.seq for record in records[1:3]]


@laws.of_a_store
def the_times_of_the_last_steps_are_those_of_the_steps(store: Store) -> None:
    if not isinstance(store, Timed):
        return
    for name, steps in (("one", 3), ("two", 1), ("none", 0)):
        claimed = claim(store, name)
        store.commit([step_row(claimed, number) for number in range(1, steps + 1)])

    found = store.recent_times(["one", "none"], 2)

    times = [round(step.timestamp.timestamp() * 1e6) for step in store.steps("one")]
    assert {name: list(each) for name, each in found.items()} == {"one": times[-2:], "none": []}


@laws.of_a_store
def the_roster_is_what_is_known_of_the_harnesses(store: Store) -> None:
    if not isinstance(store, Rostered):
        return
    one = claim(store, "one")
    claim(store, "two")

    before = store.roster()
    store.commit([step_row(one, 1)])
    same = store.roster()
    claim(store, "one", take_over=True)

    assert same is before
    assert store.roster() == [
        (one.name, one.status.value, one.attempt, one.harness_class, one.owned, one.last_time_us, encode(one.event))
        for one in store.harnesses()
    ]
    assert [one.current_step for one in cast(Rostered, store).harnesses(["one"])] == [1]


@laws.of_a_store
def arrivals_are_the_newest_message_of_each_mailbox(store: Store) -> None:
    if not isinstance(store, Watched):
        return
    for name in ("one", "two", "three"):
        claim(store, name)
    seqs = [do(store, Post(name, "", TIME_US, "1")) for name in ("one", "two", "one")]

    assert dict(store.arrivals(after=0)) == {"one": seqs[2], "two": seqs[1]}
    assert dict(store.arrivals(after=seqs[1])) == {"one": seqs[2]}
    assert not store.arrivals(after=seqs[2])


@laws.of_a_store
def answers_come_in_order_and_in_pages(store: Store) -> None:
    if not isinstance(store, Watched):
        return
    one = claim(store, "one")
    ids = [ask(store, one, key=key).id for key in ("push", "pull", "tag")]
    for id in ids:
        respond(store, id, "approved")

    first = store.answers(after=0, limit=2)

    assert [id for _, id in first] == ids[:2]
    assert [id for _, id in store.answers(after=first[-1][0], limit=2)] == ids[2:]


@laws.of_a_store
def a_store_that_is_where_it_was_made_says_nothing(store: Store) -> None:
    if isinstance(store, Watched):
        store.check_in_place()


@laws.of_a_store
def a_large_result_is_read_back_as_it_was_given(store: Store) -> None:
    claimed, large = claim(store, "one"), {"text": "ünï" * LARGE_BYTES}
    rows = [intent_row(claimed, 1, "look"), outcome_row(claimed, 1, "look", EffectOutcome.CONFIRMED, result=large)]
    committed = store.commit([], effects=rows)

    (effect,) = store.effects("one")
    stored = next(record for record in store.records() if record.kind == "outcome")
    (_, mark) = claim(store, "one", take_over=True).marks

    for body in (stored.body, mark[1]):
        assert decode(full_body(store, "outcome", body)) == decode(rows[1].body)
    if isinstance(store, Filed):
        assert effect.file is not None
        assert decode(store.read_file(effect.file)) == large
        assert committed.stored == {1: stored.body}
    else:
        assert (effect.file, effect.result, committed.stored) == (None, large, {})
