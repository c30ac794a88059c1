"""Laws of steps: a commit is all or nothing; there is one global order; a harness's steps are 1, 2, 3 …, and the state at each
is the sum of its deltas, or what it was migrated to.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import pairwise

from harnesses.data.delta import Delta, apply_to_state
from orchestrator import events
from orchestrator.codec import decode, encode
from orchestrator.errors import OwnershipLost, UnknownHarness, UsageError
from orchestrator.events import Stopped
from orchestrator.lifecycle import Status
from orchestrator.store.conformance.conformance_tools import (
    TIME_US,
    Laws,
    Trap,
    assert_raises,
    claim,
    do,
    event_row,
    numbers,
    numbers_after,
    step_row,
)
from orchestrator.store.rules.state_rules import version_at
from orchestrator.store.store_protocol import Claim, Claimed, ConsumedRow, Fork, Migrate, Post, Store

laws = Laws()


@laws.of_a_store
def an_empty_commit_changes_nothing(store: Store) -> None:
    committed = store.commit([])

    assert list(committed.seqs) == list(committed.results) == []
    assert store.records() == []
    assert store.harnesses() == []


@laws.of_a_store
def a_commit_is_all_or_nothing(store: Store) -> None:
    one, other = claim(store, "one"), claim(store, "other")
    seq = do(store, Post("one", "", TIME_US, "1"))
    store.commit([step_row(one, 1)])
    before = store.records()

    def fail() -> None:
        raise ZeroDivisionError

    rows, used = [step_row(one, 2), step_row(other, 1)], ConsumedRow(seq, one.harness, 2)
    assert_raises(ZeroDivisionError, "", lambda: store.commit(rows, consumed=Trap([used], fail)))

    assert store.records() == before
    assert {name: numbers(store, name) for name in ("one", "other")} == {"one": [1], "other": []}
    assert numbers_after(store, rows) == {"one": [1, 2], "other": [1]}
    assert [message.seq for message in store.mailbox("one")] == [seq]


@laws.of_a_store
def a_reader_sees_whole_commits_only(store: Store) -> None:
    one, other = claim(store, "one"), claim(store, "other")
    seen: list[int] = []
    readers: list[threading.Thread] = []

    def read_meanwhile() -> None:
        reader = threading.Thread(target=lambda: seen.append(len(store.records())), daemon=True)
        readers.append(reader)
        reader.start()
        # A store may make its readers wait for a commit, so this cannot wait for the reader.
        reader.join(0.2)

    store.commit(Trap([step_row(one, 1), step_row(other, 1)], read_meanwhile))
    for reader in readers:
        reader.join(10)

    assert len(seen) == len(readers) > 0
    assert set(seen) <= {0, 2}
    assert len(store.records()) == 2


@laws.of_a_store
def readers_in_many_threads_do_not_hold_up_a_writer(store: Store) -> None:
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


@laws.of_a_store
def seq_is_one_order_over_everything(store: Store) -> None:
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


@laws.of_a_store
def a_seq_stays_with_its_record(store: Store) -> None:
    claimed = claim(store, "one")
    store.commit([step_row(claimed, 1)], [Post("one", "", TIME_US, "1")])
    before = store.records()

    store.commit([step_row(claimed, 2)], consumed=[ConsumedRow(before[1].seq, claimed.harness, 2)])

    assert store.records()[:2] == before
    assert store.records(after=before[0].seq, limit=1) == before[1:]


@laws.of_a_store
def steps_are_read_in_pages_without_gap_or_repeat(store: Store) -> None:
    claims = [claim(store, name) for name in "abc"]
    for first in range(1, 200, 7):
        store.commit([step_row(claimed, number) for number in range(first, first + 7) for claimed in claims])

    pages = [store.steps("b", after=after, limit=30) for after in range(0, 240, 30)]

    assert [record.step_number for page in pages for record in page] == list(range(1, 204))
    assert {record.harness for page in pages for record in page} == {"b"}
    assert store.steps("b", after=203) == []


@laws.of_a_store
def a_step_out_of_turn_is_not_written(store: Store) -> None:
    one, other = claim(store, "one"), claim(store, "other")
    store.commit([step_row(one, 1)])

    for wrong, right in ((1, 1), (3, 2), (0, 3)):
        committed = store.commit([step_row(one, wrong, state='{"total":-1}'), step_row(other, right)])
        assert [bool(seq) for seq in committed.seqs] == [False, True]
        assert committed.lost == frozenset()

    assert numbers_after(store, [step_row(one, 2)]) == {"one": [1, 2], "other": [1, 2, 3]}
    assert [decode(store.state_at("one", step))["total"] for step in (0, 1, 2)] == [0, 1, 2]
    assert claim(store, "one", take_over=True).step == 2


@laws.of_a_store
def a_step_is_read_as_it_was_written(store: Store) -> None:
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


@laws.of_a_store
def state_at_equals_a_replay(store: Store) -> None:
    claimed = claim(store, "one", state='{"total":0,"items":[]}')
    deltas: list[Delta] = [{"set": {"total": n}, "in": {"items": {"append": [n]}}} if n % 3 else {} for n in range(1, 81)]
    states = ['{"total":0,"items":[]}']
    for number, delta in enumerate(deltas, 1):
        row = step_row(claimed, number, delta)
        states.append(encode(apply_to_state(decode(states[-1]), delta)) if delta else states[-1])
        store.commit([row._replace(state=states[-1]) if number % 20 == 0 else row])

    found = [store.state_at("one", step) for step in range(81)]

    assert [decode(state) for state in found] == [decode(state) for state in states]
    assert decode(states[80])["items"] == [n for n in range(1, 81) if n % 3]


@laws.of_a_store
def what_is_not_there_is_named(store: Store) -> None:
    store.commit([step_row(claim(store, "one"), 1)])

    assert_raises(UnknownHarness, "'two'", lambda: store.steps("two"))
    assert_raises(UnknownHarness, "'two'", lambda: store.state_at("two", 0))
    assert_raises(UsageError, "'one' has no step 2", lambda: store.state_at("one", 2))
    assert_raises(UsageError, "'one' has no step -1", lambda: store.state_at("one", -1))
    assert isinstance(do(store, Post("two", "", TIME_US, "1")), UnknownHarness)


NEW = '{"sum":7}'


def migrate(store: Store, claimed: Claimed, step: int, *versions: int, state: str = NEW) -> object:
    """Record the migration of a state."""
    first, last = versions or (1, 2)
    return do(store, Migrate(claimed.harness, claimed.epoch, 1, step, TIME_US, first, last, state))


def again(store: Store, claimed: Claimed) -> Claimed:
    """Release a harness and claim it again."""
    do(store, event_row(claimed, Stopped(), Status.STOPPED, release=True))
    return claim(store, store.harnesses()[claimed.harness - 1].name)


def make_steps(store: Store, claimed: Claimed, numbers: Sequence[int]) -> None:
    for number in numbers:
        store.commit([step_row(claimed, number)])


@laws.of_a_store
def a_harness_goes_on_with_what_its_state_was_migrated_to(store: Store) -> None:
    claimed = claim(store, "one")
    make_steps(store, claimed, (1, 2))

    seq = migrate(store, claimed, 2)
    claimed = again(store, claimed)

    assert isinstance(seq, int)
    assert (claimed.state, claimed.state_version, claimed.migrated, claimed.step) == (NEW, 2, True, 2)
    assert [decode(store.state_at("one", step)) for step in range(3)] == [{"total": step} for step in range(3)]


@laws.of_a_store
def the_step_after_a_migration_has_all_of_the_state(store: Store) -> None:
    claimed = claim(store, "one")
    make_steps(store, claimed, (1,))
    migrate(store, claimed, 1)
    store.commit([step_row(claimed, 2, {"value": {"sum": 8}}), step_row(claimed, 3, {"set": {"sum": 9}})])

    claimed = again(store, claimed)

    assert (claimed.state, claimed.state_version, claimed.migrated) == ('{"sum":9}', 2, False)
    assert decode(store.state_at("one", 1)) == {"total": 1}
    versions = [version_at(store.state_versions("one"), step) for step in range(4)]
    assert versions == [1, 1, 2, 2]


@laws.of_a_store
def a_new_harness_has_the_version_of_its_claim(store: Store) -> None:
    claimed = do(store, Claim("one", "{}", state_version=3))
    assert (claimed.state_version, claimed.migrated) == (3, False)

    claimed = again(store, claimed)
    assert claimed.state_version == 3

    migrate(store, claimed, 0, 3, 4)
    assert again(store, claimed).state_version == 4
    assert version_at(store.state_versions("one"), 0) == 3


@laws.of_a_store
def a_migration_is_refused_that_does_not_follow(store: Store) -> None:
    claimed = claim(store, "one")
    make_steps(store, claimed, (1, 2))

    assert isinstance(migrate(store, claimed, 1), UsageError)
    assert isinstance(migrate(store, claimed, 2, 2, 3), UsageError)
    assert isinstance(migrate(store, claimed, 2, 1, 1), UsageError)
    migrate(store, claimed, 2)
    assert isinstance(migrate(store, claimed, 2), UsageError)
    again(store, claimed)
    assert isinstance(migrate(store, claimed, 2, 2, 3), OwnershipLost)
    assert [record.kind for record in store.records()].count("migrated") == 1


@laws.of_a_store
def a_fork_has_the_versions_of_what_comes_along(store: Store) -> None:
    claimed = do(store, Claim("one", '{"total":0}', state_version=2))
    make_steps(store, claimed, (1, 2))
    migrate(store, claimed, 2, 2, 3)
    store.commit([step_row(claimed, 3, {"value": {"sum": 8}})])

    for step in range(4):
        do(store, Fork(f"at-{step}", "one", step, TIME_US))
    forks = [claim(store, f"at-{step}") for step in range(4)]

    assert [fork.state_version for fork in forks] == [2, 2, 2, 3]
    assert [fork.migrated for fork in forks] == [False] * 4
    assert [decode(fork.state) for fork in forks] == [{"total": 0}, {"total": 1}, {"total": 2}, {"sum": 8}]


@laws.of_a_store
def a_record_of_a_migration_has_its_place_in_the_order(store: Store) -> None:
    claimed = claim(store, "one")
    make_steps(store, claimed, (1,))
    migrate(store, claimed, 1)
    store.commit([step_row(claimed, 2)])

    records = store.records()

    assert [record.kind for record in records] == ["step", "migrated", "step"]
    assert all(one.seq < other.seq for one, other in pairwise(records))
    assert decode(records[1].body) == {"from_version": 1, "to_version": 2}
