"""Whoever is woken has something durable; whoever is not recorded gets an error; nobody waits for ever."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from orchestrator import Orchestrator
from orchestrator.errors import (
    OwnedElsewhere,
    OwnershipLost,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreLost,
    UnknownHarness,
    UsageError,
)
from orchestrator.events import Paused, Resumed
from orchestrator.lifecycle import Status
from orchestrator.recording.commit_queue import Condition, PendingWrite, settled
from orchestrator.recording.recorder import Recorder
from orchestrator.store import MemoryStore
from orchestrator.store.conformance import TIME_US, claim, event_row, numbers, step_row
from orchestrator.store.store_protocol import Claim, Claimed, Committed, ConsumedRow, Operation, Post, StepRow, Store
from orchestrator.testing import FaultyStore
from tests.orchestrator.scripted import Scripted, Steps


class Threaded(FaultyStore):
    """A store whose commits are made in a thread, each when the gate is open; they can be made to fail from some number on."""

    def __init__(self, store: Store, *, fails_at: int = sys.maxsize, error: BaseException | None = None) -> None:
        super().__init__(store, StoreError("never"), at=0)
        self.blocking = True
        self.gate = threading.Event()
        self.gate.set()
        self.fails_at = fails_at
        self.error = error or StoreError("the disk is gone")

    def commit(
        self,
        steps: Sequence[StepRow],
        operations: Sequence[Operation] = (),
        *,
        consumed: Sequence[ConsumedRow] = (),
        wait: bool = True,
    ) -> Committed:
        if not wait:
            # As if another process were writing: it goes to the thread, whatever its size.
            raise StoreBusy("busy")
        self.gate.wait()
        if self.commits + 1 >= self.fails_at:
            raise self.error
        return super().commit(steps, operations, consumed=consumed, wait=wait)


@asynccontextmanager
async def serving(recorder: Recorder) -> AsyncGenerator[None]:
    """Run a recorder around what is inside."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.run)
        await wait_all_tasks_blocked()
        yield
        recorder.close()


async def record(recorder: Recorder, row: StepRow, *consumed: ConsumedRow) -> None:
    """Have a step recorded, as an actor does."""
    slot = PendingWrite()
    slot.row, slot.consumed = row, consumed
    recorder.enqueue(slot)
    await settled()


def run_or_hang(test: Callable[[], Awaitable[None]], clock: MockClock | None = None) -> None:
    """Run a test of waits that nothing can cancel. If one never ends it fails, rather than the test never ending."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            trio.run(test, clock=clock)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(120)  # a loaded machine may take long
    assert not thread.is_alive(), "somebody waits for an answer that will not come"
    for error in errors:
        raise error


def stores() -> list[Callable[[], Store]]:
    """Return how to make a store whose commits are made in the loop's thread, and one whose are not."""
    return [MemoryStore, lambda: Threaded(MemoryStore())]


@pytest.mark.parametrize("make", stores())
async def test_whoever_is_woken_has_something_durable(make: Callable[[], Store]) -> None:
    store = make()
    claims = [claim(store, f"harness-{n}") for n in range(20)]
    recorder = Recorder(store)

    async def work(name: str, claimed: Claimed) -> None:
        for number in range(1, 6):
            await record(recorder, step_row(claimed, number))
            assert numbers(store, name) == list(range(1, number + 1))

    async with serving(recorder), trio.open_nursery() as nursery:
        for number, claimed in enumerate(claims):
            nursery.start_soon(work, f"harness-{number}", claimed)

    assert recorder.last_seq == len(store.records()) == 100


async def test_what_waits_at_the_same_time_shares_a_commit() -> None:
    store = Threaded(MemoryStore())
    claims = [claim(store.store, f"harness-{number}") for number in range(100)]
    recorder = Recorder(store)

    async with serving(recorder), trio.open_nursery() as nursery:
        for claimed in claims:
            nursery.start_soon(record, recorder, step_row(claimed, 1))

    assert len(store.records()) == 100
    assert store.commits <= 2


