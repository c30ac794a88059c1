"""The laws of `orchestrator.store.protocol`, as functions that any store must pass.

    import pytest

    pytest.register_assert_rewrite("orchestrator.store.conformance")  # for messages that show the values
    from orchestrator.store.conformance import LAWS, LAWS_BETWEEN_RUNS

    @pytest.mark.parametrize("law", LAWS + LAWS_BETWEEN_RUNS, ids=lambda law: law.__name__)
    def test_my_store_keeps_the_law(law, tmp_path):
        law(lambda: MyStore(tmp_path / "store"))

A law is given a function that opens a store, and raises `AssertionError` if the store breaks it. Each call of that function
is to give another run over the same data; a store that ends with its process is held to `LAWS` only, which open one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

from harnesses.delta import Delta
from orchestrator import events
from orchestrator.codec import decode, encode, replay
from orchestrator.errors import OwnedElsewhere, OwnershipLost, UnknownHarness, UsageError
from orchestrator.lifecycle import Status
from orchestrator.store.protocol import Append, Claim, Claimed, ConsumedRow, Operation, Post, StepRow, Store

Open: TypeAlias = Callable[[], Store]
Law: TypeAlias = Callable[[Open], None]
RowT = TypeVar("RowT")

TIME_US = 1_700_000_000_000_000
"""The wall time of everything here: a moment in November 2023."""


# what the laws are written with; of use in tests of your own


def claim(store: Store, name: str, *, state: str = '{"total":0}', take_over: bool = False) -> Claimed:
    """Take a harness over and return what is known of it."""
    result = do(store, Claim(name, state, harness_class="example:Harness", take_over=take_over))
    assert isinstance(result, Claimed), f"expected the claim on {name!r} to be granted, was {result!r}"
    return result


def do(store: Store, operation: Operation) -> Any:
    """Commit one operation and return its result."""
    (result,) = store.commit([], [operation]).results
    return result


def step_row(
    claimed: Claimed, number: int, delta: Delta | None = None, *, input: object = None, state: str | None = None
) -> StepRow:
    """Return a step. Unless told otherwise its input is its number, and it sets the state's `total` to that."""
    given = number if input is None else input
    body = encode({"input": given, "output": [given], "delta": {"set": {"total": number}} if delta is None else delta})
    return StepRow(claimed.harness, claimed.epoch, claimed.attempt + 1, number, TIME_US + number, body, state)


def event_row(claimed: Claimed, event: events.Event, status: Status, *, step: int = 0, release: bool = False) -> Append:
    """Return an event on its way to the store."""
    return Append(claimed.harness, claimed.epoch, claimed.attempt + 1, step, TIME_US, event, status, release)


def numbers(store: Store, name: str) -> list[int]:
    """Return the numbers of all steps of one harness, as they are read."""
    return [record.step_number for record in store.steps(name, limit=1_000_000)]


class _Trap(list[RowT]):
    """Rows of which the first is harmless. Who goes on to the next one, in the midst of a commit, springs the trap."""

    def __init__(self, rows: Iterable[RowT], spring: Callable[[], None]) -> None:
        super().__init__(rows)
        self._spring = spring

    def __iter__(self) -> Iterator[RowT]:
        for row in super().__iter__():
            yield row
            self._spring()


# commits


def an_empty_commit_changes_nothing(open_store: Open) -> None:
    with closing(open_store()) as store:
        committed = store.commit([])

        assert list(committed.seqs) == list(committed.results) == []
        assert store.records() == []
        assert store.harnesses() == []


def a_commit_is_all_or_nothing(open_store: Open) -> None:
    with closing(open_store()) as store:
        one, other = claim(store, "one"), claim(store, "other")
        seq = do(store, Post("one", "", TIME_US, "1"))
        store.commit([step_row(one, 1)])
        before = store.records()

        def fail() -> None:
            raise ZeroDivisionError

        rows, used = [step_row(one, 2), step_row(other, 1)], ConsumedRow(seq, one.harness, 2)
        assert_raises(ZeroDivisionError, "", lambda: store.commit(rows, consumed=_Trap([used], fail)))

        assert store.records() == before
        assert {name: numbers(store, name) for name in ("one", "other")} == {"one": [1], "other": []}
        assert numbers_after(store, rows) == {"one": [1, 2], "other": [1]}
        assert [message.seq for message in claim(store, "one", take_over=True).mailbox] == [seq]


def numbers_after(store: Store, rows: Sequence[StepRow]) -> dict[str, list[int]]:
    """Commit steps and return the numbers of all steps of every harness."""
    store.commit(rows)
    return {harness.name: numbers(store, harness.name) for harness in store.harnesses()}


