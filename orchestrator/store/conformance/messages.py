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


LAWS: tuple[Law, ...] = (
    a_message_waits_until_a_step_uses_it,
    a_message_is_on_record,
    a_message_is_not_used_up_by_a_step_that_is_lost,
)
