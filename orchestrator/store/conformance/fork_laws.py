"""A fork has the past of another harness up to a step, and a life of its own; the other one is not touched."""

from __future__ import annotations

from contextlib import closing

from harnesses.effects.effect import EffectOutcome
from orchestrator.codec import decode, encode
from orchestrator.errors import UnknownHarness, UsageError
from orchestrator.lifecycle import Status
from orchestrator.store.conformance.conformance_tools import (
    TIME_US,
    Law,
    Open,
    claim,
    do,
    intent_row,
    numbers,
    outcome_row,
    step_row,
)
from orchestrator.store.store_protocol import Claimed, ConsumedRow, Fork, Past, Post, Store


def fork(store: Store, step: int, *, name: str = "two", origin: str = "one", past: Past | None = None) -> object:
    """Fork a harness; return what the store makes of it."""
    return do(store, Fork(name, origin, step, TIME_US + 99, past))


def make_origin(store: Store, steps: int = 5) -> Claimed:
    """Have a harness make some steps, with a snapshot at the third, an effect in each, and a message used up in the second."""
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


def a_fork_has_the_steps_and_states_of_its_origin(open_store: Open) -> None:
    with closing(open_store()) as store:
        make_origin(store)

        fork(store, 4)

        origin, copies = store.steps("one", limit=4), store.steps("two")
        fields = ("step_number", "timestamp", "attempt", "input", "output", "state_delta")
        assert [[getattr(step, name) for name in fields] for step in copies] == [
            [getattr(step, name) for name in fields] for step in origin
        ]
        assert [store.state_at("two", step) for step in range(5)] == [store.state_at("one", step) for step in range(5)]
        assert [row.state is not None for row in store.step_rows("two")] == [False, False, True, False]


def a_fork_goes_on_after_its_last_step(open_store: Open) -> None:
    with closing(open_store()) as store:
        make_origin(store)
        fork(store, 2)

        claimed = claim(store, "two")
        store.commit([step_row(claimed, 3, {"set": {"total": 33}})])

        assert (claimed.status, claimed.step, claimed.attempt) == (Status.NEW, 2, 1)
        assert (decode(claimed.state), claimed.unsaved_steps, claimed.kept) == (
            {"total": 2, "kept": []},
            2,
            {"ticks": {"at": 2}},
        )
        assert [decode(store.state_at(name, 3))["total"] for name in ("one", "two")] == [3, 33]
        assert (numbers(store, "one"), numbers(store, "two")) == ([1, 2, 3, 4, 5], [1, 2, 3])


def a_fork_says_where_it_is_from(open_store: Open) -> None:
    with closing(open_store()) as store:
        make_origin(store)
        (seq,) = [record.seq for record in store.records() if (record.kind, record.step) == ("step", 3)]

        told = fork(store, 3)

        known = {harness.name: harness for harness in store.harnesses()}["two"]
        (event,) = [record for record in store.records() if record.kind == "forked"]
        assert (event.seq, event.harness, event.step, event.run, decode(event.body)) == (
            told,
            "two",
            3,
            store.run,
            known.event,
        )
        said = {key: known.event[key] for key in ("origin", "origin_step", "origin_seq", "origin_run", "origin_store")}
        assert said == {"origin": "one", "origin_step": 3, "origin_seq": seq, "origin_run": store.run, "origin_store": ""}
        assert (known.status, known.owned, known.current_step, known.attempt) == (Status.NEW, False, 3, 1)


def effects_and_messages_stay_with_the_origin(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = make_origin(store)
        store.commit([], effects=[intent_row(claimed, 6, "open")])
        do(store, Post("one", "", TIME_US, "8"))

        fork(store, 5)

        taken = claim(store, "two")
        assert (store.effects("two"), store.mailbox("two"), taken.marks) == ([], [], ())
        assert not any("consumed" in decode(row.body) for row in store.step_rows("two"))
        assert len(store.effects("one")) == 6


def the_origin_is_not_touched(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = make_origin(store)
        before = (store.records(), store.harnesses())

        fork(store, 5)

        last = before[0][-1].seq
        assert (store.records(limit=len(before[0])), store.harnesses()[:1]) == before
        assert {record.harness for record in store.records(after=last)} == {"two"}
        assert store.commit([step_row(claimed, 6)]).lost == frozenset()
        assert numbers(store, "one") == [1, 2, 3, 4, 5, 6]


def a_fork_at_step_0_begins_anew(open_store: Open) -> None:
    with closing(open_store()) as store:
        make_origin(store)

        fork(store, 0)

        claimed = claim(store, "two", state='{"total":100}')
        assert (claimed.step, decode(claimed.state), claimed.attempt) == (0, {"total": 0, "kept": []}, 0)
        assert store.steps("two") == []


def what_can_not_be_forked_is_refused_and_changes_nothing(open_store: Open) -> None:
    with closing(open_store()) as store:
        make_origin(store)
        before = (store.records(), store.harnesses())

        refused = [fork(store, 6), fork(store, -1), fork(store, 3, name="one"), fork(store, 3, origin="gone")]

        assert [type(error) for error in refused] == [UsageError, UsageError, UsageError, UnknownHarness]
        assert (store.records(), store.harnesses()) == before


def a_fork_can_be_forked(open_store: Open) -> None:
    with closing(open_store()) as store:
        make_origin(store)
        fork(store, 4)

        fork(store, 2, name="three", origin="two")

        assert [store.state_at("three", step) for step in range(3)] == [store.state_at("one", step) for step in range(3)]


def a_fork_may_come_from_another_store(open_store: Open) -> None:
    with closing(open_store()) as store:
        make_origin(store)
        rows = store.step_rows("one")
        past = Past(
            "elsewhere.db", "example:Harness", '{"total":0,"kept":[]}', 1, 41, "a-run", lambda after, most: rows[after:][:most]
        )

        fork(store, 4, past=past)

        event = store.harnesses()[1].event
        assert [event[key] for key in ("origin_seq", "origin_run", "origin_store")] == [41, "a-run", "elsewhere.db"]
        assert [store.state_at("two", step) for step in range(5)] == [store.state_at("one", step) for step in range(5)]


LAWS: tuple[Law, ...] = (
    a_fork_has_the_steps_and_states_of_its_origin,
    a_fork_goes_on_after_its_last_step,
    a_fork_says_where_it_is_from,
    effects_and_messages_stay_with_the_origin,
    the_origin_is_not_touched,
    a_fork_at_step_0_begins_anew,
    what_can_not_be_forked_is_refused_and_changes_nothing,
    a_fork_can_be_forked,
    a_fork_may_come_from_another_store,
)
