"""The program that is killed: harnesses that spend from one pool until it is empty.

python -m tests.budget.program STORE SPENT --harnesses 100 --limit 10000 --seed 7
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

import trio

from harnesses import BaseHarness
from harnesses.budgets.budget import Budget
from orchestrator import Backoff, Orchestrator

MOST = 100
"""Tokens that a spend is reserved with."""


class Spender(BaseHarness[int, int, int]):
    """Spends some tokens in each step, and tells the file what it really spent, at the moment of the spend.

    Args:
        spent: descriptor of the file; what was written to it outlives the process.
        crashes: how often it crashes in the midst of a spend: a chance.
    """

    def __init__(self, name: str, spent: int, chance: random.Random, crashes: float) -> None:
        super().__init__(0)
        self._title = name
        self._spent = spent
        self._chance = chance
        self._crashes = crashes

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        while True:
            number = self.current_step + 1
            tokens = self._chance.randint(MOST * 7 // 10, MOST)
            async with self.spending(tokens=MOST) as spend:
                await trio.lowlevel.checkpoint()
                os.write(self._spent, f"{self._title} {number} {tokens}\n".encode())
                if self._chance.random() < self._crashes:
                    raise ValueError("crashed with a spend that nobody settles")
                spend.settle(tokens=tokens)
            self.update_state(lambda total, tokens=tokens: total + tokens)  # type: ignore[misc]
            yield number, tokens


async def run_all(options: argparse.Namespace) -> None:
    """Run every harness until there is nothing left to spend."""
    spent = os.open(options.spent, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    chance = random.Random(options.seed)
    backoff = Backoff(base_s=0.001, cap_s=0.01)
    async with Orchestrator(options.store, backoff=backoff, intensity=10**9) as orchestrator:
        pool = orchestrator.pool("all", Budget(tokens=options.limit))
        for number in range(options.first, options.first + options.harnesses):
            name = f"h{number}"
            orchestrator.start(Spender(name, spent, chance, options.crashes), name=name, budget=pool)


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("spent", type=Path)
    parser.add_argument("--harnesses", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--limit", type=int, default=100_000)
    parser.add_argument("--crashes", type=float, default=0.005)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    trio.run(run_all, parse())
