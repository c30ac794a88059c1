"""A commit is all or nothing, and a reader sees whole ones only."""

from __future__ import annotations

import threading
from contextlib import closing

from orchestrator.store.conformance.conformance_tools import (
    TIME_US,
    Law,
    Open,
    Trap,
    assert_raises,
    claim,
    do,
    numbers,
    numbers_after,
    step_row,
)
from orchestrator.store.store_protocol import ConsumedRow, Post


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
        assert_raises(ZeroDivisionError, "", lambda: store.commit(rows, consumed=Trap([used], fail)))

        assert store.records() == before
        assert {name: numbers(store, name) for name in ("one", "other")} == {"one": [1], "other": []}
        assert numbers_after(store, rows) == {"one": [1, 2], "other": [1]}
        assert [message.seq for message in store.mailbox("one")] == [seq]


def a_reader_sees_whole_commits_only(open_store: Open) -> None:
    with closing(open_store()) as store:
        one, other = claim(store, "one"), claim(store, "other")
        seen: list[int] = []
        readers: list[threading.Thread] = []

        def read_meanwhile() -> None:
            reader = threading.Thread(target=lambda: seen.append(len(store.records())), daemon=True)
            readers.append(reader)
            reader.start()
            # A store may have its readers wait for a commit, so this cannot wait for the reader.
            reader.join(0.2)

        store.commit(Trap([step_row(one, 1), step_row(other, 1)], read_meanwhile))
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


LAWS: tuple[Law, ...] = (
    an_empty_commit_changes_nothing,
    a_commit_is_all_or_nothing,
    a_reader_sees_whole_commits_only,
    readers_in_many_threads_do_not_hold_up_a_writer,
)
