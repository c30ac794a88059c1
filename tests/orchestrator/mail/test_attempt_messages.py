"""G15: what a step sends, asks and replies happens exactly if the step does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import trio
from attrs import frozen
from trio.testing import MockClock

from harnesses import BaseHarness
from harnesses.messages.requests import Request
from orchestrator import MemoryStore, Orchestrator, SqliteStore, Store, codec
from orchestrator.errors import AskTimeout, GaveUp, HarnessFailed, HarnessMisuse, MailboxFull, UnknownHarness, UsageError
from orchestrator.mail import attempt_messages as correspondence
from orchestrator.recording.recorder import Recorder
from orchestrator.recording.snapshot_policy import LEAST_STEPS
from tests.orchestrator.scripted import Scripted, Steps

Life = Callable[[Scripted], Steps]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Give a store of each kind."""
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "run.db")


def bodies(store: Store, name: str) -> list[str]:
    """Return what waits for a harness."""
    return [message.body for message in store.mailbox(name)]


def inputs(store: Store, name: str) -> list[Any]:
    return [step.input for step in store.steps(name, limit=1_000)]


def crashing_once(before: Life, after: Life) -> Life:
    """Live one life, and the other from the second attempt on."""

    def live(harness: Scripted) -> Steps:
        harness.ran.append("begun")
        return (before if len(harness.ran) == 1 else after)(harness)

    return live


async def answering(harness: Scripted) -> Steps:
    """Double whatever is asked."""
    while True:
        request = await harness.receive(Request)
        await harness.reply(request, request.message * 2)
        yield request.message, request.sender


async def run(store: Store, *lives: tuple[str, Life], until: str) -> None:
    """Run harnesses until one of them has ended."""
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        handles = {name: orchestrator.start(Scripted(live), name=name) for name, live in lives}
        await handles[until].wait()
        orchestrator.stop()


async def idle(harness: Scripted) -> Steps:
    """Make a step, and wait."""
    yield 0, None
    await harness.sleep(1_000_000)


# send


async def test_a_message_is_sent_with_the_step_and_not_before(store: Store, autojump_clock: MockClock) -> None:
    seen: list[list[str]] = []

    async def sender(harness: Scripted) -> Steps:
        await harness.send("b", "one")
        seen.append(bodies(store, "b"))
        yield 1, None
        seen.append(bodies(store, "b"))

    await run(store, ("b", idle), ("a", sender), until="a")

    assert seen == [[], ['"one"']]


async def test_a_sender_that_crashes_after_it_has_sent_sends_once(store: Store, autojump_clock: MockClock) -> None:
    async def crash(harness: Scripted) -> Steps:
        await harness.send("b", "one")
        raise ValueError("boom")
        yield

    async def send(harness: Scripted) -> Steps:
        await harness.send("b", "one")
        yield 1, None

    await run(store, ("b", idle), ("a", crashing_once(crash, send)), until="a")

    assert bodies(store, "b") == ['"one"']


async def test_what_no_step_sends_is_a_failure_that_says_so(store: Store, autojump_clock: MockClock) -> None:
    async def sender(harness: Scripted) -> Steps:
        yield 1, None
        await harness.send("b", "late")

    with pytest.RaisesGroup(pytest.RaisesExc(HarnessFailed, match="returned with 1 messages that no step has sent")):
        async with Orchestrator(store, handle_signals=False) as orchestrator:
            other = orchestrator.start(Scripted(idle), name="b")
            await orchestrator.start(Scripted(sender), name="a", restart="temporary").wait()
            other.stop()

    assert bodies(store, "b") == []


async def test_a_message_to_nobody_is_an_error_at_once_that_names_those_that_there_are(
    store: Store, autojump_clock: MockClock
) -> None:
    async def sender(harness: Scripted) -> Steps:
        with pytest.raises(UnknownHarness, match=r"no harness 'nobody' in .*: expected one of b, a"):
            await harness.send("nobody", "hello")
        yield 1, None

    await run(store, ("b", idle), ("a", sender), until="a")