async def test_what_comes_during_a_commit_shares_the_next() -> None:
    store = Threaded(MemoryStore())
    first, *others = [claim(store.store, f"harness-{number}") for number in range(11)]
    recorder = Recorder(store)

    async with serving(recorder), trio.open_nursery() as nursery:
        store.gate.clear()
        nursery.start_soon(record, recorder, step_row(first, 1))
        await wait_all_tasks_blocked()
        for claimed in others:
            nursery.start_soon(record, recorder, step_row(claimed, 1))
        await wait_all_tasks_blocked()
        assert store.records() == []
        store.gate.set()

    assert store.records()[0].harness == "harness-0"
    assert store.commits == 2


@pytest.mark.parametrize("make", stores())
async def test_more_harnesses_than_fit_a_batch_are_all_recorded(make: Callable[[], Store]) -> None:
    store = make()
    claims = [claim(store, f"harness-{number}") for number in range(1300)]
    recorder = Recorder(store)

    async def work(claimed: Claimed) -> None:
        for number in (1, 2):
            await record(recorder, step_row(claimed, number))

    async with serving(recorder), trio.open_nursery() as nursery:
        for claimed in claims:
            nursery.start_soon(work, claimed)

    assert {known.current_step for known in store.harnesses()} == {2}


async def test_no_cancellation_ends_the_wait_for_a_step() -> None:
    store = Threaded(MemoryStore())
    claimed = claim(store.store, "one")
    recorder = Recorder(store)
    store.gate.clear()

    async with serving(recorder):
        with trio.CancelScope() as scope:
            scope.cancel()
            trio.lowlevel.current_trio_token().run_sync_soon(store.gate.set)
            await record(recorder, step_row(claimed, 1))
        assert not scope.cancelled_caught

    assert numbers(store, "one") == [1]


async def test_a_step_and_the_message_it_used_are_one() -> None:
    store = MemoryStore()
    claimed = claim(store, "one")
    recorder = Recorder(store)

    async with serving(recorder):
        seqs = [await recorder.do(Post("one", "", TIME_US, str(number))) for number in range(3)]
        await record(recorder, step_row(claimed, 1), ConsumedRow(seqs[0], claimed.harness, 1))

    assert [message.seq for message in store.mailbox("one")] == seqs[1:]


# operations


async def test_an_operation_gives_its_result() -> None:
    recorder = Recorder(MemoryStore())

    async with serving(recorder):
        claimed = await recorder.do(Claim("one", "{}"))
        receipt = recorder.submit(Post("one", "", TIME_US, "1"))
        assert (claimed.step, await receipt, await receipt) == (0, 1, 1)


async def test_a_refused_operation_raises_for_its_sender_alone() -> None:
    recorder = Recorder(MemoryStore())

    async with serving(recorder):
        granted, refused = recorder.submit(Claim("one", "{}")), recorder.submit(Claim("one", "{}"))
        unknown = recorder.submit(Post("nobody", "", TIME_US, "1"))
        assert isinstance(await granted, Claimed)
        with pytest.raises(OwnedElsewhere):
            await refused
        with pytest.raises(UnknownHarness):
            await unknown
        with pytest.raises(UnknownHarness):
            await recorder.do(Post("nobody", "", TIME_US, "1"))


async def test_what_follows_an_operation_is_done_before_anyone_goes_on() -> None:
    recorder = Recorder(MemoryStore())
    done: list[int] = []

    async with serving(recorder):
        await recorder.do(Claim("one", "{}"))
        await recorder.submit(Post("one", "", TIME_US, "1"), done.append)
        assert done == [1]
        with pytest.raises(UnknownHarness):
            await recorder.submit(Post("nobody", "", TIME_US, "1"), done.append)
        assert done == [1]


async def test_an_operation_is_carried_out_whether_or_not_anyone_waits() -> None:
    store = MemoryStore()
    claim(store, "one")
    recorder = Recorder(store)

    async with serving(recorder):
        recorder.submit(Post("one", "", TIME_US, "1"))

    assert [record.kind for record in store.records()] == ["message"]


