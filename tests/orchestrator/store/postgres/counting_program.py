"""A program for tests: harnesses that count, on PostgreSQL. `python counting_program.py URL HARNESSES STEPS LEASE_S`."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import closing

import trio
from attrs import evolve, field, frozen

from harnesses import BaseHarness
from orchestrator import Orchestrator
from orchestrator.store import PostgresStore, Store


@frozen
class Count:
    total: int = 0


class Counting(BaseHarness[Count, int, int]):
    """Counts to a number."""

    def __init__(self, last: int) -> None:
        super().__init__(Count())
        self.last = last
        self.acknowledged: list[int] = []
        """Steps after whose `yield` it went on."""

    async def execute(self) -> AsyncGenerator[tuple[int, int]]:
        for number in range(self.current_step + 1, self.last + 1):
            self.update_state(lambda count, number=number: evolve(count, total=count.total + number))
            yield number, number * 2
            self.acknowledged.append(number)


@frozen
class Program:
    """Runs them."""

    harnesses: int
    steps: int
    started: list[Counting] = field(factory=list[Counting])

    async def run(self, store: Store) -> None:
        async with Orchestrator(store) as orchestrator:
            for number in range(self.harnesses):
                self.started.append(Counting(self.steps))
                orchestrator.start(self.started[-1], name=f"h{number}")


if __name__ == "__main__":
    url, harnesses, steps, lease_s = sys.argv[1:]
    with closing(PostgresStore(url, lease_s=float(lease_s))) as opened:
        trio.run(Program(int(harnesses), int(steps)).run, opened)
