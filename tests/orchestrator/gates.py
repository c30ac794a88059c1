"""Harnesses that ask a person before they push, for the tests of the command."""

from __future__ import annotations

from collections.abc import AsyncIterator

import trio

from harnesses import BaseHarness
from harnesses.errors import ApprovalDenied


async def push(branch: str) -> str:
    """Add a line to a file in the working directory."""
    async with await trio.open_file("pushed", "a", encoding="utf-8") as file:
        await file.write(f"{branch}\n")
    return branch


class Gated(BaseHarness[int, str, str]):
    """Pushes once a person has approved it, and is completed then."""

    def __init__(self) -> None:
        super().__init__(0)

    def is_complete(self) -> bool:
        return self.current_step == 1

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        yield "push", await self.once("push", push, "main", approval="publish")


class Lenient(Gated):
    """The same, but it goes on without where a person says no."""

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        try:
            yield "push", await self.once("push", push, "main", approval="publish")
        except ApprovalDenied:
            yield "push", "denied"


class Working(Gated):
    """Is at its first step for ever, and in no wait of its own."""

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        await trio.sleep_forever()
        yield "never", "made"


class Listening(Gated):
    """Waits for a message."""

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        yield await self.receive(), "heard"


class Halted(Listening):
    """Does nothing of what it is for."""

    halted = "drawdown"


class Ticking(Gated):
    """Makes steps for ever."""

    def is_complete(self) -> bool:
        return False

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        while True:
            await self.sleep(0.05)
            yield "tick", "tock"


class Crashing(Gated):
    """Crashes at once."""

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        if self.current_step < 0:
            yield "never", "made"
        raise ValueError("boom")