async def test_a_message_to_a_harness_that_was_just_started_arrives(store: Store, autojump_clock: MockClock) -> None:
    async with Orchestrator(store, handle_signals=False) as orchestrator:

        async def sender(harness: Scripted) -> Steps:
            orchestrator.start(Scripted(receiver, until=1), name="b")
            await harness.send("b", "welcome")
            yield 1, None

        async def receiver(harness: Scripted) -> Steps:
            yield await harness.receive(), None

        orchestrator.start(Scripted(sender), name="a")

    assert inputs(store, "b") == ["welcome"]


async def test_one_that_waits_for_an_answer_to_what_it_has_not_sent_is_told_so_at_once(
    store: Store, autojump_clock: MockClock
) -> None:
    async def sender(harness: Scripted) -> Steps:
        await harness.send("b", "one")
        await harness.receive()
        yield 1, None

    said = r"1 messages unsent, the first to 'b'.*yield before you wait, or use ask\(\)"
    with pytest.RaisesGroup(pytest.RaisesExc(HarnessFailed, match=said)):
        async with Orchestrator(store, handle_signals=False) as orchestrator:
            orchestrator.start(Scripted(idle), name="b")
            await orchestrator.start(Scripted(sender), name="a").wait()
            orchestrator.stop()

    assert trio.current_time() < 1


async def test_one_that_has_sent_may_take_what_is_there_already(store: Store, autojump_clock: MockClock) -> None:
    async def sender(harness: Scripted) -> Steps:
        await harness.sleep(1)
        await harness.send("b", "one")
        yield await harness.receive(), None

    async with Orchestrator(store, handle_signals=False) as orchestrator:
        orchestrator.start(Scripted(idle), name="b")
        handle = orchestrator.start(Scripted(sender), name="a")
        await handle.send("there")
        await handle.wait()
        orchestrator.stop()

    assert inputs(store, "a") == ["there"]
    assert bodies(store, "b") == ['"one"']


async def test_one_whose_task_beside_has_sent_may_wait(store: Store, autojump_clock: MockClock) -> None:
    async def sender(harness: Scripted) -> Steps:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(harness.send, "b", "one")
            message = await harness.receive()
        yield message, None

    async with Orchestrator(store, handle_signals=False) as orchestrator:
        orchestrator.start(Scripted(idle), name="b")
        handle = orchestrator.start(Scripted(sender), name="a")
        await trio.sleep(5)
        await handle.send("late")
        await handle.wait()
        orchestrator.stop()

    assert inputs(store, "a") == ["late"]
    assert bodies(store, "b") == ['"one"']


async def test_a_task_beside_that_waits_with_unsent_messages_is_told_of_it_in_its_output(
    store: Store, autojump_clock: MockClock
) -> None:
    async def sender(harness: Scripted) -> Steps:
        async def talk() -> None:
            await harness.send("b", "one")
            await harness.receive()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(talk)
            await harness.sleep(1_000_000)
        yield 1, None

    async with Orchestrator(store, handle_signals=False) as orchestrator:
        orchestrator.start(Scripted(idle), name="b")
        orchestrator.start(Scripted(sender), name="a")
        await trio.sleep(5)
        orchestrator.stop()

    lines = [record.body for record in store.records(limit=1_000) if record.kind == "output"]
    assert any("waits for a message with 1 unsent, the first to 'b'" in line for line in lines)


# ask


async def test_an_answer_comes_within_the_step_that_asks(store: Store, autojump_clock: MockClock) -> None:
    async def asker(harness: Scripted) -> Steps:
        for number in range(3):
            yield await harness.ask("b", number, timeout_s=5), None

    await run(store, ("b", answering), ("a", asker), until="a")

    assert inputs(store, "a") == [0, 2, 4]
    assert inputs(store, "b") == [0, 1, 2]
    assert store.replies("a") == []


async def test_an_asker_that_crashes_with_the_reply_has_the_same_one_again(store: Store, autojump_clock: MockClock) -> None:
    async def crash(harness: Scripted) -> Steps:
        harness.ran.append(await harness.ask("b", 21, timeout_s=5))
        raise ValueError("boom")
        yield

    async def asker(harness: Scripted) -> Steps:
        harness.ran.append(await harness.ask("b", 21, timeout_s=5))
        yield harness.ran[-1], None

    await run(store, ("b", answering), ("a", crashing_once(crash, asker)), until="a")

    assert inputs(store, "a") == [42]
    assert inputs(store, "b") == [21]


