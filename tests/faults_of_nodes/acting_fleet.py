"""Harnesses of the fault cases: each act, each acknowledged step and each moment of their lives is in a ledger."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

import trio

from harnesses import BaseHarness, Budget, Confirmed, NotDone
from orchestrator import Member, Orchestrator
from orchestrator.handle import Handle
from tests.faults_of_nodes.ledger import FOLDER, note, read

LIMIT = 20_000
"""Tokens that all spenders may spend together."""
RESERVED, SPENT = 100, 70
"""Tokens of one act: reserved before it, and spent."""
NAMES = tuple(f"h{number}" for number in range(4))


def act(name: str, number: int) -> None:
    """Do what must not be done twice."""
    note(name, "act", number)


def look_up(key: str, name: str, number: int) -> Confirmed | NotDone:
    """Return whether it was done, as a venue is asked for an order by its id."""
    done = any(line.kind == "act" and line.number == number for line in read(Path(os.environ[FOLDER]), name))
    return Confirmed() if done else NotDone()


class Acting(BaseHarness[int, int, str]):
    """Acts once in each step, while something of it runs all the time."""

    async def execute(self) -> AsyncGenerator[tuple[int, str]]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._beat)
            while True:
                number = self.state + 1
                note(self.name, "want", number)
                await self._act(number)
                self.update_state(lambda count: count + 1)
                yield number, str(os.getpid())
                note(self.name, "ack", number)
                await trio.sleep(0.02)

    async def _act(self, number: int) -> None:
        await self.once("act", act, self.name, number, reconcile=look_up)

    async def _beat(self) -> None:
        while True:
            note(self.name, "beat", self.state)
            await trio.sleep(0.01)


class Careless(Acting):
    """Acts without saying so before."""

    async def _act(self, number: int) -> None:
        act(self.name, number)


class Spending(Acting):
    """Acts with what it may spend, and says what it spent."""

    async def _act(self, number: int) -> None:
        async with self.spending(tokens=RESERVED) as spend:
            note(self.name, "spend", SPENT)
            await super()._act(number)
            spend.settle(tokens=SPENT)


def acting() -> list[Member]:
    """Return a fleet of four."""
    return [_member(name) for name in NAMES]


def _member(name: str) -> Member:
    def start(kind: type[Acting], orchestrator: Orchestrator) -> Handle:
        pool = orchestrator.pool("desk", Budget(tokens=LIMIT)) if kind is Spending else None
        return orchestrator.start(kind(0), name=name, pool=pool)

    return Member(name, partial(start, KINDS[os.environ.get("FAULTS_KIND", "")]))


KINDS: dict[str, type[Acting]] = {"": Acting, "careless": Careless, "spending": Spending}
