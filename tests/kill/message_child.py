"""The program that is killed: one harness asks another in each step, and sends what it was told to a third.

python -m tests.kill.message_child STORE STEPS
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import trio

from harnesses import BaseHarness, Request
from orchestrator import Orchestrator


class Asking(BaseHarness[int, int, int]):
    """Has each number doubled, and tells the listener."""

    def __init__(self, steps: int) -> None:
        super().__init__(0)
        self.last = steps

    def is_complete(self) -> bool:
        return self.current_step == self.last

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        while True:
            number = self.current_step + 1
            doubled = await self.ask("doubling", number, timeout_s=60)
            await self.send("listening", doubled)
            yield number, doubled


class Doubling(BaseHarness[int, int, int]):
    """Counts the requests in its state, and replies."""

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        while True:
            request = await self.receive(Request)
            await self.reply(request, request.message * 2)
            self.update_state(lambda count: count + 1)
            yield request.message, request.message * 2


class Listening(BaseHarness[int, int, None]):
    """Makes a step of each message."""

    async def execute(self) -> AsyncIterator[tuple[int, None]]:
        while True:
            yield await self.receive(), None


async def main(path: str, steps: int) -> None:
    async with Orchestrator(path, handle_signals=False) as orchestrator:
        orchestrator.start(Doubling(0), name="doubling")
        listening = orchestrator.start(Listening(0), name="listening")
        asking = orchestrator.start(Asking(steps), name="asking")
        await asking.wait()
        while listening.current_step < steps:  # noqa: ASYNC110
            await trio.sleep(0.01)
        orchestrator.stop()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], int(sys.argv[2]))
