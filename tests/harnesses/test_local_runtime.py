"""Laws of the surroundings of a harness that runs alone: a mailbox of its own, and nobody else to write to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from math import inf
from typing import Any, ClassVar

import pytest
import trio
from attrs import frozen
from trio.testing import MockClock, wait_all_tasks_blocked

from harnesses import BaseHarness, Ending, HarnessMisuse, LocalRuntime, Request
from harnesses.control import Control
from orchestrator import UnknownHarness


class Echo(BaseHarness[None, Any, Any]):
    """Answers each message with a step; ends with the message `end`."""

    async def execute(self) -> AsyncIterator[tuple[Any, Any]]:
        while (message := await self.receive()) != "end":
            yield message, message


async def test_messages_are_received_in_the_order_they_were_sent(autojump_clock: MockClock) -> None:
    harness, runtime = Echo(None), LocalRuntime("echo")
    for message in (1, {"two": 2}, None, "end"):
        await runtime.send("echo", message)

    await harness.run(runtime)

    assert [step.input for step in harness.step_history] == [1, {"two": 2}, None]


async def test_receive_waits_for_a_message(autojump_clock: MockClock) -> None:
    harness, runtime = Echo(None), LocalRuntime("echo")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.run, runtime)
        await trio.sleep(100)
        assert harness.current_step == 0
        await runtime.send("echo", "late")
        await runtime.send("echo", "end")

    assert [step.input for step in harness.step_history] == ["late"]


async def test_a_wait_for_a_message_sleeps_until_there_is_one(autojump_clock: MockClock) -> None:
    harness, runtime = Echo(None), LocalRuntime("echo")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.run, runtime)
        await wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline == inf
        await runtime.send("echo", "end")


async def test_two_tasks_that_wait_for_messages_get_one_each() -> None:
    runtime, got = LocalRuntime("echo"), list[object]()

    async def take() -> None:
        got.append(await runtime.receive())

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(take)
            nursery.start_soon(take)
            await wait_all_tasks_blocked()
            await runtime.send("echo", 1)
            await wait_all_tasks_blocked()
            assert got == [1]
            await runtime.send("echo", 2)

    assert got == [1, 2]


async def test_a_harness_that_waits_for_a_message_can_be_stopped(autojump_clock: MockClock) -> None:
    endings: list[Ending] = []
    control = Control()

    async def run() -> None:
        endings.append(await Echo(None).run(LocalRuntime("echo", control)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await trio.sleep(10)
        control.stop()

    assert endings == [Ending.STOPPED]
    assert trio.current_time() == 10


async def test_a_harness_that_runs_alone_can_write_to_itself_with_a_step() -> None:
    class Remind(BaseHarness[None, str, Any]):
        async def execute(self) -> AsyncIterator[tuple[str, Any]]:
            await self.send("Remind", "do it")
            with pytest.raises(trio.WouldBlock):
                self.receive_nowait()
            yield "sent", None
            yield "told", await self.receive()

    harness = Remind(None)
    await harness.run()

    assert harness.step_history[1].output == "do it"


async def test_what_a_harness_that_runs_alone_sends_without_a_step_is_dropped() -> None:
    class Crashing(BaseHarness[None, str, Any]):
        begun = 0

        async def execute(self) -> AsyncIterator[tuple[str, Any]]:
            self.begun += 1
            if self.begun == 1:
                await self.send("Crashing", "dropped")
                raise ValueError("boom")
            with pytest.raises(trio.WouldBlock):
                self.receive_nowait()
            yield "nothing", None

    harness = Crashing(None)
    with pytest.raises(ValueError, match="boom"):
        await harness.run()
    await harness.run()

    assert harness.current_step == 1


async def test_a_message_to_a_harness_that_is_not_there_is_an_error_with_the_remedy() -> None:
    with pytest.raises(UnknownHarness, match=r"no harness 'other': 'echo' runs alone; start both in an Orchestrator"):
        await LocalRuntime("echo").send("other", 1)


async def test_a_harness_that_runs_alone_is_called_after_its_class() -> None:
    class Shy(BaseHarness[None, int, int]):
        async def execute(self) -> AsyncIterator[tuple[int, int]]:
            await self.send("somebody", 1)
            yield 1, 1

    with pytest.raises(UnknownHarness, match="'Shy' runs alone"):
        await Shy(None).run()


async def test_other_tasks_run_between_the_steps_of_a_harness_that_never_waits() -> None:
    class Busy(BaseHarness[None, int, int]):
        async def execute(self) -> AsyncIterator[tuple[int, int]]:
            for number in range(20):
                yield number, number

    harness, seen = Busy(None), set[int]()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.run)
        while harness.current_step < 20:
            seen.add(harness.current_step)
            await trio.lowlevel.checkpoint()

    assert len(seen) >= 10


@frozen
class Order:
    id: int


@frozen
class Cancel:
    id: int
    why: str = ""


class Desk(BaseHarness[None, Any, Any]):
    accepts: ClassVar[tuple[type, ...]] = (Order, Cancel)

    def __init__(self, work: Callable[[Desk], Awaitable[object]]) -> None:
        super().__init__(None)
        self.work = work

    async def execute(self) -> AsyncIterator[tuple[Any, Any]]:
        yield await self.work(self), None


async def test_a_harness_that_runs_alone_is_given_the_types_that_it_accepts() -> None:
    async def work(desk: Desk) -> object:
        return [await desk.receive(Cancel), await desk.receive()]

    runtime = LocalRuntime("desk")
    for message in ("of no type", {"id": 1}, Cancel(2, "late")):
        await runtime.send("desk", message)
    harness = Desk(work)
    await harness.run(runtime)

    assert harness.step_history[0].input == [Cancel(2, "late"), Order(1)]


async def wrong_type(desk: Desk) -> object:
    await desk.send("Desk", "of no type")
    return None


async def wrong_kind(desk: Desk) -> object:
    return await desk.receive(str)


async def asks(desk: Desk) -> object:
    return await desk.ask("other", 1)


async def replies(desk: Desk) -> object:
    await desk.reply(Request(1, "other", "other/1/x", desk.now()), 2)
    return None


async def waits(desk: Desk) -> object:
    await desk.send("Desk", Order(1))
    return await desk.receive()


@pytest.mark.parametrize(
    ("work", "error", "words"),
    [
        (wrong_type, HarnessMisuse, r"message to 'Desk': expected Order\(id\) or Cancel\(id, why\), got 'of no type'"),
        (wrong_kind, HarnessMisuse, r"expected Request or a type of `accepts` \(Order, Cancel\)"),
        (asks, UnknownHarness, "no harness 'other': 'Desk' runs alone; start both in an Orchestrator"),
        (replies, HarnessMisuse, "reply to 'other': 'Desk' runs alone; start both in an Orchestrator"),
        (waits, HarnessMisuse, r"1 messages unsent, the first to 'Desk': .*yield before you wait, or use ask\(\)"),
    ],
)
async def test_what_a_harness_can_not_do_alone_is_an_error_with_the_remedy(
    work: Callable[[Desk], Awaitable[object]], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        await Desk(work).run()