async def test_an_answerer_that_crashes_before_its_step_is_asked_again(store: Store, autojump_clock: MockClock) -> None:
    async def crash(harness: Scripted) -> Steps:
        request = await harness.receive(Request)
        await harness.reply(request, "wrong")
        raise ValueError("boom")
        yield

    async def asker(harness: Scripted) -> Steps:
        yield await harness.ask("b", 21, timeout_s=500), None

    await run(store, ("b", crashing_once(crash, answering)), ("a", asker), until="a")

    assert inputs(store, "a") == [42]
    assert inputs(store, "b") == [21]


async def test_an_ask_that_nobody_answers_ends_with_its_deadline(store: Store, autojump_clock: MockClock) -> None:
    async def asker(harness: Scripted) -> Steps:
        with pytest.raises(AskTimeout, match="ask 'b': expected a reply within 3 s"):
            await harness.ask("b", 1, timeout_s=3)
        yield 1, None

    await run(store, ("b", idle), ("a", asker), until="a")

    assert inputs(store, "a") == [1]


async def test_two_that_ask_each_other_wait_no_longer_than_their_deadlines(store: Store, autojump_clock: MockClock) -> None:
    def asking(other: str) -> Life:
        async def asker(harness: Scripted) -> Steps:
            with pytest.raises(AskTimeout):
                await harness.ask(other, 1, timeout_s=3)
            yield 1, None

        return asker

    await run(store, ("b", asking("a")), ("a", asking("b")), until="a")


async def test_a_late_reply_is_dropped_and_on_record(store: Store, autojump_clock: MockClock) -> None:
    async def late(harness: Scripted) -> Steps:
        request = await harness.receive(Request)
        await harness.sleep(10)
        await harness.reply(request, "late")
        yield 1, None
        async for step in answering(harness):
            yield step

    async def asker(harness: Scripted) -> Steps:
        with pytest.raises(AskTimeout):
            await harness.ask("b", 1, timeout_s=3)
        yield "none", None
        await harness.sleep(20)
        yield await harness.ask("b", 1, timeout_s=3), None

    await run(store, ("b", late), ("a", asker), until="a")

    assert inputs(store, "a") == ["none", 2]
    assert store.replies("a") == []
    lines = [record.body for record in store.records(limit=1_000) if record.kind == "output"]
    assert any("came too late and is dropped" in line for line in lines)


async def test_answers_to_tasks_that_outlive_their_step_are_their_own(store: Store, autojump_clock: MockClock) -> None:
    async def slow(harness: Scripted) -> Steps:
        requests = [await harness.receive(Request) for _ in range(2)]
        await harness.sleep(5)
        for request in requests:
            await harness.reply(request, request.message * 2)
        yield 1, None
        await harness.sleep(1_000_000)

    async def asker(harness: Scripted) -> Steps:
        got: list[Any] = []

        async def ask(number: int) -> None:
            got.append(await harness.ask("b", number, timeout_s=100))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, 1)
            nursery.start_soon(ask, 2)
            await harness.sleep(1)
            yield "begun", None
        yield sorted(got), None

    await run(store, ("b", slow), ("a", asker), until="a")

    assert inputs(store, "a") == ["begun", [2, 4]]
    lines = [record.body for record in store.records(limit=1_000) if record.kind == "output"]
    assert not any("too late" in line for line in lines)
    assert store.replies("a") == []


async def test_replies_are_not_received_as_messages(store: Store, autojump_clock: MockClock) -> None:
    async def asker(harness: Scripted) -> Steps:
        await harness.ask("b", 1, timeout_s=3)
        with pytest.raises(trio.WouldBlock):
            harness.receive_nowait()
        yield 1, None

    await run(store, ("b", answering), ("a", asker), until="a")


