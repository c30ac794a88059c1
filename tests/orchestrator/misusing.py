"""Harnesses that break the programming model, or need what is not there: one for each way."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import trio
from attrs import frozen

from harnesses import BaseHarness


@frozen
class Count:
    total: int = 0


class Base(BaseHarness[Any, Any, Any]):
    async def execute(self) -> AsyncIterator[Any]:
        yield 1, 1
        await self.act()

    async def act(self) -> None:
        """Do what is wrong."""


class WithoutYield(Base):
    async def execute(self) -> None:  # type: ignore[override]
        await trio.lowlevel.checkpoint()


class PlainGenerator(Base):
    def execute(self) -> Iterator[Any]:  # type: ignore[override]
        yield 1, 1


class NotMade(Base):
    def __init__(self, initial_state: int) -> None:
        self.number = initial_state


class NoPair(Base):
    async def execute(self) -> AsyncIterator[Any]:
        yield 1


class WrongState(Base):
    async def act(self) -> None:
        self.update_state(lambda state: "text")


class UnstorableState(Base):
    async def act(self) -> None:
        self.update_state(lambda state: object())


class UnstorableOutput(Base):
    async def execute(self) -> AsyncIterator[Any]:
        yield 1, object()


class UnstorableMessage(Base):
    async def act(self) -> None:
        await self.send("bad", object())


class ForgottenAwait(Base):
    """Sends itself something without `await`, then makes a step."""

    async def execute(self) -> AsyncIterator[Any]:
        yield 1, 1
        self.send("bad", 1)  # type: ignore[unused-coroutine]
        yield 2, 2


class ForgottenAwaitAtTheEnd(Base):
    async def act(self) -> None:
        self.once("pay", int)  # type: ignore[unused-coroutine]


class ForgottenSleep(Base):
    """Would make its steps as fast as it can."""

    async def execute(self) -> AsyncIterator[Any]:
        for number in range(3):
            yield number, 1
            self.sleep(60)  # type: ignore[unused-coroutine]


class KeptCall(Base):
    """Takes a call for what it answers."""

    async def execute(self) -> AsyncIterator[Any]:
        yield 1, 1
        receipt = self.once("pay", int)
        try:
            yield 2, receipt
        finally:
            receipt.close()  # type: ignore[attr-defined]


class CalledInTask(Base):
    """Has a call that begins after the step in which it was made, and an attribute that authors like to have."""

    async def execute(self) -> AsyncIterator[Any]:
        self.calls = 0
        self.calls += 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.send, "bad", 2)
            yield 1, 1
        yield 2, 2


class UnknownRecipient(Base):
    async def act(self) -> None:
        await self.send("nobody", 1)


class FrozenState(Base):
    def __init__(self, initial_state: int) -> None:
        super().__init__(Count(initial_state))

    async def act(self) -> None:
        self.state.total += 1


class ChangedInPlace(Base):
    def __init__(self, initial_state: int) -> None:
        super().__init__({"items": [initial_state]})

    async def act(self) -> None:
        self.state["items"].append(1)


class AssignedState(Base):
    async def act(self) -> None:
        self.state = 5  # type: ignore[misc]


class AsyncioSleep(Base):
    async def act(self) -> None:
        await asyncio.sleep(1)


class AsyncioYield(Base):
    async def act(self) -> None:
        await asyncio.sleep(0)


class AsyncioCancelled(Base):
    async def act(self) -> None:
        raise asyncio.CancelledError


class AsyncioCancelledBeside(AsyncioCancelled):
    async def execute(self) -> AsyncIterator[Any]:
        yield 1, 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.act)


class AsyncioTimeout(Base):
    async def act(self) -> None:
        async with asyncio.timeout(1):  # noqa: ASYNC100
            pass


class MissingModule(Base):
    async def act(self) -> None:
        import there_is_no_such_module.at_all  # type: ignore[import-not-found]  # noqa: F401


class MissingModuleBeside(Base):
    async def act(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.beside)

    async def beside(self) -> None:
        import there_is_no_such_module  # type: ignore[import-not-found]  # noqa: F401


class MissingProgram(Base):
    async def act(self) -> None:
        await trio.run_process(["there-is-no-such-program", "--help"])


class MissingProgramOfSubprocess(Base):
    async def act(self) -> None:
        await trio.to_thread.run_sync(subprocess.run, ["./there-is-no-such-program"])


class MissingInterpreter(Base):
    async def act(self) -> None:
        path = Path("script").resolve()  # noqa: ASYNC240
        path.write_text("#!/there/is/none\n")
        path.chmod(0o755)
        await trio.run_process([str(path)])


class MayNotBeRun(Base):
    async def act(self) -> None:
        path = Path("script").resolve()  # noqa: ASYNC240
        path.write_text("")
        path.chmod(0o600)
        await trio.run_process([str(path)])


class MissingFile(Base):
    async def act(self) -> None:
        Path("there-is-no-such-file").read_text()  # noqa: ASYNC240


class MissingFolder(Base):
    async def act(self) -> None:
        await trio.run_process(["true"], cwd="there-is-no-such-folder")