@pytest.mark.parametrize("make", stores())
@pytest.mark.parametrize("messages", [20, 2000])
async def test_what_one_sender_sends_stays_in_order(make: Callable[[], Store], messages: int) -> None:
    store = make()
    claim(store, "one")
    recorder = Recorder(store)

    async with serving(recorder):
        for number in range(messages):
            recorder.submit(Post("one", "", TIME_US, str(number)))
            if number % 700 == 0:
                await trio.lowlevel.checkpoint()

    bodies = [message.body for message in store.mailbox("one", limit=messages)]
    assert bodies == [str(number) for number in range(messages)]


async def test_events_of_one_harness_stay_in_order() -> None:
    store = Threaded(MemoryStore())
    claimed = claim(store.store, "one")
    recorder = Recorder(store)

    async with serving(recorder):
        for _ in range(10):
            recorder.submit(event_row(claimed, Paused(), Status.PAUSED))
            await trio.lowlevel.checkpoint()
            recorder.submit(event_row(claimed, Resumed(), Status.RUNNING))
            await trio.lowlevel.checkpoint()

    assert [record.kind for record in store.records()] == ["paused", "resumed"] * 10
    assert store.harnesses()[0].status is Status.RUNNING


# ownership


async def test_only_the_harness_that_was_lost_is_told_so() -> None:
    store = Threaded(MemoryStore())
    lost, kept = claim(store.store, "lost"), claim(store.store, "kept")
    claim(store.store, "lost", take_over=True)
    recorder = Recorder(store)
    ends: list[str] = []

    async def work(name: str, claimed: Claimed) -> None:
        try:
            await record(recorder, step_row(claimed, 1))
            ends.append(f"{name} is recorded")
        except OwnershipLost:
            ends.append(f"{name} was taken over")

    async with serving(recorder):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, "lost", lost)
            nursery.start_soon(work, "kept", kept)
        await record(recorder, step_row(kept, 2))

    assert sorted(ends) == ["kept is recorded", "lost was taken over"]
    assert (numbers(store, "lost"), numbers(store, "kept")) == ([], [1, 2])


async def test_a_step_out_of_turn_is_refused_and_the_others_are_recorded() -> None:
    store = MemoryStore()
    one, other = claim(store, "one"), claim(store, "other")
    recorder = Recorder(store)

    async with serving(recorder), trio.open_nursery() as nursery:
        nursery.start_soon(record, recorder, step_row(other, 1))
        with pytest.raises(StoreCorrupt, match="step 3 is not the next one"):
            await record(recorder, step_row(one, 3))

    assert (numbers(store, "one"), numbers(store, "other")) == ([], [1])


# loss of the store


@pytest.mark.parametrize(
    "error", [StoreError("the disk is gone"), OSError("the disk is gone"), SystemExit("the disk is gone")]
)
def test_a_failing_commit_is_told_to_all_who_wait_and_to_all_who_come_later(error: BaseException) -> None:
    store = Threaded(MemoryStore(), fails_at=1, error=error)
    claims = [claim(store.store, f"harness-{number}") for number in range(10)]
    told: list[StoreLost] = []
    lost: list[StoreLost] = []
    recorder = Recorder(store, lost.append)

    async def work(claimed: Claimed) -> None:
        with pytest.raises(StoreLost, match="the disk is gone") as caught:
            await record(recorder, step_row(claimed, 1))
        told.append(caught.value)

    async def test() -> None:
        async with serving(recorder):
            async with trio.open_nursery() as nursery:
                for claimed in claims:
                    nursery.start_soon(work, claimed)
            await work(claims[0])
            for later in (recorder.do(Claim("new", "{}")), recorder.submit(Claim("new", "{}"))):
                with pytest.raises(StoreLost):
                    await later

    run_or_hang(test)
    assert len(told) == len(set(map(id, told))) == 11
    assert {id(found.__cause__) for found in told} == {id(error)}
    assert len(lost) == 1


