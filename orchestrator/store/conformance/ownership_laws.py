"""Laws of ownership: one run owns a harness at a time; its records are available to the next owner and the next run."""

from __future__ import annotations

import threading
from contextlib import closing

from orchestrator import events
from orchestrator.codec import decode
from orchestrator.errors import OwnedElsewhere, OwnershipLost
from orchestrator.lifecycle import Status
from orchestrator.store.conformance.conformance_tools import (
    TIME_US,
    Laws,
    Open,
    claim,
    do,
    event_row,
    numbers,
    numbers_after,
    step_row,
)
from orchestrator.store.store_protocol import Claim, Claimed, Post, Store

laws = Laws()


@laws.of_a_store
def a_new_harness_begins_with_the_state_it_was_given(store: Store) -> None:
    claimed = claim(store, "one", state='{"total":7}')

    assert (claimed.status, claimed.attempt, claimed.step, claimed.unsaved_steps) == (Status.NEW, 0, 0, 0)
    assert (store.mailbox("one"), claimed.supervision) == ([], {})
    assert claimed.state == store.state_at("one", 0) == '{"total":7}'
    (known,) = store.harnesses()
    assert (known.name, known.status, known.harness_class, known.owned) == ("one", Status.NEW, "example:Harness", True)


@laws.of_a_store
def a_second_claim_is_refused_and_leaves_the_others_alone(store: Store) -> None:
    claimed = claim(store, "one")

    refused, granted = store.commit([], [Claim("one", "{}"), Claim("two", "{}")]).results

    assert isinstance(refused, OwnedElsewhere)
    assert isinstance(granted, Claimed)
    assert not store.commit([step_row(claimed, 1)]).lost


@laws.of_a_store
def a_released_harness_goes_on_where_it_was(store: Store) -> None:
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


@laws.of_a_store
def a_step_of_an_older_epoch_is_not_written(store: Store) -> None:
    old, sibling = claim(store, "one"), claim(store, "sibling")
    new = claim(store, "one", take_over=True)

    for number in (1, 2):
        committed = store.commit([step_row(old, number, state='{"total":-1}'), step_row(sibling, number)])
        assert committed.lost == {old.harness}
        assert [bool(seq) for seq in committed.seqs] == [False, True]

    assert numbers_after(store, [step_row(new, 1)]) == {"one": [1], "sibling": [1, 2]}
    assert decode(store.state_at("one", 1)) == {"total": 1}


@laws.of_a_store
def an_event_of_an_older_epoch_is_refused(store: Store) -> None:
    old = claim(store, "one")
    claim(store, "one", take_over=True)

    result = do(store, event_row(old, events.Started(), Status.RUNNING))

    assert isinstance(result, OwnershipLost)
    assert store.records() == []


@laws.of_a_store
def an_event_after_the_release_is_refused(store: Store) -> None:
    claimed = claim(store, "one")
    do(store, event_row(claimed, events.Stopped(), Status.STOPPED, release=True))

    result = do(store, event_row(claimed, events.Started(), Status.RUNNING))

    assert isinstance(result, OwnershipLost)
    assert [record.kind for record in store.records()] == ["stopped"]


@laws.of_a_store
def a_completed_harness_is_not_taken(store: Store) -> None:
    first = claim(store, "one")
    store.commit([step_row(first, 1)], [event_row(first, events.Completed(), Status.COMPLETED, step=1, release=True)])

    again = claim(store, "one")

    assert (again.status, again.epoch, again.step) == (Status.COMPLETED, first.epoch, 1)
    assert decode(again.state) == {"total": 1}
    assert not store.harnesses()[0].owned


@laws.of_a_store
def a_completed_harness_is_taken_by_whoever_reopens_it(store: Store) -> None:
    first = claim(store, "one")
    store.commit([step_row(first, 1)], [event_row(first, events.Completed(), Status.COMPLETED, step=1, release=True)])

    again = claim(store, "one", reopen=True)
    store.commit([step_row(again, 2)])

    assert (again.status, again.epoch, again.step) == (Status.COMPLETED, first.epoch + 1, 1)
    assert numbers(store, "one") == [1, 2]
    assert store.harnesses()[0].owned


@laws.of_a_store
def a_claim_to_go_on_is_refused_after_the_end_of_a_harness_but_not_of_its_program(store: Store) -> None:
    ends: dict[str, tuple[events.Event, Status]] = {
        "ended": (events.Finished(), Status.FINISHED),
        "completed": (events.Completed(), Status.COMPLETED),
        "stopped": (events.Stopped("by order"), Status.STOPPED),
        "left": (events.Stopped("SIGTERM", program_ended=True), Status.STOPPED),
    }
    for name, (event, status) in ends.items():
        store.commit([], [event_row(claim(store, name), event, status, step=0, release=True)])

    results = store.commit([], [Claim(name, "{}", goes_on=True) for name in (*ends, "new")]).results

    refused = [isinstance(result, OwnedElsewhere) for result in results]
    assert refused == [True, True, True, False, False]
    assert [one.name for one in store.harnesses() if one.owned] == ["left", "new"]