async def test_a_crash_after_an_answer_loses_no_message_that_waited(store: Store, autojump_clock: MockClock) -> None:
    async def begin(harness: Scripted) -> Steps:
        yield 0, None
        await harness.sleep(10)
        await harness.ask("b", 1, timeout_s=5)
        raise ValueError("boom")

    async def go_on(harness: Scripted) -> Steps:
        yield await harness.ask("b", 1, timeout_s=5), None
        with trio.move_on_after(50):
            yield await harness.receive(), None

    async with Orchestrator(store, handle_signals=False) as orchestrator:
        orchestrator.start(Scripted(answering), name="b")
        handle = orchestrator.start(Scripted(crashing_once(begin, go_on)), name="a")
        await trio.sleep(1)
        await handle.send("waits")
        await handle.wait()
        orchestrator.stop()

    assert inputs(store, "a") == [0, 2, "waits"]
    assert bodies(store, "a") == []


async def test_the_same_question_twice_is_two_requests(store: Store, autojump_clock: MockClock) -> None:
    async def asker(harness: Scripted) -> Steps:
        yield [await harness.ask("b", 1, timeout_s=3), await harness.ask("b", 1, timeout_s=3)], None
        yield [await harness.ask("b", n, timeout_s=3, key="same") for n in (1, 1)], None

    await run(store, ("b", answering), ("a", asker), until="a")

    assert inputs(store, "a") == [[2, 2], [2, 2]]
    assert inputs(store, "b") == [1, 1, 1]


async def test_one_that_asks_itself_is_told_so(autojump_clock: MockClock) -> None:
    async def asker(harness: Scripted) -> Steps:
        with pytest.raises(HarnessMisuse, match="expected another harness"):
            await harness.ask("a", 1)
        yield 1, None

    await run(MemoryStore(), ("a", asker), until="a")


async def test_an_operator_asks_and_gets_the_reply_when_it_is_on_disk(store: Store, autojump_clock: MockClock) -> None:
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(answering), name="b")
        assert await handle.ask(21, timeout_s=5) == 42
        assert inputs(store, "b") == [21]
        await trio.sleep(1)
        handle.pause()
        assert await handle.ask(22, timeout_s=5) == 44, "it is held at its next step boundary, which is after this one"
        with pytest.raises(AskTimeout):
            await handle.ask(23, timeout_s=5)
        handle.stop()


# types


@frozen
class Order:
    symbol: str
    amount: int


@frozen
class Cancel:
    id: int


class Desk(BaseHarness[int, Any, None]):
    """Records what it receives."""

    accepts = (Order, Cancel)
    mailbox_limit: ClassVar[int | None] = 3

    def __init__(self, *kinds: type, until: int = 1) -> None:
        super().__init__(0)
        self.kinds, self.until = kinds, until
        self.got: list[Any] = []

    def is_complete(self) -> bool:
        return self.current_step == self.until

    async def execute(self) -> AsyncIterator[tuple[Any, None]]:
        for kinds in [*((kind,) for kind in self.kinds), *[()] * self.until]:
            self.got.append(await self.receive(*kinds))
            yield self.got[-1], None


async def desk(
    store: Store, harness: Desk, *messages: object, meanwhile: Callable[[Any], Awaitable[None]] | None = None
) -> Any:
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        handle = orchestrator.start(harness, name="desk")
        for message in messages:
            await handle.send(message)
        if meanwhile is not None:
            await meanwhile(handle)
        await handle.wait()
    return harness.got


async def test_a_typed_message_has_its_type_when_it_is_received(store: Store, autojump_clock: MockClock) -> None:
    got = await desk(store, Desk(until=2), Order("EURUSD", 1), {"id": 7})

    assert got == [Order("EURUSD", 1), Cancel(7)]


async def test_a_message_of_another_type_is_refused_at_the_door(store: Store, autojump_clock: MockClock) -> None:
    async def meanwhile(handle: Any) -> None:
        with pytest.raises(HarnessMisuse, match=r"'desk': expected Order\(symbol, amount\) or Cancel\(id\), got 'hello'"):
            handle.send("hello")

    await desk(store, Desk(), Cancel(1), meanwhile=meanwhile)


