"""A program for the pictures of the page: prices, tests, pages and an export, one of which is blocked and one asks.

`python -m tests.orchestrator.web.picture_program STORE` runs until it is told to stop, and goes on where it was.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import trio

from harnesses import BaseHarness
from harnesses.effects.approval import Action
from harnesses.errors import NotReady
from orchestrator import Backoff, Orchestrator, SqliteStore


class Steady(BaseHarness[int, int, str]):
    """Makes a step after each pause; crashes at every so many steps, and ends after the last."""

    def __init__(self, what: str, period_s: float, *, last: int = 10_000, crash_every: int = 0) -> None:
        super().__init__(0)
        self.what, self.period_s, self.last, self.crash_every = what, period_s, last, crash_every

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        first = self.current_step
        for number in range(first, self.last):
            await self.sleep(self.period_s)
            if self.crash_every and number > first and number % self.crash_every == 0:
                raise ConnectionError("the venue closed the connection")
            yield number, f"{self.what} {number}"


class FixLogin(Steady):
    """Works until it lacks a program."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        async for step in super().execute():
            yield step
        raise NotReady("the program bwrap is not installed: install bubblewrap")


class WriteDocs(Steady):
    """Writes pages, and asks before it publishes them."""

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        async for step in super().execute():
            yield step
        await self.approval(
            "publish", Action("publish", f"Publish {self.last} pages to the public site", {"pages": self.last})
        )
        yield self.last, "published"


async def main(path: str) -> None:
    backoff = Backoff(base_s=0.5, cap_s=2)
    async with Orchestrator(SqliteStore(path), control=True, backoff=backoff) as orchestrator:
        desk = orchestrator.supervisor("desk", intensity=50, period_s=60)
        orchestrator.start(Steady("bar read:", 0.2), name="momentum", supervisor=desk)
        orchestrator.start(Steady("bar read:", 0.3, crash_every=9), name="pairs", supervisor=desk)
        orchestrator.start(Steady("price read:", 0.5), name="watch-prices")
        orchestrator.start(FixLogin("test passed:", 0.2, last=8), name="fix-login")
        orchestrator.start(WriteDocs("page written:", 0.2, last=15), name="write-docs")
        orchestrator.start(Steady("row exported:", 0.15, last=45), name="nightly-export")


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
