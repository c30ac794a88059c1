"""A program for the tests of the page: one harness is healthy, and others are blocked, halted, hung and waiting for approval.

`python -m tests.orchestrator.web.fleet_program STORE` runs until it is told to stop.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import trio

from harnesses import BaseHarness
from harnesses.effects.approval import Action
from harnesses.errors import NotReady
from orchestrator import Orchestrator, SqliteStore

HOSTILE = "<img src=x onerror=alert(1)>\u202e\x1b[31m"
"""Text of an agent that is shown, and must stay text."""


class Healthy(BaseHarness[int, int, str]):
    """Makes ten steps a second."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        while True:
            yield self.current_step, HOSTILE
            await self.sleep(0.1)


class Blocked(BaseHarness[int, int, int]):
    """Needs a program that is not there."""

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        yield 1, 1
        raise NotReady("the program frobnicate is not installed: install it")


class Halted(Healthy):
    """Runs, and does not do its task."""

    halted = "the drawdown is 12 %, of 10 % allowed"


class Hung(BaseHarness[int, int, int]):
    """Does not come back from its third step, whoever cancels it."""

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        for number in range(2):
            yield number, number
        with trio.CancelScope(shield=True):
            await trio.sleep(3600)


class Asking(BaseHarness[int, int, str]):
    """Asks before it acts."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        await self.approval("transfer", Action("money", "Move 5,000 EUR", {"amount": 5000, "to": HOSTILE}))
        while True:
            yield 1, "moved"
            await self.sleep(0.2)


async def main(path: str) -> None:
    async with Orchestrator(SqliteStore(path), control=True) as orchestrator:
        for harness in (Healthy(0), Blocked(0), Halted(0), Asking(0)):
            orchestrator.start(harness, name=type(harness).__name__.lower())
        orchestrator.start(Hung(0), name="hung", step_timeout_s=0.5, grace_s=3600)


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