def a_reader_sees_whole_commits_only(open_store: Open) -> None:
    with closing(open_store()) as store:
        one, other = claim(store, "one"), claim(store, "other")
        seen: list[int] = []
        readers: list[threading.Thread] = []

        def read_meanwhile() -> None:
            reader = threading.Thread(target=lambda: seen.append(len(store.records())), daemon=True)
            readers.append(reader)
            reader.start()
            # A store may have its readers wait for a commit, so this can not wait for the reader.
            reader.join(0.2)

        store.commit(_Trap([step_row(one, 1), step_row(other, 1)], read_meanwhile))
        for reader in readers:
            reader.join(10)

        assert len(seen) == len(readers) > 0
        assert set(seen) <= {0, 2}
        assert len(store.records()) == 2


def readers_in_many_threads_do_not_hold_up_a_writer(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        ended = threading.Event()
        wrong: list[object] = []

        def read() -> None:
            try:
                while not ended.is_set():
                    found = numbers(store, "one")
                    if found != list(range(1, len(found) + 1)):
                        wrong.append(found)
            except Exception as error:
                wrong.append(error)

        readers = [threading.Thread(target=read, daemon=True) for _ in range(3)]
        for reader in readers:
            reader.start()
        for number in range(1, 101):
            store.commit([step_row(claimed, number)])
        ended.set()
        for reader in readers:
            reader.join(10)

        assert wrong == []
        assert numbers(store, "one") == list(range(1, 101))


# order


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


# state


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


def assert_raises(error: type[Exception], words: str, call: Callable[[], object]) -> None:
    """Assert that `call` raises `error` with `words` in its message."""
    raised: Exception | None = None
    try:
        call()
    except error as found:
        raised = found
    assert raised is not None, f"expected {error.__name__}, nothing was raised"
    assert words in str(raised)


# ownership


def a_new_harness_begins_with_the_state_it_was_given(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one", state='{"total":7}')

        assert (claimed.status, claimed.attempt, claimed.step, claimed.unsaved_steps) == (Status.NEW, 0, 0, 0)
        assert (claimed.mailbox, claimed.supervision) == ((), {})
        assert claimed.state == store.state_at("one", 0) == '{"total":7}'
        (known,) = store.harnesses()
        assert (known.name, known.status, known.harness_class, known.owned) == ("one", Status.NEW, "example:Harness", True)


def a_second_claim_is_refused_and_leaves_the_others_alone(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")

        refused, granted = store.commit([], [Claim("one", "{}"), Claim("two", "{}")]).results

        assert isinstance(refused, OwnedElsewhere)
        assert isinstance(granted, Claimed)
        assert not store.commit([step_row(claimed, 1)]).lost


def a_released_harness_goes_on_where_it_was(open_store: Open) -> None:
    with closing(open_store()) as store:
        first = claim(store, "one")
        store.commit(
            [step_row(first, number, state='{"total":18}' if number == 18 else None) for number in range(1, 21)],
            [event_row(first, events.Stopped(), Status.STOPPED, step=20, release=True)],
        )

        second = claim(store, "one")

        assert second.harness == first.harness
        assert second.epoch > first.epoch
        assert (second.status, second.attempt, second.step, second.unsaved_steps) == (Status.STOPPED, 1, 20, 2)
        assert decode(second.state) == {"total": 20}
        assert numbers_after(store, [step_row(second, 21)]) == {"one": list(range(1, 22))}


def a_step_of_an_older_epoch_is_not_written(open_store: Open) -> None:
    with closing(open_store()) as store:
        old, sibling = claim(store, "one"), claim(store, "sibling")
        new = claim(store, "one", take_over=True)

        for number in (1, 2):
            committed = store.commit([step_row(old, number, state='{"total":-1}'), step_row(sibling, number)])
            assert committed.lost == {old.harness}
            assert [bool(seq) for seq in committed.seqs] == [False, True]

        assert numbers_after(store, [step_row(new, 1)]) == {"one": [1], "sibling": [1, 2]}
        assert decode(store.state_at("one", 1)) == {"total": 1}


def an_event_of_an_older_epoch_is_refused(open_store: Open) -> None:
    with closing(open_store()) as store:
        old = claim(store, "one")
        claim(store, "one", take_over=True)

        result = do(store, event_row(old, events.Started(), Status.RUNNING))

        assert isinstance(result, OwnershipLost)
        assert store.records() == []


def an_event_after_the_release_is_refused(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        do(store, event_row(claimed, events.Stopped(), Status.STOPPED, release=True))

        result = do(store, event_row(claimed, events.Started(), Status.RUNNING))

        assert isinstance(result, OwnershipLost)
        assert [record.kind for record in store.records()] == ["stopped"]


def a_completed_harness_is_not_taken(open_store: Open) -> None:
    with closing(open_store()) as store:
        first = claim(store, "one")
        store.commit([step_row(first, 1)], [event_row(first, events.Completed(), Status.COMPLETED, step=1, release=True)])

        again = claim(store, "one")

        assert (again.status, again.epoch, again.step) == (Status.COMPLETED, first.epoch, 1)
        assert decode(again.state) == {"total": 1}
        assert not store.harnesses()[0].owned


# what is known of a harness


def the_last_event_says_where_a_harness_is(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        store.commit([step_row(claimed, 1)], [event_row(claimed, events.Started(), Status.RUNNING)])

        store.commit([], [event_row(claimed, events.Failed("ValueError", "too hot"), Status.FAILED, step=1)])

        (known,) = store.harnesses()
        assert (known.status, known.attempt, known.current_step, known.last_time_us) == (Status.FAILED, 1, 1, TIME_US)
        assert known.event["cause"] == "too hot"
        assert known.owned


def harnesses_are_listed_in_the_order_of_their_first_start(open_store: Open) -> None:
    with closing(open_store()) as store:
        for name in ("zebra", "ant", "Mole"):
            claim(store, name)
        claim(store, "zebra", take_over=True)

        assert [known.name for known in store.harnesses()] == ["zebra", "ant", "Mole"]


def restarts_are_remembered_until_the_end(open_store: Open) -> None:
    restarting = events.Restarting("too hot", 0.5, 1e9 + 0.5, (1e9,))
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        store.commit([], [event_row(claimed, restarting, Status.BACKING_OFF)])
        store.commit([], [event_row(claimed, events.Started(), Status.RUNNING)])

        later = claim(store, "one", take_over=True)
        store.commit([], [event_row(later, events.Stopped(), Status.STOPPED, release=True)])

        assert (later.supervision["due"], later.supervision["restarts"]) == (1e9 + 0.5, [1e9])
        assert claim(store, "one").supervision == {}


# messages


def a_message_waits_until_a_step_uses_it(open_store: Open) -> None:
    with closing(open_store()) as store:
        first = claim(store, "one")
        seqs = [do(store, Post("one", sender, TIME_US, f'{{"n":{n}}}')) for n, sender in enumerate(("", "two", "two"))]
        store.commit([step_row(first, 1)], consumed=[ConsumedRow(seqs[1], first.harness, 1)])

        waiting = claim(store, "one", take_over=True).mailbox

        assert [(message.seq, message.sender, message.body) for message in waiting] == [
            (seqs[0], "", '{"n":0}'),
            (seqs[2], "two", '{"n":2}'),
        ]


def a_message_is_on_record(open_store: Open) -> None:
    with closing(open_store()) as store:
        claim(store, "one")

        seq = do(store, Post("one", "two", TIME_US, '{"n":1}'))

        (record,) = store.records()
        assert (record.seq, record.harness, record.kind, record.attempt, record.step) == (seq, "one", "message", 0, 0)
        assert (record.time_us, record.run) == (TIME_US, "")
        assert decode(record.body) == {"from": "two", "message": {"n": 1}}


def a_message_is_not_used_up_by_a_step_that_is_lost(open_store: Open) -> None:
    with closing(open_store()) as store:
        old = claim(store, "one")
        seq = do(store, Post("one", "", TIME_US, "1"))
        claim(store, "one", take_over=True)

        store.commit([step_row(old, 1)], consumed=[ConsumedRow(seq, old.harness, 1)])

        assert [message.seq for message in claim(store, "one", take_over=True).mailbox] == [seq]


# between runs


def a_commit_is_there_for_the_next_run(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        store.commit([step_row(claimed, number) for number in (1, 2)], [Post("one", "", TIME_US, "1")])
        before = store.records()

    with closing(open_store()) as store:
        assert store.records() == before
        assert claim(store, "one").step == 2
        assert numbers(store, "one") == [1, 2]


def every_run_has_a_name_and_signs_with_it(open_store: Open) -> None:
    with closing(open_store()) as first, closing(open_store()) as second:
        first.commit([step_row(claim(first, "one"), 1)])
        second.commit([step_row(claim(second, "two"), 1)])

        assert first.run != second.run
        assert [(record.harness, record.run) for record in second.records()] == [("one", first.run), ("two", second.run)]
        assert first.records() == second.records()


def a_harness_of_a_living_run_is_owned_elsewhere(open_store: Open) -> None:
    with closing(open_store()) as first, closing(open_store()) as second:
        claimed = claim(first, "one")

        result = do(second, Claim("one", "{}"))

        assert isinstance(result, OwnedElsewhere)
        assert "'one'" in str(result)
        assert not first.commit([step_row(claimed, 1)]).lost
        assert second.harnesses()[0].owned


def a_run_that_has_closed_its_store_owns_nothing(open_store: Open) -> None:
    with closing(open_store()) as first:
        claimed = claim(first, "one")
        first.commit([step_row(claimed, 1)], [event_row(claimed, events.Started(), Status.RUNNING, step=1)])

    with closing(open_store()) as second:
        assert not second.harnesses()[0].owned
        assert claim(second, "one").epoch > claimed.epoch


def who_is_taken_over_loses_that_harness_and_no_other(open_store: Open) -> None:
    with closing(open_store()) as first, closing(open_store()) as second:
        old, kept = claim(first, "one"), claim(first, "kept")
        first.commit([step_row(old, 1), step_row(kept, 1)])
        new = claim(second, "one", take_over=True)

        for number in (2, 3):
            lost = first.commit(
                [step_row(old, number, state='{"total":-1}'), step_row(kept, number)],
                [event_row(old, events.Paused(), Status.PAUSED), event_row(kept, events.Paused(), Status.PAUSED)],
            )
            assert lost.lost == {old.harness}
            assert [bool(seq) for seq in lost.seqs] == [False, True]
            assert isinstance(lost.results[0], OwnershipLost)
            assert isinstance(lost.results[1], int)

        assert numbers_after(second, [step_row(new, 2)]) == {"one": [1, 2], "kept": [1, 2, 3]}
        assert decode(second.state_at("one", 2)) == {"total": 2}


def who_is_taken_over_is_told_at_the_next_step(open_store: Open) -> None:
    with closing(open_store()) as first, closing(open_store()) as second:
        old = claim(first, "one")
        first.commit([step_row(old, 1)])
        claim(second, "one", take_over=True)

        lost = first.commit([step_row(old, 2)])

        assert (list(lost.seqs), set(lost.lost)) == ([0], {old.harness})
        assert numbers(second, "one") == [1]


def closing_gives_back_only_what_is_still_owned(open_store: Open) -> None:
    with closing(open_store()) as second:
        with closing(open_store()) as first:
            claim(first, "one")
            new = claim(second, "one", take_over=True)

        assert second.harnesses()[0].owned
        assert not second.commit([step_row(new, 1)]).lost


def runs_write_side_by_side(open_store: Open) -> None:
    with closing(open_store()) as first, closing(open_store()) as second:
        failures: list[Exception] = []

        def write(store: Store, name: str) -> None:
            try:
                claimed = claim(store, name)
                for number in range(1, 51):
                    store.commit([step_row(claimed, number)])
            except Exception as error:
                failures.append(error)

        writers = [threading.Thread(target=write, args=pair) for pair in ((first, "one"), (second, "two"))]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(60)

        seqs = [record.seq for record in first.records()]
        assert failures == []
        assert len(set(seqs)) == 100
        assert numbers(first, "one") == numbers(first, "two") == list(range(1, 51))


def a_message_reaches_the_next_run(open_store: Open) -> None:
    with closing(open_store()) as first, closing(open_store()) as second:
        claim(first, "one")

        seq = do(second, Post("one", "two", TIME_US, "1"))

        assert [message.seq for message in claim(second, "one", take_over=True).mailbox] == [seq]


LAWS: tuple[Law, ...] = (
    an_empty_commit_changes_nothing,
    a_commit_is_all_or_nothing,
    a_reader_sees_whole_commits_only,
    readers_in_many_threads_do_not_hold_up_a_writer,
    seq_is_one_order_over_everything,
    a_seq_stays_with_its_record,
    steps_are_read_in_pages_without_gap_or_repeat,
    a_step_out_of_turn_is_not_written,
    a_step_is_read_as_it_was_written,
    state_at_equals_a_replay,
    what_is_not_there_is_named,
    a_new_harness_begins_with_the_state_it_was_given,
    a_second_claim_is_refused_and_leaves_the_others_alone,
    a_released_harness_goes_on_where_it_was,
    a_step_of_an_older_epoch_is_not_written,
    an_event_of_an_older_epoch_is_refused,
    an_event_after_the_release_is_refused,
    a_completed_harness_is_not_taken,
    the_last_event_says_where_a_harness_is,
    harnesses_are_listed_in_the_order_of_their_first_start,
    restarts_are_remembered_until_the_end,
    a_message_waits_until_a_step_uses_it,
    a_message_is_on_record,
    a_message_is_not_used_up_by_a_step_that_is_lost,
)
"""What every store keeps. Each opens one."""

LAWS_BETWEEN_RUNS: tuple[Law, ...] = (
    a_commit_is_there_for_the_next_run,
    every_run_has_a_name_and_signs_with_it,
    a_harness_of_a_living_run_is_owned_elsewhere,
    a_run_that_has_closed_its_store_owns_nothing,
    who_is_taken_over_loses_that_harness_and_no_other,
    who_is_taken_over_is_told_at_the_next_step,
    closing_gives_back_only_what_is_still_owned,
    runs_write_side_by_side,
    a_message_reaches_the_next_run,
)
"""What a store keeps that outlives its process. Each opens two."""
