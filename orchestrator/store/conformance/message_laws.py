"""Laws of messages: a message waits until a step has consumed it, and only one step consumes it."""

from __future__ import annotations

from attrs import evolve

from orchestrator.codec import decode
from orchestrator.errors import MailboxFull, UnknownHarness
from orchestrator.store.conformance.conformance_tools import TIME_US, Laws, attached_row, claim, do, intent_row, step_row
from orchestrator.store.store_protocol import Claim, Claimed, ConsumedRow, Message, Post, SentRow, Store

laws = Laws()


@laws.of_a_store
def a_message_waits_until_a_step_uses_it(store: Store) -> None:
    first = claim(store, "one")
    seqs = [do(store, Post("one", sender, TIME_US, f'{{"n":{n}}}')) for n, sender in enumerate(("", "two", "two"))]
    store.commit([step_row(first, 1)], consumed=[ConsumedRow(seqs[1], first.harness, 1)])

    waiting = store.mailbox("one")

    assert [(message.seq, message.sender, message.body) for message in waiting] == [
        (seqs[0], "", '{"n":0}'),
        (seqs[2], "two", '{"n":2}'),
    ]


@laws.of_a_store
def a_message_is_on_record(store: Store) -> None:
    claim(store, "one")

    seq = do(store, Post("one", "two", TIME_US, '{"n":1}'))

    (record,) = store.records()
    assert (record.seq, record.harness, record.kind, record.attempt, record.step) == (seq, "one", "message", 0, 0)
    assert (record.time_us, record.run) == (TIME_US, "")
    assert decode(record.body) == {"from": "two", "message": {"n": 1}}


@laws.of_a_store
def a_message_is_not_used_up_by_a_step_that_is_lost(store: Store) -> None:
    old = claim(store, "one")
    seq = do(store, Post("one", "", TIME_US, "1"))
    claim(store, "one", take_over=True)

    store.commit([step_row(old, 1)], consumed=[ConsumedRow(seq, old.harness, 1)])

    assert [message.seq for message in store.mailbox("one")] == [seq]


@laws.of_a_store
def a_mailbox_is_read_in_pages(store: Store) -> None:
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


@laws.of_a_store
def what_was_waiting_before_a_message_is_told_truly_or_not_at_all(store: Store) -> None:
    claimed = claim(store, "one")
    committed = store.commit([], [Post("one", "", TIME_US, "1"), Post("one", "", TIME_US, "2")])
    first, second = committed.results
    store.commit([step_row(claimed, 1)], consumed=[ConsumedRow(second, claimed.harness, 1)])
    later = store.commit([], [Post("one", "", TIME_US, "3")])

    assert committed.before.get(first, 0) == 0
    assert committed.before.get(second, first) == first
    assert later.before.get(later.results[0], first) == first


@laws.of_a_store
def a_message_of_a_step_is_sent_with_it_and_comes_after_it(store: Store) -> None:
    one = claim(store, "one")
    claim(store, "two")

    committed = store.commit([step_row(one, 1)], sent=[_sent(one, 1, Post("two", "one", TIME_US, "1"))])

    (waiting,) = store.mailbox("two")
    assert [*committed.sent] == [waiting.seq]
    assert committed.seqs[0] < waiting.seq
    assert (waiting.sender, waiting.body) == ("one", "1")


@laws.of_a_store
def a_message_of_a_step_that_is_lost_is_not_sent(store: Store) -> None:
    old = claim(store, "one")
    claim(store, "two")
    claim(store, "one", take_over=True)

    committed = store.commit([step_row(old, 1)], sent=[_sent(old, 1, Post("two", "one", TIME_US, "1"))])

    assert ([*committed.seqs], [*committed.sent], store.mailbox("two")) == ([0], [0], [])


@laws.of_a_store
def a_step_whose_message_nobody_can_get_is_not_written(store: Store) -> None:
    one, two = claim(store, "one"), claim(store, "two")
    seq = do(store, Post("one", "", TIME_US, "1"))
    posts = [Post("two", "one", TIME_US, "1"), Post("nobody", "one", TIME_US, "2")]

    committed = store.commit(
        [step_row(one, 1), step_row(two, 1)],
        consumed=[ConsumedRow(seq, one.harness, 1)],
        effects=[attached_row(one, 1, "evidence"), intent_row(one, 1, "buy")],
        sent=[_sent(one, 1, post) for post in posts],
    )

    assert [seq > 0 for seq in committed.seqs] == [False, True]
    # What has begun is on record, whatever becomes of its step.
    assert [seq > 0 for seq in committed.effects] == [False, True]
    assert [message.seq for message in store.mailbox("one")] == [seq]
    assert store.mailbox("two") == []
    assert list(committed.refused) == [one.harness]
    assert isinstance(committed.refused[one.harness], UnknownHarness)
    assert "expected one of one, two" in str(committed.refused[one.harness])


