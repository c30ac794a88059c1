"""What a store keeps that outlives its process: one run goes on where another has ended, and two write side by side."""

from __future__ import annotations

import threading
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
from orchestrator.store.store_protocol import Claim, Post, Store


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

        assert [message.seq for message in second.mailbox("one")] == [seq]


LAWS: tuple[Law, ...] = (
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