async def test_selective_receive_leaves_the_others_in_order(store: Store, autojump_clock: MockClock) -> None:
    got = await desk(store, Desk(Cancel, until=3), Order("A", 1), Order("B", 2), Cancel(3))

    assert got == [Cancel(3), Order("A", 1), Order("B", 2)]


async def test_a_message_of_a_type_that_is_not_asked_for_is_not_decoded(
    store: Store, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[str] = []

    def decode(body: str) -> Any:
        decoded.append(body)
        return codec.decode(body)

    monkeypatch.setattr(correspondence, "decode", decode)
    got = await desk(store, Desk(Cancel, Cancel, until=2), Order("A", 1), Cancel(3), Cancel(4))

    assert got == [Cancel(3), Cancel(4)]
    assert not any("symbol" in body for body in decoded)


async def test_a_wrong_message_from_elsewhere_is_set_aside_and_crashes_nobody(store: Store, autojump_clock: MockClock) -> None:
    from orchestrator.store.store_protocol import Post

    async def meanwhile(handle: Any) -> None:
        while not handle.attempt:  # noqa: ASYNC110
            await trio.sleep(0.01)
        store.commit([], [Post("desk", "elsewhere", 0, '"hello"')])
        await handle.send(Cancel(1))

    got = await desk(store, Desk(), meanwhile=meanwhile)

    assert got == [Cancel(1)]
    assert bodies(store, "desk") == []
    lines = [record.body for record in store.records(limit=1_000) if record.kind == "output"]
    assert any("is set aside: expected Order(symbol, amount) or Cancel(id)" in line for line in lines)


# limits


async def test_a_full_mailbox_refuses_the_sender_at_once(store: Store, autojump_clock: MockClock) -> None:
    async def sender(harness: Scripted) -> Steps:
        for number in range(3):
            await harness.send("desk", Cancel(number))
        with pytest.raises(MailboxFull, match="the mailbox of 'desk' is full"):
            await harness.send("desk", Cancel(3))
        yield 1, None

    async with Orchestrator(store, handle_signals=False) as orchestrator:
        handle = orchestrator.start(Desk(until=3), name="desk")
        handle.pause()
        await orchestrator.start(Scripted(sender), name="a").wait()
        assert len(bodies(store, "desk")) == 3
        with pytest.raises(MailboxFull):
            await handle.send(Cancel(4))
        handle.resume()

    assert [step["id"] for step in inputs(store, "desk")] == [0, 1, 2]


async def test_what_a_lost_step_would_have_sent_is_free_for_others(store: Store, autojump_clock: MockClock) -> None:
    async def crash(harness: Scripted) -> Steps:
        for number in range(3):
            await harness.send("desk", Cancel(number))
        raise ValueError("boom")
        yield

    async def sender(harness: Scripted) -> Steps:
        for number in range(3):
            await harness.send("desk", Cancel(number))
        yield 1, None

    async with Orchestrator(store, handle_signals=False) as orchestrator:
        orchestrator.start(Desk(until=3), name="desk")
        orchestrator.start(Scripted(crashing_once(crash, sender)), name="a")

    assert [step["id"] for step in inputs(store, "desk")] == [0, 1, 2]


async def test_a_sender_that_finds_the_mailbox_full_at_its_step_is_started_again(
    store: Store, autojump_clock: MockClock
) -> None:
    class Reluctant(Desk):
        mailbox_limit = 1

    async def sender(harness: Scripted) -> Steps:
        if harness.current_step == 0:
            yield 0, None
        await harness.send("desk", Cancel(1))
        await harness.sleep(5)
        yield 1, None

    async with Orchestrator(store, handle_signals=False) as orchestrator:
        handle = orchestrator.start(Reluctant(until=2), name="desk")
        handle.pause()
        a = orchestrator.start(Scripted(sender), name="a")
        await trio.sleep(1)
        await handle.send(Cancel(0))
        await trio.sleep(4.01)
        assert a.outcome is None
        handle.resume()
        await a.wait()
        await trio.sleep(1)
        orchestrator.stop()

    assert a.attempt > 1
    assert inputs(store, "a") == [0, 1]
    assert [step["id"] for step in inputs(store, "desk")] == [0, 1]


async def test_a_refused_step_leaves_a_snapshot_due(store: Store, autojump_clock: MockClock) -> None:
    steps = LEAST_STEPS

    class Reluctant(Desk):
        mailbox_limit = 1

    async def sender(harness: Scripted) -> Steps:
        while harness.current_step < steps - 1:
            yield 0, None
        await harness.send("desk", Cancel(1))
        await harness.sleep(5)
        yield 1, None

    async with Orchestrator(store, handle_signals=False) as orchestrator:
        handle = orchestrator.start(Reluctant(until=2), name="desk")
        handle.pause()
        a = orchestrator.start(Scripted(sender), name="a")
        await trio.sleep(1)
        await handle.send(Cancel(0))
        await trio.sleep(4.01)
        handle.resume()
        await a.wait()
        await trio.sleep(1)
        orchestrator.stop()

    assert a.attempt > 1
    assert [row.step for row in store.step_rows("a", limit=1_000) if row.state is not None] == [steps]


# recipients that come later


async def test_one_that_writes_to_a_harness_that_is_started_a_moment_later_is_started_again(
    store: Store, autojump_clock: MockClock
) -> None:
    async def asker(harness: Scripted) -> Steps:
        yield await harness.ask("b", 1, timeout_s=5), None

    async with Orchestrator(store, handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(asker), name="a")
        await trio.sleep(0.01)
        assert handle.attempt == 1
        orchestrator.start(Scripted(answering), name="b")
        await handle.wait()
        orchestrator.stop()

    assert handle.attempt == 2
    assert inputs(store, "a") == [2]


async def test_one_that_writes_to_nobody_gives_up_after_the_usual_restarts(store: Store, autojump_clock: MockClock) -> None:
    async def sender(harness: Scripted) -> Steps:
        await harness.send("nobody", 1)
        yield 1, None

    with pytest.RaisesGroup(pytest.RaisesExc(GaveUp, match="no harness 'nobody'")):
        async with Orchestrator(store, handle_signals=False) as orchestrator:
            orchestrator.start(Scripted(sender), name="a")


async def test_one_that_writes_to_nobody_and_is_misused_fails_at_once(store: Store, autojump_clock: MockClock) -> None:
    async def sender(harness: Scripted) -> Steps:
        try:
            await harness.send("nobody", 1)
        except UnknownHarness as error:
            raise ExceptionGroup("both", [error, UsageError("a wrong name")]) from None
        yield 1, None

    with pytest.RaisesGroup(HarnessFailed):
        async with Orchestrator(store, handle_signals=False) as orchestrator:
            orchestrator.start(Scripted(sender), name="a")


async def test_one_that_writes_to_a_child_of_the_same_step_is_told_to_yield_first(
    store: Store, autojump_clock: MockClock
) -> None:
    async def parent(harness: Scripted) -> Steps:
        child = harness.start_child(Desk, name="kid")
        with pytest.raises(HarnessMisuse, match="message to 'kid': expected a `yield` between start_child and it"):
            await harness.send(child, Cancel(1))
        yield 0, None
        await harness.send(child, Cancel(1))
        yield 1, None

    await run(store, ("a", parent), until="a")

    assert inputs(store, "a") == [0, 1]


async def test_a_reply_that_comes_while_replies_are_read_elsewhere_is_found_at_once(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """As on a server, where the loop goes on while it answers: whoever asks does not wait for another reply."""

    async def read(recorder: Recorder, look: Callable[[], Any]) -> Any:
        found = look()
        await trio.sleep(1)
        return found

    async def asks(harness: Scripted) -> Steps:
        yield await harness.ask("answers", 21, timeout_s=600), trio.current_time()

    monkeypatch.setattr(Recorder, "read", read)
    store = MemoryStore()

    await run(store, ("answers", answering), ("asks", asks), until="asks")

    (step,) = store.steps("asks")
    assert (step.input, step.output < 10) == (42, True)