@laws.of_a_store
def the_second_message_of_an_id_is_dropped(store: Store) -> None:
    one = claim(store, "one")
    claim(store, "two")
    post = Post("two", "one", TIME_US, "1", id="one/1/1", kind="request", type="int", deadline_us=TIME_US + 1)

    seq = do(store, post)
    store.commit([step_row(one, 1)], sent=[_sent(one, 1, post)])

    assert do(store, post) == seq
    assert store.mailbox("two") == [Message(seq, "one", "1", "one/1/1", "request", "int", TIME_US + 1)]
    assert [record.kind for record in store.records()].count("message") == 1


@laws.of_a_store
def the_second_message_of_an_id_is_dropped_also_when_the_first_was_used(store: Store) -> None:
    one = claim(store, "one")
    post = Post("one", "two", TIME_US, "1", id="two/1/1", kind="request")
    seq = do(store, post)
    store.commit([step_row(one, 1)], consumed=[ConsumedRow(seq, one.harness, 1)])

    assert do(store, post) == seq
    assert store.mailbox("one") == []


@laws.of_a_store
def replies_wait_apart_from_messages(store: Store) -> None:
    one = claim(store, "one")
    reply = do(store, Post("one", "two", TIME_US, "1", id="re:x", kind="reply"))
    plain = do(store, Post("one", "two", TIME_US, "2"))

    assert [message.seq for message in store.mailbox("one")] == [plain]
    assert [(message.seq, message.id) for message in store.replies("one")] == [(reply, "re:x")]
    store.commit([step_row(one, 1)], consumed=[ConsumedRow(reply, one.harness, 1)])
    assert store.replies("one") == []


@laws.of_a_store
def a_mailbox_holds_as_many_messages_as_its_limit(store: Store) -> None:
    claim(store, "one")
    do(store, Claim("two", "{}", mailbox_limit=2))
    posts = [Post("two", "", TIME_US, str(n)) for n in range(3)]

    results = store.commit([], posts).results

    assert isinstance(results[2], MailboxFull)
    assert len(store.mailbox("two")) == 2
    assert (store.room("one"), store.room("two")) == (None, 0)
    assert isinstance(do(store, Post("two", "", TIME_US, "1", id="re:x", kind="reply")), int)


@laws.of_a_store
def a_request_whose_deadline_has_passed_takes_no_place(store: Store) -> None:
    claim(store, "one")
    box: Claimed = do(store, Claim("box", "{}", mailbox_limit=1))
    late = Post("box", "one", TIME_US, "1", id="q", kind="request", deadline_us=TIME_US + 1)
    do(store, late)

    assert isinstance(do(store, evolve(late, id="r")), MailboxFull)
    assert isinstance(do(store, Post("box", "", TIME_US + 2, "2")), int)
    assert isinstance(do(store, Post("box", "", TIME_US + 2, "3")), MailboxFull)
    (message,) = [message for message in store.mailbox("box") if not message.deadline_us]
    store.commit([step_row(box, 1)], consumed=[ConsumedRow(message.seq, box.harness, 1)])
    assert store.room("box") == 1


@laws.of_a_store
def of_two_steps_that_send_to_the_last_place_one_is_written(store: Store) -> None:
    one, two = claim(store, "one"), claim(store, "two")
    do(store, Claim("box", "{}", mailbox_limit=1))

    committed = store.commit(
        [step_row(one, 1), step_row(two, 1)], sent=[_sent(sender, 1, Post("box", "", TIME_US, "1")) for sender in (one, two)]
    )

    assert [seq > 0 for seq in committed.seqs] == [True, False]
    assert list(committed.refused) == [two.harness]
    assert len(store.mailbox("box")) == 1


@laws.of_a_store
def what_a_step_uses_up_makes_room_for_what_it_sends(store: Store) -> None:
    box = do(store, Claim("box", "{}", mailbox_limit=1))
    seq = do(store, Post("box", "", TIME_US, "1"))

    committed = store.commit(
        [step_row(box, 1)], consumed=[ConsumedRow(seq, box.harness, 1)], sent=[_sent(box, 1, Post("box", "box", TIME_US, "2"))]
    )

    assert [message.seq for message in store.mailbox("box")] == [*committed.sent]


def _sent(claimed: Claimed, step: int, post: Post) -> SentRow:
    return SentRow(claimed.harness, step, post)