def test_a_commit_that_fails_in_the_loops_thread_is_told_too() -> None:
    store = FaultyStore(MemoryStore(), StoreError("no more memory"), at=2)
    claimed = claim(store, "one")
    recorder = Recorder(store)

    async def test() -> None:
        async with serving(recorder):
            for _ in range(2):
                with pytest.raises(StoreLost, match="no more memory"):
                    await record(recorder, step_row(claimed, 1))

    run_or_hang(test)
    assert store.records() == []


def test_who_waits_behind_the_failing_commit_is_told_too() -> None:
    store = Threaded(MemoryStore(), fails_at=2)
    first, second, third = (claim(store.store, name) for name in ("first", "second", "third"))
    recorder = Recorder(store)
    ends: list[str] = []

    async def work(name: str, claimed: Claimed) -> None:
        try:
            await record(recorder, step_row(claimed, 1))
            ends.append(f"{name} is recorded")
        except StoreLost:
            ends.append(f"{name} is not")

    async def test() -> None:
        async with serving(recorder), trio.open_nursery() as nursery:
            store.gate.clear()
            for name, claimed in (("first", first), ("second", second), ("third", third)):
                nursery.start_soon(work, name, claimed)
                await wait_all_tasks_blocked()
            store.gate.set()

    run_or_hang(test)
    assert sorted(ends) == ["first is recorded", "second is not", "third is not"]
    assert [record.harness for record in store.records()] == ["first"]


class _AtTheWorstMoment(trio.abc.Instrument):
    """Lets a commit fail right when the recorder has taken the next slot and not made a batch of it."""

    def __init__(self, store: Threaded) -> None:
        self.store = store
        self.armed = False

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.armed and task.name.endswith("Recorder.run"):
            self.armed = False
            self.store.gate.set()
            for thread in threading.enumerate():
                if thread.name == "orchestrator-writer":
                    thread.join()


def test_who_sends_while_the_commit_fails_is_told_too() -> None:
    async def send_while_it_fails() -> None:
        store = Threaded(MemoryStore(), fails_at=1)
        first, second = claim(store.store, "first"), claim(store.store, "second")
        recorder, instrument = Recorder(store), _AtTheWorstMoment(store)
        trio.lowlevel.add_instrument(instrument)

        async def work(claimed: Claimed) -> None:
            with pytest.raises(StoreLost):
                await record(recorder, step_row(claimed, 1))

        async with serving(recorder), trio.open_nursery() as nursery:
            store.gate.clear()
            nursery.start_soon(work, first)
            await wait_all_tasks_blocked()
            instrument.armed = True
            nursery.start_soon(work, second)
        trio.lowlevel.remove_instrument(instrument)
        assert store.records() == []

    async def test() -> None:
        # Which of two tasks the loop runs first is chance; twenty times, and both have been first.
        for _ in range(20):
            await send_while_it_fails()

    run_or_hang(test)


# the end


async def test_what_was_sent_before_the_close_is_committed() -> None:
    store = Threaded(MemoryStore())
    claim(store.store, "one")
    recorder = Recorder(store)
    store.gate.clear()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.run)
        await wait_all_tasks_blocked()
        receipts = [recorder.submit(Post("one", "", TIME_US, "1")) for _ in range(3)]
        recorder.close()
        assert not recorder.ended
        store.gate.set()
        await recorder.wait_ended()

    assert [await receipt for receipt in receipts] == [1, 2, 3]
    assert not any(thread.name == "orchestrator-writer" for thread in threading.enumerate())


async def test_what_is_sent_after_the_close_is_refused() -> None:
    recorder = Recorder(MemoryStore())
    async with serving(recorder):
        pass

    with pytest.raises(UsageError, match="has ended"):
        recorder.submit(Post("one", "", TIME_US, "1"))


