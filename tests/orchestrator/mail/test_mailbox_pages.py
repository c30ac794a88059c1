"""A mailbox takes each message of the store once and in order, however late, often or seldom it is told of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Generator, Sequence
from types import coroutine
from typing import Any

import pytest

from orchestrator import MemoryStore, Store
from orchestrator.mail.durable_mailbox import PAGE, Mailbox
from orchestrator.recording.commit_queue import Condition
from orchestrator.store.conformance.conformance_tools import TIME_US, claim, step_row
from orchestrator.store.store_operations import REPLY
from orchestrator.store.store_protocol import Claimed, ConsumedRow, Message, Post


@coroutine
def _elsewhere() -> Generator[None]:
    """Have others run."""
    yield


async def _slowly(read: Callable[[], Sequence[Message]]) -> Sequence[Message]:
    page = read()
    await _elsewhere()
    return page


class Life:
    """One harness in a store, a mailbox, and whoever posts."""

    def __init__(self, store: Store, *, reads_ahead: bool = False) -> None:
        self.store = store
        self.reads_ahead = reads_ahead
        self.reading: Coroutine[Any, Any, None] | None = None
        self.claimed: Claimed = claim(store, "one")
        self.step = 0
        self.reads = 0
        self.posted: list[int] = []
        self.used: list[int] = []
        self.unnoticed: list[int] = []
        self.settling: list[tuple[Message, int | None]] = []
        self.restart()

    def restart(self) -> None:
        if self.reading is not None:
            self.reading.close()
        self.reading = None
        self.mailbox = Mailbox(Condition(), self._read, read_ahead=_slowly if self.reads_ahead else None)

    def read_ahead(self) -> None:
        """Begin to read ahead, or let that go on: anything may have happened since it has read."""
        self.reading = self.reading or self.mailbox.prepare()
        try:
            self.reading.send(None)
        except StopIteration:
            self.reading = None

    def post(self, *, own: bool) -> None:
        """Post as the program itself does, or as another one whose message is noticed some time."""
        committed = self.store.commit([], [Post("one", "", TIME_US, str(len(self.posted)))])
        (seq,) = committed.results
        if own:
            self.settling.append((Message(seq, "", str(len(self.posted))), committed.before.get(seq)))
        else:
            self.unnoticed.append(seq)
        self.posted.append(seq)

    def settle(self) -> None:
        """Tell the mailbox what the writer has committed: some time after it could be read."""
        for message, before in self.settling:
            self.mailbox.deliver(message, before)
        self.settling = []

    def notice(self) -> None:
        for seq in self.unnoticed[-1:]:
            self.mailbox.notice(seq)

    def record(self) -> None:
        self.step += 1
        used = tuple(self.mailbox.taken or ())
        rows = [ConsumedRow(message.seq, self.claimed.harness, self.step) for message in used]
        self.store.commit([step_row(self.claimed, self.step)], consumed=rows)
        self.mailbox.settle(used)
        self.used += [message.seq for message in used]

    def record_unknown(self) -> None:
        """Record a step and do not learn of it."""
        used = tuple(self.mailbox.taken or ())
        self.record()
        self.mailbox.taken = list(used) or None
        self.mailbox.put_back()

    def _read(self, after: int) -> Sequence[Message]:
        self.reads += 1
        return self.store.mailbox("one", after=after, limit=random.choice([1, 3, PAGE]))


@pytest.mark.parametrize("reads_ahead", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_every_message_is_used_once_and_in_order_whatever_happens(seed: int, *, reads_ahead: bool) -> None:
    random.seed(seed)
    life = Life(MemoryStore(), reads_ahead=reads_ahead)
    for _ in range(400):
        match random.choices(
            ["own", "other", "settle", "notice", "take", "ahead", "record", "back", "unknown", "new"],
            [6, 6, 6, 2, 12, 12 * reads_ahead, 4, 2, 1, 0.3],
        )[0]:
            case "own":
                life.post(own=True)
            case "other":
                life.post(own=False)
            case "settle":
                life.settle()
            case "notice":
                life.notice()
            case "take":
                life.mailbox.take()
            case "ahead":
                life.read_ahead()
            case "record":
                life.record()
            case "back":
                life.mailbox.put_back()
            case "unknown":
                life.record_unknown()
            case _:
                life.restart()
    while life.reading is not None:
        life.read_ahead()
    life.mailbox.put_back()
    life.settle()
    life.notice()
    while life.mailbox.take():
        pass
    life.record()

    assert life.used == life.posted


def test_of_many_messages_one_page_is_in_memory_and_read_at_a_time() -> None:
    life = Life(MemoryStore())
    life.mailbox.take()
    for _ in range(5 * PAGE):
        life.post(own=True)
        life.settle()

    held = life.mailbox._page  # pyright: ignore[reportPrivateUsage]
    assert held is not None
    assert len(held) == PAGE


def test_messages_that_come_one_by_one_are_not_read_again() -> None:
    life = Life(MemoryStore())
    life.mailbox.take()
    before = life.reads
    for _ in range(50):
        life.post(own=True)
        life.settle()
        assert life.mailbox.take()
        life.record()

    assert life.reads == before


@pytest.mark.parametrize("read", [0, 1])
def test_giving_back_a_reply_has_no_message_passed_over(read: int) -> None:
    life = Life(MemoryStore())
    for _ in range(3):
        life.post(own=False)
    taken = [life.mailbox.take() for _ in range(read)]
    life.mailbox.take_reply(Message(1_000, "two", "0", "re:one/1/x", REPLY))
    life.mailbox.put_back()

    assert len(taken) == read
    assert [message.seq for message in iter(life.mailbox.take, None) if message is not None] == life.posted


def test_a_message_that_was_passed_over_is_not_looked_at_again() -> None:
    life = Life(MemoryStore())
    for _ in range(2 * PAGE):
        life.post(own=False)
    looked: list[int] = []

    def none(message: Message) -> bool:
        looked.append(message.seq)
        return False

    def second(message: Message) -> bool:
        return message.seq == life.posted[1]

    assert life.mailbox.take(none) is None
    assert life.mailbox.take(none) is None
    assert looked == life.posted

    found, oldest = life.mailbox.take(second), life.mailbox.take()
    assert found is not None
    assert oldest is not None
    assert (found.seq, oldest.seq) == (life.posted[1], life.posted[0])

    life.post(own=False)
    life.notice()
    assert life.mailbox.take(none) is None
    assert looked == life.posted

    life.mailbox.put_back()
    found = life.mailbox.take(second)
    assert found is not None, "it was given back"