@laws.of_a_store
def the_last_event_says_where_a_harness_is(store: Store) -> None:
    claimed = claim(store, "one")
    store.commit([step_row(claimed, 1)], [event_row(claimed, events.Started(), Status.RUNNING)])

    store.commit([], [event_row(claimed, events.Failed("ValueError", "too hot"), Status.FAILED, step=1)])

    (known,) = store.harnesses()
    assert (known.status, known.attempt, known.current_step, known.last_time_us) == (Status.FAILED, 1, 1, TIME_US)
    assert known.event["cause"] == "too hot"
    assert known.owned


@laws.of_a_store
def harnesses_are_listed_in_the_order_of_their_first_start(store: Store) -> None:
    for name in ("zebra", "ant", "Mole"):
        claim(store, name)
    claim(store, "zebra", take_over=True)

    assert [known.name for known in store.harnesses()] == ["zebra", "ant", "Mole"]


@laws.of_a_store
def restarts_are_remembered_until_the_end(store: Store) -> None:
    restarting = events.Restarting("too hot", 0.5, 1e9 + 0.5, (1e9,))
    claimed = claim(store, "one")
    store.commit([], [event_row(claimed, restarting, Status.BACKING_OFF)])
    store.commit([], [event_row(claimed, events.Started(), Status.RUNNING)])

    later = claim(store, "one", take_over=True)
    store.commit([], [event_row(later, events.Stopped(), Status.STOPPED, release=True)])

    assert (later.supervision["due"], later.supervision["restarts"]) == (1e9 + 0.5, [1e9])
    assert claim(store, "one").supervision == {}


@laws.between_runs
def a_commit_is_there_for_the_next_run(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        store.commit([step_row(claimed, number) for number in (1, 2)], [Post("one", "", TIME_US, "1")])
        before = store.records()

    with closing(open_store()) as store:
        assert store.records() == before
        assert claim(store, "one").step == 2
        assert numbers(store, "one") == [1, 2]


@laws.between_runs
def every_run_has_a_name_and_signs_with_it(open_store: Open) -> None:
    with closing(open_store()) as first, closing(open_store()) as second:
        first.commit([step_row(claim(first, "one"), 1)])
        second.commit([step_row(claim(second, "two"), 1)])

        assert first.run != second.run
        assert [(record.harness, record.run) for record in second.records()] == [("one", first.run), ("two", second.run)]
        assert first.records() == second.records()


@laws.between_runs
def a_harness_of_a_living_run_is_owned_elsewhere(open_store: Open) -> None:
    with closing(open_store()) as first, closing(open_store()) as second:
        claimed = claim(first, "one")

        result = do(second, Claim("one", "{}"))

        assert isinstance(result, OwnedElsewhere)
        assert "'one'" in str(result)
        assert not first.commit([step_row(claimed, 1)]).lost
        assert second.harnesses()[0].owned


@laws.between_runs
def a_run_that_has_closed_its_store_owns_nothing(open_store: Open) -> None:
    with closing(open_store()) as first:
        claimed = claim(first, "one")
        first.commit([step_row(claimed, 1)], [event_row(claimed, events.Started(), Status.RUNNING, step=1)])

    with closing(open_store()) as second:
        assert not second.harnesses()[0].owned
        assert claim(second, "one").epoch > claimed.epoch


@laws.between_runs
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


@laws.between_runs
def who_is_taken_over_is_told_at_the_next_step(open_store: Open) -> None:
    with closing(open_store()) as first, closing(open_store()) as second:
        old = claim(first, "one")
        first.commit([step_row(old, 1)])
        claim(second, "one", take_over=True)

        lost = first.commit([step_row(old, 2)])

        assert (list(lost.seqs), set(lost.lost)) == ([0], {old.harness})
        assert numbers(second, "one") == [1]


@laws.between_runs
def closing_gives_back_only_what_is_still_owned(open_store: Open) -> None:
    with closing(open_store()) as second:
        with closing(open_store()) as first:
            claim(first, "one")
            new = claim(second, "one", take_over=True)

        assert second.harnesses()[0].owned
        assert not second.commit([step_row(new, 1)]).lost


@laws.between_runs
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


@laws.between_runs
def a_message_reaches_the_next_run(open_store: Open) -> None:
    with closing(open_store()) as first, closing(open_store()) as second:
        claim(first, "one")

        seq = do(second, Post("one", "two", TIME_US, "1"))

        assert [message.seq for message in second.mailbox("one")] == [seq]
