"""Harnesses that the tests run on several nodes, and the functions that return the fleet."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator

import trio

from harnesses import BaseHarness, Request, query
from orchestrator import Orchestrator
from orchestrator.handle import Handle
from orchestrator.nodes.fleet_members import Member


class Ticking(BaseHarness[int, int, int]):
    """Counts for ever, and says in which process."""

    async def execute(self) -> AsyncGenerator[tuple[int, int]]:
        while True:
            self.update_state(lambda count: count + 1)
            yield self.state, os.getpid()
            await trio.sleep(0.02)


def start_ticking(name: str) -> Member:
    """Return a member that ticks."""

    def start(orchestrator: Orchestrator) -> Handle:
        return orchestrator.start(Ticking(0), name=name)

    return Member(name, start)


def ticking() -> list[Member]:
    """Return a fleet of four."""
    return [start_ticking(f"h{number}") for number in range(4)]


class Slow(BaseHarness[int, int, int]):
    """Makes two steps at once, then one each ten seconds: a thousand of them leave the processor idle."""

    async def execute(self) -> AsyncGenerator[tuple[int, int]]:
        for number in range(1_000_000):
            self.update_state(lambda count: count + 1)
            yield self.state, self.state
            if number:
                await trio.sleep(10)


class Answering(BaseHarness[int, int, int]):
    """Answers questions, and says in which process."""

    async def execute(self) -> AsyncGenerator[tuple[int, int]]:
        while True:
            request = await self.receive(Request)
            await self.reply(request, {"asked": request.message, "pid": os.getpid()})
            self.update_state(lambda count: count + 1)
            yield self.state, os.getpid()

    @query
    def twice(self, number: int) -> int:
        """Return twice a number."""
        return number * 2


def answering() -> list[Member]:
    """Return a fleet of one that answers, and one that ticks."""
    return [Member("answers", lambda orchestrator: orchestrator.start(Answering(0), name="answers")), start_ticking("ticks")]
