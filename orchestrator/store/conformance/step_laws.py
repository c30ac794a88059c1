"""Everything is in one order, the steps of a harness are 1, 2, 3 …, and the state at each is what they add up to."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise

from harnesses.data.delta import Delta
from orchestrator import events
from orchestrator.codec import decode, replay
from orchestrator.errors import UnknownHarness, UsageError
from orchestrator.lifecycle import Status
from orchestrator.store.conformance.conformance_tools import (
    TIME_US,
    Law,
    Open,
    assert_raises,
    claim,
    do,
    event_row,
    numbers_after,
    step_row,
)
from orchestrator.store.store_protocol import ConsumedRow, Post


def seq_is_one_order_over_everything(open_store: Open) -> None:
    with closing(open_store()) as store:
        one, other = claim(store, "one"), claim(store, "other")
        given: list[int] = []
        for number in (1, 2, 3):
            committed = store.commit(
                [step_row(one, number), step_row(other, number)],
                [event_row(one, events.Paused(), Status.PAUSED), Post("other", "one", TIME_US, "1")],
            )
            given += [*committed.seqs, *committed.results]

        kinds = ["step", "step", "paused", "message"] * 3
        records = store.records()
        assert all(before < after for before, after in pairwise(given))
        assert [record.seq for record in records] == given
        assert [record.kind for record in records] == kinds
        assert [record.seq for record in store.steps("one")] == given[0::4]


def a_seq_stays_with_its_record(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        store.commit([step_row(claimed, 1)], [Post("one", "", TIME_US, "1")])
        before = store.records()

        store.commit([step_row(claimed, 2)], consumed=[ConsumedRow(before[1].seq, claimed.harness, 2)])

        assert store.records()[:2] == before
        assert store.records(after=before[0].seq, limit=1) == before[1:]


def steps_are_read_in_pages_without_gap_or_repeat(open_store: Open) -> None:
    with closing(open_store()) as store:
        claims = [claim(store, name) for name in "abc"]
        for first in range(1, 200, 7):
            store.commit([step_row(claimed, number) for number in range(first, first + 7) for claimed in claims])

        pages = [store.steps("b", after=after, limit=30) for after in range(0, 240, 30)]

        assert [record.step_number for page in pages for record in page] == list(range(1, 204))
        assert {record.harness for page in pages for record in page} == {"b"}
        assert store.steps("b", after=203) == []


def a_step_out_of_turn_is_not_written(open_store: Open) -> None:
    with closing(open_store()) as store:
        one, other = claim(store, "one"), claim(store, "other")
        store.commit([step_row(one, 1)])

        for wrong, right in ((1, 1), (3, 2), (0, 3)):
            committed = store.commit([step_row(one, wrong, state='{"total":-1}'), step_row(other, right)])
            assert [bool(seq) for seq in committed.seqs] == [False, True]
            assert committed.lost == frozenset()

        assert numbers_after(store, [step_row(one, 2)]) == {"one": [1, 2], "other": [1, 2, 3]}
        assert [decode(store.state_at("one", step))["total"] for step in (0, 1, 2)] == [0, 1, 2]
        assert claim(store, "one", take_over=True).step == 2


def a_step_is_read_as_it_was_written(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        given = {
            "text": 'ünï\u2028cødé 🙂 \\ " \x00',
            "whole": 2**63,
            "half": 0.1,
            "none": None,
            "deep": [[["."]]],
            "big": "x" * 300_000,
        }

        seqs = store.commit([step_row(claimed, 1, input=given)]).seqs

        (record,) = store.steps("one")
        assert (record.input, record.output) == (given, [given])
        assert (record.harness, record.attempt, record.seq, record.step_number) == ("one", 1, seqs[0], 1)
        assert round(record.timestamp.timestamp() * 1e6) == TIME_US + 1
        assert record.state_delta.modified == ("total",)


def state_at_equals_a_replay(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one", state='{"total":0,"items":[]}')
        deltas: list[Delta] = [{"set": {"total": n}, "in": {"items": {"append": [n]}}} if n % 3 else {} for n in range(1, 81)]
        states = ['{"total":0,"items":[]}']
        for number, delta in enumerate(deltas, 1):
            row = step_row(claimed, number, delta)
            states.append(replay(states[-1], [row.body]))
            store.commit([row._replace(state=states[-1]) if number % 20 == 0 else row])

        found = [store.state_at("one", step) for step in range(81)]

        assert [decode(state) for state in found] == [decode(state) for state in states]
        assert decode(states[80])["items"] == [n for n in range(1, 81) if n % 3]


def what_is_not_there_is_named(open_store: Open) -> None:
    with closing(open_store()) as store:
        store.commit([step_row(claim(store, "one"), 1)])

        assert_raises(UnknownHarness, "'two'", lambda: store.steps("two"))
        assert_raises(UnknownHarness, "'two'", lambda: store.state_at("two", 0))
        assert_raises(UsageError, "'one' has no step 2", lambda: store.state_at("one", 2))
        assert_raises(UsageError, "'one' has no step -1", lambda: store.state_at("one", -1))
        assert isinstance(do(store, Post("two", "", TIME_US, "1")), UnknownHarness)


LAWS: tuple[Law, ...] = (
    seq_is_one_order_over_everything,
    a_seq_stays_with_its_record,
    steps_are_read_in_pages_without_gap_or_repeat,
    a_step_out_of_turn_is_not_written,
    a_step_is_read_as_it_was_written,
    state_at_equals_a_replay,
    what_is_not_there_is_named,
)
