"""A message waits until a step has used it, and is used by one."""

from __future__ import annotations

from contextlib import closing

from orchestrator.codec import decode
from orchestrator.store.conformance.tools import TIME_US, Law, Open, claim, do, step_row
from orchestrator.store.protocol import ConsumedRow, Post


def a_message_waits_until_a_step_uses_it(open_store: Open) -> None:
    with closing(open_store()) as store:
        first = claim(store, "one")
        seqs = [do(store, Post("one", sender, TIME_US, f'{{"n":{n}}}')) for n, sender in enumerate(("", "two", "two"))]
        store.commit([step_row(first, 1)], consumed=[ConsumedRow(seqs[1], first.harness, 1)])

        waiting = store.mailbox("one")

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

        assert [message.seq for message in store.mailbox("one")] == [seq]


def a_mailbox_is_read_in_pages(open_store: Open) -> None:
    with closing(open_store()) as store:
        first = claim(store, "one")
        claim(store, "two")
        posts = [Post(name, "", TIME_US, str(n)) for n in range(5) for name in ("one", "two")]
        committed = store.commit([], posts)
        seqs = committed.results[::2]
        store.commit([step_row(first, 1)], consumed=[ConsumedRow(seqs[2], first.harness, 1)])

        pages = [store.mailbox("one", after=after, limit=2) for after in (0, seqs[0], seqs[1], seqs[4])]

        assert [[message.seq for message in page] for page in pages] == [
            [seqs[0], seqs[1]],
            [seqs[1], seqs[3]],
            [seqs[3], seqs[4]],
            [],
        ]


def what_was_waiting_before_a_message_is_told_truly_or_not_at_all(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        committed = store.commit([], [Post("one", "", TIME_US, "1"), Post("one", "", TIME_US, "2")])
        first, second = committed.results
        store.commit([step_row(claimed, 1)], consumed=[ConsumedRow(second, claimed.harness, 1)])
        later = store.commit([], [Post("one", "", TIME_US, "3")])

        assert committed.before.get(first, 0) == 0
        assert committed.before.get(second, first) == first
        assert later.before.get(later.results[0], first) == first


LAWS: tuple[Law, ...] = (
    a_message_waits_until_a_step_uses_it,
    a_message_is_on_record,
    a_message_is_not_used_up_by_a_step_that_is_lost,
    a_mailbox_is_read_in_pages,
    what_was_waiting_before_a_message_is_told_truly_or_not_at_all,
)
