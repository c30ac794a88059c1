"""A harness belongs to one run at a time, and what is known of it is there for whoever takes it over."""

from __future__ import annotations

from contextlib import closing

from orchestrator import events
from orchestrator.codec import decode
from orchestrator.errors import OwnedElsewhere, OwnershipLost
from orchestrator.lifecycle import Status
from orchestrator.store.conformance.conformance_tools import (
    TIME_US,
    Law,
    Open,
    claim,
    do,
    event_row,
    numbers,
    numbers_after,
    step_row,
)
from orchestrator.store.store_protocol import Claim, Claimed


def a_new_harness_begins_with_the_state_it_was_given(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one", state='{"total":7}')

        assert (claimed.status, claimed.attempt, claimed.step, claimed.unsaved_steps) == (Status.NEW, 0, 0, 0)
        assert (store.mailbox("one"), claimed.supervision) == ([], {})
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


def a_completed_harness_is_taken_by_whoever_reopens_it(open_store: Open) -> None:
    with closing(open_store()) as store:
        first = claim(store, "one")
        store.commit([step_row(first, 1)], [event_row(first, events.Completed(), Status.COMPLETED, step=1, release=True)])

        again = claim(store, "one", reopen=True)
        store.commit([step_row(again, 2)])

        assert (again.status, again.epoch, again.step) == (Status.COMPLETED, first.epoch + 1, 1)
        assert numbers(store, "one") == [1, 2]
        assert store.harnesses()[0].owned


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


LAWS: tuple[Law, ...] = (
    a_new_harness_begins_with_the_state_it_was_given,
    a_second_claim_is_refused_and_leaves_the_others_alone,
    a_released_harness_goes_on_where_it_was,
    a_step_of_an_older_epoch_is_not_written,
    an_event_of_an_older_epoch_is_refused,
    an_event_after_the_release_is_refused,
    a_completed_harness_is_not_taken,
    a_completed_harness_is_taken_by_whoever_reopens_it,
    the_last_event_says_where_a_harness_is,
    harnesses_are_listed_in_the_order_of_their_first_start,
    restarts_are_remembered_until_the_end,
)