async def test_news_wake_who_waits_for_them_and_so_does_the_end() -> None:
    recorder = Recorder(MemoryStore())
    woken: list[Any] = []

    async def wait(after: int) -> None:
        await recorder.wait_news(after)
        woken.append((after, recorder.last_seq, recorder.ended))

    async with trio.open_nursery() as nursery:
        for after in (0, 1):
            nursery.start_soon(wait, after)
        async with serving(recorder):
            await recorder.do(Claim("one", "{}"))
            await recorder.do(Post("one", "", TIME_US, "1"))
            await wait_all_tasks_blocked()
            assert woken == [(0, 1, False)]

    assert woken == [(0, 1, False), (1, 1, True)]


# before it serves


@pytest.mark.parametrize("count", [511, 512, 513, 5000])
@pytest.mark.parametrize("make", stores())
def test_what_is_sent_before_it_serves_is_committed_however_much_it_is(make: Callable[[], Store], count: int) -> None:
    store = make()
    recorder = Recorder(store)

    async def test() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(recorder.run)
            receipts = [recorder.submit(Claim(f"harness-{number}", "null")) for number in range(count)]
            assert all([(await receipt).epoch for receipt in receipts])
            recorder.close()

    run_or_hang(test)

    assert len(store.harnesses()) == count


@pytest.mark.parametrize("make", stores())
@pytest.mark.parametrize("clock", [None, MockClock(autojump_threshold=0)])
def test_any_number_of_harnesses_may_be_started_in_one_go(make: Callable[[], Store], clock: MockClock | None) -> None:
    async def test() -> None:
        async with Orchestrator(make(), handle_signals=False) as orchestrator:
            for number in range(600):
                orchestrator.start(Scripted(once), name=f"harness-{number}")

    run_or_hang(test, clock)


async def once(harness: Scripted) -> Steps:
    yield 1, None


@pytest.mark.parametrize("make", stores())
def test_no_task_is_woken_that_has_not_parked(make: Callable[[], Store], monkeypatch: pytest.MonkeyPatch) -> None:
    store, count = make(), 2_000
    woken: list[bool] = []

    def reschedule(task: trio.lowlevel.Task, *outcome: Any) -> None:
        woken.append(task is trio.lowlevel.current_task())
        trio.lowlevel.reschedule(task, *outcome)

    monkeypatch.setattr("orchestrator.recording.commit_queue.reschedule", reschedule)
    recorder = Recorder(store)

    async def test() -> None:
        async with serving(recorder), trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(recorder.do, Claim(f"harness-{number}", "null"))

    run_or_hang(test)

    assert woken == [False] * count


# callbacks


@pytest.mark.parametrize("make", stores())
def test_a_callback_that_raises_keeps_nobody_else_in_its_batch_waiting(make: Callable[[], Store]) -> None:
    store = make()
    recorder = Recorder(store)
    told: list[object] = []

    def fail(result: object) -> None:
        raise ValueError("a callback broke")

    async def test() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(recorder.run)
            before = recorder.submit(Claim("before", "null"))
            broken = recorder.submit(Claim("broken", "null"), fail)
            after = recorder.submit(Claim("after", "null"), told.append)
            assert (await before).epoch
            assert (await after).epoch
            with pytest.raises(ValueError, match="a callback broke"):
                await broken
            assert (await recorder.submit(Claim("later", "null"))).epoch
            recorder.close()

    run_or_hang(test)

    assert len(told) == 1
    assert len(store.harnesses()) == 4


async def test_a_recorded_step_wakes_nobody_who_waits_for_something_else(monkeypatch, autojump_clock):
    """A task that is ready to run keeps the next step of a lone harness from being committed at once."""

    async def hundred(harness: Scripted) -> Steps:
        for number in range(100):
            yield number, number

    rung: list[Condition] = []
    ring = Condition.ring
    monkeypatch.setattr(Condition, "ring", lambda self: (rung.append(self), ring(self)))
    async with Orchestrator(MemoryStore()) as orchestrator:
        handle = orchestrator.start(Scripted(hundred), name="one")
        child = orchestrator._children["one"]
        await handle.wait()

    assert rung.count(child.recorded) >= 100
    assert rung.count(child.bell) < 10
