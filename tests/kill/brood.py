"""The program that is killed while its harnesses start harnesses: a root, its children, and theirs.

python -m tests.kill.brood STORE --children 4 --steps 6
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from pathlib import Path

import trio

from harnesses import BaseHarness
from orchestrator import Backoff, Orchestrator, SqliteStore

PACE_S = 0.004
LEVELS = 3
"""Of harnesses below the root; the harnesses of the last one start none."""
EACH = 2
"""How many harnesses one below the root starts."""


class Brooding(BaseHarness[int, int, str]):
    """Makes `steps` steps, and starts a child with each of the first `children` of them."""

    def __init__(self, steps: int, children: int, levels: int) -> None:
        super().__init__(0)
        self.steps = steps
        self.children = children
        self.levels = levels

    def is_complete(self) -> bool:
        return self.current_step == self.steps

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        while True:
            step = self.current_step + 1
            await self.sleep(PACE_S)
            child = ""
            if step <= self.children:
                below = EACH if self.levels > 1 else 0
                factory = Returning if step % 2 == 0 else Brooding
                child = self.start_child(factory, self.steps, below, self.levels - 1, name=f"{self.name}.{step}")
            self.update_state(lambda steps: steps + 1)
            yield step, child


class Returning(Brooding):
    """Ends by returning from `execute()`."""

    def is_complete(self) -> bool:
        return False

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        if self.current_step < self.steps:
            async for made in super().execute():
                yield made
                if self.current_step == self.steps:
                    return


def family(name: str, children: int, levels: int = LEVELS) -> set[str]:
    """Return the names of a harness and of all below it."""
    below = EACH if levels > 1 else 0
    names = (family(f"{name}.{number}", below, levels - 1) for number in range(1, children + 1))
    return {name}.union(*names)


async def run_all(options: argparse.Namespace) -> None:
    """Run the root, and whatever it starts, to the end."""
    async with Orchestrator(SqliteStore(options.store), backoff=Backoff(base_s=0.001, cap_s=0.01)) as orchestrator:
        orchestrator.start(Brooding(options.steps, options.children, LEVELS), name="root")


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("--children", type=int, default=4)
    parser.add_argument("--steps", type=int, default=6)
    return parser.parse_args()


if __name__ == "__main__":
    # By its own name: what is defined in `__main__` cannot be started as a child.
    from tests.kill.brood import run_all as run

    trio.run(run, parse())
