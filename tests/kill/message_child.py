"""The program that is killed: with each step a harness asks another, sends what it was told to a third, and starts a child
that sends to the third as well.

python -m tests.kill.message_child STORE --steps 3 --fault after:7
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from pathlib import Path

import trio

from harnesses import BaseHarness, Request
from orchestrator import Backoff, Orchestrator, SqliteStore, Store
from orchestrator.testing import FaultyStore, kill_this_process


class Asking(BaseHarness[int, int, int]):
    """Has each number doubled, tells the listener, and starts a child that tells it too."""

    def __init__(self, steps: int) -> None:
        super().__init__(0)
        self.last = steps

    def is_complete(self) -> bool:
        return self.current_step == self.last

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        while True:
            number = self.current_step + 1
            doubled: int = await self.ask("doubling", number, timeout_s=60)
            await self.send("listening", doubled)
            self.start_child(Telling, -number, name=f"telling.{number}")
            self.update_state(lambda total: total + doubled)  # noqa: B023  (called at once)
            yield number, doubled


class Doubling(BaseHarness[list[int], int, int]):
    """Keeps the requests in its state, and replies."""

    def __init__(self) -> None:
        super().__init__([])

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        while True:
            request = await self.receive(Request)
            await self.reply(request, request.message * 2)
            self.update_state(lambda asked: [*asked, request.message])  # noqa: B023
            yield request.message, request.message * 2


class Listening(BaseHarness[list[int], int, None]):
    """Keeps the messages in its state."""

    def __init__(self) -> None:
        super().__init__([])

    async def execute(self) -> AsyncIterator[tuple[int, None]]:
        while True:
            heard = await self.receive()
            self.update_state(lambda before: [*before, heard])  # noqa: B023
            yield heard, None


class Telling(BaseHarness[int, int, None]):
    """Sends its state to the listener, and ends."""

    async def execute(self) -> AsyncIterator[tuple[int, None]]:
        if not self.current_step:
            await self.send("listening", self.state)
            yield self.state, None


async def run_all(options: argparse.Namespace) -> None:
    """Run all until the listener has heard everything."""
    store: Store = SqliteStore(options.store)
    if options.fault is not None:
        moment, number = options.fault.split(":")
        store = FaultyStore(store, kill_this_process, at=int(number), after=moment == "after")
    async with Orchestrator(store, handle_signals=False, backoff=Backoff(base_s=0.001, cap_s=0.01)) as orchestrator:
        orchestrator.start(Doubling(), name="doubling")
        listening = orchestrator.start(Listening(), name="listening")
        orchestrator.start(Asking(options.steps), name="asking")
        while listening.current_step < 2 * options.steps:  # noqa: ASYNC110
            await trio.sleep(0.01)
        orchestrator.stop()
    store.close()


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--fault", metavar="before:N|after:N", help="the commit at which the program kills itself")
    return parser.parse_args()


if __name__ == "__main__":
    # By its own name: what is defined in `__main__` cannot be started as a child.
    from tests.kill.message_child import run_all as run

    trio.run(run, parse())
